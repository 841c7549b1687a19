# SPDX-License-Identifier: Apache-2.0
"""Instructions of depthwise convolutions of square windows: a strip of pixels of four channels at
once, from a tile as depthwise.py has it.

A target may compute a strip of 3 x 3 taps in blocks that are wider by WIDER than Packing.pixels: a
tile has room for whole ones of them, see ops/depthwise.py.
"""

from __future__ import annotations

import functools

import numpy as np

from ...language.evaluate import Machine
from ...language.instruction import Instruction
from ...language.ir import Ram, Stream, Tile
from ...language.packing import Packing
from .depthwise import (
    BIAS,
    SQUARE_TAPS,
    STRIDES,
    TAPS,
    add_line,
    add_pairs,
    channel_bytes,
    channels_of,
    finish_channel,
    finish_channel_c,
    line_c,
    pair_counts,
    pairs_c,
    take_bias,
    take_pairs,
    whole_pairs,
)
from .registry import compound, define

WIDER = 2


# What all channels of a strip have in common, in words of its tile.
JOB = """
	const struct vmcu_mac_params *p;
	const uint32_t *tile;
	int32_t phase; /* from a row's even columns to its odd ones */
	int32_t row;   /* from two rows to the next two */
	int32_t plane; /* from two channels to the next two */
	int32_t pitch; /* bytes of an output pixel */
	int32_t wide;  /* pixels */
"""
FOURS = """
/* Up to four channels of a strip: moves the flash stream past their constants. */
typedef void vmcu_strip_fours(struct vmcu_strip_job *job, const uint8_t **w, int8_t *out,
			      int32_t lanes);
"""
HELPERS = {
    "strip_job": f"""
/* A strip of a square window. */
struct vmcu_strip_job {{{JOB.rstrip()}
}};
{FOURS}"""
}


def store_whole_c(pixels: int) -> list[str]:
    return [
        f"__builtin_memcpy(out + {pixel} * pitch, &patch[{pixel}], 4);" for pixel in range(pixels)
    ]


def square_rows_c(pixels: int, stride: int, packing: Packing) -> list[str]:
    """All of 3 x 3 taps, from x, and `last`, on."""
    places = packing.pairs(2 * SQUARE_TAPS)

    def pairs(first: int, count: int) -> list[str]:
        return pairs_c(pixels, places[first : first + count])

    if stride == 1:
        return [*pairs(0, 3), "x = last;", *line_c(pixels, SQUARE_TAPS, places[3:])]
    return [*pairs(0, 2), "x += 4 * phase;", *pairs(2, 1), "x = last;", *pairs(3, 2)]


def larger_rows_c(taps: int, pixels: int, stride: int, packing: Packing) -> list[str]:
    """All of a larger window."""
    counts, size = pair_counts(taps, stride), 2 * whole_pairs(taps)
    places = packing.pairs(whole_pairs(taps))
    body = pairs_c(pixels, places[: counts[0]])
    if stride == 2:
        body += ["x += 4 * phase;", *pairs_c(pixels, places[counts[0] : taps]), "x -= 4 * phase;"]
    if stride == 1:
        line = line_c(pixels, taps, places[:taps])
    else:
        line = pairs_c(pixels, packing.pairs(whole_pairs(counts[0]))[: counts[0]])
    head = f"for (int32_t r = 0; r < {taps // 2}; r++, x += 4 * row, v += {size}) {{"
    return [head, *(f"\t{one}" for one in body), "}", "x = last;", *line]


# What a strip's job says, by the names that its C has for it.
JOB_C = "\n".join(
    [
        "const struct vmcu_mac_params *p = job->p;",
        "const uint32_t *tile = job->tile;",
        *(f"const int32_t {n} = job->{n};" for n in ("phase", "row", "plane", "pitch", "wide")),
    ]
)


def strip_c(packing: Packing, taps: int, stride: int) -> str:
    """Blocks of as many pixels as whole strips have; those of a last one may not exist."""
    is_square = taps == SQUARE_TAPS
    pixels = packing.pixels + (WIDER if is_square and stride == 2 else 0)
    size = channel_bytes(taps, stride)
    rows = square_rows_c if is_square else functools.partial(larger_rows_c, taps)
    behind = f"{taps // 2} * 4 * row" if taps // 2 > 1 else "4 * row"
    channel = [
        "const int32_t first = 4 * ((n >> 1) * plane + at) + (n & 1);",
        "const int8_t *x = (const int8_t *)tile + first;",
        f"const int8_t *last = x + {behind}{' - 2 * at' if stride == 1 else ''};",
        "const int8_t *v = (const int8_t *)s + 4;",
        "int32_t word, multiplier, shift, bias;",
        "int8_t *o = (int8_t *)patch + n;",
        f"int32_t acc[{pixels}];",
        "",
        f"acc[0] = *(const int32_t *)s >> {BIAS};",
        "/* Where it begins a sum, MLA adds it for nothing. */",
        '__asm__("" : "+r"(acc[0]));',
        *(f"acc[{i}] = acc[0];" for i in range(1, pixels)),
        *rows(pixels, stride, packing),
        "word = *(const int32_t *)s;",
        f"s += {size};",
        "multiplier = *(const int32_t *)(s - 4);",
        *finish_channel_c(pixels),
    ]
    inner = "\n".join(f"\t\t{line}" if line else "" for line in channel)
    whole = "\n".join(f"\t\t{line}" for line in store_whole_c(pixels))
    return f"""
{JOB_C}
const uint8_t *s = *w;
const int32_t half = vmcu_half(p);

(void)phase;
for (int32_t at = 0; at < wide; at += {pixels}, out += {pixels} * pitch) {{
	int32_t patch[{pixels}];

	s = *w;
	for (int32_t n = 0; n < lanes; n++) {{
{inner}
	}}
	if (lanes == 4 && wide - at >= {pixels}) {{
{whole}
		continue;
	}}
	vmcu_store_part(patch, out, pitch, vmcu_min({pixels}, wide - at), lanes);
}}
*w = s + (lanes & 1) * {size};
"""


