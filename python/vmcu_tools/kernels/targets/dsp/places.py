# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of any window with the DSP extension: two taps of a channel at once."""

from __future__ import annotations

from ..thumb import asm
from .blocks import fixed

HELPERS = {
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
}


# What is on the stack, in the order in which it is pushed.
START, LIST, HALF, FOURS, COUNT = (f"[sp, #{4 * i}]" for i in range(5))
STREAM, X, OFFSETS, OUT = "r0", "r1", "r2", "r3"
SUMS, SHIFTS = ("r4", "r5", "r6", "r7"), "r12"


def one_tap() -> list[str]:
    """Of all four channels: four weights are a word."""
    a, v, x, y = "r8", "r9", "r10", "r11"
    code = [f"ldr {a}, [{OFFSETS}], #4", f"ldr {a}, [{X}, {a}]", f"ldr {v}, [{STREAM}], #4"]
    for odd, turn in enumerate(("", ", ror #8")):
        code += [f"sxtb16 {x}, {a}{turn}", f"sxtb16 {y}, {v}{turn}"]
        for channel, half in ((odd, "bb"), (odd + 2, "tt")):
            code.append(f"smla{half} {SUMS[channel]}, {x}, {y}, {SUMS[channel]}")
    return code


def two_taps() -> list[str]:
    """Two taps of two channels are a word, of pixels and of weights."""
    a, b, v, y, low = "r8", "r9", "r10", "r11", "lr"
    code = [f"ldr {x}, [{OFFSETS}], #4" for x in (a, b)]
    code += [f"ldr {x}, [{X}, {x}]" for x in (a, b)]
    code += [f"ldr {v}, [{STREAM}], #4"]
    code += [f"pkhbt {low}, {a}, {b}, lsl #16", f"pkhtb {a}, {b}, {a}, asr #16"]
    for couple, taps in enumerate((low, a)):
        code += [f"ldr {v}, [{STREAM}], #4"] * couple
        code += [f"sxtb16 {b}, {taps}", f"sxtb16 {y}, {v}"]
        code += [f"smlad {SUMS[2 * couple]}, {b}, {y}, {SUMS[2 * couple]}"]
        code += [f"sxtb16 {taps}, {taps}, ror #8", f"sxtb16 {v}, {v}, ror #8"]
        code += [f"smlad {SUMS[2 * couple + 1]}, {taps}, {v}, {SUMS[2 * couple + 1]}"]
    return code


def requantised() -> list[str]:
    """Four bytes; where the fast requantiser is not for them, the stream is back at their start."""
    *multipliers, half, bias = "r8", "r9", "r10", "r11", "lr", OFFSETS
    code = [f"ldm {STREAM}!, {{{', '.join(multipliers)}, {SHIFTS}}}", f"ldr {half}, {HALF}"]
    for channel, (acc, multiplier) in enumerate(zip(SUMS, multipliers, strict=True)):
        if channel == 0:
            # Nothing is left of an odd number that EXACT has shifted.
            code += [f"lsls {bias}, {half}, {SHIFTS}", "beq 5f"]
        else:
            code += [f"lsrs {SHIFTS}, {SHIFTS}, #8", f"lsl {bias}, {half}, {SHIFTS}"]
        code += fixed(acc, multiplier, bias, SHIFTS, bias)
        code.append(f"strb {acc}, [{OUT}" + (f", #{channel - 4}]" if channel else "], #4"))
    return code


def direct() -> list[str]:
    return [
        "push {r0, r2, r4, r5, r6, r7}",
        "1:",
        f"str {STREAM}, {START}",
        f"ldm {STREAM}!, {{{', '.join(SUMS)}}}",
        f"ldr {SHIFTS}, {COUNT}",
        f"ldr {OFFSETS}, {LIST}",
        f"lsrs {SHIFTS}, {SHIFTS}, #1",
        "bcc 2f",
        *one_tap(),
        # Nothing has changed the flags.
        "2:",
        "beq 4f",
        "3:",
        *two_taps(),
        f"subs {SHIFTS}, {SHIFTS}, #1",
        "bne 3b",
        "4:",
        *requantised(),
        f"add {X}, {X}, #4",
        f"ldr r8, {FOURS}",
        "subs r8, r8, #1",
        f"str r8, {FOURS}",
        "bne 1b",
        "b 6f",
        "5:",
        f"ldr {STREAM}, {START}",
        "6:",
        "add sp, sp, #4",
        "pop {r2, r4, r5, r6, r7}",
    ]


HELPERS["direct"] = f"""
/* The rest is rare. */
#define VMCU_DIRECT_IN_PLACE 0

/*
 * So many fours of channels of a pixel whose taps are `offsets` from x; stops at one that the fast
 * requantiser is not for. Returns how many are left.
 */
VMCU_APART int32_t vmcu_direct_fours(const int32_t *offsets, int32_t taps, const int8_t *x,
				     const uint8_t **stream, int8_t *out, int32_t fours,
				     int32_t half)
{{
	register const uint8_t *w __asm__("r0") = *stream;
	register const int8_t *from __asm__("r1") = x;
	register const int32_t *list __asm__("r2") = offsets;
	register int8_t *o __asm__("r3") = out;
	register int32_t zero __asm__("r4") = half;
	register int32_t left __asm__("r5") = fours;
	register int32_t count __asm__("r6") = taps;

	__asm__ volatile(
		{asm(direct())}
		: "+r"(w), "+r"(from), "+r"(list), "+r"(o), "+r"(zero), "+r"(left), "+r"(count)
		:
		: "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
	*stream = w;
	return left;
}}
"""
