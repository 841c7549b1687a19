# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with the DSP extension: SMLAD takes both taps of a word at once.

The tile stays bytes until it is read: widening it there costs as much as widening it here, and
would take twice the room.
"""

from __future__ import annotations

from ...language.packing import WORDS
from ..portable.depthwise import (
    FINISH,
    GROUP,
    LINE,
    PAIR,
    SQUARE,
    bias_depthwise,
    finish_any_c,
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


class Block:
    """Assembly on the sums of a block of pixels, a0, a1 ...: loads in runs, since one behind another
    takes a cycle and one alone two. Thirteen registers is all there are."""

    REGISTERS = 13

    def __init__(self, pixels: int, odd: str, cursor: str, outputs: bool = False):
        self.pixels, self.odd, self.cursor, self.outputs = pixels, odd, cursor, outputs
        self.code: list[str] = []
        self.scratch: list[str] = []

    def name(self, register: str) -> str:
        if register not in self.scratch and not register.startswith("a"):
            self.scratch.append(register)
        return f"%[{register}]"

    def load(self, register: str, at: int) -> None:
        """Word number `at` of the tile."""
        self.code.append(f"ldr {self.name(register)}, [%[{self.cursor}], #{4 * at}]")

    def take(self, register: str, at: int, moves: int = 0) -> None:
        """The flash stream's word `at` bytes from here, which then moves."""
        place = f"[%[w]], #{moves}" if moves else f"[%[w], #{at}]"
        self.code.append(f"ldr {self.name(register)}, {place}")

    def widen(self, register: str, source: str = "", odd: str = "") -> None:
        source = self.name(source or register)
        self.code.append(f"sxtb16 {self.name(register)}, {source}{odd}")

    def add(self, pixel: int, column: str, weight: str, start: str = "") -> None:
        start = self.name(start or f"a{pixel}")
        names = self.name(column), self.name(weight)
        self.code.append(f"smlad %[a{pixel}], {', '.join(names)}, {start}")

    def text(self) -> list[str]:
        count = self.pixels + 2 + len(self.scratch)
        assert count <= self.REGISTERS, f"{count} registers"
        lines = "\n\t".join(f'"{line}\\n\\t"' for line in self.code)
        kind = "=" if self.outputs else "+"
        named = [f'[a{i}] "{kind}&r"(acc[{i}])' for i in range(self.pixels)]
        named += ['[w] "+&r"(*w)'] + [f'[{name}] "=&r"({name})' for name in self.scratch]
        return [
            f"__asm__ volatile({lines}",
            f"\t: {', '.join(named)}",
            f'\t: [{self.cursor}] "r"({self.cursor}));',
        ]


def columns_into(block: Block, count: int, weights: list[str], places: list[str]) -> None:
    """Columns that each pixel from the first on meets with those weights; as many at a time as
    there are `places` for them, the first of which have been loaded."""
    loaded = [*places]
    for column in range(count):
        if column >= len(loaded):
            free = [name for name in places if not name.startswith("a")]
            for name, at in zip(free, range(column, count), strict=False):
                block.load(name, at)
                loaded.append(name)
        name = loaded[column]
        block.widen(name, odd=block.odd)
        for tap, weight in enumerate(weights):
            pixel = column - tap
            if 0 <= pixel < block.pixels:
                starts = block.outputs and tap == 0
                block.add(pixel, name, weight, f"a{block.pixels - 1}" if starts else "")


def upper_rows(pixels: int, odd: str) -> list[str]:
    """Bias and two rows at a stride of one."""
    block = Block(pixels, odd, "t", outputs=True)
    block.take(f"a{pixels - 1}", 0, moves=8)
    block.take("v0", -4)
    block.take("v2", 0)
    # A column may stand in the sum of a pixel that comes later.
    places = ["x", "y", "a3", "a4"] if pixels > 4 else ["x", "y", "z"]
    for at, name in enumerate(places):
        block.load(name, at)
    block.widen("v1", "v0", ODD)
    block.widen("v0")
    block.widen("v2")
    columns_into(block, pixels + 2, ["v0", "v1", "v2"], places)
    return block.text()


def last_row(pixels: int, odd: str) -> list[str]:
    """The last row at a stride of one: pixels at an even place and those at an odd one meet the
    same words, each with weights of its own; line_order() says which."""
    block, couples = Block(pixels, odd, "t"), pixels // 2
    block.take("v0", 0)
    for at in range(couples):
        block.load(f"x{at}", at)
    block.widen("v0", odd=ODD)
    for couple in range(couples):
        block.widen(f"x{couple}", odd=odd)
        block.add(2 * couple, f"x{couple}", "v0")
    block.code.append("lsl %[v0], %[v0], #16")
    for couple in range(couples):
        block.add(2 * couple + 1, f"x{couple}", "v0")
    block.take("v0", 4)
    block.load("x0", couples)
    block.widen("v1", "v0", ODD)
    block.widen("v0")
    block.widen("x0", odd=odd)
    for couple in range(couples):
        column = f"x{couple + 1}" if couple + 1 < couples else "x0"
        block.add(2 * couple, column, "v0")
        block.add(2 * couple + 1, column, "v1")
    block.code.append("add %[w], %[w], #8")
    return block.text()


