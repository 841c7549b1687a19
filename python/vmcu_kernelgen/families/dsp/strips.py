# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of square windows with the DSP extension: C around assembly."""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.depthwise import SQUARE_TAPS, STRIDES, TAPS
from vmcu_tools.kernels.targets.portable.strips import STRIP, WIDER, all_strips

from ...assembly import Function, within
from . import channels
from .frame import SLOTS, WHOLE
from .larger import Larger
from .square import BLOCK, MOST_PIXELS, Square

# Blocks of a strip, in their order.
BLOCKS = {
    (taps, stride): [Larger(taps, stride)]
    if taps != SQUARE_TAPS
    else [Square(stride, pixels) for pixels in (BLOCK, BLOCK + WIDER)[stride - 1 :]]
    for taps in TAPS
    for stride in STRIDES
}


def sums_functions(block: Square) -> list[Function]:
    """The code that vmcu_strip_words() jumps to: of channels with an even number, then of the
    others unless they are behind these."""
    name = f"vmcu_sums_{block.taps}_{block.stride}_{block.pixels}"
    codes = (
        {name: block.both()}
        if block.whole
        else {f"{name}_{which}": block.text(which == "odd") for which in ("even", "odd")}
    )
    what = f"channels of {block.pixels} pixels of {block.taps} x {block.taps} taps"
    summary = (
        f"Part of vmcu_strip_words(), on its stack: the sums of {what}, stride {block.stride}."
    )
    return [Function(name, summary, [*within(WHOLE), *code], SLOTS) for name, code in codes.items()]


SUMS = {block: sums_functions(block) for blocks in BLOCKS.values() for block in blocks}
FUNCTIONS = [channels.strip_words(), *(one for found in SUMS.values() for one in found)]


def code_of(block: Square) -> str:
    codes = SUMS[block]
    return f"{{{codes[0].name}, {codes[-1].name}, {block.pixels}, 0}}"


def strip(taps: int, stride: int) -> str:
    """C that selects the code for a window; vmcu_all_strips() calls that."""
    blocks = BLOCKS[taps, stride]
    narrow, wide = blocks[0], blocks[-1]
    return f"""
static const struct vmcu_strip_run code[] = {{
	{code_of(narrow)},
	{code_of(wide)},
}};

job->code = code;
/* What there is to compute is in the job. */
(void)w;
(void)out;
(void)lanes;
"""


