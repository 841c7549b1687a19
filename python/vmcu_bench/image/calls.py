# SPDX-License-Identifier: Apache-2.0
"""The calls in a linked Cortex-M image, and the stack that they need.

Calls are the branches of the code itself. Frames are taken from debug information of the stack
pointer or, for the compiler's own functions, which have none, from the pushes of their code.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from .elf import FUNCTION, Elf, Symbol

# Of a function that does not say its size, in bytes.
LARGEST = 1024


class Calls:
    """`through_pointers`: the targets of a call through a pointer in a function, by the function's
    address; others' are ignored. All are addresses of functions."""

    def __init__(self, elf: Elf, through_pointers: dict[int, frozenset[int]]):
        self._elf = elf
        self._pointers = through_pointers
        self._called: dict[int, dict[int, bool]] = {}

    @cached_property
    def functions(self) -> dict[int, Symbol]:
        """Maps addresses to functions; of two names for one function the first. Those in assembly
        that do not say their size end where the next function begins."""
        symbols: dict[int, Symbol] = {}
        for symbol in (*self._elf.symbols, *self._elf.unsized):
            if symbol.kind == FUNCTION:
                symbols.setdefault(symbol.address, symbol)
        starts = sorted(symbols)
        for address, following in itertools.pairwise(starts):
            if not symbols[address].size:
                symbols[address] = replace(symbols[address], size=min(following - address, LARGEST))
        return symbols

    def called_by(self, address: int) -> dict[int, bool]:
        """The functions that a function calls or hands on; False: only as the last thing it does,
        when it has given back its frame."""
        if address not in self._called:
            code = self._elf.data(self.functions[address])
            targets = dict.fromkeys(self.taken_by(address), True)
            for target, comes_back in branches(code, address):
                if target in self.functions and target != address:
                    targets[target] = targets.get(target, False) or comes_back
            if address in self._pointers and has_call_through_pointer(code):
                targets |= dict.fromkeys(self._pointers[address], True)
            self._called[address] = targets
        return self._called[address]

    def taken_by(self, address: int) -> set[int]:
        """The functions whose addresses are constants of a function."""
        code = self._elf.data(self.functions[address])
        start = -address % 4
        words = (int.from_bytes(code[i : i + 4], "little") for i in range(start, len(code) - 3, 4))
        return {word - 1 for word in words if word & 1 and word - 1 in self.functions} - {address}

    def reached_from(self, roots: Iterable[int]) -> set[int]:
        """The roots and all that they call, directly or not."""
        reached: set[int] = set()
        waiting = list(roots)
        while waiting:
            address = waiting.pop()
            if address not in reached:
                reached.add(address)
                waiting += self.called_by(address)
        return reached

    def deepest(self, address: int, above: frozenset[int] = frozenset()) -> int:
        """Bytes of stack from a call of a function on, on the worst way down; `above`: those that
        wait for it, which it is assumed not to call again."""
        frame = self._elf.frames.get(address)
        if frame is None:
            frame = pushed(self._elf.data(self.functions[address]))
        inside = above | {address}
        ways = [frame]
        for called, comes_back in self.called_by(address).items():
            if called not in inside:
                ways.append(self.deepest(called, inside) + (frame if comes_back else 0))
        return max(ways)


def halfwords(code: bytes) -> list[int]:
    """Thumb code, little endian, by 16 bits."""
    return [int.from_bytes(code[i : i + 2], "little") for i in range(0, len(code) - 1, 2)]


def branches(code: bytes, address: int) -> Iterator[tuple[int, bool]]:
    """Finds the targets of BL, B.W and B of Thumb code that starts at `address`, and whether they
    come back. Constants between instructions may look like some, but hardly like a branch to a
    function's first byte."""
    units = halfwords(code)
    for number, first in enumerate(units):
        here = address + 2 * number + 4
        if first >> 11 == 0b11100:
            yield here + signed(first & 0x7FF, 11) * 2, False
        if first >> 11 != 0b11110 or number + 1 == len(units):
            continue
        second = units[number + 1]
        if second & 0x9000 == 0x9000:
            sign = first >> 10 & 1
            # Two bits are stored unlike the sign where they are like it.
            j1, j2 = second >> 13 & 1, second >> 11 & 1
            high = sign << 23 | (j1 ^ sign ^ 1) << 22 | (j2 ^ sign ^ 1) << 21
            offset = signed(high | (first & 0x3FF) << 11 | second & 0x7FF, 24) * 2
            yield here + offset, bool(second & 0x4000)


def pushed(code: bytes) -> int:
    """Bytes by which all of a function's instructions together lower the stack pointer."""
    units = halfwords(code)
    total = 0
    for unit, following in zip(units, (*units[1:], 0), strict=True):
        if unit & 0xFE00 == 0xB400:  # push
            total += 4 * (unit & 0x1FF).bit_count()
        elif unit & 0xFF80 == 0xB080:  # sub sp, sp, #n
            total += 4 * (unit & 0x7F)
        elif unit == 0xE92D:  # push.w
            total += 4 * following.bit_count()
        elif unit == 0xED2D:  # vpush
            total += 4 * (following & 0xFF)
        elif unit == 0xF84D and following & 0xF00 == 0xD00:  # str r, [sp, #-n]!
            total += following & 0xFF
    return total


def has_call_through_pointer(code: bytes) -> bool:
    """BLX with a register, or BX with one that is not the return address."""
    second = False
    for unit in halfwords(code):
        if not second and (
            unit & 0xFF87 == 0x4780 or (unit & 0xFF87 == 0x4700 and unit >> 3 & 15 != 14)
        ):
            return True
        # The second half of a wide instruction may look like anything.
        second = not second and unit >> 11 >= 0b11101
    return False


def signed(value: int, bits: int) -> int:
    """A two's complement number of so many bits."""
    return value - (1 << bits) if value >> (bits - 1) else value
