# SPDX-License-Identifier: Apache-2.0
"""Damages linked images: `vmcu check-image` accepts none that computes other bytes.

    vmcu bench MODEL --on qemu:m4 --keep DIR
    python tests/fuzz/damaged_images.py DIR/NAME.elf MODEL COUNT SEED [--inputs N] [--log FILE]

Each of COUNT copies of the image has one damage of the model's tables: a byte of a table, of
weights or of biases, a base or a size of a tensor, a member of the model or of a layer, or two
layers' kernels swapped. The checker judges each copy, with N runs of its own (0). QEMU then runs
each accepted copy on INPUTS inputs, or on HOPS hops of a stream, beside the sound image.

Ends with exit code 1 if an accepted copy answers otherwise. --log writes a line an image: the
damage and the verdict. The same seed damages the same bytes.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from vmcu_bench.commands.references import reference_of
from vmcu_check.images.check import check
from vmcu_check.images.elf import ImageError, ImageSymbol, LinkedImage
from vmcu_check.images.structs import LAYER, MODEL, OPTIONS, STAGE, TENSOR, layout
from vmcu_check.images.tables import ImageModel, roots

INPUTS, HOPS = 3, 24
SECONDS = 60
REFUSED, EQUAL, OTHER = "refused", "accepted, equal outputs", "accepted, other outputs"
# An address and its new bytes; several of them.
Patch = list[tuple[int, bytes]]


class Subject:
    """A sound image with what can be damaged in it."""

    def __init__(self, elf: Path):
        self.elf, self.data, self.image = elf, elf.read_bytes(), LinkedImage(elf)
        ((self.symbol, top),) = roots(self.image).items()
        self.model = ImageModel(self.image, self.symbol, top)
        prefix = self.symbol.partition("_model")[0] + "_"
        self.tables = [
            one
            for one in self.image.symbols.values()
            if one.name.startswith(prefix) and one.bytes and not one.is_function
        ]
        with elf.open("rb") as stream:
            self.parts = [
                (part["p_vaddr"], part["p_filesz"], part["p_offset"])
                for part in ELFFile(stream).iter_segments("PT_LOAD")
            ]

    def patched(self, patch: Patch) -> bytes:
        """Returns the file with other bytes at these addresses."""
        data = bytearray(self.data)
        for address, new in patch:
            at = next(o + address - a for a, size, o in self.parts if a <= address < a + size)
            data[at : at + len(new)] = new
        return bytes(data)

    def table(self, name: str) -> ImageSymbol:
        return next(one for one in self.tables if one.name.endswith(name))

    def members(self, dice: random.Random) -> tuple[str, int, int]:
        """Returns a member of a struct: its name, address and size."""
        options = "".join(f" {OPTIONS[one]}" for one in OPTIONS if one in self.symbol)
        structs = [
            ("_tensors", TENSOR, self.model.top["tensor_count"]),
            ("_layers", LAYER, self.model.top["layer_count"]),
            ("_stages", STAGE, self.model.top["stage_count"]),
            (self.symbol, MODEL + options, 1),
        ]
        table, members, count = dice.choices(structs, (4, 3, 1, 2))[0]
        kind = layout(members, self.image.word)
        assert kind.fields is not None
        name = dice.choice([one.split(":")[0] for one in members.split()])
        number = dice.randrange(count)
        at = self.table(table).address + number * kind.itemsize + kind.fields[name][1]
        return f"{table.strip('_')}[{number}].{name}", at, kind.fields[name][0].itemsize


def byte_of_table(subject: Subject, dice: random.Random) -> tuple[str, Patch]:
    """A bit or a byte of any table; large ones, of weights, half of the time."""
    small = [one for one in subject.tables if not one.name.endswith("_stream")]
    symbol = dice.choice(dice.choice((subject.tables, small)))
    offset = dice.randrange(symbol.bytes)
    (old,) = subject.image.read(symbol.address + offset, 1)
    new = dice.choice((old ^ 1 << dice.randrange(8), dice.randrange(256)))
    return f"{symbol.name}+{offset}: {old} -> {new}", [(symbol.address + offset, bytes([new]))]


def member(subject: Subject, dice: random.Random) -> tuple[str, Patch]:
    """A member that is a little more or less, twice as much, or drawn."""
    name, at, size = subject.members(dice)
    old = int.from_bytes(subject.image.read(at, size), "little")
    step = dice.choice((1, 2, 4, 8, 16, 64, dice.randrange(1, 1 << 12)))
    drawn = dice.randrange(1 << 8 * size)
    new = dice.choice((old + step, old - step, 2 * old, old // 2, drawn)) % (1 << 8 * size)
    return f"{name}: {old} -> {new}", [(at, new.to_bytes(size, "little"))]


def exchange(subject: Subject, dice: random.Random) -> tuple[str, Patch]:
    """Two layers' kernels, parameters or inputs, or two tensors' bases."""
    table, members, name = dice.choice(
        [("_layers", LAYER, one) for one in ("kernel", "kernel", "params", "inputs", "output")]
        + [("_tensors", TENSOR, "base")]
    )
    count = subject.model.top[f"{table.strip('_')[:-1]}_count"]
    kind = layout(members, subject.image.word)
    assert kind.fields is not None
    field, offset = kind.fields[name][:2]
    a, b = (dice.randrange(count) for _ in range(2))
    places = [subject.table(table).address + i * kind.itemsize + offset for i in (a, b)]
    values = [subject.image.read(place, field.itemsize) for place in places]
    return f"{table.strip('_')}: {name} of {a} and {b}", [*zip(places, values[::-1], strict=True)]


DAMAGE: list[Callable[[Subject, random.Random], tuple[str, Patch]]] = [
    byte_of_table,
    byte_of_table,
    member,
    exchange,
]


def damages(subject: Subject, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yields so many damages, each with its copy of the file."""
    dice = random.Random(seed)
    while count:
        what, patch = dice.choice(DAMAGE)(subject, dice)
        data = subject.patched(patch)
        if data != subject.data:
            count -= 1
            yield what, data


