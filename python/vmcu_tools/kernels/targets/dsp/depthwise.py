# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with the DSP extension: SMLAD takes both taps of a word at once.

The tile stays bytes until it is read: widening it there costs as much as widening it here, and
would take twice the room.
"""

from __future__ import annotations

from ...language.packing import WORDS
from ..portable.depthwise import BIAS, LINE, PAIR, bias_depthwise

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
}


def bias() -> str:
    lines = ["int32_t b;", "", "vmcu_next(w, &b);", f"b >>= {BIAS};", "*w += gap;"]
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


OWN = (
    {
        bias_depthwise: bias(),
    }
    | {made: pair(count) for count, made in PAIR.items()}
    | {made: line(taps) for taps, made in LINE.items()}
)
