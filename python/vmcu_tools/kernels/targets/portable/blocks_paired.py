# SPDX-License-Identifier: Apache-2.0
"""Blocks of output channels of a tile of paired pixels, see language/packing.py.

Products of some taps are added up in one word for two pixels before the halves are separated; a
code in the head of a run of blocks says of how many.
"""

from __future__ import annotations

import functools
import itertools
import textwrap
from collections.abc import Mapping

import numpy as np

from ...language.evaluate import Machine
from ...language.instruction import Instruction
from ...language.ir import Ram, Stream, Tile
from ...language.packing import PAIRED_TAPS, Packing
from .blocks import RUN, SHAPES, Shape, add_up, of_pixels
from .registry import define
from .tile import SEVERAL


def paired_blocks_c(shapes: Mapping[int, Shape], packing: Packing) -> str:
    """The same of a tile of paired pixels."""
    size = shapes[1].channels(packing)
    run = of_pixels(shapes, "vmcu_run_paired_{}(p, tile, &at, to, pitch, whole, code);")
    return f"""
const uint8_t *at = *w;
int32_t acc[{shapes[max(shapes)].sums(packing)}];
uint32_t counts;

do {{
	int32_t whole, some, left, code;

	counts = vmcu_segment(&at);
	code = (int32_t)((counts >> 14) & 3U);
	counts &= ~(3U << 14);
	some = vmcu_segment_taken(counts, {size});
	whole = some & -{size};
	some -= whole;
	left = vmcu_segment_exact(counts) + ((some > 0) ? 1 : 0);
	while (whole > 0 || left > 0) {{
		int8_t *to = (whole > 0) ? out : (int8_t *)acc;

{textwrap.indent(run, chr(9) * 2)}
		if (whole > 0) {{
			out += whole;
			whole = 0;
			continue;
		}}
		if (some > 0) {{
			at = vmcu_store_some(p, acc, {size}, pixels, at, out, pitch, some);
			some = 0;
		}} else {{
			at = vmcu_exact_block(p, acc, {size}, pixels, at, out, pitch,
					      vmcu_segment_left(counts, left, {size}));
		}}
		out += {size};
		left--;
	}}
}} while (vmcu_segment_more(counts));
*w = at;
"""


