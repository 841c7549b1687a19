# SPDX-License-Identifier: Apache-2.0
"""The counts of a kernel or an inference."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace


@dataclass(frozen=True)
class Counts:
    """`calls` of a kernel, or of the inference itself. Loads and stores are bus accesses: an LDM
    of four registers is four loads. RAM includes the stack, flash the literals in the code.
    `stack_bytes`: the stack of the whole inference, known of the executor only. `..._missed`:
    how often bytes fetched behind a jump, fetched behind other code, or loaded, were not in
    flash's caches, if it has any."""

    calls: int = 0
    instructions: int = 0
    loads_ram: int = 0
    loads_flash: int = 0
    stores: int = 0
    stack_bytes: int = 0
    jumps_missed: int = 0
    lines_missed: int = 0
    data_missed: int = 0

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(astuple(self), astuple(other), strict=True)
        stack = max(self.stack_bytes, other.stack_bytes)
        return replace(Counts(*(mine + theirs for mine, theirs in pairs)), stack_bytes=stack)


@dataclass(frozen=True)
class Caches:
    """Flash's caches: bytes of an entry, entries for code and for data."""

    granule: int
    code: int
    data: int
