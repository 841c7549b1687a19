# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers with MVE: four channels of a pixel, straight from the pool."""

from __future__ import annotations

import textwrap

from vmcu_tools.kernels.targets.portable.dense import (
    run_dense,
    run_dense_per_tensor,
    store_dense_any,
    sums_dense,
)

from ...assembly import SAVED, WORD, Function, leave, note, save
from ..thumb import prototypes
from .blocks import (
    NO_VECTORS,
    PARAMETERS,
    STREAM,
    VECTORS,
    Weights,
    constants,
    halves,
    narrowed,
    requantised,
    vector,
)

ABOVE = WORD * len(SAVED) + 64
SLOTS = {ABOVE: "CHANNELS", ABOVE + WORD: "TWICE"}
# The arguments where a layer has one factor.
FACTOR = {ABOVE + WORD * (2 + i): name for i, name in enumerate(("MULTIPLIER", "SHIFT"))}
CHANNELS, TWICE, MULTIPLIER, LEFT = (f"[sp, #{at}]" for at in (*SLOTS, *FACTOR))
SUMS = ("r0", "r2", "r4", "r6")
X, OUT, BIAS, ZERO, END, START, TAPS = "r1", "r5", "r7", "r8", "r9", "r11", "r10"
ONE = "r12"


def products(of: Weights) -> list[str]:
    """Sixteen weights of four channels times the taps in Q6."""
    code = []
    for number, acc in enumerate(() if of.nibbles else SUMS):
        q = ("q4", "q5")[number % 2]
        code += [vector(q, STREAM, of.at(number), of.size), f"vmladava.s8 {acc}, {q}, q6"]
    for channel in (0, 1) if of.nibbles else ():
        code += [vector("q5", STREAM, of.at(channel), of.size), *halves("q4", "q5")]
        code += [f"vmladava.s8 {SUMS[channel + 2 * n]}, q{4 + n}, q6" for n in (0, 1)]
    return code


def factors(per_tensor: bool) -> list[str]:
    """Loads the constants that requantised() reads. Where there are channels' factors, a block may
    have no channels."""
    if not per_tensor:
        return [f"cmp {OUT}, {END}", "beq <words>", *constants()]
    loads = ((MULTIPLIER, "q5"), (LEFT, "q6"))
    return [line for at, q in loads for line in (f"ldr r0, {at}", f"vdup.32 {q}, r0")]


def run(name: str, of: Weights, per_tensor: bool = False) -> Function:
    """The function for a pixel. per_tensor: the arguments have the factor of all channels."""
    code = [
        *save(),
        *VECTORS,
        f"mov {START}, r1",
        f"mov {TAPS}, r2",
        f"mov {OUT}, r3",
        f"mov {STREAM}, r0",
        f"ldr {END}, {CHANNELS}",
        f"add {END}, {OUT}",
        f"ldr {ZERO}, {TWICE}",
        f"asr {ZERO}, #1",
        f"mov {ONE}, #1",
        note("Sixteen taps of the pixel and of four channels, the last ones maybe fewer."),
        "<block>:",
        f"mov {BIAS}, {STREAM}",
        f"adds {STREAM}, #16",
        f"mov {X}, {START}",
        *(f"movs {acc}, #0" for acc in SUMS),
        f"wlstp.8 lr, {TAPS}, <done>",
        "<turn>:",
        f"vldrb.8 q6, [{X}], #16",
        *products(of),
        "letp lr, <turn>",
        "<done>:",
        f"vmov q0[2], q0[0], {SUMS[0]}, {SUMS[2]}",
        f"vmov q0[3], q0[1], {SUMS[1]}, {SUMS[3]}",
        f"vldrw.32 q4, [{BIAS}]",
        "vadd.i32 q0, q0, q4",
        *factors(per_tensor),
        *requantised(1, ONE),
        *narrowed(1, ZERO),
        f"vstrb.32 q0, [{OUT}], #4",
        f"cmp {OUT}, {END}",
        "blo <block>",
        *([] if per_tensor else ["b <end>", "<words>:", f"vstrw.32 q0, [{OUT}]", "<end>:"]),
        f"mov r0, {STREAM}",
        *NO_VECTORS,
        leave(),
    ]
    words = "" if per_tensor else "; asked for none, the sums of a block, as words"
    summary = f"Blocks of four channels of a pixel, from bias to store{words}. "
    summary += "Returns where the flash stream goes on."
    return Function(name, summary, code, SLOTS | (FACTOR if per_tensor else {}))