def inputs_of(subject: Subject, seed: int) -> bytes:
    """Returns inputs.bin: INPUTS inputs, or the rows of a stream."""
    ports, rng = subject.model.inputs, np.random.default_rng(seed)
    size = INPUTS * sum(port.tensor.bytes for port in ports)
    if subject.model.stream:
        size = (ports[0].tensor.height + HOPS * subject.model.stream.rows) * ports[0].tensor.row
    return bytes(rng.integers(0, 256, size, np.uint8))


def answer(elf: Path, inputs: bytes) -> tuple[int, bytes]:
    """Runs an image; returns its exit code, -1 if it does not end, and its outputs."""
    folder = elf.parent
    (folder / "inputs.bin").write_bytes(inputs)
    (folder / "outputs.bin").write_bytes(b"")
    try:
        code = subprocess.run(
            ["sh", "run.sh"], cwd=folder, capture_output=True, timeout=SECONDS, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        code = -1
    return code, (folder / "outputs.bin").read_bytes()


def judged(elf: Path, model: Path, inputs: int) -> str:
    """Returns the checker's reason to refuse an image, "" if it accepts it."""
    try:
        check(elf, model, inputs, reference_of)
    except ImageError as error:
        return str(error)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("elf", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--inputs", type=int, default=0)
    parser.add_argument("--log", type=Path, help="a line an image: the damage and the verdict")
    args = parser.parse_args()
    subject, found = Subject(args.elf), Counter(dict.fromkeys((REFUSED, EQUAL, OTHER), 0))
    lines = []
    with tempfile.TemporaryDirectory() as name:
        elf, inputs = Path(name) / args.elf.name, inputs_of(subject, args.seed)
        shutil.copy(args.elf.parent / "run.sh", name)
        elf.write_bytes(subject.data)
        wanted = answer(elf, inputs)
        sound = judged(elf, args.model, args.inputs)
        if wanted[0] or not wanted[1] or sound:
            sys.exit(f"the sound image fails: exit code {wanted[0]}, {sound}")
        for what, data in damages(subject, args.count, args.seed):
            elf.write_bytes(data)
            reason = judged(elf, args.model, args.inputs)
            verdict = REFUSED if reason else EQUAL if answer(elf, inputs) == wanted else OTHER
            found[verdict] += 1
            lines.append(f"{what}: {verdict}{reason and ': '}{reason}")
            if verdict == OTHER:
                print(lines[-1], flush=True)
    if args.log:
        args.log.write_text("".join(f"{line}\n" for line in lines))
    print(
        f"{args.elf.name}: " + ", ".join(f"{count} {verdict}" for verdict, count in found.items())
    )
    sys.exit(found[OTHER] > 0)


if __name__ == "__main__":
    main()
