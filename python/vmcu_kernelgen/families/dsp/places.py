# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of any window with the DSP extension: two taps of a channel at once."""

from __future__ import annotations

from ...assembly import SAVED, WORD, Function, leave, note, push, release, save
from ..thumb import prototypes
from .blocks import fixed

HELPERS = {
    "two_taps": r"""
/* Two taps of four channels times their weights. */
VMCU_INLINE void vmcu_two_taps(int32_t *acc, uint32_t a, uint32_t b, const uint8_t **w)
{
	const uint32_t low = (a & 0xffffU) | b << 16;
	const uint32_t high = (b & 0xffff0000U) | a >> 16;
	const uint32_t u = vmcu_load32(*w);
	const uint32_t v = vmcu_load32(*w + 4);

	acc[0] = vmcu_smlad(vmcu_sxtb16(low), vmcu_sxtb16(u), acc[0]);
	acc[1] = vmcu_smlad(vmcu_sxtb16_odd(low), vmcu_sxtb16_odd(u), acc[1]);
	acc[2] = vmcu_smlad(vmcu_sxtb16(high), vmcu_sxtb16(v), acc[2]);
	acc[3] = vmcu_smlad(vmcu_sxtb16_odd(high), vmcu_sxtb16_odd(v), acc[3]);
	*w += 8;
}
""",
}


# On the stack: the addresses of the stream and of the offsets; the registers that the function
# saves; its arguments.
LOCALS = ("r0", "r2")
ABOVE = len(LOCALS) + len(SAVED)
SLOTS = {WORD * i: name for i, name in enumerate(("ADDRESS", "LIST"))}
SLOTS |= {WORD * (ABOVE + i): name for i, name in enumerate(("COUNT", "FOURS", "HALF", "LEFT"))}
ADDRESS, LIST, COUNT, FOURS, HALF, LEFT = (f"[sp, #{at}]" for at in SLOTS)
STREAM, X, OFFSETS, OUT = "r0", "r1", "r2", "r3"
SUMS, SHIFTS = ("r4", "r5", "r6", "r7"), "r12"


def one_tap() -> list[str]:
    """Adds a tap of all four channels: four weights are a word."""
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
    """Four bytes, unless the fast requantiser is not for them."""
    *multipliers, half, bias = "r8", "r9", "r10", "r11", "lr", OFFSETS
    code = [f"ldm {STREAM}!, {{{', '.join(multipliers)}, {SHIFTS}}}", f"ldr {half}, {HALF}"]
    for channel, (acc, multiplier) in enumerate(zip(SUMS, multipliers, strict=True)):
        if channel == 0:
            # Nothing is left of an odd number that EXACT has shifted.
            code += [f"lsls {bias}, {half}, {SHIFTS}", "beq <exact>"]
        else:
            code += [f"lsrs {SHIFTS}, {SHIFTS}, #8", f"lsl {bias}, {half}, {SHIFTS}"]
        code += fixed(acc, multiplier, bias, SHIFTS, bias)
        code.append(f"strb {acc}, [{OUT}" + (f", #{channel - 4}]" if channel else "], #4"))
    return code


def direct() -> list[str]:
    return [
        *save(),
        *push(LOCALS),
        f"ldr {STREAM}, [{STREAM}]",
        note("Four channels: their biases, then one tap if the number of taps is odd."),
        "<block>:",
        f"ldm {STREAM}!, {{{', '.join(SUMS)}}}",
        f"ldr {SHIFTS}, {COUNT}",
        f"ldr {OFFSETS}, {LIST}",
        f"lsrs {SHIFTS}, {SHIFTS}, #1",
        "bcc <even>",
        *one_tap(),
        # Nothing has changed the flags.
        "<even>:",
        "beq <summed>",
        note("Two taps at once."),
        "<turn>:",
        *two_taps(),
        f"subs {SHIFTS}, {SHIFTS}, #1",
        "bne <turn>",
        note("Requantise and store, unless the fast requantiser is not for this block."),
        "<summed>:",
        *requantised(),
        f"add {X}, {X}, #4",
        f"ldr r8, {FOURS}",
        "subs r8, r8, #1",
        f"str r8, {FOURS}",
        "bne <block>",
        "b <end>",
        "<exact>:",
        note("Leave the sums, and the stream at the constants behind them."),
        f"subs {STREAM}, #20",
        f"ldr r1, {LEFT}",
        f"stm r1, {{{', '.join(SUMS)}}}",
        note("Return how many blocks are left."),
        "<end>:",
        f"ldr r1, {ADDRESS}",
        f"str {STREAM}, [r1]",
        f"ldr r0, {FOURS}",
        *release(len(LOCALS)),
        leave(),
    ]


FUNCTIONS = [
    Function(
        "vmcu_direct_fours",
        "So many fours of channels of a pixel whose taps are `offsets` from x; stops behind the "
        "sums of one that the fast requantiser is not for. Returns how many are left.",
        direct(),
        SLOTS,
    )
]
DECLARED = prototypes(
    FUNCTIONS,
    "int32_t ",
    "const uint8_t **stream, const int8_t *x, const int32_t *offsets, int8_t *out, int32_t taps, "
    "int32_t fours, int32_t half, int32_t *sums",
)
HELPERS["direct"] = f"""
/* The rest is rare. */
#define VMCU_DIRECT_IN_PLACE 0

/*
 * So many fours of channels of a pixel whose taps are `offsets` from x; stops behind the sums of
 * one that the fast requantiser is not for. Returns how many are left.
 */
{DECLARED}"""