def paired_names(shape: Shape, packing: Packing) -> list[tuple[int, int]]:
    """(channel, word) of each pair of pixels of a block."""
    return list(itertools.product(range(shape.channels(packing)), range(shape.pixels // 2)))


def paired_step(shape: Shape, packing: Packing, taps: int, all_taps: int) -> list[str]:
    """So many of a step's taps at a time, until there are `all_taps` of them."""
    lanes, words, channels = packing.lanes, shape.pixels // 2, shape.channels(packing)
    code = []
    for first in range(0, all_taps, taps):
        for tap in range(first, first + taps):
            group, lane = divmod(tap, lanes)
            for n, word in paired_names(shape, packing):
                weight = f"v[{lanes * (channels * group + n) + lane}]"
                sign = "=" if tap == first else "+="
                code.append(f"p{n}{word} {sign} {weight} * x[{words * tap + word}];")
        for n, word in paired_names(shape, packing):
            code.append(f"vmcu_paired_add(&a{n}{word}, &h{n}{word}, p{n}{word});")
    return code


def sums_paired_c(shape: Shape, packing: Packing) -> str:
    """The sums of a block, for each number of taps that may be added up together."""
    if not packing.paired:
        return ""
    lanes, channels, pixels = packing.lanes, shape.channels(packing), shape.pixels
    lines = ["const int32_t *b = (const int32_t *)*w;"]
    lines.append(f"const int8_t *v = (const int8_t *)&b[{channels}];")
    if pixels == 1:
        lines += ["", *(f"acc[{n}] = b[{n}];" for n in range(channels))]
        lines.append(f"for (; steps > 0; steps--, tile += {lanes}, v += {lanes * channels}) {{")
        for tap in range(lanes):
            for n in range(channels):
                product = f"tile[{tap}], v[{lanes * n + tap}]"
                lines.append(f"\tacc[{n}] = vmcu_mac(acc[{n}], {product});")
        return "\n".join([*lines, "}", "(void)code;", "*w = (const uint8_t *)v;"])
    names = paired_names(shape, packing)
    lines.append("const vmcu_pair_t *x = (const vmcu_pair_t *)(const void *)tile;")
    for kind, letter, start in (("uint32_t", "a", " = 0U"), ("int32_t", "h", " = 0")):
        lines.append(f"{kind} " + ", ".join(f"{letter}{n}{i}{start}" for n, i in names) + ";")
    lines += ["int32_t " + ", ".join(f"p{n}{i}" for n, i in names) + ";", ""]
    advance = f"x += {lanes * pixels // 2}, v += {lanes * channels}"
    for code, count in reversed([*enumerate(PAIRED_TAPS)]):
        steps = -(-count // lanes)
        # What is left of several steps is a part of those taps.
        least = "code >= 2" if count == lanes else f"code == {code}"
        more = f"x += {steps * lanes * pixels // 2}, v += {steps * lanes * channels}"
        turn = f"steps -= {steps}, {more}" if steps > 1 else f"steps--, {advance}"
        lines.append(f"for (; {least} && steps >= {steps}; {turn}) {{")
        lines += [f"\t{one}" for one in paired_step(shape, packing, count, steps * lanes)]
        lines.append("}")
    for n, i in names:
        at = n * pixels + 2 * i
        lines.append(f"acc[{at}] = b[{n}] + (int32_t)(a{n}{i} - ((uint32_t)h{n}{i} << 16));")
        lines.append(f"acc[{at + 1}] = b[{n}] + h{n}{i};")
    return "\n".join([*lines, "*w = (const uint8_t *)v;"])


def _sums_paired(shape: Shape) -> Instruction:
    parameters = (
        "int32_t *acc, const vmcu_lane_t *tile, int32_t steps, int32_t code, const uint8_t **w"
    )
    text = functools.partial(sums_paired_c, shape)

    @define("Dot", parameters, text, shape.name, SEVERAL[shape.pixels])
    def sums_paired(
        m: Machine, acc: np.ndarray, tile: Tile, steps: int, code: int, stream: Stream
    ) -> None:
        """The sums of a block of channels of {what} where pixels are paired: `code` says how many
        taps are added up together, see language/packing.py."""
        add_up(m, acc, steps, shape.channels(m.packing), shape.pixels)

    return sums_paired


def run_paired_c(shape: Shape, packing: Packing) -> str:
    if not packing.paired:
        return ""
    size = shape.channels(packing)
    return f"""
const int32_t half = vmcu_half(p);

if (channels == 0) {{
	vmcu_sums_paired_{shape.name}((int32_t *)(void *)out, tile, p->steps, code, w);
}}
for (; channels > 0; channels -= {size}) {{
	int32_t acc[{shape.sums(packing)}];

	vmcu_sums_paired_{shape.name}(acc, tile, p->steps, code, w);
	vmcu_store_fixed_{shape.name}(acc, w, &out, pitch, half);
}}
"""


def _run_paired(shape: Shape) -> Instruction:
    parameters = (
        "const struct vmcu_mac_params *p, const vmcu_lane_t *tile, const uint8_t **w, "
        "int8_t *out, int32_t pitch, int32_t channels, int32_t code"
    )
    text = functools.partial(run_paired_c, shape)

    @define("RAMStore", parameters, text, shape.name, SEVERAL[shape.pixels], apart=True)
    def run_paired(
        m: Machine,
        p: int,
        tile: Tile,
        stream: Stream,
        ram: Ram,
        pitch: int,
        channels: int,
        code: int,
    ) -> None:
        """So many channels of {what} where pixels are paired, as run() has them."""
        RUN[shape].meaning(m, p, tile, stream, ram, pitch, channels)

    return run_paired


SUMS_PAIRED = {shape: _sums_paired(shape) for shape in SHAPES}
RUN_PAIRED = {shape: _run_paired(shape) for shape in SHAPES}
