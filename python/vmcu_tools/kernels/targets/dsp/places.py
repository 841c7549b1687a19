# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of any window with the DSP extension: two taps of a channel at once."""

from __future__ import annotations

from ..portable.depthwise import GROUP
from ..portable.places import store_taps
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
    "two_offsets": r"""
/* The next two offsets of a list. */
VMCU_INLINE void vmcu_two_offsets(const int32_t **list, int32_t *a, int32_t *b)
{
	__asm__ volatile("ldrd %0, %1, [%2], #8" : "=&r"(*a), "=&r"(*b), "+&r"(*list));
}
""",
}


def store_four() -> str:
    """One LDM takes all constants."""
    *multipliers, shifts, bias = (f"r{i}" for i in range(GROUP + 2))
    code = [f"ldm %[w]!, {{{multipliers[0]}-{shifts}}}"]
    for channel, multiplier in enumerate(multipliers):
        code += [f"lsrs {shifts}, {shifts}, #8"] * (channel > 0)
        code.append(f"lsl {bias}, %[half], {shifts}")
        code += fixed(f"%[a{channel}]", multiplier, bias, shifts, bias)
        code.append(f"strb %[a{channel}], [%[o], #{channel}]")
    sums = ", ".join(f'[a{i}] "+&r"(a{i})' for i in range(GROUP))
    changed = ", ".join(f'"{name}"' for name in [*multipliers, shifts, bias, "cc", "memory"])
    lines = [
        "int32_t a0 = acc[0], a1 = acc[1], a2 = acc[2], a3 = acc[3];",
        "",
        "if (vmcu_is_exact(((const int32_t *)*w)[4])) {",
        "\tconst int32_t sums[] = {a0, a1, a2, a3};",
        "",
        "\t*w = vmcu_store_places(p, sums, (const int32_t *)*w, out, 4);",
        "\treturn;",
        "}",
        f"__asm__ volatile({asm(code, 1)}",
        f'\t: {sums}, [w] "+&r"(*w)',
        '\t: [o] "r"(out), [half] "r"(vmcu_half(p))',
        f"\t: {changed});",
    ]
    return "\n".join(lines)


OWN = {store_taps: store_four()}