def add_square(
    m: Machine, acc: np.ndarray, first: int, odd: int, steps: tuple[int, int], stride: int
) -> None:
    """All of 3 x 3 taps, whose weights are one run of pairs. steps: words to the odd columns and
    to the last row."""
    phase, row = steps
    pairs = take_pairs(m, 2 * SQUARE_TAPS)
    if stride == 1:
        add_pairs(m, acc, first, odd, pairs[:3])
        add_line(m, acc, first + row, odd, pairs[3:])
    else:
        add_pairs(m, acc, first, odd, pairs[:2])
        add_pairs(m, acc, first + phase, odd, pairs[2:3])
        add_pairs(m, acc, first + row, odd, pairs[3:5])


def add_larger(
    m: Machine, acc: np.ndarray, first: int, odd: int, steps: tuple[int, int], taps: int
) -> None:
    """All of a larger window: pairs of two rows, then those of the last one."""
    phase, row = steps
    counts = pair_counts(taps, m.names["p->window.stride_w"])
    for _ in range(taps // 2):
        pairs = take_pairs(m, whole_pairs(taps))
        add_pairs(m, acc, first, odd, pairs[: counts[0]])
        if len(counts) > 1:
            add_pairs(m, acc, first + phase, odd, pairs[counts[0] : taps])
        first += row
    if len(counts) == 1:
        add_line(m, acc, first, odd, take_pairs(m, whole_pairs(taps))[:taps])
    else:
        add_pairs(m, acc, first, odd, take_pairs(m, whole_pairs(counts[0]))[: counts[0]])


def _strip(taps: int, stride: int) -> Instruction:
    is_square = taps == SQUARE_TAPS

    def store_strip(
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
        """Channels of a strip of pixels of {what}, from their words to their bytes. The stream has
        an even number of channels."""
        add = add_square if is_square else add_larger
        patch = np.zeros(wide, np.int64)
        for channel in range(lanes + lanes % 2):
            word, bias = take_bias(m)
            acc = np.full(wide, bias)
            first, odd = channel // 2 * plane, channel % 2
            add(m, acc, first, odd, (phase, row), stride if is_square else taps)
            finish_channel(m, acc, patch, channel, word)
        m.store(ram, channels_of(patch)[:, :lanes])

    return define(
        "RAMStore",
        "struct vmcu_strip_job *job, const uint8_t **w, int8_t *out, int32_t lanes",
        lambda packing: strip_c(packing, taps, stride),
        f"{taps}_{stride}",
        f"{taps} x {taps} taps, at a stride of {'one' if stride == 1 else 'two'}",
        apart=True,
    )(store_strip)


@compound(
    "RAMStore",
    "const struct vmcu_call *call, vmcu_strip_fours *fours",
    """
VMCU_OWN_PARAMS(vmcu_mac_params, p, call);
const int32_t step = p->window.stride_w;
const int32_t columns = call->columns;
const int32_t channels = vmcu_call_output(call)->channels;
int8_t *out = vmcu_output_start(call);
struct vmcu_band in;
struct vmcu_strip_job job;

VMCU_OWN_POINTER(call, p, stream);
job.p = p;
job.tile = call->scratch;
vmcu_band_layout(&in, p);
job.phase = in.phase;
job.row = in.row;
job.plane = in.plane;
job.pitch = channels;
for (int32_t done = 0; done < columns; done += p->steps) {
	const uint8_t *w = p->stream;
	int32_t x = done;

	job.wide = vmcu_min(p->steps, columns - done);
	if (call->layer->descending != 0) {
		x = columns - done - job.wide;
	}
	const int32_t pixel = (call->x + x) * step - p->window.pad_left;

	for (int32_t c = 0; c < channels; c += 4) {
		const int32_t lanes = vmcu_min(4, channels - c);

		vmcu_stage(call->scratch, &in, 0, pixel, c, call, job.wide, lanes);
		fours(&job, &w, out + x * channels + c, lanes);
	}
}
""",
    apart=True,
)
def all_strips(m: Machine, call: int, fours: int) -> None:
    """All strips of a square window, four channels of each at a time."""
    raise NotImplementedError("programs say it in strips")


STRIP = {(taps, stride): _strip(taps, stride) for taps in TAPS for stride in STRIDES}
