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
    SQUARE_TAPS,
    bias_depthwise,
    dot_square,
    finish_any_c,
    finish_depthwise,
    fixed_stores_c,
    store_taps,
)

BLOCK = WORDS.pixels

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
			"strd %[low], %[b0], [%[u]], #8\n\t"
			"strd %[a0], %[a1], [%[v]], #8"
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


def square() -> str:
    taps = SQUARE_TAPS
    c, v = columns(taps + BLOCK - 1), weights(2 * taps)
    d = columns((taps + BLOCK) // 2, "d", "u")
    lines = ["const uint32_t *t = tile + at;", "const uint32_t *u = tile + last;"]
    lines += ["int32_t b, first;", *head(c, d, v), "vmcu_ldrd(w, &b, &first);"]
    lines += ["v0 = vmcu_sxtb16((uint32_t)first);", "v1 = vmcu_sxtb16_odd((uint32_t)first);"]
    lines += [f"acc[{i}] = b;" for i in range(BLOCK)]
    v.loaded = 2
    lines += add_pairs(taps, c, v)
    return "\n".join([*lines, *add_line(taps, d, v, taps)])


def finish() -> str:
    lines = [
        "int32_t multiplier, bias, shift;",
        "int8_t *o = (int8_t *)patch + channel;",
        "",
        "vmcu_ldrd(w, &multiplier, &bias);",
        "vmcu_next(w, &shift);",
        *finish_any_c("shift", BLOCK),
        *fixed_stores_c("multiplier, bias, shift", BLOCK),
    ]
    return "\n".join(lines)


def store_four() -> str:
    """Constants come six at a time, so that an LDM takes them: two channels'."""
    lists, code = [f"r{i}" for i in range(4, 10)], []
    for channel in range(GROUP):
        multiplier, bias, shift = lists[3 * (channel % 2) :][:3]
        acc = f"%[a{channel}]"
        if channel % 2 == 0:
            code.append(f"ldm %[w]!, {{{lists[0]}-{lists[-1]}}}")
        code += [
            f"add {bias}, {bias}, {acc}, asr #31",
            f"lsl {acc}, {acc}, #1",
            f"smmlar {acc}, {acc}, {multiplier}, {bias}",
            f"asr {acc}, {acc}, {shift}",
            f"ssat {acc}, #8, {acc}",
            f"strb {acc}, [%[o], #{channel}]",
        ]
    text = "\n\t".join(f'"{line}\\n\\t"' for line in code)
    sums = ", ".join(f'[a{i}] "+&r"(a{i})' for i in range(GROUP))
    clobbers = ", ".join(f'"{name}"' for name in (*lists, "memory"))
    return (
        "int32_t a0 = acc[0], a1 = acc[1], a2 = acc[2], a3 = acc[3];\n\n"
        "if (vmcu_is_exact(((const int32_t *)*w)[2])) {\n"
        "\tconst int32_t sums[] = {a0, a1, a2, a3};\n\n"
        "\tvmcu_store_places(p, sums, (const int32_t *)*w, out, 4);\n"
        "\t*w += 48;\n"
        "\treturn;\n}\n"
        f"__asm__ volatile({text}\n"
        f'\t: {sums}, [w] "+&r"(*w)\n'
        '\t: [o] "r"(out)\n'
        f"\t: {clobbers});"
    )


OWN = (
    {
        bias_depthwise: bias(),
        dot_square: square(),
        finish_depthwise: finish(),
        store_taps: store_four(),
    }
    | {made: pair(count) for count, made in PAIR.items()}
    | {made: line(taps) for taps, made in LINE.items()}
)
