# SPDX-License-Identifier: Apache-2.0
"""Prints what hops cost of models whose window moves along time.

python benchmarks/streams/run.py [--models DIR] [--hops N] [--write FILE]

RAM is the pool, with the state in it. Instructions and cycles are those of a hop on an emulated
Cortex-M4, "whole" those of a window that is computed as a whole with its input in rows. Of so many
hops of one stream each is compared with the file's own runtime on the whole window.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

import pages  # noqa: E402
from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from vmcu_bench.cycles import model, stream  # noqa: E402
from vmcu_bench.verify.stream import verify  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.report.model import hop_of  # noqa: E402

NAME = "hops"
BOARD = "qemu:m4"
# File and hop.
SWW, KWS = "mlperf-tiny-sww.tflite", "mlperf-tiny-kws.tflite"
MODELS = ((SWW, 1), (SWW, 5), (KWS, 1))
COLUMNS = (
    *("model", "hop", "RAM", "of it state", "MACs", "whole", "instructions", "worst", "whole"),
    "hops that differ",
)


def row(path: Path, hop: int, hops: int) -> tuple[str, ...]:
    """A line of the table."""
    plan = compile_model(path, CompileOptions(hop=hop))
    kept = hop_of(plan)
    assert kept is not None
    counted = stream.bench(plan, path.stem, BOARD)
    whole = model.bench(compile_model(path, CompileOptions(stream_input=True)), path.stem, BOARD)
    checked = verify(plan, "host", hops, 0)
    cells = (path.stem, hop, plan.pool_bytes, kept.state_bytes, counted.macs, kept.macs_window)
    costs = (round(counted.instructions), counted.instructions_worst, whole.instructions)
    words = [f"{cell:,}" if isinstance(cell, int) else cell for cell in (*cells, *costs)]
    (against,) = checked.judged
    return (*words, f"{against.wrong} of {checked.hops:,}")


def table(folder: Path, hops: int) -> pages.Table:
    rows = tuple(row(folder / name, hop, hops) for name, hop in MODELS)
    behind = Behind(hashes({folder / name for name, _ in MODELS}), (GCC, QEMU))
    return pages.Table("Streams, a hop", COLUMNS, rows, behind=behind)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", type=Path, default=pages.MODELS)
    parser.add_argument("--hops", type=int, default=10_000)
    parser.add_argument("--write", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    command = "python benchmarks/streams/run.py --write doc/streaming.md"
    pages.show_one(table(args.models, args.hops), NAME, command, args.write)


if __name__ == "__main__":
    main()
