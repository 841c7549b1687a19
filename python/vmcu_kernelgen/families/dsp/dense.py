# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers with the DSP extension: four channels at once, taps widened on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vmcu_tools.kernels.targets.portable.dense import (
    dot_dense,
    dot_dense_some,
    dot_dense_tail,
    run_dense_per_tensor,
    whole_dense,
)
from vmcu_tools.kernels.targets.portable.shapes import NARROW

from ...assembly import Function, repeat
from ...c_source import wrap
from ..thumb import STREAM, Registers, T, after_turn, prototypes
from .blocks import Block, joined, run_function
from .blocks_c import PARAMETERS

# A pixel's block of four channels.
BLOCK = NARROW[1]
# Fours of taps in a turn of its loop.
UNROLL = 2
RUN, RUN_PER_TENSOR = "vmcu_run_of_dense", "vmcu_run_of_dense_per_tensor"


def four() -> list[str]:
    """Four taps of a pixel."""
    sums, (even, odd, *words) = Registers.of(BLOCK).sums, Registers.of(BLOCK).free
    code = [f"ldr.w {odd}, [{T}], #4", f"ldr.w {words[0]}, [{STREAM}], #16"]
    code += [f"ldr.w {words[i]}, [{STREAM}, #{4 * i - 16}]" for i in range(1, 4)]
    code += [f"sxtb16 {even}, {odd}", f"sxtb16 {odd}, {odd}, ror #8"]
    for number, word in enumerate(words[:4]):
        taps, first = (even, odd)[number // 2], number % 2 * 2
        code += joined(word, [(taps, sums[first], sums[first + 1])])
    return code


def runs_of(taps: list[str], suffix: str = "") -> list[Function]:
    """The functions for a pixel, of which four taps are a word: with factors of each channel, and
    with one."""
    turn = [*repeat(UNROLL, taps), *after_turn(BLOCK)]
    usual = Block(BLOCK, taps, UNROLL, 4, turn, nibbles=bool(suffix))
    return [
        run_function(f"{name}{suffix}", [block], "a pixel")
        for name, block in ((RUN, usual), (RUN_PER_TENSOR, replace(usual, per_tensor=True)))
    ]


def declared(functions: Sequence[Function]) -> str:
    """C of the declarations of runs_of()."""
    usual, per_tensor = functions
    parameters = PARAMETERS.format("int8_t")
    factor = parameters.replace("half", "bias") + ", int32_t multiplier, int32_t shift"
    kind = "const uint8_t *"
    return prototypes([usual], kind, parameters) + prototypes([per_tensor], kind, factor)


def run_per_tensor(suffix: str = "") -> str:
    """C of the instruction for all blocks of a pixel."""
    head = f"*w = {RUN_PER_TENSOR}{suffix}("
    call = f"{head}*w, x, depth >> 2, out, channels, bias, p->multiplier, p->shift);"
    bias = "\tconst int32_t bias = vmcu_wrapping_shift(2 * p->output_zero + 1, p->shift);"
    return "\n".join([bias, "", *wrap(call, "\t", len(head))])


FUNCTIONS = runs_of(four())
WORD = r"""
/* Up to four taps times those of four channels: what is left of whole words is rare. */
VMCU_CALLED void vmcu_dot_dense_word(int32_t *acc, const int8_t *from, int32_t count,
				     const uint8_t **w, bool joined)
{
	uint32_t a = vmcu_load32(*w);
	uint32_t b = vmcu_load32(*w + 4);
	uint32_t c = vmcu_load32(*w + 8);
	uint32_t d = vmcu_load32(*w + 12);
	uint32_t x = 0;
	uint32_t even, odd;

	if (count == 4) {
		x = vmcu_load32(from);
	}
	for (int32_t i = count & 3; i > 0; i--) {
		x = (x << 8) | (uint8_t)from[i - 1];
	}
	even = vmcu_sxtb16(x);
	odd = vmcu_sxtb16_odd(x);
	acc[0] = vmcu_smlad(odd, vmcu_sxtb16(c), vmcu_smlad(even, vmcu_sxtb16(a), acc[0]));
	acc[2] = vmcu_smlad(odd, vmcu_sxtb16(d), vmcu_smlad(even, vmcu_sxtb16(b), acc[2]));
	if (!joined) {
		a = vmcu_sxtb16_odd(a);
		b = vmcu_sxtb16_odd(b);
		c = vmcu_sxtb16_odd(c);
		d = vmcu_sxtb16_odd(d);
	}
	acc[1] = vmcu_smlad(odd, c, vmcu_smlad(even, a, acc[1]));
	acc[3] = vmcu_smlad(odd, d, vmcu_smlad(even, b, acc[3]));
	*w += 16;
}
"""
HELPERS = {
    "dense": f"{WORD}\n/* In dense_dsp.S. */\n{declared(FUNCTIONS)}",
    "dense_whole": whole_dense(RUN),
}
OWN = {
    dot_dense: "vmcu_dot_dense_word(acc, x, 4, w, true);",
    dot_dense_tail: """
if (left > 0) {
	vmcu_dot_dense_word(acc, x, left, w, true);
}
""",
    dot_dense_some: "vmcu_dot_dense_word(acc, x, count, w, joined);",
    run_dense_per_tensor: run_per_tensor(),
}
