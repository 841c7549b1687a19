# SPDX-License-Identifier: Apache-2.0
"""Prints what training of the last dense layer costs beside inference.

python benchmarks/heads/run.py [--models DIR] [--write FILE]

Each model gets one class more. RAM is the pool, with the weights in it; "new" trains the weights of
the new class only. Instructions are those of a call on an emulated Cortex-M4.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, show_of_models  # noqa: E402
from vmcu_bench.cycles import model  # noqa: E402
from vmcu_tools.training import Training  # noqa: E402
from vmcu_tools.training_compiler import compile_training  # noqa: E402

BOARD = "qemu:m4"
# By file, its classes.
OWN = {"learn": 9, "digits": 10, "keyword": 4}
OTHERS = {"mlperf-tiny-kws": 12, "mlperf-tiny-vww": 2, "mlperf-tiny-resnet8": 10}
COLUMNS = (
    *("model", "inference", "training", "times", "weights"),
    *("new only", "new only, times", "new only, weights"),
    *("instructions", "with a label"),
)


def row(path: Path, classes: int) -> tuple[str, ...]:
    """A line of the table."""
    every, new = (
        compile_training(path, Training(classes + 1, new_only=alone)) for alone in (False, True)
    )
    ram = every.inference.pool_bytes
    cells: list[int | str] = [path.stem, ram]
    for one in (every, new):
        pool = one.plan.pool_bytes
        cells += [pool, f"{pool / ram:.2f}", sum(tensor.size for tensor in one.weights)]
    for plan in (every.inference, every.plan):
        cells.append(model.bench(plan, path.stem, BOARD).instructions)
    return tuple(f"{cell:,}" if isinstance(cell, int) else cell for cell in cells)


def heads(folder: Path) -> Table:
    """A line for each model, those of samples first. folder: of the others."""
    files = {ROOT / "samples" / name / f"{name}.onnx": count for name, count in OWN.items()}
    files |= {folder / f"{name}.tflite": count for name, count in OTHERS.items()}
    rows = tuple(row(path, count) for path, count in files.items())
    behind = Behind(hashes(set(files)), (GCC, QEMU))
    return Table("Training of the last layer", COLUMNS, rows, behind=behind)


def command(_: str) -> str:
    return "python benchmarks/heads/run.py"


if __name__ == "__main__":
    show_of_models(__doc__, {"heads": heads}, command)
