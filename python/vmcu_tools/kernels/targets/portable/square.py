# SPDX-License-Identifier: Apache-2.0
"""Instructions of depthwise convolutions of 3 x 3 taps: a strip of pixels of four channels at once,
from a tile as depthwise.py has it.

A target may compute a strip in blocks that are wider by WIDER than Packing.pixels: a tile has room
for whole ones of them, see ops/depthwise.py.
"""

from __future__ import annotations

import numpy as np

from ...language.evaluate import Machine
from ...language.instruction import Instruction
from ...language.ir import Ram, Stream, Tile
from ...language.packing import Packing
from .depthwise import (
    BIAS,
    FACTORS_C,
    SQUARE_TAPS,
    STRIDES,
    add_line,
    add_pairs,
    channels_of,
    finish_channel,
    finish_channel_c,
    line_c,
    pairs_c,
    take_bias,
    take_pairs,
)
from .registry import define

WIDER = 2


def store_whole_c(pixels: int) -> list[str]:
    return [
        f"__builtin_memcpy(out + {pixel} * pitch, &patch[{pixel}], 4);" for pixel in range(pixels)
    ]


def square_c(packing: Packing, stride: int) -> str:
    """Blocks of as many pixels as whole strips have; those of a last one may not exist."""
    pixels, places = packing.pixels + (WIDER if stride == 2 else 0), packing.pairs(2 * SQUARE_TAPS)
    size = 4 + 4 * SQUARE_TAPS + 4

    def pairs(first: int, count: int) -> list[str]:
        return pairs_c(pixels, places[first : first + count])

    if stride == 1:
        rows = [*pairs(0, 3), "x = last;", *line_c(pixels, SQUARE_TAPS, places[3:])]
        last = "x + 4 * row - 2 * at"
    else:
        rows = [*pairs(0, 2), "x += 4 * phase;", *pairs(2, 1), "x = last;", *pairs(3, 2)]
        last = "x + 4 * row"
    channel = [
        "const int32_t first = 4 * ((n >> 1) * plane + at) + (n & 1);",
        "const int8_t *x = (const int8_t *)tile + first;",
        f"const int8_t *last = {last};",
        "const int8_t *v = (const int8_t *)*w + 4;",
        "const int32_t word = *(const int32_t *)*w;",
        f"const int32_t multiplier = *(const int32_t *)(*w + {size - 4});",
        *FACTORS_C,
        "int8_t *o = (int8_t *)patch + n;",
        f"int32_t acc[{pixels}];",
        "",
        *(f"acc[{i}] = word >> {BIAS};" for i in range(pixels)),
        *rows,
        f"*w += {size};",
        *finish_channel_c(pixels, "continue"),
    ]
    inner = "\n".join(f"\t\t{line}" if line else "" for line in channel)
    whole = "\n".join(f"\t\t{line}" for line in store_whole_c(pixels))
    return f"""
const uint8_t *const start = *w;

(void)phase;
for (int32_t at = 0; at < wide; at += {pixels}, out += {pixels} * pitch) {{
	int32_t patch[{pixels}];

	*w = start;
	for (int32_t n = 0; n < lanes; n++) {{
{inner}
	}}
	if (lanes == 4 && wide - at >= {pixels}) {{
{whole}
		continue;
	}}
	vmcu_store_part(patch, out, pitch, vmcu_min({pixels}, wide - at), lanes);
}}
*w += (lanes & 1) * {size};
"""


def _square(stride: int) -> Instruction:
    def store_square(
        m: Machine,
        p: int,
        tile: Tile,
        phase: int,
        row: int,
        plane: int,
        stream: Stream,
        ram: Ram,
        pitch: int,
        wide: int,
        lanes: int,
    ) -> None:
        """Channels of a strip of `wide` pixels of 3 x 3 taps, at a stride of {what}, from their
        biases to their bytes. The stream has an even number of channels."""
        patch = np.zeros(wide, np.int64)
        for channel in range(lanes + lanes % 2):
            first, odd = channel // 2 * plane, channel % 2
            word, bias = take_bias(m)
            acc = np.full(wide, bias)
            pairs = take_pairs(m, 2 * SQUARE_TAPS)
            if stride == 1:
                add_pairs(m, acc, first, odd, pairs[:3])
                add_line(m, acc, first + row, odd, pairs[3:])
            else:
                add_pairs(m, acc, first, odd, pairs[:2])
                add_pairs(m, acc, first + phase, odd, pairs[2:3])
                add_pairs(m, acc, first + row, odd, pairs[3:5])
            finish_channel(m, acc, patch, channel, word)
        m.store(ram, channels_of(patch)[:, :lanes])

    return define(
        "RAMStore",
        "const struct vmcu_mac_params *p, const vmcu_lane_t *tile, int32_t phase, int32_t row, "
        "int32_t plane, const uint8_t **w, int8_t *out, int32_t pitch, int32_t wide, int32_t lanes",
        lambda packing: square_c(packing, stride),
        stride,
        "one" if stride == 1 else "two",
    )(store_square)


SQUARE = {stride: _square(stride) for stride in STRIDES}
