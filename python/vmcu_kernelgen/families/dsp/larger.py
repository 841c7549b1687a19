# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of larger windows with the DSP extension, four pixels at a time: square.py
for other windows.

Two rows of a window are a turn of a loop. The stream says when it is over: behind the pairs of the
last two rows stands LAST_ROWS, which makes their last word a negative number.
"""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.depthwise import (
    BIAS,
    SQUARE_TAPS,
    pair_counts,
    whole_pairs,
)

from ...assembly import note
from .square import BLOCK, SCRATCH, STREAM, WEIGHTS, Square

# Bytes behind a channel's weights, which the last of them move the stream past.
MULTIPLIER = 4


class Larger(Square):
    """Members of the frame mean, in bytes: `phase`, from a row's columns, of which there may be the
    even ones only, on to the next ones; `last`, from the odd ones on to the next two rows, or, at a
    stride of one, the distance of the last row's words in front of other rows'."""

    def __init__(self, taps: int, stride: int):
        super().__init__(stride, BLOCK, taps)
        assert taps > SQUARE_TAPS
        # Registers that wide blocks have sums in.
        self.weights = [*WEIGHTS, *self.free]

    def words(self, places: dict[int, str], size: int, first: int, count: int) -> None:
        """Loads words of a run of `size` bytes of weights, by their number; its first word moves
        the stream behind it."""
        for number in range(first, first + count):
            place = f"], #{size}" if number == 0 else f", #{4 * number - size}]"
            self.do(f"ldr {places[number]}, [{STREAM}{place}")

    def meet(self, size: int, first: int, count: int, at: int, last: bool) -> None:
        """`count` pairs of a run of weights, from number `first` on, and the columns from `at` on.
        `last`: they are the last of two rows."""
        held = self.weights[:count]
        scratch = [*SCRATCH, *self.weights[count:]]
        begin, end = first // 2, (first + count + 1) // 2
        # A word is where the first of its pairs is going to be.
        places = {word: held[max(2 * word - first, 0)] for word in range(begin, end)}
        columns = self.pixels + count - 1
        self.words(places, size, begin, end - begin)
        for start in range(0, columns, len(scratch)):
            names = scratch[: columns - start]
            for place, name in enumerate(names, start):
                self.load(name, at + place)
            if start == 0:
                self.do(*[f"cmp {places[end - 1]}, #0"] * last)
                for pair in reversed(range(first, first + count)):
                    self.pair(held[pair - first], places[pair // 2], pair % 2 == 1)
            for column, name in enumerate(names, start):
                self.column(name)
                for tap, weight in enumerate(held):
                    if 0 <= column - tap < self.pixels:
                        self.add(column - tap, name, weight)

    def run(self, size: int, first: int, count: int, last: bool) -> None:
        """So many pairs of a run of weights, as many of them at once as there are registers for:
        with five, two are left for columns."""
        parts = -(-count // len(self.weights))
        for part in range(parts):
            begin, end = (-(-count * i // parts) for i in (part, part + 1))
            self.meet(size, first + begin, end - begin, begin, last and part == parts - 1)

    def two_rows(self, label: str) -> None:
        counts, size = pair_counts(self.taps, self.stride), 2 * whole_pairs(self.taps)
        self.do(note("Two rows: a word of the tile has a column's taps of both."), f"{label}:")
        self.run(size, 0, counts[0], self.stride == 1)
        self.at("phase", SCRATCH[0])
        if self.stride == 2:
            self.do(note("Their odd columns."))
            self.run(size, counts[0], counts[1], True)
            self.at("last", SCRATCH[0])
        self.do(f"bpl {label}")

    def line(self) -> None:
        """The last row at a stride of one: each word of weights has the odd pixels' next pair and
        the even ones' next but one, see line_order(); the first has two of the latter."""
        count = (self.taps + 1) // 2
        (x, y), words, even = SCRATCH, self.weights[:count], self.weights[count]
        self.at("last", x)
        self.words(dict(enumerate(words)), 4 * count + MULTIPLIER, 0, count)
        self.load(x, 0)
        self.load(y, 1)
        self.column(x)
        self.column(y)
        self.pair(even, words[0], True)
        self.pair(words[0], words[0], False)
        self.couples(0, words[0], x, y)
        self.do(f"lsl {words[0]}, {words[0]}, #16")
        self.couples(1, words[0], x, y)
        free = words[0]
        for tap in range(1, count):
            x, y = y, x
            self.load(y, tap + 1)
            self.column(y)
            self.couples(0, even, x, y)
            if tap < count - 1:
                self.pair(free, words[tap], True)
            self.pair(words[tap], words[tap], False)
            self.couples(1, words[tap], x, y)
            even, free = free, even

    def couples(self, odd: int, weight: str, x: str, y: str) -> None:
        self.add(odd, x, weight)
        self.add(2 + odd, y, weight)

    def sums_of(self) -> None:
        first, *others = self.sums
        self.do(note("Start all sums at the bias."))
        self.do(f"ldr {first}, [{STREAM}], #4", f"asr {first}, {first}, #{BIAS}")
        self.do(*(f"mov {acc}, {first}" for acc in others))
        self.two_rows("<rows>")
        self.do(note("The last row: a word of the tile has the taps of two columns."))
        if self.stride == 1:
            self.line()
        else:
            count = pair_counts(self.taps, self.stride)[0]
            self.run(2 * whole_pairs(count) + MULTIPLIER, 0, count, False)
