# SPDX-License-Identifier: Apache-2.0
"""Prints the worst stack of each entry point of the runtime, in samples on a Cortex-M4.

python scripts/stacks.py [--write FILE]

From the ELF: frames and calls on the worst way down. Measured: the lowest byte stored to while the
image runs in QEMU, as a painted stack shows it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vmcu_bench.image.calls import Calls
from vmcu_bench.image.elf import Elf
from vmcu_bench.image.size import KERNELS, find_models, runtime_functions

ROOT = Path(__file__).resolve().parents[1]
RUN, PUSH = "vmcu_invoke", "vmcu_push_row"
# Samples and options, and the entry that the image calls for each inference.
IMAGES = (
    ("hello", "", RUN),
    ("digits", "", RUN),
    ("digits", "--stream-input", PUSH),
    ("gesture", "", RUN),
    ("gesture", "--hop 4", PUSH),
    ("keyword", "", RUN),
    ("keyword", "--hop 1", PUSH),
)
START, END = "<!-- stacks -->\n", "<!-- end of stacks -->"


def entries(elf: Elf) -> Iterator[tuple[str, int]]:
    """The public functions of the image, and the bytes of stack from their call on."""
    runtime = dict(runtime_functions(elf))
    inner = {symbol.address for symbol, part in runtime.items() if part == KERNELS}
    outer = {symbol.address for symbol in runtime} - inner
    plain = Calls(elf, {})
    handed = frozenset().union(*(plain.taken_by(address) for address in inner))
    used = frozenset().union(*(model.kernels for model in find_models(elf)))
    calls = Calls(elf, dict.fromkeys(inner, handed) | dict.fromkeys(outer, used))
    header = (ROOT / "lib" / "vmcu" / "include" / "vmcu" / "vmcu.h").read_text(encoding="utf-8")
    for symbol in sorted(runtime, key=lambda one: one.name):
        if symbol.address in outer and f"{symbol.name}(struct" in header.replace("const ", ""):
            yield symbol.name, calls.deepest(symbol.address)


def rows() -> Iterator[str]:
    yield "| Sample | Entry | From the ELF | Measured |"
    yield "| --- | --- | ---: | ---: |"
    rest = 0
    for name, options, called in IMAGES:
        with tempfile.TemporaryDirectory() as folder:
            model = str(ROOT / "samples" / name / f"{name}.onnx")
            command = ["bench", model, *options.split(), "--on", "qemu:m4", "--keep", folder]
            printed = subprocess.run(
                [sys.executable, "-m", "vmcu_tools", *command, "--json", "-"],
                capture_output=True,
                check=True,
            ).stdout
            measured = json.loads(printed)["stack_bytes"]
            (image,) = Path(folder).glob("*.elf")
            deepest = dict(entries(Elf(image)))
            label = f"{name} {options}".strip()
            yield f"| {label} | `{called}` | {deepest[called]:,} | {measured:,} |"
            others = (most for entry, most in deepest.items() if entry not in (RUN, PUSH))
            rest = max(rest, *others)
    yield f"| all | all others, at most | {rest:,} | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args()
    table = "\n".join([*rows(), ""])
    print(table, end="")
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        before, after = page.split(START)[0], page.split(END)[1]
        options.write.write_text(f"{before}{START}{table}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
