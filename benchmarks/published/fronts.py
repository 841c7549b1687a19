# SPDX-License-Identifier: Apache-2.0
"""RAM and multiply-accumulates done twice beside what msf-CNN publishes, for doc/results.md.

python benchmarks/published/fronts.py --models DIR [--only NETWORK...] [--write FILE]

fronts.csv: points of msf-CNN's fronts, of its repository: bytes, without the input, the last output
and the tensors of residual sums, and multiply-accumulates, a part of those of the network. vmcu's
are of `vmcu build --external-input --ram BYTES`, everything counted but the input; where that
does not fit, of the smallest pool it finds. The plan is run on an emulated Cortex-M4, where there
is one. DIR has MCUNet's files, and MobileNetV2's of benchmarks/models/build.py. Takes minutes a
point.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from figures import built  # noqa: E402
from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, options, show  # noqa: E402
from rows import read  # noqa: E402
from vmcu_bench.runners.samples import make_samples  # noqa: E402
from vmcu_bench.verify import verify  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.errors import UserError  # noqa: E402
from vmcu_tools.frontends import load  # noqa: E402
from vmcu_tools.machine import reference  # noqa: E402
from vmcu_tools.passes import optimize  # noqa: E402
from vmcu_tools.plan.plan import Plan  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.planner.stages import bands  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402

FACTS = Path(__file__).with_name("fronts.csv")
TARGET = "qemu:m4"
SAMPLES, SEED = 2, 1
TABLE = "fronts"
COLUMNS = (
    "bytes of RAM",
    "vmcu",
    "multiply-accumulates",
    "msf-CNN",
    "multiply-accumulates",
    "bytes that differ on a Cortex-M4",
)
NOTES = (
    "msf-CNN's bytes are without the input, the last output, and the tensors of residual sums; "
    "vmcu's are without the input alone. msf-CNN's MobileNetV2 has channels rounded down (18.9 "
    "million multiply-accumulates) and ends at 448 channels. The original has multiples of eight "
    "(26.6 million) and ends at 1,280 channels and 1,000 classes.",
)
# What `vmcu build --ram` says where nothing fits.
SMALLEST = re.compile(r"is (\d+) bytes, with (\d+) extra MACs")


@dataclass(frozen=True)
class Point:
    """A row of fronts.csv. macs: those done, a part of those of the network."""

    network: str
    file: str
    bytes: int
    macs: float


@dataclass(frozen=True)
class Reached:
    """What vmcu needs for a point, as Point has it. differing: output bytes that are not what the
    network means, None where nothing fits."""

    bytes: int
    macs: float
    differing: int | None


def points() -> list[Point]:
    return read(FACTS, Point)


def reached(point: Point, folder: Path) -> Reached:
    """vmcu's plan for a point. Raises UserError if the file cannot be read."""
    file = folder / point.file
    macs = bands.macs(optimize(load(file)))
    try:
        plan = compile_model(file, CompileOptions(ram=point.bytes, external_input=True))
    except UserError as error:
        smallest = SMALLEST.search(str(error))
        if smallest is None:
            raise
        return Reached(int(smallest[1]), 1 + int(smallest[2]) / macs, None)
    return Reached(plan.pool_bytes, 1 + plan.macs_extra / macs, differing(plan))


def differing(plan: Plan) -> int:
    """Output bytes of an emulated Cortex-M4 that are not what the network means."""
    samples = make_samples(plan.graph, SAMPLES, 0, SEED)
    tally = verify.Tally()
    for sample, got in zip(samples, verify.run_target(plan, TARGET, samples), strict=True):
        tally.compare(plan.model, got, reference.run(plan.model, sample))
    return sum(check.differing for check in tally.checks.values())


def row(point: Point, folder: Path) -> tuple[str, ...]:
    """A point as the table has it."""
    found = reached(point, folder)
    return (
        point.network,
        f"{found.bytes:,}",
        f"{found.macs:.2f} x",
        f"{point.bytes:,}",
        f"{point.macs:g} x",
        "does not fit" if found.differing is None else f"{found.differing}",
    )


def fronts(models: Path, only: Sequence[str]) -> Table:
    """The points of these networks, all by default."""
    wanted = [point for point in points() if point.network in (only or {point.network})]
    names = dict.fromkeys(point.file for point in wanted)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: models / name for name in names if name.endswith(".tflite")}
        made = [Path(name).stem for name in names if name not in files]
        files |= {file.name: file for file in built(made, folder)} if made else {}
        rows = tuple(row(point, files[point.file].parent) for point in wanted)
        behind = Behind(hashes([FACTS, *files.values()]), (GCC, QEMU), {"vmcu": RAM})
    return Table("RAM for multiply-accumulates", COLUMNS, rows, NOTES, behind)


def command(name: str) -> str:
    return f"python benchmarks/published/fronts.py {name} --models DIR"


def main() -> None:
    parser = options(__doc__, (TABLE,))
    parser.add_argument("--models", type=Path, metavar="DIR", required=True, help="their files")
    parser.add_argument("--only", nargs="+", metavar="NETWORK", default=[])
    args = parser.parse_args()
    show(parser, args, {TABLE: partial(fronts, args.models, args.only)}, command)


if __name__ == "__main__":
    main()
