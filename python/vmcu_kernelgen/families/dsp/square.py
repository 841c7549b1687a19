# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of 3 x 3 taps with the DSP extension: the sums of a channel of a block.

A wide block of six pixels shares the loads and the widening of its weights among more pixels than
one of four, and takes all registers there are. At a stride of one a strip is some narrow blocks,
then wide ones; at a stride of two it is wide ones, for half the code. channels.py has the code
around.
"""

from __future__ import annotations

from vmcu_tools.kernels.language.packing import WORDS
from vmcu_tools.kernels.targets.portable.depthwise import BIAS, SQUARE_TAPS, channel_bytes
from vmcu_tools.kernels.targets.portable.strips import WIDER

from ...assembly import note
from .blocks import fixed
from .frame import BEHIND, FINISH, member

BLOCK = WORDS.pixels
# Behind SXTB16: bytes 1 and 3.
ODD = ", ror #8"
# Registers of the sums of a channel: where its bytes go, the tile, the flash stream; columns and
# other scratch, sums, weights. Other values have their place on the stack, see frame.py.
PATCH, TILE, STREAM = "r0", "r3", "lr"
SCRATCH = ("r1", "r2")
SUMS = ("r4", "r5", "r6", "r7", "r8", "r12")
WEIGHTS = ("r9", "r10", "r11")
# Where the sums leave the requantiser's constants, and where it goes on behind it.
MULTIPLIER, HALF, NEXT, SHIFT = *WEIGHTS, SCRATCH[1]
# The addend before the shift, in the place of its operands. Nothing is left of an odd number that
# EXACT has shifted.
ADDED = HALF
CHECK = f"lsls {ADDED}, {HALF}, {SHIFT}"
MOST_PIXELS = BLOCK + WIDER


def requantised(pixels: range) -> list[str]:
    """Bytes of a channel into the patch; the last one moves on."""
    code = []
    for pixel in reversed(pixels):
        acc = SUMS[pixel]
        code += fixed(acc, MULTIPLIER, ADDED, SHIFT, SCRATCH[0])
        place = f"[{PATCH}, #{4 * pixel}]" if pixel else f"[{PATCH}], #1"
        code.append(f"strb {acc}, {place}")
    return code


def next_pair(last: str) -> list[str]:
    """The next two channels of the block; `last`: where it goes on behind the last ones."""
    return [
        f"lsls {SCRATCH[0]}, {PATCH}, #30",
        f"bpl {last}",
        f"ldr {TILE}, {member('here')}",
        f"ldr {SCRATCH[0]}, {member('plane')}",
        f"add {TILE}, {SCRATCH[0]}",
        f"str {TILE}, {member('here')}",
    ]


class Square:
    """Assembly for the sums of a channel of a block of 3 x 3 taps. Loads stand in runs: one behind
    another takes a cycle, one alone two. Registers are all there are."""

    def __init__(self, stride: int, pixels: int, taps: int = SQUARE_TAPS):
        self.stride, self.pixels, self.taps, self.odd = stride, pixels, taps, False
        self.channel = channel_bytes(taps, stride)
        self.code: list[str] = []
        self.sums = SUMS[:pixels]
        self.free = SUMS[pixels:]

    def do(self, *lines: str) -> None:
        self.code += lines

    def member(self, register: str, name: str) -> None:
        self.do(f"ldr {register}, {member(name)}")

    def constant(self, register: str, at: int) -> None:
        """A word of the channel's, whose first one has moved the stream to its end."""
        size = self.channel
        place = f"[{STREAM}], #{size}" if at == 0 else f"[{STREAM}, #{at - size}]"
        self.do(f"ldr {register}, {place}")

    def load(self, register: str, at: int) -> None:
        self.do(f"ldr {register}, [{TILE}, #{4 * at}]")

    def column(self, register: str) -> None:
        """Widens the taps of the channel in a column."""
        self.do(f"sxtb16 {register}, {register}{ODD if self.odd else ''}")

    def pair(self, register: str, word: str, odd: bool) -> None:
        """A pair of weights out of a word."""
        self.do(f"sxtb16 {register}, {word}{ODD if odd else ''}")

    def add(self, pixel: int, column: str, weight: str, start: str = "") -> None:
        acc = self.sums[pixel]
        self.do(f"smlad {acc}, {column}, {weight}, {start or acc}")

    def at(self, name: str, scratch: str) -> None:
        """Moves the tile's address."""
        self.member(scratch, name)
        self.do(f"add {TILE}, {TILE}, {scratch}")

    def columns(self, places: list[str], weights: list[str], start: str, behind: str = "") -> None:
        """All columns that pixels meet with these weights. The first are loaded, in `places`, which
        may be sums of pixels that come later. `start`: where the bias is, if sums start here.
        `behind`: a member that is loaded with the last of them, in the place of the first weights,
        which these do not meet."""
        count, held = self.pixels + len(weights) - 1, list(places)
        free = [name for name in places if name not in self.sums]
        for column in range(count):
            if column == len(held):
                for name in free[: count - column]:
                    self.load(name, len(held))
                    held.append(name)
                if behind and len(held) == count:
                    assert column >= self.pixels
                    self.member(weights[0], behind)
            name = held[column]
            self.column(name)
            for tap, weight in enumerate(weights):
                pixel = column - tap
                if 0 <= pixel < self.pixels:
                    self.add(pixel, name, weight, start if tap == 0 else "")

    def upper_rows(self) -> None:
        """Bias and two rows at a stride of one."""
        v0, v1, v2 = WEIGHTS
        self.do(note("Bias and two rows: a word of the tile has a column's taps of both."))
        bias = self.sums[-1]
        # A column may stand where the sum of a later pixel is going to be. A word of weights that
        # the last row has part of is kept where there is a register for it.
        places = [*SCRATCH, *self.free[:1], *(self.sums[3:5] if self.pixels > 4 else ())]
        kept = self.free[1] if self.free else v2
        self.constant(bias, 0)
        self.constant(v0, 4)
        self.constant(kept, 8)
        for at, name in enumerate(places):
            self.load(name, at)
        self.do(f"asr {bias}, {bias}, #{BIAS}")
        self.pair(v1, v0, True)
        self.pair(v0, v0, False)
        self.pair(v2, kept, False)
        self.columns(places, [v0, v1, v2], bias, "" if self.free else "last")

    def last_row(self) -> None:
        """At a stride of one pixels at an even place and those at an odd one meet the same words,
        each with weights of its own; line_order() says which."""
        v0, v1, v2 = WEIGHTS
        self.do(note("The last row: a word of the tile has the taps of two columns."))
        couples = self.pixels // 2
        if self.free:
            first, last, held = self.free[1], v2, [*SCRATCH, self.free[0]]
            self.member(v0, "last")
            self.constant(last, 12)
            self.do(f"add {TILE}, {TILE}, {v0}")
        else:
            self.do(f"add {TILE}, {TILE}, {v0}")
            first, last, held = v0, v0, [*SCRATCH, v2]
            self.constant(first, 8)
        for at, name in enumerate(held):
            self.load(name, at)
        self.pair(v0, first, True)
        for couple in range(couples):
            self.column(held[couple])
            self.add(2 * couple, held[couple], v0)
        self.do(f"lsl {v0}, {v0}, #16")
        for couple in range(couples):
            self.add(2 * couple + 1, held[couple], v0)
        if len(held) == couples:
            self.constant(last, 12)
            self.load(held[0], couples)
            held.append(held[0])
        self.pair(v1, last, True)
        self.pair(v0, last, False)
        self.column(held[couples])
        for couple, name in enumerate(held[1 : couples + 1]):
            self.add(2 * couple, name, v0)
            self.add(2 * couple + 1, name, v1)

    def even_columns(self) -> None:
        """Bias and two rows at a stride of two."""
        v0, v1, v2 = WEIGHTS
        self.do(note("Bias and two rows, even columns."))
        bias = self.sums[-1]
        places = [*SCRATCH, v2, *(self.sums[4:5] if self.pixels > 5 else ())]
        self.constant(bias, 0)
        self.constant(v0, 4)
        for at, name in enumerate(places):
            self.load(name, at)
        self.do(f"asr {bias}, {bias}, #{BIAS}")
        self.pair(v1, v0, True)
        self.pair(v0, v0, False)
        self.columns(places, [v0, v1], bias)

    def odd_columns(self) -> None:
        v0, v1, v2 = WEIGHTS
        self.do(note("Two rows, odd columns."))
        self.at("phase", v0)
        places = [*SCRATCH, v1, v2]
        self.constant(v0, 8)
        for at, name in enumerate(places):
            self.load(name, at)
        self.pair(v0, v0, False)
        self.columns(places, [v0], "")

    def last_columns(self) -> None:
        v0, v1, v2 = WEIGHTS
        self.do(note("The last row."))
        self.at("last", v0)
        places = [*SCRATCH, v2]
        self.constant(v0, 8)
        self.constant(v1, 12)
        for at, name in enumerate(places):
            self.load(name, at)
        self.pair(v0, v0, True)
        self.pair(v1, v1, False)
        self.columns(places, [v0, v1], "")

    def sums_of(self) -> None:
        if self.stride == 1:
            self.upper_rows()
            self.last_row()
        else:
            self.even_columns()
            self.odd_columns()
            self.last_columns()

    @property
    def whole(self) -> bool:
        """Whether both channels of a pair are one piece of code with their requantisers, which
        saves jumps where most pixels are."""
        return self.taps == SQUARE_TAPS and self.stride == 1

    def one(self, odd: bool) -> None:
        """The sums of a channel, and the requantiser's constants behind them."""
        self.odd = odd
        self.sums_of()
        self.do(note("Constants of the requantiser."))
        self.do(f"ldr {MULTIPLIER}, [{STREAM}, #-4]", f"ldr {SHIFT}, [{STREAM}, #{-self.channel}]")
        self.member(HALF, "half")
        if not odd:
            # The next channel's.
            self.member(TILE, "here")

    def text(self, odd: bool) -> list[str]:
        """The sums of a channel, up to where it is requantised."""
        self.code = []
        self.one(odd)
        self.do(note("Requantise the channel."))
        self.member(NEXT, BEHIND[odd])
        self.member("pc", FINISH[self.pixels])
        return self.code

    def both(self) -> list[str]:
        """Two channels from sums to bytes; one that the fast requantiser is not for goes where all
        others are requantised."""
        self.code = []
        for odd in (False, True):
            name = "odd" if odd else "even"
            self.do(f"<{name}>:")
            self.one(odd)
            self.do(note("Requantise the channel."), CHECK, f"beq <exact_{name}>")
            self.do(*requantised(range(self.pixels)))
        self.do(note("The next two channels of the block, or its end."), *next_pair("<stored>"))
        self.do("b <even>", "<stored>:")
        self.member("pc", "store")
        self.do(note("The fast requantiser is not for the channel."))
        # An address that PC is loaded with is odd.
        self.do("<exact_even>:", f"adr.w {NEXT}, <odd> + 1", "b <exact>", "<exact_odd>:")
        self.member(NEXT, BEHIND[True])
        self.do("<exact>:")
        self.member("pc", FINISH[self.pixels])
        return self.code
