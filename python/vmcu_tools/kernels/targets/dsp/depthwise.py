# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with the DSP extension: SMLAD takes both taps of a word at once.

The tile stays bytes until it is read: widening it there costs as much as widening it here, and
would take twice the room.
"""

from __future__ import annotations

from ...language.packing import WORDS
from ..portable.depthwise import (
    GROUP,
    LINE,
    PAIR,
    SQUARE,
    SQUARE_TAPS,
    WIDER,
    bias_depthwise,
    finish_any_c,
    finish_depthwise,
    fixed_stores_c,
    store_taps,
)

BLOCK = WORDS.pixels
# Behind SXTB16: bytes 1 and 3.
ODD = ", ror #8"

HELPERS = {
    "interleave": r"""
/* Words of two taps, see targets/portable/depthwise.py: u has channels 0 and 1, v 2 and 3. */
VMCU_INLINE void vmcu_interleave(uint32_t **u, uint32_t **v, const int8_t **a, int32_t pitch_a,
				 const int8_t **b, int32_t pitch_b, int32_t words)
{
	uint32_t a0, a1, b0, b1, low;

	for (int32_t n = words >> 1; n != 0; n--) {
		__asm__ volatile("ldr %[a0], [%[a]]\n\t"
			"ldr %[a1], [%[a], %[pa]]\n\t"
			"ldr %[b0], [%[b]]\n\t"
			"ldr %[b1], [%[b], %[pb]]\n\t"
			"add %[a], %[a], %[pa], lsl #1\n\t"
			"add %[b], %[b], %[pb], lsl #1\n\t"
			"pkhbt %[low], %[a0], %[b0], lsl #16\n\t"
			"pkhtb %[a0], %[b0], %[a0], asr #16\n\t"
			"pkhbt %[b0], %[a1], %[b1], lsl #16\n\t"
			"pkhtb %[a1], %[b1], %[a1], asr #16\n\t"
			"str %[low], [%[u]], #4\n\t"
			"str %[b0], [%[u]], #4\n\t"
			"str %[a0], [%[v]], #4\n\t"
			"str %[a1], [%[v]], #4"
			: [a] "+&r"(*a), [b] "+&r"(*b), [u] "+&r"(*u), [v] "+&r"(*v),
			  [a0] "=&r"(a0), [a1] "=&r"(a1), [b0] "=&r"(b0), [b1] "=&r"(b1),
			  [low] "=&r"(low)
			: [pa] "r"(pitch_a), [pb] "r"(pitch_b)
			: "memory");
	}
	if ((words & 1) != 0) {
		a0 = vmcu_load32(*a);
		b0 = vmcu_load32(*b);
		__asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(**u) : "r"(a0), "r"(b0));
		__asm__("pkhtb %0, %2, %1, asr #16" : "=r"(**v) : "r"(a0), "r"(b0));
		*a += pitch_a;
		*b += pitch_b;
		(*u)++;
		(*v)++;
	}
}

/* Words of a tile, `at` bytes behind t, of its even or its odd channel, widened. */
#define VMCU_COLUMNS(t, at, odd, a, b)                                                             \
	do {                                                                                       \
		__asm__ volatile("ldrd %0, %1, [%2, #" at "]" : "=r"(a), "=r"(b) : "r"(t));        \
		a = (odd) ? vmcu_sxtb16_odd(a) : vmcu_sxtb16(a);                                   \
		b = (odd) ? vmcu_sxtb16_odd(b) : vmcu_sxtb16(b);                                   \
	} while (0)

#define VMCU_COLUMN(t, at, odd, a)                                                                 \
	do {                                                                                       \
		__asm__ volatile("ldr %0, [%1, #" at "]" : "=r"(a) : "r"(t));                      \
		a = (odd) ? vmcu_sxtb16_odd(a) : vmcu_sxtb16(a);                                   \
	} while (0)

/* The next word of the flash stream. */
VMCU_INLINE void vmcu_next(const uint8_t **w, int32_t *a)
{
	__asm__ volatile("ldr %0, [%1], #4" : "=&r"(*a), "+&r"(*w));
}

/* The next three words of the flash stream. */
VMCU_INLINE void vmcu_factors(const uint8_t **w, int32_t *a, int32_t *b, int32_t *c)
{
	__asm__ volatile("ldr %1, [%3, #4]\n\t"
		"ldr %2, [%3, #8]\n\t"
		"ldr %0, [%3], #12"
		: "=&r"(*a), "=&r"(*b), "=&r"(*c), "+&r"(*w));
}

/* Two pairs of weights, and one. */
VMCU_INLINE void vmcu_weights(const uint8_t **w, uint32_t *a, uint32_t *b)
{
	uint32_t x;

	__asm__ volatile("ldr %0, [%1], #4" : "=&r"(x), "+&r"(*w));
	*a = vmcu_sxtb16(x);
	*b = vmcu_sxtb16_odd(x);
}

