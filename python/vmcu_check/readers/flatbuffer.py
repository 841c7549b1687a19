# SPDX-License-Identifier: Apache-2.0
"""A reader of FlatBuffers without a schema: fields by number, each access checked."""

from __future__ import annotations

import struct

from ..plans import PlanFileError


def damaged() -> PlanFileError:
    """Returns the error for a file whose offsets leave it."""
    return PlanFileError("damaged or truncated file", "copy or write it again")


class FlatTable:
    """A table of a file, by default its root; absent fields are 0 or empty.

    Vectors of a sound file are read a few times. `_left`, the elements that may still be read, ends
    the work on a damaged one."""

    def __init__(self, data: bytes, at: int = -1, left: list[int] | None = None):
        self._data, self._at = data, at
        self._left = left or [16 * len(data) + 1024]
        if at < 0:
            self._at = self._get("I", 0)
        self._fields = self._at - self._get("i", self._at)

    def _get(self, code: str, at: int) -> int:
        if not 0 <= at <= len(self._data) - struct.calcsize(code):
            raise damaged()
        return int(struct.unpack_from(f"<{code}", self._data, at)[0])

    def _position(self, field: int) -> int:
        entry = 4 + 2 * field
        is_known = entry + 2 <= self._get("H", self._fields)
        offset = self._get("H", self._fields + entry) if is_known else 0
        return self._at + offset if offset else 0

    def _follow(self, at: int) -> FlatTable:
        return FlatTable(self._data, at + self._get("I", at), self._left)

    def number(self, field: int, code: str = "i") -> int:
        """An integer; code: its format of `struct`."""
        at = self._position(field)
        return self._get(code, at) if at else 0

    def table(self, field: int) -> FlatTable | None:
        """A table, None if it is absent."""
        at = self._position(field)
        return self._follow(at) if at else None

    def vector(self, field: int, width: int = 1) -> range:
        """The positions of a vector's elements, which have `width` bytes."""
        at = self._position(field)
        if not at:
            return range(0)
        at += self._get("I", at)
        length = self._get("I", at)
        self._left[0] -= length
        if self._left[0] < 0 or length * width > len(self._data):
            raise damaged()
        return range(at + 4, at + 4 + length * width, width)

    def numbers(self, field: int, code: str = "i") -> list[int]:
        """A vector of integers."""
        return [self._get(code, at) for at in self.vector(field, struct.calcsize(code))]

    def tables(self, field: int) -> list[FlatTable]:
        """A vector of tables."""
        return [self._follow(at) for at in self.vector(field, 4)]

    def text(self, field: int) -> str:
        """A string; bytes that are no text are replaced."""
        return bytes(self.numbers(field, "B")).decode("utf-8", "replace")