def runs_of(name: str, of: Weights) -> list[Function]:
    """The functions for a pixel: with factors of each channel, and with one."""
    return [run(name, of), run(f"{name}_per_tensor", of, per_tensor=True)]


RUN = "vmcu_run_of_pixel"
FUNCTIONS = runs_of(RUN, Weights())


def whole_dense(functions: list[Function], origin: str, four: str) -> dict[str, str]:
    """C of a kernel that reads straight from the pool. four: of sixteen taps of four channels."""
    usual, per_tensor = functions
    parameters, result = PARAMETERS.format("x", "taps"), "const uint8_t *"
    factor = f"{parameters}, int32_t multiplier, int32_t left"
    declared = prototypes([usual], result, parameters) + prototypes([per_tensor], result, factor)
    return {
        "dense_whole": f"""
/* In {origin}. */
{declared}
/* The sums of a block of channels; returns where the flash stream goes on. */
VMCU_CALLED const uint8_t *vmcu_pixel_sums(int32_t *acc, const struct vmcu_source *in, int32_t row,
					   int32_t pixel, int32_t channel, const uint8_t *w)
{{
	__builtin_memcpy(acc, w, 16);
	w += 16;
	for (int32_t r = 0; r < vmcu_source_rows(in); r++, row += in->window->dilation_h) {{
		const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;

		for (int32_t left = in->run; left > 0; left -= 16, x += 16) {{
			const int8x16_t taps = vldrbq_z_s8(x, vctp8q((uint32_t)left));

{textwrap.indent(four, chr(9) * 3)}
		}}
	}}
	return w;
}}
"""
    }


FOUR = """for (int32_t n = 0; n < 4; n++, w += 16) {
	acc[n] = vmladavaq_s8(acc[n], taps, vldrbq_s8((const int8_t *)w));
}"""
HELPERS = whole_dense(FUNCTIONS, "blocks_helium.S", FOUR)
OWN = {
    sums_dense: """
if (vmcu_source_rows(in) == 1) {
	const int8_t *x = in->packed ? in->rows : vmcu_source_taps(in, row, pixel);

	*w = vmcu_run_of_pixel(*w, x + channel, in->run, (int8_t *)acc, 0, 0);
} else {
	*w = vmcu_pixel_sums(acc, in, row, pixel, channel, *w);
}
(void)p;
(void)apart;
""",
    store_dense_any: """
*w = vmcu_exact_pixel(p, acc, *w, *out, left);
*out += 4;
""",
    run_dense: """
const int32_t whole = (vmcu_source_rows(in) > 1) ? 0 : taken & ~3;

if (whole > 0) {
	const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;

	*w = vmcu_run_of_pixel(*w, x, in->run, *out, whole, vmcu_half(p));
	*out += whole;
}
for (taken -= whole; taken > 0; taken -= 4) {
	int32_t acc[4];

	*w = vmcu_pixel_sums(acc, in, row, pixel, channel, *w);
	*w = vmcu_store_some(p, acc, 4, 1, *w, *out, 0, vmcu_min(taken, 4));
	*out += 4;
}
""",
    run_dense_per_tensor: """
const int32_t half = 2 * p->output_zero + 1;

*w = vmcu_run_of_pixel_per_tensor(*w, x, depth, out, channels, half, p->multiplier,
				  -1 - p->shift);
""",
}