VMCU_INLINE void vmcu_weight(const uint8_t **w, uint32_t *a)
{
	uint32_t x;

	__asm__ volatile("ldrh %0, [%1], #2" : "=&r"(x), "+&r"(*w));
	*a = vmcu_sxtb16(x | x << 8);
}
""",
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
	int32_t patch[6];
	int32_t sums[6];
};
""",
    "two_taps": r"""
/* Two taps of four channels times their weights. */
VMCU_INLINE void vmcu_two_taps(int32_t *acc, uint32_t a, uint32_t b, const uint8_t **w)
{
	uint32_t even, low, v;

	__asm__ volatile("ldr %[v], [%[w]], #4\n\t"
		"pkhbt %[low], %[a], %[b], lsl #16\n\t"
		"pkhtb %[a], %[b], %[a], asr #16\n\t"
		"sxtb16 %[even], %[low]\n\t"
		"sxtb16 %[b], %[v]\n\t"
		"smlad %[a0], %[even], %[b], %[a0]\n\t"
		"sxtb16 %[low], %[low], ror #8\n\t"
		"sxtb16 %[v], %[v], ror #8\n\t"
		"smlad %[a1], %[low], %[v], %[a1]\n\t"
		"ldr %[v], [%[w]], #4\n\t"
		"sxtb16 %[even], %[a]\n\t"
		"sxtb16 %[a], %[a], ror #8\n\t"
		"sxtb16 %[b], %[v]\n\t"
		"smlad %[a2], %[even], %[b], %[a2]\n\t"
		"sxtb16 %[v], %[v], ror #8\n\t"
		"smlad %[a3], %[a], %[v], %[a3]"
		: [a0] "+&r"(acc[0]), [a1] "+&r"(acc[1]), [a2] "+&r"(acc[2]), [a3] "+&r"(acc[3]),
		  [w] "+&r"(*w), [a] "+&r"(a), [b] "+&r"(b), [even] "=&r"(even), [low] "=&r"(low),
		  [v] "=&r"(v));
}
""",
    "one_tap": r"""
/* A tap of four channels times its weights. */
VMCU_INLINE void vmcu_one_tap(int32_t *acc, uint32_t a, const uint8_t **w)
{
	uint32_t even, v, x;

	__asm__ volatile("ldr %[v], [%[w]], #4\n\t"
		"sxtb16 %[even], %[a]\n\t"
		"sxtb16 %[x], %[v]\n\t"
		"smlabb %[a0], %[even], %[x], %[a0]\n\t"
		"smlatt %[a2], %[even], %[x], %[a2]\n\t"
		"sxtb16 %[even], %[a], ror #8\n\t"
		"sxtb16 %[x], %[v], ror #8\n\t"
		"smlabb %[a1], %[even], %[x], %[a1]\n\t"
		"smlatt %[a3], %[even], %[x], %[a3]"
		: [a0] "+&r"(acc[0]), [a1] "+&r"(acc[1]), [a2] "+&r"(acc[2]), [a3] "+&r"(acc[3]),
		  [w] "+&r"(*w), [even] "=&r"(even), [v] "=&r"(v), [x] "=&r"(x)
		: [a] "r"(a));
}
""",
    "two_offsets": r"""
/* The next two offsets of a list. */
VMCU_INLINE void vmcu_two_offsets(const int32_t **list, int32_t *a, int32_t *b)
{
	__asm__ volatile("ldrd %0, %1, [%2], #8" : "=&r"(*a), "=&r"(*b), "+&r"(*list));
}
""",
}


def bias() -> str:
    lines = ["int32_t b;", "", "vmcu_next(w, &b);", "*w += gap;"]
    return "\n".join([*lines, *(f"acc[{i}] = b;" for i in range(BLOCK))])


class Words:
    """Loads of consecutive words in twos, each as late as it is needed. `two` and `one` are C
    calls up to their last arguments; {at} stands for the offset in bytes."""

    def __init__(self, count: int, name: str, two: str, one: str, reference: str = ""):
        self.count, self.name, self.two, self.one = count, name, two, one
        self.reference, self.loaded = reference, 0

    def need(self, last: int) -> list[str]:
        """What loads words up to number `last`."""
        lines = []
        while self.loaded <= last:
            word, at = self.loaded, 4 * self.loaded
            first = f"{self.reference}{self.name}{word}"
            if word + 1 < self.count:
                second = f"{self.reference}{self.name}{word + 1}"
                lines.append(f"{self.two.format(at=at)}, {first}, {second});")
            else:
                lines.append(f"{self.one.format(at=at)}, {first});")
            self.loaded += 2
        return lines

    def names(self) -> str:
        return ", ".join(f"{self.name}{i}" for i in range(self.count))


