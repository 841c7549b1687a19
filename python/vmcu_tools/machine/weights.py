# SPDX-License-Identifier: Apache-2.0
"""The weights buffer of a model, as the runtime fills it by the tables."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..ops.values import Array, Struct, StructArray, Value
from ..plan.weights import ALIGN, digest_of
from .tables import Objects, expect

# An address in the buffer, as the emitter writes it.
ADDRESS = re.compile(r"VMCU_EXTERNAL\((\d+)\)")
MEMBERS = ("offset", "bytes", "to", "digest", "stage", "start")


def macros_of(name: str) -> tuple[str, str]:
    """The macros with the bytes of the buffer of model `name`, and of its weights file."""
    stem = f"VMCU_MODEL_{name.upper()}_WEIGHTS"
    return f"{stem}_RAM_BYTES", f"{stem}_BYTES"


class WeightsBuffer:
    """The buffer of model `name`, whose weights file is `file`. Raises PlanError if a read could
    overwrite bytes that a stage needs, does not end before its stage, or runs while the caller is
    to push a row."""

    def __init__(self, objects: Objects, name: str, file: bytes, stages: int):
        model: Any = objects.values[f"{name}_model"]
        listed: Any = objects.values.get(f"{name}_chunks", [])
        count = model.get("chunk_count", 0)
        expect(count == len(listed), f"{count} chunks, there are {len(listed)}")
        self.file = file
        self.chunks = [tuple(entry.get(member, 0) for member in MEMBERS) for entry in listed]
        named = model.get("chunks"), model.get("weights")
        expected = (f"{name}_chunks", f"{name}_weights") if count else (None, None)
        expect(named == expected, f"chunks and buffer are {named}")
        self.size, told = (int(objects.macros.get(one, 0)) for one in macros_of(name))
        expect(told == len(file), f"the weights file has {len(file)} bytes, the header says {told}")
        self._check(stages, earliest=int(bool(model.get("streamed", 0))))
        for at, size, _, digest, *_ in self.chunks:
            expect(digest_of(file[at : at + size]) == digest, "a chunk has another digest")

    def _check(self, stages: int, earliest: int) -> None:
        offset, before = 0, (-1, 0)
        for at, size, to, _, stage, start in self.chunks:
            expect(at == offset, f"a chunk is at byte {at} of the file")
            offset += size
            expect(size > 0 and to + size <= self.size, "a chunk is not in the weights buffer")
            expect(size % ALIGN == 0 == to % ALIGN, "a chunk is not whole words")
            first = max(before[1], min(stage, earliest))
            inside = before[0] < stage < stages and first <= start <= stage
            expect(inside, f"the reads for stage {stage} are not in the order of stages")
            before = stage, start
            for _, length, other, _, earlier, _ in self.chunks:
                apart = other + length <= to or to + size <= other
                expect(
                    apart or earlier >= stage or earlier < start,
                    f"a read for stage {stage} overwrites what stage {earlier} needs",
                )
        expect(offset == len(self.file), f"{offset} of {len(self.file)} bytes are read")

    def at(self, stage: int) -> bytes:
        """The buffer while a stage runs; bytes of other chunks are 0."""
        buffer = bytearray(self.size)
        for at, size, to, _, number, _ in self.chunks:
            if number == stage:
                buffer[to : to + size] = self.file[at : at + size]
        return bytes(buffer)


def read_arrays(wanted: Value, actual: Any, buffer: bytes) -> Any:
    """`actual`, as it was read back, with the arrays that its addresses in the buffer stand for;
    `wanted` says of which type and size they are."""
    if isinstance(wanted, Struct) and isinstance(actual, dict):
        return {
            member: read_arrays(wanted.fields.get(member, 0), value, buffer)
            for member, value in actual.items()
        }
    if isinstance(wanted, StructArray) and isinstance(actual, list):
        return [read_arrays(*pair, buffer) for pair in zip(wanted.items, actual, strict=True)]
    address = ADDRESS.fullmatch(actual) if isinstance(actual, str) else None
    if address is None or not isinstance(wanted, Array):
        return actual
    at = int(address[1])
    expect(at + wanted.values.nbytes <= len(buffer), "an array is not in the weights buffer")
    return np.frombuffer(buffer, wanted.values.dtype, wanted.values.size, at)
