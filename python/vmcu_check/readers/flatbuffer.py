# SPDX-License-Identifier: Apache-2.0
"""A reader of FlatBuffers without a schema: fields by number, each access checked."""

from __future__ import annotations

import struct

from ..plans import PlanFileError


class Source:
    """The bytes of a file. Vectors of a sound file are read once or a few times, so that `left`,
    the elements that may still be read, ends the work on a damaged one."""

    def __init__(self, data: bytes):
        self.data, self.left = data, 16 * len(data) + 1024

    def number(self, code: str, at: int) -> int:
        """Reads an integer of a format of `struct`."""
        if not 0 <= at <= len(self.data) - struct.calcsize(code):
            raise damaged()
        return int(struct.unpack_from(f"<{code}", self.data, at)[0])

    def follow(self, at: int) -> int:
        """Returns where an offset leads."""
        return at + self.number("I", at)


def damaged() -> PlanFileError:
    """Returns the error for a file whose offsets leave it."""
    return PlanFileError("damaged or truncated file", "copy or write it again")


def root(data: bytes) -> FlatTable:
    """The table that a file begins with."""
    source = Source(data)
    return FlatTable(source, source.follow(0))


class FlatTable:
    """A table of a file; absent fields have their default."""

    def __init__(self, source: Source, at: int):
        self._source, self._at = source, at
        self._fields = at - source.number("i", at)

    def _position(self, field: int) -> int:
        entry = 4 + 2 * field
        if entry + 2 > self._source.number("H", self._fields):
            return 0
        offset = self._source.number("H", self._fields + entry)
        return self._at + offset if offset else 0

    def number(self, field: int, code: str = "i", default: int = 0) -> int:
        """An integer; code: its format of `struct`."""
        at = self._position(field)
        return self._source.number(code, at) if at else default

    def table(self, field: int) -> FlatTable | None:
        """A table, None if it is absent."""
        at = self._position(field)
        return FlatTable(self._source, self._source.follow(at)) if at else None

    def vector(self, field: int, width: int = 1) -> range:
        """The positions of a vector's elements, which have `width` bytes."""
        at = self._position(field)
        if not at:
            return range(0)
        at = self._source.follow(at)
        length = self._source.number("I", at)
        self._source.left -= length
        if self._source.left < 0 or length * width > len(self._source.data):
            raise damaged()
        return range(at + 4, at + 4 + length * width, width)

    def numbers(self, field: int, code: str = "i") -> list[int]:
        """A vector of integers."""
        source = self._source
        return [source.number(code, at) for at in self.vector(field, struct.calcsize(code))]

    def tables(self, field: int) -> list[FlatTable]:
        """A vector of tables."""
        source = self._source
        return [FlatTable(source, source.follow(at)) for at in self.vector(field, 4)]

    def text(self, field: int) -> str:
        """A string; bytes that are no text are replaced."""
        return bytes(self.numbers(field, "B")).decode("utf-8", "replace")
