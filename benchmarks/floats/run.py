# SPDX-License-Identifier: Apache-2.0
"""Prints how many float .tflite files of public repositories become int8 and are exact.

    python benchmarks/floats/run.py [--files DIR] [--write FILE]

files.csv lists the files by SHA-256. --files DIR quantises, builds and verifies each that is there,
as DIR/<sha256>.tflite, with random samples, and puts the results into the list.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import Behind, hashes  # noqa: E402
from pages import Table, options, show  # noqa: E402
from rows import Row, listed, update  # noqa: E402

LIST = Path(__file__).with_name("files.csv")
EXACT, REFUSED = "exact", "refused: "
LONGEST = 600  # seconds of a command


def vmcu(*words: str | Path) -> str:
    """The first line of a command's error, nothing if it succeeds."""
    command = [sys.executable, "-m", "vmcu_tools", *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return f"{words[0]} takes more than {LONGEST} seconds"
    said = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else (said or [f"exit {done.returncode}"])[0]


def tried(row: Row, folder: Path) -> Row:
    """A row with the result of a file."""
    file = folder / f"{row['sha256']}.tflite"
    if not file.is_file():
        return row
    if hashlib.sha256(file.read_bytes()).hexdigest() != row["sha256"]:
        raise SystemExit(f"{file}: another file")
    with tempfile.TemporaryDirectory() as made:
        int8, report = Path(made) / "int8.onnx", Path(made) / "report.json"
        words = ("--min-agreement", "0", "--json", report, "-o", int8)
        problem = vmcu("quantize", file, "--calibration", "random", *words)
        problem = problem or vmcu("build", int8, "-o", Path(made) / "tables", "-q")
        problem = problem or vmcu("verify", int8, "-n", "2", "-q")
        ratio = f"{json.loads(report.read_text())['snr_db']:.1f}" if report.is_file() else ""
    reason = problem.removeprefix("error: ").replace(str(file), "FILE").split(" hint: ")[0]
    result = f"{REFUSED}{reason.removeprefix('FILE: ')}" if problem else EXACT
    return row | {"result": result, "snr_db": ratio}


def floats() -> Table:
    """Files by kind."""
    rows = listed(LIST)
    exact = [row for row in rows if row["result"] == EXACT]
    close = Counter(row["kind"] for row in exact if float(row["snr_db"]) >= 25)
    every, right = (Counter(row["kind"] for row in some) for some in (rows, exact))
    lines = [(kind, *map(str, (every[kind], right[kind], close[kind]))) for kind in sorted(every)]
    totals = map(str, (every.total(), right.total(), close.total()))
    columns = ("weights", "files", "exact", "25 dB or more")
    return Table("Float files", columns, (*lines, ("all", *totals)), behind=Behind(hashes([LIST])))


def command(_: str) -> str:
    return "python benchmarks/floats/run.py"


if __name__ == "__main__":
    parser = options(__doc__ or "", ["floats"])
    parser.add_argument("--files", type=Path, metavar="DIR")
    args = parser.parse_args()
    if args.files:
        update(LIST, lambda row: tried(row, args.files))
    show(parser, args, {"floats": floats}, command)
