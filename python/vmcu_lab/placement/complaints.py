# SPDX-License-Identifier: Apache-2.0
"""The faults of a given problem."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# The most that one error names.
MOST_COMPLAINTS = 10


@dataclass(frozen=True)
class Complaint:
    """`remedy`: the advice, in the imperative; `file`: where, may be empty."""

    reason: str
    remedy: str
    file: str = ""

    def __str__(self) -> str:
        text = f"{self.file}: {self.reason}" if self.file else self.reason
        return f"{text}. hint: {self.remedy}"


class InputError(ValueError):
    """One or more complaints about an input."""

    def __init__(self, *complaints: Complaint):
        self.complaints = complaints
        super().__init__("\n".join(map(str, complaints)))

    def __reduce__(self) -> tuple[type[InputError], tuple[Complaint, ...]]:
        """Pools of processes hand it on as a pickle."""
        return type(self), self.complaints


def refuse(path: Path | str, reason: str, remedy: str) -> InputError:
    """Returns the error for a file as a whole."""
    return InputError(Complaint(reason, remedy, str(path)))
