# SPDX-License-Identifier: Apache-2.0
"""All output channels of a tile: runs of blocks as the flash stream announces them."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Mapping

from ...language.evaluate import Machine
from ...language.instruction import Instruction
from ...language.ir import Ram, Stream, Tile
from ...language.packing import Packing
from .blocks import of_pixels
from .registry import compound
from .shapes import NARROW, WIDE, Shape

# Where channels of a block may be joined.
APART = """\
		const bool apart = whole <= 0 && some <= 0 && vmcu_segment_apart(counts);
"""
SECONDS = """\
		if (!apart) {{
			vmcu_seconds(acc, {size}, pixels);
		}}
"""


def blocks_c(shapes: Mapping[int, Shape], packing: Packing) -> str:
    widest = shapes[max(shapes)]
    size = widest.channels(packing)
    if packing.paired:
        return f"*w = vmcu_paired_blocks(p, tile, *w, out, pitch, {size}, pixels);"
    run = of_pixels(shapes, "vmcu_run_{}(p, tile, &at, to, pitch, whole);")
    apart = f"vmcu_sums_apart(acc, tile, p->steps, {size}, pixels, &at);"
    which = seconds = ""
    if packing.joined:
        run = f"if (apart) {{\n\t{apart}\n}} else {run}"
        which, seconds = APART, SECONDS.format(size=size)
    return f"""
const uint8_t *at = *w;
int32_t acc[{widest.sums(packing)}];
uint32_t counts;

do {{
	int32_t whole, some, left;

	counts = vmcu_segment(&at);
	if (!vmcu_requant_is_float(false) && (counts >> 16) == {size}U << 12) {{
		/* As in most layers, all blocks are whole and fast ones. */
		whole = (int32_t)((counts & 0xffffU) * {size}U);
		some = 0;
		left = 0;
	}} else {{
		some = vmcu_segment_taken(counts, {size});
		whole = some - (int32_t)((uint32_t)some % {size}U);
		some -= whole;
		left = vmcu_segment_exact(counts) +
		       (int32_t)(((uint32_t)some + {size - 1}U) / {size}U);
	}}
	do {{
{which}		int8_t *to = (whole > 0) ? out : (int8_t *)acc;

{textwrap.indent(run, chr(9) * 2)}
		if (whole > 0) {{
			out += whole;
			whole = 0;
			continue;
		}}
{seconds}		if (some > 0) {{
			at = vmcu_store_some(p, acc, {size}, pixels, at, out, pitch,
					     vmcu_min(some, {size}));
			some -= {size};
		}} else {{
			at = vmcu_exact_block(p, acc, {size}, pixels, at, out, pitch,
					      vmcu_segment_left(counts, left, {size}));
		}}
		out += {size};
		left--;
	}} while (left > 0);
}} while (vmcu_segment_more(counts));
*w = at;
"""


def _blocks_of(shapes: Mapping[int, Shape], member: str) -> Instruction:
    text = functools.partial(blocks_c, shapes)
    parameters = (
        "const struct vmcu_mac_params *p, const vmcu_lane_t *tile, const uint8_t **w, int8_t *out, "
        "int32_t pitch, int32_t pixels"
    )

    @compound("RAMStore", parameters, text, member, f"a {member} tile")
    def blocks_of(
        m: Machine, p: int, tile: Tile, stream: Stream, ram: Ram, pitch: int, pixels: int
    ) -> None:
        """All channels of the pixels of {what}: whole fast blocks at once, then those whose sums
        are stored one by one."""
        raise NotImplementedError("programs say it in segments")

    return blocks_of


BLOCKS_WIDE, BLOCKS_NARROW = _blocks_of(WIDE, "wide"), _blocks_of(NARROW, "narrow")
