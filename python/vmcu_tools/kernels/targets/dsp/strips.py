# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of square windows with the DSP extension: C around assembly."""

from __future__ import annotations

from ..portable.depthwise import SQUARE_TAPS, STRIDES, TAPS
from ..portable.strips import FOURS, JOB, STRIP, WIDER
from .larger import Larger
from .square import BLOCK, CONTEXT, FRAME, MOST_PIXELS, SCRATCH, STREAM, SUMS, TILE, WEIGHTS, Square

# Blocks of a strip, in their order.
BLOCKS = {
    (taps, stride): [Larger(taps, stride)]
    if taps != SQUARE_TAPS
    else [Square(stride, pixels) for pixels in (BLOCK, BLOCK + WIDER)[stride - 1 :]]
    for taps in TAPS
    for stride in STRIDES
}


def in_order(registers: tuple[str, ...]) -> list[str]:
    """As LDM and STM take them."""
    return sorted(registers, key=lambda name: int(name[1:]))


def name_of(block: Square) -> str:
    return f"vmcu_strip_{block.taps}_{block.stride}_{block.pixels}"


def strip_function(block: Square) -> str:
    """All in assembly: compilers keep a third of it on the stack."""
    registers = in_order(tuple({*SCRATCH, TILE, *SUMS, *WEIGHTS} - {FRAME}))
    changed = [f'"{name}"' for name in (*registers, STREAM, "cc", "memory")]
    named = ",\n\t\t  ".join(", ".join(changed[i : i + 8]) for i in range(0, len(changed), 8))
    taps, stride = block.taps, block.stride
    return f"""
/* A strip in blocks of {block.pixels} pixels, {taps} x {taps} taps at a stride of {stride}. */
VMCU_INLINE bool {name_of(block)}(struct vmcu_strip *s)
{{
	register struct vmcu_strip *context __asm__("{CONTEXT}") = s;

	__asm__ volatile({block.text()}
		:
		: "r"(context)
		: {named});
	return s->resume != 0;
}}
"""


def exact(block: Square) -> list[str]:
    """Until a strip is done; a channel that the fast requantiser is not for comes in between."""
    constants = f"c[-{block.channel // 4}], c[-1]"
    return [
        f"while ({name_of(block)}(s)) {{",
        "\tconst int32_t *c = (const int32_t *)s->stream;",
        "",
        f"\tvmcu_finish_any(p, s->sums, {block.pixels}, {constants}, s->at + s->resume - 1);",
        "}",
    ]


def strip(taps: int, stride: int) -> str:
    *narrow, last = BLOCKS[taps, stride]
    lines = [
        "const struct vmcu_mac_params *p = job->p;",
        "struct vmcu_strip *s = &job->strip;",
        "",
        "s->tile = job->tile;",
        "s->last = job->last;",
        "s->start = *w;",
        "s->pairs = (lanes + 1) >> 1;",
        "s->out = out;",
        "s->lanes = lanes;",
        "s->resume = 0;",
    ]
    for block, pixels in (*((n, "job->narrow") for n in narrow), (last, "job->rest")):
        lines += [
            f"s->left = {pixels};",
            "if (s->left > 0) {",
            *(f"\t{line}" if line else "" for line in exact(block)),
            "}",
        ]
    return "\n".join([*lines, "*w = s->stream;"])


HELPERS = {
    "strip": r"""
/* A strip of a square window, in blocks; assembly names the first members by their place. */
struct vmcu_strip {
	const uint32_t *tile; /* of the block */
	const uint32_t *here; /* of two channels of it */
	int32_t phase;        /* bytes from there to the odd columns, see Square and Larger */
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
HELPERS["strip_job"] = f"""
/* A strip of a square window. */
struct vmcu_strip_job {{{JOB.rstrip()}
	int32_t last;   /* of the first block */
	int32_t narrow; /* pixels in blocks of {BLOCK}, and behind them */
	int32_t rest;
	struct vmcu_strip strip;
}};
{FOURS}
/* What is the same for all channels. */
VMCU_INLINE void vmcu_strip_begin(struct vmcu_strip_job *job, int32_t taps, int32_t step)
{{
	struct vmcu_strip *s = &job->strip;
	const int32_t wide = job->wide;

	if (step == 1) {{
		s->phase = (taps == {SQUARE_TAPS}) ? 0 : 4 * job->row;
		job->last = (taps == {SQUARE_TAPS}) ? 4 * job->row : 0;
	}} else {{
		s->phase = 4 * job->phase;
		job->last = 4 * (job->row - job->phase);
	}}
	s->plane = 4 * job->plane;
	s->pitch = job->pitch;
	s->half = vmcu_half(job->p);
	job->narrow = 0;
	if (taps == {SQUARE_TAPS} && step == 1) {{
		/* Each narrow block makes up for two pixels that the last wide one would lack. */
		job->narrow = {BLOCK} * (({MOST_PIXELS} - wide % {MOST_PIXELS}) / 2 % {MOST_PIXELS // 2});
		job->narrow = vmcu_min(job->narrow, wide);
	}}
	job->rest = wide - job->narrow;
}}
"""
HELPERS |= {name_of(block): strip_function(block) for blocks in BLOCKS.values() for block in blocks}
OWN = {made: strip(*key) for key, made in STRIP.items()}
