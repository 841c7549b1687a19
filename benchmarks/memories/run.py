# SPDX-License-Identifier: Apache-2.0
"""Prints what networks access in each of two memories, as doc/memories.md has it.

python benchmarks/memories/run.py [TABLE...] [--models DIR] [--write FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, show_of_models  # noqa: E402
from vmcu_bench.cycles.model import bench  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.report.model import memories as accessed  # noqa: E402
from vmcu_tools.report.runs import RAM  # noqa: E402
from vmcu_tools.values import memories  # noqa: E402

TARGET = "qemu:m4"


@dataclass(frozen=True)
class Case:
    """A network, by its file, and the memories that it has."""

    title: str
    file: str
    memory: str


CASES = (
    Case("MCUNet, 176x176 (ImageNet)", "mcunet-imagenet-320kb.tflite", "fast=64K,slow=256K"),
    Case("MobileNetV1 0.25, 96x96", "mlperf-tiny-vww.tflite", "fast=16K,slow=32K"),
    Case("ResNet-8, 32x32", "mlperf-tiny-resnet8.tflite", "fast=8K,slow=8K"),
)


def row(case: Case, folder: Path) -> tuple[str, ...]:
    """A network's figures: both pools, and the part of what it accesses in the first."""
    plan = compile_model(folder / case.file, CompileOptions(memory=memories(case.memory)))
    counted = bench(plan, "model", TARGET).memories
    pools = [f"{region.pool_bytes:,}" for region in plan.regions]
    shares = [f"{one[0].share:.1%}" for one in (accessed(plan), counted)]
    return case.title, f"`{case.memory}`", *pools, *shares


def fast(folder: Path) -> Table:
    """All networks."""
    columns = (
        *("network", "memories", "bytes in the fast", "in the slow"),
        *("accessed in the fast, by programs", f"counted on {TARGET}"),
    )
    files = hashes(folder / case.file for case in CASES)
    behind = Behind(files, (GCC, QEMU), {columns[3]: RAM})
    rows = tuple(row(case, folder) for case in CASES)
    return Table("Two memories", columns, rows, behind=behind)


TABLES: dict[str, Callable[[Path], Table]] = {"fast": fast}


def command(name: str) -> str:
    """What prints a table."""
    return f"python benchmarks/memories/run.py {name} --models DIR"


if __name__ == "__main__":
    show_of_models(__doc__, TABLES, command)
