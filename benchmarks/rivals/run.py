# SPDX-License-Identifier: Apache-2.0
"""Runs other projects' own compilers on the networks of doc/results.md and prints their RAM.

python benchmarks/rivals/run.py [TABLE...] [--models DIR] [--write FILE]

Requires TiGrIS (`pip install tigris-ml==0.12.1`). Figures are those that its command prints.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import Behind, hashes  # noqa: E402
from pages import Table, show_of_models  # noqa: E402

FILES = (
    *("mcunet-imagenet-320kb.tflite", "mcunet-vww-5fps.tflite", "mlperf-tiny-kws.tflite"),
    *("mlperf-tiny-resnet8.tflite", "mlperf-tiny-vww.tflite"),
)
# Enough for each network without slow memory, which TiGrIS would otherwise spill to.
ANALYZE = ("tigris", "analyze", "-m", "512K", "-f", "2M", "--json")


def row(model: Path) -> tuple[str, ...]:
    """A network, TFLite Micro's arena by TiGrIS' own count, and TiGrIS' plan."""
    done = subprocess.run([*ANALYZE, str(model)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    arena = found["tflite_micro"]["tensor_arena_bytes"]
    return model.stem, f"{arena:,}", f"{found['fast']['scheduled_peak_bytes']:,}"


def tigris(folder: Path) -> Table:
    """TiGrIS 0.12.1 with 512 KB of fast memory."""
    models = [folder / name for name in FILES]
    columns = ("model", "TFLite Micro's arena, bytes", "TiGrIS' plan, bytes")
    rows = tuple(row(model) for model in models)
    return Table("TiGrIS 0.12.1", columns, rows, behind=Behind(hashes(models)))


TABLES: dict[str, Callable[[Path], Table]] = {"tigris": tigris}


def command(name: str) -> str:
    """What prints a table."""
    return f"python benchmarks/rivals/run.py {name}"


if __name__ == "__main__":
    show_of_models(__doc__, TABLES, command)
