# SPDX-License-Identifier: Apache-2.0
"""A change to one place of one file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """file: from the root; line: 1 is the first; begin, end: the bytes replaced by `text`."""

    file: str
    line: int
    begin: int
    end: int
    text: str
    source: str
    change: str

    @property
    def name(self) -> str:
        """What tells it apart wherever its line is: as accepted.txt has it."""
        return f"{self.file} :: {self.source} :: {self.change}"

    def applied(self, data: bytes) -> bytes:
        return data[: self.begin] + self.text.encode() + data[self.end :]


def replaced(file: str, data: bytes, begin: int, end: int, text: str, what: str = "") -> Mutant:
    """A mutant of bytes begin .. end."""
    line = data.count(b"\n", 0, begin)
    source = " ".join(data.splitlines()[line].decode().split())
    before = " ".join(data[begin:end].decode().split())
    shown = what or f"{before} -> {text}"
    return Mutant(file, line + 1, begin, end, text, source, shown[:120])