def head(*words: Words) -> list[str]:
    return [*(f"uint32_t {w.names()};" for w in words), ""]


def smlad(pixel: int, column: str, weight: str) -> str:
    return f"acc[{pixel}] = vmcu_smlad({column}, {weight}, acc[{pixel}]);"


def columns(count: int, name: str = "c", cursor: str = "t") -> Words:
    two, one = (f'VMCU_{macro}({cursor}, "{{at}}", odd' for macro in ("COLUMNS", "COLUMN"))
    return Words(count, name, two, one)


def weights(count: int) -> Words:
    return Words(count, "v", "vmcu_weights(w", "vmcu_weight(w", "&")


def order(taps: int, pixels: int) -> list[tuple[int, int]]:
    """(tap, pixel) so that few registers are alive: with all weights in registers column by
    column, else tap by tap, keeping as many columns as there are pixels."""
    pairs = [(tap, pixel) for tap in range(taps) for pixel in range(pixels)]
    return sorted(pairs, key=sum) if taps < pixels else pairs


def add_pairs(count: int, c: Words, v: Words) -> list[str]:
    lines = []
    for tap, pixel in order(count, BLOCK):
        lines += v.need(tap) + c.need(tap + pixel)
        lines.append(smlad(pixel, f"{c.name}{tap + pixel}", f"v{tap}"))
    return lines


