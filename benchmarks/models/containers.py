# SPDX-License-Identifier: Apache-2.0
"""Prints what loading a model from a container costs, of all models of a folder.

python benchmarks/models/containers.py [MODEL...] [--write FILE]

Each model is planned by default. On host, qemu:m3 and qemu:m4, and in a Zephyr application on a
Cortex-M4, the outputs of the container must be those of the compiled-in form. Instructions are
those of one inference; RAM beside the pool is struct vmcu_model and what stays in the arena's tail,
on a core of 32 bits.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import MODELS, put  # noqa: E402
from vmcu_bench import runners  # noqa: E402
from vmcu_bench.cycles.model import bench  # noqa: E402
from vmcu_bench.image.elf import Elf  # noqa: E402
from vmcu_bench.runners.compiled import MODEL_NAME, CompiledRunner  # noqa: E402
from vmcu_bench.runners.samples import make_samples  # noqa: E402
from vmcu_tools import container  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.emit import emit  # noqa: E402
from vmcu_tools.plan.plan import Plan  # noqa: E402

NAME, COMMAND = "loading", "python benchmarks/models/containers.py --write doc/container.md"
BOARDS = ("qemu:m3", "qemu:m4")
# It has room for all models.
ZEPHYR = "zephyr:qemu_mps2_m4"
HEAD = (
    "| model | container | pool | RAM beside it | Cortex-M3, instructions | | Cortex-M4 | |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
)
# What may be lost: bytes of RAM for a model and for each layer, and a part of the instructions.
RAM, RAM_OF_LAYER, INSTRUCTIONS = 64, 8, 0.005
LOADED = "loaded."


def models() -> list[Path]:
    return sorted(MODELS.glob("*.tflite"))


def ram_beside(plan: Plan, image: bytes) -> int:
    """Bytes of struct vmcu_model, as an image for a Cortex-M4 has it, and of the tail: a pointer to
    each kernel, in multiples of 8."""
    target = runners.get("qemu:m4+container")
    assert isinstance(target, CompiledRunner)
    with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
        elf = Elf(target.build(emit(plan, MODEL_NAME).files, MODEL_NAME, Path(folder)))
    model = next(symbol.size for symbol in elf.symbols if symbol.name.startswith(LOADED))
    return model + -(-4 * len(container.kernels_of(image)) // 8) * 8


def check_bytes(plan: Plan, name: str, targets: Sequence[str] = ("host", *BOARDS)) -> None:
    """Ends the program where a target's outputs are not the same from a container."""
    samples = make_samples(plan.graph, 1, 1, 0)
    for target in targets:
        one, other = (runners.get(t).run(plan, samples) for t in (target, f"{target}+container"))
        for wanted, found in zip(one, other, strict=True):
            for left, right in zip(wanted, found, strict=True):
                if not np.array_equal(left, right):
                    raise SystemExit(f"{name}: {target} gives other bytes from a container")


def row(path: Path) -> str:
    """A line of the table. Ends the program where a bound is exceeded."""
    plan, name = compile_model(path), path.stem
    check_bytes(plan, name)
    image = container.build(plan, MODEL_NAME)
    ram = ram_beside(plan, image)
    if ram > RAM + RAM_OF_LAYER * len(plan.steps):
        raise SystemExit(f"{name}: {ram} bytes of RAM beside the pool")
    cells = [name, f"{len(image):,}", f"{plan.pool_bytes:,}", f"{ram}"]
    for board in BOARDS:
        counts = [bench(plan, name, board + form).instructions for form in ("", "+container")]
        assert counts[0] is not None and counts[1] is not None
        more = counts[1] / counts[0] - 1
        if more > INSTRUCTIONS:
            raise SystemExit(f"{name}: {100 * more:.2f} % more instructions on {board}")
        cells += [f"{counts[0]:,}", f"{100 * more:+.3f} %"]
    return f"| {' | '.join(cells)} |"


def table(paths: Sequence[Path]) -> str:
    lines = []
    for path in paths:
        lines.append(row(path))
        check_bytes(compile_model(path), path.stem, [ZEPHYR])
        print(lines[-1], flush=True)
    return HEAD + "".join(f"{line}\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path, nargs="*", help="default: all of VMCU_MODELS")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into a page")
    args = parser.parse_args()
    files = args.model or models()
    text = table(files)
    if args.write is not None:
        block = f"`{COMMAND}`\n\n{text}".rstrip()
        put(args.write, NAME, block, Behind(hashes(files), (GCC, QEMU)))


if __name__ == "__main__":
    main()