HELPERS = {
    "sums_of_strips": "/* In strips_dsp.S; vmcu_strip_words() jumps there, C cannot call them. */\n"
    + "".join(f"void {one.name}(void);\n" for one in FUNCTIONS[1:]),
    "strip_job": f"""
/* Blocks of a strip. */
struct vmcu_strip_run {{
	void (*even)(void); /* the sums of a channel with an even number */
	void (*odd)(void);
	int32_t pixels;     /* of a block */
	int32_t left;       /* of the strip, from the first one on */
}};

/* A strip of a square window; assembly has its members on the stack, by their place. */
struct vmcu_strip_job {{
	struct vmcu_strip_run first;
	const uint32_t *tile;
	int32_t last; /* bytes to the last row, see Square and Larger */
	int8_t *out;  /* the pixels' first channel */
	struct vmcu_strip_run second; /* the first again if that is all */
	int32_t half;
	int32_t phase; /* bytes to the odd columns */
	int32_t plane; /* bytes from two channels to the next two */
	int32_t pitch;
	int32_t back; /* what the last row's words advance less than others, a pixel */
	const uint8_t *stream;
	int32_t fours; /* of channels; 0: some channels, which are staged */
	int32_t lanes; /* of the last four */
	int32_t channel;
	const struct vmcu_piece *pieces;
	const struct vmcu_piece *behind;
	uint32_t zeros;
	const struct vmcu_mac_params *p;
	void (*finish)(const struct vmcu_mac_params *p, const int32_t *acc, int32_t pixels,
		       int32_t word, int32_t multiplier, int8_t *patch);
	const struct vmcu_strip_run *code; /* of blocks of {BLOCK} pixels and of wide ones */
}};

/* Says what code a window has. */
typedef void vmcu_strip_fours(struct vmcu_strip_job *job, const uint8_t **w, int8_t *out,
			      int32_t lanes);

/* In strips_dsp.S: all channels that a job says; returns where the flash stream goes on. */
const uint8_t *vmcu_strip_words(const struct vmcu_strip_job *job);

/* Blocks of a strip of so many pixels. */
VMCU_INLINE void vmcu_strip_begin(struct vmcu_strip_job *job, int32_t wide)
{{
	const struct vmcu_strip_run *const code = job->code;
	int32_t narrow = 0;

	if (code[1].pixels == {BLOCK}) {{
		narrow = wide;
	}} else if (job->back != 0) {{
		/* Each narrow block makes up for two pixels that the last wide one would lack. */
		narrow = {BLOCK} * (({MOST_PIXELS} - wide % {MOST_PIXELS}) / 2 % {MOST_PIXELS // 2});
		narrow = vmcu_min(narrow, wide);
	}}
	job->first = code[(narrow > 0) ? 0 : 1];
	job->first.left = (narrow > 0) ? narrow : wide;
	job->second = code[(narrow < wide) ? 1 : 0];
	job->second.left = wide - narrow;
}}
""",
}
ALL_STRIPS = f"""
VMCU_OWN_PARAMS(vmcu_mac_params, p, call);
const int32_t step = p->window.stride_w;
const int32_t columns = call->columns;
const int32_t channels = vmcu_call_output(call)->channels;
const int32_t groups = p->groups;
const int32_t per_group = channels / groups;
const bool spread = p->run != 0U;
int8_t *out = vmcu_output_start(call);
int32_t before = 0;
struct vmcu_band in;
struct vmcu_strip_job job;

VMCU_OWN_POINTER(call, p, stream);
fours(&job, NULL, NULL, 0);
vmcu_band_layout(&in, p);
job.p = p;
job.finish = vmcu_finish_any;
job.tile = call->scratch;
job.half = vmcu_half(p);
job.pitch = channels;
job.phase = 4 * in.phase;
job.last = 4 * (in.row - in.phase);
job.back = 0;
if (step == 1) {{
	/* Larger ones go from two rows to the next two by `phase`. */
	job.last = (p->window.kernel_w == {SQUARE_TAPS}) ? job.phase : 0;
	job.back = 2;
}}
job.plane = 4 * in.plane;
job.zeros = in.zeros;
for (int32_t done = 0, wide; done < columns; done += wide) {{
	int32_t x = done;
	int32_t pixel;

	wide = vmcu_min(p->steps, columns - done);
	if (wide != before) {{
		vmcu_strip_begin(&job, wide);
		before = wide;
	}}
	if (call->layer->descending != 0) {{
		x = columns - done - wide;
	}}
	pixel = (call->x + x) * step - p->window.pad_left;
	vmcu_band_start(&in, call, call->scratch, pixel, wide);
	job.out = out + x * channels;
	job.pieces = in.pieces;
	job.behind = in.end;
	job.stream = p->stream;
	for (int32_t g = 0; g < groups; g++, job.out += per_group) {{
		if (!spread) {{
			/* All outputs of a group read the channel that is staged here. */
			vmcu_stage_few(&in, g, 1);
			job.pieces = in.end;
		}}
		job.channel = 0;
		job.fours = per_group >> 2;
		job.lanes = 4;
		if (job.fours != 0) {{
			job.stream = vmcu_strip_words(&job);
		}}
		job.channel = per_group & ~3;
		job.lanes = per_group & 3;
		if (job.lanes != 0) {{
			if (spread) {{
				vmcu_stage_few(&in, job.channel, job.lanes);
			}}
			job.fours = 0;
			job.stream = vmcu_strip_words(&job);
		}}
	}}
}}
"""
OWN = {made: strip(*key) for key, made in STRIP.items()} | {all_strips: ALL_STRIPS}
