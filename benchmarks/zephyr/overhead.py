# SPDX-License-Identifier: Apache-2.0
"""Counts one inference under Zephyr and without an operating system, on the same emulated board.

    python benchmarks/zephyr/overhead.py [MODEL...] [--on qemu:m3 qemu:m4] [--write FILE]

Both images run the same source and the same plan on the same input, and their outputs are checked.
Under Zephyr its interrupts count too. Exits with 1 if Zephyr adds more than LIMIT to any model.
Needs a Zephyr tree: ZEPHYR_BASE, or ~/zephyrproject/zephyr.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, show_one  # noqa: E402
from vmcu_bench.cycles.model import bench, board, check_outputs  # noqa: E402
from vmcu_bench.runners.compiled import MODEL_NAME  # noqa: E402
from vmcu_bench.runners.counting import CountingRunner, markers_of  # noqa: E402
from vmcu_bench.runners.samples import make_samples  # noqa: E402
from vmcu_bench.runners.workspace import board_module, environment, zephyr_base  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.plan.plan import Plan  # noqa: E402

IMAGE = Path(__file__).parent / "image"
DEFAULT_MODEL = ROOT / "samples" / "digits" / "digits.onnx"
LIMIT = 0.02
NAME = "overhead"
COMMAND = "python benchmarks/zephyr/overhead.py MODEL... --on qemu:m3 qemu:m4"
COLUMNS = ("model and board", "instructions", "instructions with Zephyr", "more")
# Zephyr's board that is the same machine.
ZEPHYR_BOARDS = {"qemu:m3": "mps2/an385", "qemu:m4": "qemu_mps2_m4", "qemu:m7": "qemu_mps2_m7"}


@dataclass(frozen=True)
class Overhead:
    """Instructions of one inference."""

    model: str
    target: str
    freestanding: int
    zephyr: int

    @property
    def ratio(self) -> float:
        """Zephyr's over freestanding's, less one."""
        return round(self.zephyr / self.freestanding - 1, 5)

    @property
    def row(self) -> tuple[str, ...]:
        """As the table has it."""
        both = f"{self.freestanding:,}", f"{self.zephyr:,}"
        return f"{self.model}, {self.target}", *both, f"{100 * self.ratio:+.2f} %"


def build(model: Path, target: str, folder: Path) -> Path:
    """The Zephyr image of a model, as an ELF file in `folder`."""
    zephyr = zephyr_base()
    variables = environment(zephyr)
    settings = [
        f"-DBOARD={ZEPHYR_BOARDS[target]}",
        f"-DMODEL={model.resolve()}",
        f"-DEXTRA_ZEPHYR_MODULES={ROOT};{board_module(zephyr)}",
        f"-DCONFIG_FPU={'n' if target == 'qemu:m3' else 'y'}",
    ]
    tree = folder / "build"
    commands = [
        ["cmake", "-G", "Ninja", "-S", str(IMAGE), "-B", str(tree), *settings],
        ["cmake", "--build", str(tree)],
    ]
    for command in commands:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}{done.stderr}\n{' '.join(command)} failed")
    return Path(shutil.copy(tree / "zephyr" / "zephyr.elf", folder / f"{MODEL_NAME}.elf"))


def instructions_under_zephyr(model: Path, plan: Plan, target: str) -> int:
    machine = board(target)
    sample = make_samples(plan.graph, 1, 0, 0)[0]
    with tempfile.TemporaryDirectory(prefix="vmcu-") as text:
        folder = Path(text)
        image = build(model, target, folder)
        counting = CountingRunner.of(machine, markers_of(image, MODEL_NAME))
        results, counts = counting.count(folder, lambda t: t.execute(image, plan, [sample]))
    check_outputs(plan, sample, results[0], f"{target} with Zephyr")
    return reduce(add, counts).instructions


def compare(model: Path, target: str) -> Overhead:
    plan = compile_model(model)
    freestanding = bench(plan, model.stem, target).instructions
    zephyr = instructions_under_zephyr(model, plan, target)
    return Overhead(model.stem, target, freestanding, zephyr)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, default=[DEFAULT_MODEL])
    parser.add_argument("--on", choices=ZEPHYR_BOARDS, nargs="+", default=["qemu:m3"])
    parser.add_argument("--write", type=Path, metavar="FILE")
    args = parser.parse_args()
    found = []
    for model in args.models:
        for target in args.on:
            found.append(compare(model, target))
            print(*found[-1].row, file=sys.stderr, flush=True)
    behind = Behind(hashes(args.models), (GCC, QEMU))
    table = Table("Under Zephyr", COLUMNS, tuple(one.row for one in found), behind=behind)
    show_one(table, NAME, COMMAND, args.write)
    return int(any(one.ratio > LIMIT for one in found))


if __name__ == "__main__":
    sys.exit(main())
