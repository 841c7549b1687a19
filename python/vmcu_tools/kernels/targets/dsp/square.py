# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of 3 x 3 taps with the DSP extension: a strip is one piece of assembly.

A wide block of six pixels shares the loads and the widening of its weights among more pixels than
one of four, and takes all registers there are. At a stride of one a strip is some narrow blocks,
then wide ones; at a stride of two it is wide ones, for half the code.
"""

from __future__ import annotations

from ...language.packing import WORDS
from ..portable.depthwise import BIAS, SQUARE_TAPS
from ..portable.square import SQUARE, WIDER
from ..thumb import asm
from .blocks import fixed
from .depthwise import ODD

BLOCK = WORDS.pixels
# Registers of a strip: struct vmcu_square, in which everything is that is not in another one; the
# tile, the flash stream; columns and other scratch, sums, weights. r7 may be the frame's: it is put
# back.
CONTEXT, TILE, STREAM, FRAME = "r0", "r3", "lr", "r7"
SCRATCH = ("r1", "r2")
SUMS = ("r4", "r5", "r6", FRAME, "r8", "r12")
WEIGHTS = ("r9", "r10", "r11")
# The members of struct vmcu_square, a word each: what they are is said there.
MEMBERS = (
    *("tile", "here", "phase", "last", "plane", "start", "stream", "at"),
    *("pairs", "pairs_left", "out", "pitch", "left", "lanes", "resume", "frame", "half"),
)
PATCH = 4 * len(MEMBERS)
MOST_PIXELS = BLOCK + WIDER
# A channel in the stream: a word, weights, a multiplier.
CHANNEL = 4 + 4 * SQUARE_TAPS + 4


class Square:
    """Assembly for the channels of a block of 3 x 3 taps. Loads stand in runs: one behind another
    takes a cycle, one alone two. Registers are all there are."""

    def __init__(self, stride: int, pixels: int):
        self.stride, self.pixels, self.odd = stride, pixels, False
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
        place = f"[{STREAM}], #{CHANNEL}" if at == 0 else f"[{STREAM}, #{at - CHANNEL}]"
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
        self.constant(multiplier, CHANNEL - 4)
        self.do(f"ldr {shift}, [{STREAM}, #{-CHANNEL}]")
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
        self.do(*["ble 9f"] * (self.pixels == MOST_PIXELS))
        self.member(left, "left", store=True)
        self.member(y, "out", store=True)
        self.do(f"add {tile}, {tile}, #{4 * self.pixels}")
        self.member(tile, "tile", store=True)
        if self.stride == 1:
            # The last row's words are of two columns.
            self.do(f"sub {x}, {x}, #{2 * self.pixels}")
            self.member(x, "last", store=True)
        self.do("b 1b" if self.pixels == MOST_PIXELS else "bgt 1b")
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


def in_order(registers: tuple[str, ...]) -> list[str]:
    """As LDM and STM take them."""
    return sorted(registers, key=lambda name: int(name[1:]))


def square_function(stride: int, pixels: int) -> str:
    """All in assembly: compilers keep a third of it on the stack."""
    registers = in_order(tuple({*SCRATCH, TILE, *SUMS, *WEIGHTS} - {FRAME}))
    changed = [f'"{name}"' for name in (*registers, STREAM, "cc", "memory")]
    named = ",\n\t\t  ".join(", ".join(changed[i : i + 8]) for i in range(0, len(changed), 8))
    return f"""
/* A strip in blocks of {pixels} pixels, 3 x 3 taps at a stride of {stride}, see Square. */
VMCU_APART bool vmcu_square_{stride}_{pixels}(struct vmcu_square *s)
{{
	register struct vmcu_square *context __asm__("{CONTEXT}") = s;

	__asm__ volatile({Square(stride, pixels).text()}
		:
		: "r"(context)
		: {named});
	return s->resume != 0;
}}
"""


def square(stride: int) -> str:
    narrow, wide = BLOCK, BLOCK + WIDER
    phase = "s.phase = 4 * phase;" if stride == 2 else "(void)phase;"
    last = "4 * (row - phase)" if stride == 2 else "4 * row"

    def exact(pixels: int) -> list[str]:
        """A channel that the fast requantiser is not for."""
        constants = f"c[-{CHANNEL // 4}], c[-1]"
        return [
            "\t\tconst int32_t *c = (const int32_t *)s.stream;",
            "",
            f"\t\tvmcu_finish_any(p, s.sums, {pixels}, {constants}, s.at + s.resume - 1);",
        ]

    lines = [
        "struct vmcu_square s;",
        phase,
        "s.tile = tile;",
        f"s.last = {last};",
        "s.plane = 4 * plane;",
        "s.start = *w;",
        "s.pairs = (lanes + 1) >> 1;",
        "s.out = out;",
        "s.pitch = pitch;",
        "s.lanes = lanes;",
        "s.resume = 0;",
        "s.half = vmcu_half(p);",
    ]
    if stride == 1:
        # Each narrow block makes up for two pixels that the last wide one would lack.
        lines += [
            f"s.left = vmcu_min({narrow} * (({wide} - wide % {wide}) / 2 % {wide // 2}), wide);",
            "wide -= s.left;",
            "if (s.left > 0) {",
            f"\twhile (vmcu_square_1_{narrow}(&s)) {{",
            *exact(narrow),
            "\t}",
            "}",
        ]
    lines += [
        "if (wide > 0) {",
        "\ts.left = wide;",
        f"\twhile (vmcu_square_{stride}_{wide}(&s)) {{",
        *exact(wide),
        "\t}",
        "}",
        "*w = s.stream;",
    ]
    return "\n".join(lines)


HELPERS = {
    "square": r"""
/* A strip of 3 x 3 taps, in blocks; assembly names the first members by their place. */
struct vmcu_square {
	const uint32_t *tile; /* of the block */
	const uint32_t *here; /* of two channels of it */
	int32_t phase;        /* bytes from there to the odd columns, at a stride of two */
	int32_t last;         /* from there, or from the odd columns, to the last row */
	int32_t plane;        /* from two channels to the next two */
	const uint8_t *start;
	const uint8_t *stream;
	int8_t *at; /* in the patch */
	int32_t pairs;
	int32_t pairs_left;
	int8_t *out;
	int32_t pitch;
	int32_t left; /* pixels */
	int32_t lanes;
	int32_t resume; /* 1 or 2: behind an even or an odd channel that the caller finishes */
	uint32_t frame; /* a register */
	int32_t half;
	int32_t patch[6];
	int32_t sums[6];
};
""",
}
HELPERS |= {
    f"square_{stride}_{pixels}": square_function(stride, pixels)
    for stride, pixels in ((1, BLOCK), (1, BLOCK + WIDER), (2, BLOCK + WIDER))
}
OWN = {made: square(stride) for stride, made in SQUARE.items()}
