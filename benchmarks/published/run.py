# SPDX-License-Identifier: Apache-2.0
"""Modelled milliseconds beside those that MLPerf Tiny's rounds published, for doc/cycles.md.

python benchmarks/published/run.py [TABLE...] [--models DIR] [--write FILE]

published.csv, all for a NUCLEO-L4R5ZI at 120 MHz. throughput: inferences a second of microTVM with
CMSIS-NN (MLPerf Tiny 1.0, closed division, OctoML's results.txt). predicted_ms: TensorFlow Lite
Micro with CMSIS-NN's kernels for DSP instructions, its instructions counted on an emulated
Cortex-M4 and timed by the rules of `vmcu bench --board nucleo_l4r5zi --flash-wait 5`. best_ms: the
shortest time of rounds 1.0 to 1.3, closed division.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, options, show  # noqa: E402
from vmcu_tools.cli import main as vmcu  # noqa: E402
from vmcu_tools.report.runs import SECONDS  # noqa: E402

FACTS = Path(__file__).with_name("published.csv")
BOARD = "nucleo_l4r5zi"
# The clock of what was published, and the wait states of flash at it (RM0432); Zephyr's is lower.
MEGAHERTZ, WAITS = 120, 5
MODELS = {
    "ad": "mlperf-tiny-ad.tflite",
    "kws": "mlperf-tiny-kws.tflite",
    "ic": "mlperf-tiny-resnet8.tflite",
    "vww": "mlperf-tiny-vww.tflite",
}


@dataclass(frozen=True)
class Published:
    """A network's row of published.csv, times in milliseconds."""

    network: str
    predicted_ms: float
    throughput: float
    best_ms: float
    best_by: str

    @property
    def measured_ms(self) -> float:
        return 1000 / self.throughput


def published() -> list[Published]:
    with FACTS.open(encoding="utf-8", newline="") as file:
        return [
            Published(
                row["network"],
                float(row["predicted_ms"]),
                float(row["throughput"]),
                float(row["best_ms"]),
                row["best_by"],
            )
            for row in csv.DictReader(file)
        ]


def error() -> Table:
    """How far the model is off for code that is much the same."""
    found = published()
    rows = tuple(
        (
            one.network,
            f"{one.predicted_ms:g}",
            f"{one.measured_ms:.1f}",
            f"{one.predicted_ms / one.measured_ms:.2f}",
        )
        for one in found
    )
    least, most = (f(one.measured_ms / one.predicted_ms for one in found) for f in (min, max))
    columns = (
        "milliseconds",
        "TFLite Micro, modelled",
        "microTVM, published",
        "modelled/published",
    )
    note = (
        f"A board takes {least:.2f} to {most:.2f} times what is modelled, if this code is "
        "as good as that."
    )
    behind = Behind(hashes([FACTS]))
    return Table("Modelled and published", columns, rows, (note,), behind)


def modelled(file: Path) -> float:
    """Milliseconds of an inference. Raises ValueError if `vmcu bench` fails, which says why."""
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as null:
        report = Path(folder) / "bench.json"
        with contextlib.redirect_stdout(null):
            words = ["bench", str(file), "--board", BOARD, "--flash-wait", str(WAITS)]
            code = vmcu([*words, "--json", str(report)])
        if code:
            raise ValueError(f"{file} has no figures")
        cycles = json.loads(report.read_text(encoding="utf-8"))["cycles"]
        return round(cycles / MEGAHERTZ / 1000, 3)


def engines(folder: Path) -> Table:
    """This library's modelled times beside the shortest that were published."""
    rows = [
        (
            one.network,
            f"{modelled(folder / MODELS[one.network]):.3g}",
            f"{one.best_ms:g}",
            one.best_by,
        )
        for one in published()
    ]
    columns = ("milliseconds", "vmcu, modelled", "shortest published", "of")
    files = hashes([FACTS, *(folder / name for name in MODELS.values())])
    behind = Behind(files, (GCC, QEMU), {columns[1]: SECONDS})
    return Table("Beside the fastest engines", columns, tuple(rows), behind=behind)


def command(name: str) -> str:
    return f"python benchmarks/published/run.py {name}{' --models DIR' * (name == 'engines')}"


def main() -> None:
    parser = options(__doc__, ("error", "engines"))
    parser.add_argument("--models", type=Path, metavar="DIR", help="folder of MLPerf Tiny's files")
    args = parser.parse_args()
    tables = {"error": error}
    if args.models is not None:
        tables["engines"] = partial(engines, args.models)
    show(parser, args, tables, command)


if __name__ == "__main__":
    main()