def add_line(taps: int, c: Words, v: Words, first: int) -> list[str]:
    """Pixels at an even place and those at an odd one meet the same words, each with weights of
    its own; line_order() says which weights come when, the first is number `first`."""
    lines = []
    for tap, couple in order((taps + 1) // 2, BLOCK // 2):
        even, odd = f"v{first + 2 * tap - 1}", f"v{first + 2 * tap}"
        if tap == 0:
            even, odd = f"v{first}", f"v{first} << 16"
        column = f"{c.name}{tap + couple}"
        lines += v.need(first + 2 * tap) + c.need(tap + couple)
        lines.append(smlad(2 * couple, column, even))
        lines.append(smlad(2 * couple + 1, column, odd))
    return lines


def pair(count: int) -> str:
    c, v = columns(count + BLOCK - 1), weights(count)
    lines = ["const uint32_t *t = tile + at;", *head(c, v)]
    return "\n".join([*lines, *add_pairs(count, c, v)])


def line(taps: int) -> str:
    c, v = columns((taps + BLOCK) // 2), weights(taps)
    lines = ["const uint32_t *t = tile + at;", *head(c, v)]
    return "\n".join([*lines, *add_line(taps, c, v, 0)])


# Registers of a strip: columns and other scratch, the tile, sums, weights, the flash stream, and the
# struct vmcu_square, in which the rest is. r7 may be the frame's: it is put back.
CONTEXT, TILE, STREAM, FRAME = "r0", "r3", "lr", "r7"
SCRATCH = ("r1", "r2")
SUMS = ("r4", "r5", "r6", FRAME, "r8", "r12")
WEIGHTS = ("r9", "r10", "r11")
# The members of struct vmcu_square, a word each: what they are is said there.
MEMBERS = (
    *("tile", "here", "phase", "last", "plane", "start", "stream", "at"),
    *("pairs", "pairs_left", "out", "pitch", "left", "lanes", "resume", "frame"),
)
PATCH = 4 * len(MEMBERS)
MOST_PIXELS = BLOCK + WIDER
# A channel in the stream: bias, weights, factors.
CHANNEL = 4 + 4 * SQUARE_TAPS + 12


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
        for at, name in enumerate((multiplier, bias, shift)):
            self.constant(name, CHANNEL - 12 + 4 * at)
        self.member(o, "at")
        self.do(f"cmp {shift}, #0", f"blt {'12f' if odd else '11f'}")
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
        self.do("61:", f"mov {count}, #0")
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
        self.do("9:", f"mov {x}, #0", "b 14f")

    def leave(self) -> None:
        """Sums that the fast requantiser is not for."""
        x, y = SCRATCH
        self.do("11:", f"mov {x}, #1", "b 13f", "12:", f"mov {x}, #2", "13:")
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
        return "\n\t\t".join(f'"{line}\\n\\t"' for line in self.code)


def in_order(registers: tuple[str, ...]) -> list[str]:
    """As LDM and STM take them."""
    return sorted(registers, key=lambda name: int(name[1:]))


def square_function(stride: int, pixels: int) -> str:
    """All in assembly: compilers keep a third of it on the stack."""
    registers = in_order(tuple({*SCRATCH, TILE, *SUMS, *WEIGHTS} - {FRAME}))
    named = ", ".join(f'"{name}"' for name in (*registers, STREAM, "cc", "memory"))
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
    phase = "4 * phase" if stride == 2 else "0"
    last = "4 * (row - phase)" if stride == 2 else "4 * row"
    unused = "" if stride == 2 else "(void)phase;"
    lines = [
        "struct vmcu_square s;",
        unused,
        "s.tile = tile;",
        f"s.phase = {phase};",
        f"s.last = {last};",
        "s.plane = 4 * plane;",
        "s.start = *w;",
        "s.pairs = (lanes + 1) >> 1;",
        "s.out = out;",
        "s.pitch = pitch;",
        "s.lanes = lanes;",
        "s.resume = 0;",
    ]
    if stride == 1:
        # A wide block is two pixels more: each narrow one makes up for two that the last wide one lacks.
        lines += [
            f"s.left = vmcu_min({narrow} * (({wide} - wide % {wide}) / 2 % {wide // 2}), wide);",
            "wide -= s.left;",
            "if (s.left > 0) {",
            f"\twhile (vmcu_square_1_{narrow}(&s)) {{",
            f"\t\tvmcu_finish_any(p, s.sums, {narrow}, s.stream - 12, s.at + s.resume - 1);",
            "\t}",
            "}",
        ]
    lines += [
        "if (wide > 0) {",
        "\ts.left = wide;",
        f"\twhile (vmcu_square_{stride}_{wide}(&s)) {{",
        f"\t\tvmcu_finish_any(p, s.sums, {wide}, s.stream - 12, s.at + s.resume - 1);",
        "\t}",
        "}",
        "*w = s.stream;",
    ]
    return "\n".join(line for line in lines if line)


def fixed(acc: str, multiplier: str, bias: str, shift: str, scratch: str) -> list[str]:
    """vmcu_fixed() of a sum, in its place."""
    return [
        f"add {scratch}, {bias}, {acc}, asr #31",
        f"lsls {acc}, {acc}, #1",
        f"smmlar {acc}, {acc}, {multiplier}, {scratch}",
        f"asrs {acc}, {acc}, {shift}",
        f"ssat {acc}, #8, {acc}",
    ]


def asm(code: list[str], outputs: list[str], inputs: list[str], clobbers: list[str]) -> str:
    text = "\n\t".join(f'"{line}\\n\\t"' for line in code)
    lines = [f"__asm__ volatile({text}", f"\t: {', '.join(outputs)}", f"\t: {', '.join(inputs)}"]
    return "\n".join([*lines, "\t: " + ", ".join(f'"{name}"' for name in clobbers) + ");"])


def finish() -> str:
    lines = [
        "int32_t multiplier, bias, shift;",
        "int8_t *o = (int8_t *)patch + channel;",
        "",
        "vmcu_factors(w, &multiplier, &bias, &shift);",
        *finish_any_c("shift", BLOCK),
        *fixed_stores_c("multiplier, bias, shift", BLOCK),
    ]
    return "\n".join(lines)


def store_four() -> str:
    """Constants come six at a time, so that an LDM takes them: two channels'."""
    lists, code = [f"r{i}" for i in range(6)], []
    for channel in range(GROUP):
        constants = lists[3 * (channel % 2) :][:3]
        if channel % 2 == 0:
            code.append(f"ldm %[w]!, {{{lists[0]}-{lists[-1]}}}")
        code += fixed(f"%[a{channel}]", *constants, constants[1])
        code.append(f"strb %[a{channel}], [%[o], #{channel}]")
    sums = [f'[a{i}] "+&r"(a{i})' for i in range(GROUP)]
    lines = [
        "int32_t a0 = acc[0], a1 = acc[1], a2 = acc[2], a3 = acc[3];",
        "",
        "if (vmcu_is_exact(((const int32_t *)*w)[2])) {",
        "\tconst int32_t sums[] = {a0, a1, a2, a3};",
        "",
        "\tvmcu_store_places(p, sums, (const int32_t *)*w, out, 4);",
        "\t*w += 48;",
        "\treturn;",
        "}",
        asm(code, [*sums, '[w] "+&r"(*w)'], ['[o] "r"(out)'], [*lists, "cc", "memory"]),
    ]
    return "\n".join(lines)


HELPERS |= {
    f"square_{stride}_{pixels}": square_function(stride, pixels)
    for stride, pixels in ((1, BLOCK), (1, BLOCK + WIDER), (2, BLOCK + WIDER))
}
OWN = (
    {
        bias_depthwise: bias(),
        finish_depthwise: finish(),
        store_taps: store_four(),
    }
    | {made: square(stride) for stride, made in SQUARE.items()}
    | {made: pair(count) for count, made in PAIR.items()}
    | {made: line(taps) for taps, made in LINE.items()}
)
