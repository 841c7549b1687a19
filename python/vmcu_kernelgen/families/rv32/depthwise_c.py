# SPDX-License-Identifier: Apache-2.0
"""C that declares and calls the assembly of depthwise convolutions."""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.strips import STRIP, all_strips

HELPERS = {
    "paired_strips": """
/* For columns.h. In strips_rv32.S; `window` has taps across and the stride, as bytes. */
#define VMCU_COLUMNS 1

const uint8_t *vmcu_paired_strip(const uint8_t *stream, const int8_t *tile, int8_t *out,
				int32_t channels, int32_t pixels, int32_t pitch, int32_t half,
				const uint8_t *window);
"""
}
ALL_STRIPS = """
VMCU_OWN_PARAMS(vmcu_mac_params, p, call);
const struct vmcu_tensor *t = vmcu_call_input(call, 0);
const int32_t stride = p->window.stride_w, taps = p->window.kernel_h;
const int32_t columns = call->columns;
const int32_t channels = vmcu_call_output(call)->channels;
const int32_t zeros = (int32_t)((uint8_t)p->input_zero * 0x01010101U);
int8_t *out = vmcu_output_start(call);
vmcu_pair_t *tile = (vmcu_pair_t *)call->scratch;
struct vmcu_band_row rows[VMCU_BAND_ROWS];
struct vmcu_strip_job job;

VMCU_OWN_POINTER(call, p, stream);
job.p = p;
job.tile = call->scratch;
job.pitch = channels;
for (int32_t done = 0; done < columns; done += p->steps) {
	const uint8_t *w = p->stream;
	int32_t x = done;

	job.wide = vmcu_min(p->steps, columns - done);
	if (call->layer->descending != 0) {
		x = columns - done - job.wide;
	}
	const int32_t pixel = (call->x + x) * stride - p->window.pad_left;
	const int32_t wide = (job.wide - 1) * stride + taps;
	const int32_t begin = (pixel < 0) ? -pixel : 0;
	const int32_t count = vmcu_min(wide, t->width - pixel) - begin;
	/* Words of a tile from a column to the next, and from a row to the next. */
	const int32_t across = (taps == 3) ? taps : 1;
	int8_t *const to = (int8_t *)(tile + begin * across);

	job.phase = across;
	job.row = (taps == 3) ? 1 : wide;
	vmcu_band_rows(rows, call, &p->window, pixel + begin, count);
	/* Padding is the same for all channels. */
	for (int32_t i = 0; i < wide * taps; i++) {
		tile[i] = zeros;
	}
	for (int32_t c = 0; c < channels; c += 4) {
		const int32_t lanes = vmcu_min(4, channels - c);

		vmcu_paired_rows(&job, to, rows, c, count, lanes);
		vmcu_tile_done();
		fours(&job, &w, out + x * channels + c, lanes);
	}
}
"""
OWN = {
    **dict.fromkeys(STRIP.values(), "vmcu_paired_fours(job, w, out, lanes);"),
    all_strips: ALL_STRIPS,
}
