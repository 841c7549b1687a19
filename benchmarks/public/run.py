# SPDX-License-Identifier: Apache-2.0
"""Prints what public models need, by the commands that a user types.

    python benchmarks/public/run.py [--files DIR] [--write FILE]

models.csv lists the models with the SHA-256 of their files, and the figures of each. --files DIR
computes the figures again of the files of DIR, whatever their names, of samples/ and of networks
that benchmarks/ builds; the other rows stay. A call of a stream is the rows from one answer to the
next. ram: of the pool; flash: tables and weights; m0 to rv32: instructions of a call; boards:
milliseconds of a call, modelled, without waits for flash.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, options, show  # noqa: E402
from rows import Row, listed, update  # noqa: E402
from vmcu_tools.boards.table import known  # noqa: E402

LIST = Path(__file__).with_name("models.csv")
CORES = ("m0", "m4", "m55", "rv32")
# The core whose cycles a board's milliseconds are of.
BOARDS = {
    "rpi_pico": "m0",
    "nrf52840dk/nrf52840": "m4",
    "nucleo_l4r5zi": "m4",
    "nrf5340dk/nrf5340/cpuapp": "m33",
    "nucleo_f767zi": "m7",
}
FIGURES = ("ram", "flash", *CORES, *BOARDS, "exact")
# Rows whose files this repository has: their repository.
OWN = "vmcu"
NOTE = (
    "RAM and flash: bytes; M0+ to RV32: thousands of instructions of a call; boards: milliseconds "
    "of a call, modelled, without waits for flash. -: too large for the emulated board. Exact: the "
    "outputs of two inputs beside TensorFlow Lite Micro (.tflite) or ONNX Runtime (.onnx). No: "
    "ONNX Runtime computes an operator in float, and a node differs by one step at most."
)


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a command. Raises SystemExit if it fails, but for want of flash."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "does not fit" not in done.stderr:
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done


def vmcu(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run("-m", "vmcu_tools", *words)


def is_exact(file: Path, hop: Sequence[str]) -> bool:
    """True if no value of an output differs. Raises SystemExit if one differs by more than the step
    that ONNX Runtime's floats allow a node."""
    said = vmcu("verify", file, *hop, "-n", "2").stdout
    counts = re.findall(r"([\d,]+) of [\d,]+ (?:values|hops) differ", " ".join(said.split()))
    if not counts:
        raise SystemExit(f"vmcu verify {file}: {said}")
    return set(counts) == {"0"}


def milliseconds(time: float) -> str:
    """A time with three digits at least."""
    return f"{time:.0f}" if time >= 100 else f"{time:.3g}"


def figures(file: Path, folder: Path, cores: tuple[str, ...] | None = None) -> dict[str, str]:
    """The figures of a file, by column, "-" where an emulated board has too little flash. cores: of
    them alone, all by default. Raises SystemExit if a command fails, as it does when a core's
    output is not the model's."""
    report = folder / "report.json"

    def said(command: str, *words: str) -> Any:
        done = vmcu(command, file, *words, "--json", report, "-q")
        return None if done.returncode else json.loads(report.read_text(encoding="utf-8"))

    built = said("build", "-o", str(folder / "tables"))
    hop = ("--hop", str(built["hop"]["rows"])) if built["hop"] else ()
    found = {"ram": built["pool_bytes"], "flash": built["tables_bytes"] + built["weights_bytes"]}
    boards = known()
    for core in dict.fromkeys((*CORES, *BOARDS.values())) if cores is None else cores:
        counted = said("bench", *hop, "--on", f"qemu:{core}")
        if core in CORES:
            found[core] = round(counted["instructions"]) if counted else "-"
        for board in (name for name, its in BOARDS.items() if its == core):
            megahertz = boards[board].megahertz
            assert megahertz is not None
            found[board] = milliseconds(counted["cycles"] / megahertz / 1000) if counted else "-"
    found["exact"] = "yes" if is_exact(file, hop) else "no"
    return {name: str(figure) for name, figure in found.items()}


def built(path: str, folder: Path) -> Path:
    """The int8 file of a network that benchmarks/ writes; path: script and name."""
    script, name = path.split()
    if Path(script).parent.name == "models":
        run(ROOT / script, name, "-o", folder)
        return folder / f"{name}.onnx"
    run(ROOT / script, folder)
    sounds = ("--calibration", folder / f"{name}.npz", "--min-agreement", "0")
    vmcu("quantize", folder / f"{name}.onnx", *sounds, "-o", folder / "int8.onnx")
    return folder / "int8.onnx"


def file_of(row: Row, files: Mapping[str, Path], folder: Path) -> Path | None:
    """A row's file, None if it is not here."""
    if row["repository"] != OWN:
        return files.get(row["sha256"])
    return built(row["path"], folder) if " " in row["path"] else ROOT / row["path"]


def updated(row: Row, files: Mapping[str, Path]) -> Row:
    """A row with the figures of its file, if that is here."""
    with tempfile.TemporaryDirectory() as made:
        file = file_of(row, files, Path(made))
        return row | figures(file, Path(made)) if file else row


def files_in(folder: Path) -> dict[str, Path]:
    """The models of a folder by their SHA-256."""
    found = (file for file in folder.rglob("*") if file.suffix in (".tflite", ".onnx"))
    return {hashlib.sha256(file.read_bytes()).hexdigest(): file for file in sorted(found)}


def shown(name: str, figure: str) -> str:
    """A figure as the page has it: instructions in thousands."""
    if figure == "-":
        return figure
    if name in CORES:
        thousands = int(figure) / 1000
        return f"{thousands:,.0f}" if thousands >= 10 else f"{thousands:.1f}"
    return f"{int(figure):,}" if name in ("ram", "flash") else figure


def public() -> Table:
    """All rows."""
    rows = listed(LIST)
    cells = (tuple(shown(name, row[name]) for name in FIGURES) for row in rows)
    lines = ((f"{r['model']}, {r['task']}", *own) for r, own in zip(rows, cells, strict=True))
    heads = ("RAM", "flash", "M0+", "M4", "M55", "RV32", *(name.split("/")[0] for name in BOARDS))
    behind = Behind(hashes([LIST]), (GCC, QEMU))
    return Table("Public models", ("model, task", *heads, "exact"), tuple(lines), [NOTE], behind)


def command(_: str) -> str:
    return "python benchmarks/public/run.py"


if __name__ == "__main__":
    parser = options(__doc__ or "", ["public"])
    parser.add_argument("--files", type=Path, metavar="DIR")
    args = parser.parse_args()
    if args.files:
        files = files_in(args.files)
        update(LIST, lambda row: updated(row, files))
    show(parser, args, {"public": public}, command)