def even_columns(pixels: int, odd: str) -> list[str]:
    """Bias and the even columns of two rows at a stride of two."""
    block = Block(pixels, odd, "t", outputs=True)
    block.take(f"a{pixels - 1}", 0, moves=8)
    block.take("v0", -4)
    places = ["x", "y", "z", "a4"] if pixels > 4 else ["x", "y", "z"]
    for at, name in enumerate(places):
        block.load(name, at)
    block.widen("v1", "v0", ODD)
    block.widen("v0")
    columns_into(block, pixels + 1, ["v0", "v1"], places)
    return block.text()


def odd_columns(pixels: int, odd: str) -> list[str]:
    block = Block(pixels, odd, "t")
    block.take("v0", 0)
    places = ["x", "y", "z"]
    for at, name in enumerate(places):
        block.load(name, at)
    block.widen("v0")
    columns_into(block, pixels, ["v0"], places)
    return block.text()


def last_columns(pixels: int, odd: str) -> list[str]:
    """The last row at a stride of two."""
    block = Block(pixels, odd, "t")
    block.take("v0", 0)
    block.take("v1", 4)
    places = ["x", "y", "z"]
    for at, name in enumerate(places):
        block.load(name, at)
    block.widen("v0", odd=ODD)
    block.widen("v1")
    columns_into(block, pixels + 1, ["v0", "v1"], places)
    block.code.append("add %[w], %[w], #8")
    return block.text()


def square(stride: int, wider: int) -> str:
    pixels, names = BLOCK + wider, ["v0", "v1", "v2", "x", "y", "z"]
    names = ["v0", "v1", "v2", "x", "y", "z", "x0", "x1", "x2"]
    parts = [("tile + at", upper_rows), ("tile + last", last_row)]
    if stride == 2:
        parts = [("tile + at", even_columns), ("tile + at + phase", odd_columns)]
        parts.append(("tile + last", last_columns))
    bodies: list[list[str]] = []
    for odd in ("", ODD):
        lines = []
        for number, (at, part) in enumerate(parts):
            lines += [f"t = {at};"] if number else []
            lines += part(pixels, odd)
        bodies.append(lines)
    used = [n for n in names if any(f"({n})" in line for line in bodies[0])]
    text = ["const uint32_t *t = tile + at;", f"uint32_t {', '.join(used)};", "", "if (odd == 0) {"]
    text += [f"\t{line}" for part in bodies[0] for line in part.split("\n")]
    text += ["} else {"]
    text += [f"\t{line}" for part in bodies[1] for line in part.split("\n")]
    return "\n".join([*text, "}"])


def fixed(acc: str, multiplier: str, bias: str, shift: str, scratch: str) -> list[str]:
    """vmcu_fixed() of a sum, in its place."""
    return [
        f"add {scratch}, {bias}, {acc}, asr #31",
        f"lsl {acc}, {acc}, #1",
        f"smmlar {acc}, {acc}, {multiplier}, {scratch}",
        f"asr {acc}, {acc}, {shift}",
        f"ssat {acc}, #8, {acc}",
    ]


def asm(code: list[str], outputs: list[str], inputs: list[str], clobbers: list[str]) -> str:
    text = "\n\t".join(f'"{line}\\n\\t"' for line in code)
    lines = [f"__asm__ volatile({text}", f"\t: {', '.join(outputs)}", f"\t: {', '.join(inputs)}"]
    return "\n".join([*lines, "\t: " + ", ".join(f'"{name}"' for name in clobbers) + ");"])


def finish(wider: int) -> str:
    """In one block: compilers load the patch's address for each pixel."""
    pixels = BLOCK + wider
    lines = [
        "int32_t multiplier, bias, shift, x;",
        f"int32_t {', '.join(f'a{i} = acc[{i}]' for i in range(pixels))};",
        "int8_t *o = (int8_t *)patch + channel;",
        "",
        "vmcu_factors(w, &multiplier, &bias, &shift);",
        *finish_any_c("shift", pixels),
    ]
    code = []
    for i in range(pixels):
        code += fixed(f"%[a{i}]", "%[m]", "%[b]", "%[s]", "%[x]")
        code.append(f"strb %[a{i}], [%[o], #{4 * i}]")
    outputs = [f'[a{i}] "+&r"(a{i})' for i in range(pixels)] + ['[x] "=&r"(x)']
    inputs = ['[m] "r"(multiplier)', '[b] "r"(bias)', '[s] "r"(shift)', '[o] "r"(o)']
    return "\n".join([*lines, asm(code, outputs, inputs, ["memory"])])


def store_four() -> str:
    """Constants come six at a time, so that an LDM takes them: two channels'."""
    lists, code = [f"r{i}" for i in range(4, 10)], []
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
        asm(code, [*sums, '[w] "+&r"(*w)'], ['[o] "r"(out)'], [*lists, "memory"]),
    ]
    return "\n".join(lines)


OWN = (
    {
        bias_depthwise: bias(),
        store_taps: store_four(),
    }
    | {made: square(stride, wider) for (stride, wider), made in SQUARE.items()}
    | {made: finish(wider) for wider, made in FINISH.items()}
    | {made: pair(count) for count, made in PAIR.items()}
    | {made: line(taps) for taps, made in LINE.items()}
)
