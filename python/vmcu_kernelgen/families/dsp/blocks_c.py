# SPDX-License-Identifier: Apache-2.0
"""C that declares and calls the assembly of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vmcu_tools.kernels.targets.portable.shapes import Shape

from ...assembly import (
    Function,
)
from ..thumb import (
    prototypes,
)
from .blocks import RUNS
from .unjoined import APART_FUNCTIONS

PARAMETERS = (
    "const uint8_t *stream, const {} *tile, int32_t steps, int8_t *out, int32_t channels, "
    "int32_t half"
)


def blocks_body(shapes: Mapping[int, Shape], member: str) -> str:
    """C of the instruction for all blocks of a tile; member: the end of the assembly's name."""
    size = shapes[1].channels()
    return f"""
const uint32_t counts = *(const uint32_t *)*w;

if (!vmcu_requant_is_float(false) && (counts >> 16) == {size}U << 12) {{
	/* As in most layers, all blocks are whole and fast ones. */
	*w = vmcu_run_of_{member}(*w + sizeof(counts), tile, p->steps, out,
				  (int32_t)((counts & 0xffffU) * {size}U), vmcu_half(p), pitch,
				  pixels);
}} else {{
	*w = vmcu_blocks(p, tile, *w, out, pitch, {size}, pixels, vmcu_run_of_{member});
}}
"""


APART_DECLARED = prototypes(
    APART_FUNCTIONS,
    "void ",
    "int32_t *sums, const vmcu_lane_t *t, int32_t next, int32_t pixels, const uint8_t *w, "
    "const uint8_t *end, int32_t step",
)
APART = f"""
/* In blocks_dsp.S: adds taps of two pixels, or of one twice, times two channels. */
{APART_DECLARED}
"""
APART += """
/* The sums of a block of channels that are not joined; returns where the flash stream goes on. */
VMCU_APART const uint8_t *vmcu_words_apart(int32_t *acc, const vmcu_lane_t *tile, int32_t steps,
					   int32_t channels, int32_t pixels, const uint8_t *w)
{
	const int32_t *b = (const int32_t *)w;
	const uint8_t *v = w + 4 * channels;
	const uint8_t *const end = v + 4 * channels * steps;
	const int32_t next = (pixels > 1) ? 1 : 0;

	for (int32_t n = channels; n > 0; n -= 2, b += 2, v += 4, acc += 2 * pixels) {
		for (int32_t pixel = 0; pixel < pixels; pixel += 2) {
			int32_t sums[] = {b[0], b[0], b[1], b[1]};

			vmcu_add_apart(sums, tile + pixel, next, pixels, v, end, 2 * channels);
			acc[pixel + next] = sums[1];
			acc[pixel] = sums[0];
			acc[pixels + pixel + next] = sums[3];
			acc[pixels + pixel] = sums[2];
		}
	}
	return end;
}
"""
# called.h has it, for it is made of instructions.
BLOCKS = """
VMCU_CALLED const uint8_t *vmcu_blocks(const struct vmcu_mac_params *p, const vmcu_lane_t *tile,
				      const uint8_t *w, int8_t *out, int32_t pitch, int32_t size,
				      int32_t pixels, vmcu_run_of *run);
"""
RUN_OF = """
/* vmcu_run_of_wide() or vmcu_run_of_narrow(). */
#define VMCU_BLOCK_SUMS 8
typedef const uint8_t *vmcu_run_of(const uint8_t *stream, const vmcu_lane_t *tile, int32_t steps,
				   int8_t *out, int32_t channels, int32_t half, int32_t pitch,
				   int32_t pixels);

"""


def run_helpers(runs: Sequence[Function], origin: str) -> dict[str, str]:
    """C that declares functions for blocks of a tile, and their callers."""
    parameters = PARAMETERS.format("vmcu_lane_t") + ", int32_t pitch, int32_t pixels"
    declared = prototypes(runs, "const uint8_t *", parameters)
    return {"run_of": f"{RUN_OF}/* In {origin}. */\n{declared}{BLOCKS}"}


HELPERS = {"words_apart": APART, **run_helpers(RUNS, "blocks_dsp.S")}
