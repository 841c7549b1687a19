# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of 3 x 3 taps with the DSP extension: a strip is one piece of assembly.

A wide block of six pixels shares the loads and the widening of its weights among more pixels than
one of four, and takes all registers there are. At a stride of one a strip is some narrow blocks,
then wide ones; at a stride of two it is wide ones, for half the code. strips.py has the C around.
"""

from __future__ import annotations

from ...language.packing import WORDS
from ..portable.depthwise import BIAS, SQUARE_TAPS, channel_bytes
from ..portable.strips import WIDER
from ..thumb import asm
from .blocks import fixed

BLOCK = WORDS.pixels
# Behind SXTB16: bytes 1 and 3.
ODD = ", ror #8"
# Registers of a strip: struct vmcu_strip, in which everything is that is not in another one; the
# tile, the flash stream; columns and other scratch, sums, weights. r7 may be the frame's: it is put
# back.
CONTEXT, TILE, STREAM, FRAME = "r0", "r3", "lr", "r7"
SCRATCH = ("r1", "r2")
SUMS = ("r4", "r5", "r6", FRAME, "r8", "r12")
WEIGHTS = ("r9", "r10", "r11")
# The members of struct vmcu_strip, a word each: what they are is said there.
MEMBERS = (
    *("tile", "here", "phase", "last", "plane", "start", "stream", "at"),
    *("pairs", "pairs_left", "out", "pitch", "left", "lanes", "resume", "frame", "half"),
)
PATCH = 4 * len(MEMBERS)
MOST_PIXELS = BLOCK + WIDER


class Square:
    """Assembly for the channels of a block of 3 x 3 taps. Loads stand in runs: one behind another
    takes a cycle, one alone two. Registers are all there are."""

    def __init__(self, stride: int, pixels: int, taps: int = SQUARE_TAPS):
        self.stride, self.pixels, self.taps, self.odd = stride, pixels, taps, False
        self.channel = channel_bytes(taps, stride)
        # Whether there are no wider blocks behind these.
        self.last_kind = pixels == MOST_PIXELS or taps != SQUARE_TAPS
        self.code: list[str] = []
        self.sums = SUMS[:pixels]
        self.free = SUMS[pixels:]

    def do(self, *lines: str) -> None:
        self.code += lines

    def member(self, register: str, name: str, store: bool = False) -> None:
        place = f"[{CONTEXT}, #{4 * MEMBERS.index(name)}]"
        self.do(f"{'str' if store else 'ldr'} {register}, {place}")

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

    def columns(self, places: list[str], weights: list[str], start: str) -> None:
        """All columns that pixels meet with these weights. The first are loaded, in `places`, which
        may be sums of pixels that come later. `start`: where the bias is, if sums start here."""
        count, held = self.pixels + len(weights) - 1, list(places)
        free = [name for name in places if name not in self.sums]
        for column in range(count):
            if column == len(held):
                for name in free[: count - column]:
                    self.load(name, len(held))
                    held.append(name)
            name = held[column]
            self.column(name)
            for tap, weight in enumerate(weights):
                pixel = column - tap
                if 0 <= pixel < self.pixels:
                    self.add(pixel, name, weight, start if tap == 0 else "")

    def upper_rows(self) -> None:
        """Bias and two rows at a stride of one."""
        v0, v1, v2 = WEIGHTS
        bias = self.sums[-1]
        # A column may stand where the sum of a later pixel is going to be.
        places = [*SCRATCH, *self.free, *(self.sums[3:5] if self.pixels > 4 else ())]
        self.constant(bias, 0)
        self.constant(v0, 4)
        self.constant(v2, 8)
        for at, name in enumerate(places):
            self.load(name, at)
        self.do(f"asr {bias}, {bias}, #{BIAS}")
        self.pair(v1, v0, True)
        self.pair(v0, v0, False)
        self.pair(v2, v2, False)
        self.columns(places, [v0, v1, v2], bias)

    def last_row(self) -> None:
        """At a stride of one pixels at an even place and those at an odd one meet the same words,
        each with weights of its own; line_order() says which."""
        v0, v1, v2 = WEIGHTS
        couples = self.pixels // 2
        held = [*SCRATCH, v2][:couples]
        self.at("last", v0)
        self.constant(v0, 8)
        for at, name in enumerate(held):
            self.load(name, at)
        self.pair(v0, v0, True)
        for couple, name in enumerate(held):
            self.column(name)
            self.add(2 * couple, name, v0)
        self.do(f"lsl {v0}, {v0}, #16")
        for couple, name in enumerate(held):
            self.add(2 * couple + 1, name, v0)
        self.constant(v0, 12)
        self.load(held[0], couples)
        self.pair(v1, v0, True)
        self.pair(v0, v0, False)
        self.column(held[0])
        for couple, name in enumerate([*held[1:], held[0]]):
            self.add(2 * couple, name, v0)
            self.add(2 * couple + 1, name, v1)

    def even_columns(self) -> None:
        """Bias and two rows at a stride of two."""
        v0, v1, v2 = WEIGHTS
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
        self.at("phase", v0)
        places = [*SCRATCH, v1, v2]
        self.constant(v0, 8)
        for at, name in enumerate(places):
            self.load(name, at)
        self.pair(v0, v0, False)
        self.columns(places, [v0], "")

    def last_columns(self) -> None:
        v0, v1, v2 = WEIGHTS
        self.at("last", v0)
        places = [*SCRATCH, v2]
        self.constant(v0, 8)
        self.constant(v1, 12)
        for at, name in enumerate(places):
            self.load(name, at)
        self.pair(v0, v0, True)
        self.pair(v1, v1, False)
        self.columns(places, [v0, v1], "")

    def sums_of(self, odd: bool) -> None:
        self.odd = odd
        if self.stride == 1:
            self.upper_rows()
            self.last_row()
        else:
            self.even_columns()
            self.odd_columns()
            self.last_columns()

    def finish(self, odd: bool) -> None:
        """Requantises the sums into the patch, or leaves with them."""
        multiplier, bias, _ = WEIGHTS
        scratch, o = SCRATCH
        # Registers below r8 make short instructions.
        shift = TILE
        self.do(f"ldr {multiplier}, [{STREAM}, #-4]", f"ldr {shift}, [{STREAM}, #{-self.channel}]")
        self.member(bias, "half")
        self.member(o, "at")
        # Nothing is left of an odd number that EXACT has shifted.
        self.do(f"lsls {bias}, {bias}, {shift}", f"beq {'12f' if odd else '11f'}")
        for pixel, acc in enumerate(self.sums):
            self.do(*fixed(acc, multiplier, bias, shift, scratch))
            self.do(f"strb {acc}, [{o}, #{4 * pixel + odd}]")
        if not odd:
            self.member(TILE, "here")

    def next_pair(self) -> None:
        x, y = SCRATCH
        self.member(x, "pairs_left")
        self.member(TILE, "here")
        self.member(WEIGHTS[0], "plane")
        self.do(f"adds {y}, #2")
        self.member(y, "at", store=True)
        self.do(f"subs {x}, #1")
        self.member(x, "pairs_left", store=True)
        self.do(f"add {TILE}, {TILE}, {WEIGHTS[0]}", "bne 2b")

    def store(self) -> None:
        """The patch, which may reach beyond the strip and have channels that do not exist."""
        x, y = SCRATCH
        pitch, left, lanes = WEIGHTS
        self.member(y, "out")
        self.member(pitch, "pitch")
        self.member(left, "left")
        self.member(lanes, "lanes")
        self.do(f"add {x}, {CONTEXT}, #{PATCH}", f"cmp {lanes}, #4", "bne 6f")
        # The last pixel may be one too many, in a last block.
        self.do(f"cmp {left}, #{self.pixels - 1}", "blt 5f")
        self.do(f"ldm {x}, {{{', '.join(self.sums)}}}")
        for pixel, name in enumerate(self.sums):
            second = pixel % 2 == 1
            self.do(*["it gt"] * (pixel == self.pixels - 1))
            store = "strgt" if pixel == self.pixels - 1 else "str"
            self.do(f"{store} {name}, [{y}{f', {pitch}' if second else ''}]")
            if second:
                self.do(f"add {y}, {y}, {pitch}, lsl #1")
        self.do("b 7f")
        # Whole words, as many as pixels are left.
        self.do("5:", f"ldr {TILE}, [{x}], #4", f"str {TILE}, [{y}]", f"add {y}, {y}, {pitch}")
        self.do(f"subs {left}, #1", "bne 5b", "b 9f")
        # Some channels of the pixels that are left: bytes.
        count = self.sums[0]
        self.do("6:", f"cmp {left}, #{self.pixels}", "it gt", f"movgt {left}, #{self.pixels}")
        self.do("61:", f"movs {count}, #0")
        self.do("62:", f"ldrb {TILE}, [{x}, {count}]", f"strb {TILE}, [{y}, {count}]")
        self.do(f"adds {count}, #1", f"cmp {count}, {lanes}", "bne 62b")
        self.do(f"adds {x}, #4", f"add {y}, {y}, {pitch}", f"subs {left}, #1", "bne 61b")

    def next_block(self) -> None:
        x, y = SCRATCH
        left, tile = WEIGHTS[1], TILE
        self.do("7:")
        self.member(left, "left")
        self.member(tile, "tile")
        if self.stride == 1:
            self.member(x, "last")
        self.do(f"subs {left}, #{self.pixels}")
        # Behind narrow blocks there may be wide ones.
        self.do(*["ble 9f"] * self.last_kind)
        self.member(left, "left", store=True)
        self.member(y, "out", store=True)
        self.do(f"add {tile}, {tile}, #{4 * self.pixels}")
        self.member(tile, "tile", store=True)
        if self.stride == 1:
            # The last row's words are of two columns.
            self.do(f"sub {x}, {x}, #{2 * self.pixels}")
            self.member(x, "last", store=True)
        self.do("b 1b" if self.last_kind else "bgt 1b")
        self.do("9:", f"movs {x}, #0", "b 14f")

    def leave(self) -> None:
        """Sums that the fast requantiser is not for."""
        x, y = SCRATCH
        self.do("11:", f"movs {x}, #1", "b 13f", "12:", f"movs {x}, #2", "13:")
        self.do(f"add {y}, {CONTEXT}, #{PATCH + 4 * MOST_PIXELS}")
        # Pixels are not in the order of their registers.
        for pixel, acc in enumerate(self.sums):
            self.do(f"str {acc}, [{y}, #{4 * pixel}]")
        self.do("14:")
        self.member(x, "resume", store=True)
        self.member(FRAME, "frame")
        self.member(STREAM, "stream", store=True)

    def text(self) -> str:
        x, y = SCRATCH
        self.code = []
        self.member(x, "resume")
        self.member(TILE, "here")
        self.member(STREAM, "stream")
        self.member(FRAME, "frame", store=True)
        self.do(f"cmp {x}, #1", "beq 3f", "bgt 4f")
        self.do("1:")
        self.member(x, "pairs")
        self.member(TILE, "tile")
        self.member(STREAM, "start")
        self.do(f"add {y}, {CONTEXT}, #{PATCH}")
        self.member(x, "pairs_left", store=True)
        self.member(y, "at", store=True)
        self.do("2:")
        self.member(TILE, "here", store=True)
        self.sums_of(odd=False)
        self.finish(odd=False)
        self.do("3:")
        self.sums_of(odd=True)
        self.finish(odd=True)
        self.do("4:")
        self.member(y, "at")
        self.next_pair()
        self.store()
        self.next_block()
        self.leave()
        return asm(self.code)
