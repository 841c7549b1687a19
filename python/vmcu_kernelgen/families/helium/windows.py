# SPDX-License-Identifier: Apache-2.0
"""First layers: windows of three rows, whose taps are one or two vectors of a tile."""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.vectors import all_tiles

from ...assembly import WORD, Function, leave, release, reserve, save
from ..thumb import prototypes

KEPT = ("r4", "r5", "r6", "r7", "r8", "lr")
# Room for 32 taps and the last row's writes behind them.
TAPS = 48 // WORD
SLOTS = {48 + WORD * len(KEPT): "LINE", 52 + WORD * len(KEPT): "PIXELS"}
LINE, PIXELS = (f"[sp, #{at}]" for at in SLOTS)


def three_rows() -> Function:
    tile, rows, pitch, line = "r0", ("r1", "r4", "r5"), "r3", "r2"
    code = [
        *save(KEPT),
        *reserve(TAPS),
        "add r4, r1, r2",
        "add r5, r4, r2",
        f"ldr {line}, {LINE}",
        f"ldr r8, {PIXELS}",
        f"vctp.8 {line}",
        f"add r6, sp, {line}",
        f"add r7, r6, {line}",
        "lsl r12, r8, #4",
        "dls lr, r8",
        "<pixel>:",
        "vpsttt",
        *(f"vldrbt.8 q{i}, [{row}]" for i, row in enumerate(rows)),
        "vstrb.8 q0, [sp]",
        "vstrb.8 q1, [r6]",
        "vstrb.8 q2, [r7]",
        "vldrw.32 q0, [sp]",
        "vldrw.32 q1, [sp, #16]",
        f"add r8, {tile}, r12",
        f"vstrw.32 q0, [{tile}], #16",
        "vstrw.32 q1, [r8]",
        *(f"add {row}, {pitch}" for row in rows),
        "le lr, <pixel>",
        *release(TAPS),
        leave(KEPT),
    ]
    summary = (
        "Windows of three rows of `line` bytes, `step` bytes apart, 17 to 32 in all, into a tile; "
        "from a pixel to the next, `pitch` bytes."
    )
    return Function("vmcu_three_rows", summary, code, SLOTS)


FUNCTIONS = [three_rows()]
DECLARED = prototypes(
    FUNCTIONS,
    "void ",
    "int8_t *tile, const int8_t *x, int32_t step, int32_t pitch, int32_t line, int32_t pixels",
)
OWN = {
    all_tiles: """
const struct vmcu_mac_params *const p = vmcu_params(call);
const struct vmcu_window *const window = &p->window;
const struct vmcu_source in = vmcu_conv_source(call, p);
const int32_t columns = call->columns, channels = vmcu_call_output(call)->channels;
const int32_t stride = window->stride_w, width = in.tensor->width;
const int32_t size = channels / p->groups;
const bool back = call->layer->descending != 0;
const uint8_t *const stream = vmcu_constants(call, p->stream);
const uint32_t counts = *(const uint32_t *)stream;
int8_t *const out = vmcu_output_start(call);
vmcu_lane_t *const tile = call->scratch;
/* The last column where four windows of three rows may begin. */
int32_t last = -1;

if (p->groups == 1U && in.rows != NULL && in.packed && vmcu_are_fast_fours(counts) &&
    vmcu_are_three_rows(window, in.run) && in.run == window->kernel_w * in.depth) {
	last = width - 3 * stride - window->kernel_w;
}
for (int32_t x = 0, pixels = 4; x < columns; x += pixels) {
	while (pixels > columns - x) {
		pixels >>= 1;
	}
	const int32_t at = back ? columns - pixels - x : x;
	const int32_t pixel = (call->x + at) * stride - window->pad_left;
	int8_t *const to = out + at * channels;
	const uint8_t *w = stream;

	if (pixels == 4 && pixel >= 0 && pixel <= last) {
		vmcu_three_rows(tile, in.rows + pixel * in.depth,
				window->dilation_h * width * in.depth, stride * in.depth,
				in.run, pixels);
		vmcu_run_of_vectors(w + sizeof(counts), tile, p->steps, to, channels,
				    vmcu_half(p), channels, pixels);
		continue;
	}
	for (int32_t g = 0; g < p->groups; g++) {
		vmcu_gather_windows(tile, pixels, &in,
				    call->y * window->stride_h - window->pad_top, pixel,
				    g * p->depth);
		vmcu_blocks_of_wide(p, tile, &w, to + g * size, channels, pixels);
	}
}
"""
}
