# SPDX-License-Identifier: Apache-2.0
"""Instructions of depthwise convolutions of square windows: a strip of pixels of four channels at
once, from a tile as depthwise.py has it.

A target may compute a strip of 3 x 3 taps in blocks that are wider by WIDER than Packing.pixels: a
tile has room for whole ones of them, see ops/depthwise.py.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

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
    channel_bytes,
    finish_channel_c,
    finish_channels,
    line_c,
    line_order,
    pair_counts,
    pairs_c,
    whole_pairs,
)
from .registry import compound, define

WIDER = 2


# The data that all channels of a strip share, in words of its tile.
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
    return [f"vmcu_copy_word(out + {pixel} * pitch, &patch[{pixel}]);" for pixel in range(pixels)]


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


# The members of a strip's job, by their names in C.
JOB_C = "\n".join(
    [
        "const struct vmcu_mac_params *p = job->p;",
        "const uint32_t *tile = job->tile;",
        *(f"const int32_t {n} = job->{n};" for n in ("phase", "row", "plane", "pitch", "wide")),
    ]
)


def strip_c(packing: Packing, taps: int, stride: int) -> str:
    """Blocks of as many pixels as whole strips have; those of a last one may not exist."""
    if packing.paired:
        # Each target has its own.
        return ""
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


@dataclass(frozen=True, eq=False)
class Meetings:
    """The products of a strip's pixels and a channel's weights. bytes: by weight, where it is
    behind the channel's word in the stream; words, halves: (pixels, weights), the word of the
    tile that it meets, from the channel's first one on, and which of the taps there."""

    bytes: np.ndarray
    words: np.ndarray
    halves: np.ndarray


@functools.lru_cache(maxsize=256)
def meetings(packing: Packing, taps: int, stride: int, phase: int, row: int, wide: int) -> Meetings:
    """Those of a strip of `wide` pixels. phase, row: words to the odd columns and two rows on."""
    met = _rows if packing.paired else _pairs
    by_weight = met(packing, taps, stride, phase, row, wide)
    places_, words, halves = zip(*by_weight, strict=True)
    return Meetings(np.array(places_), np.stack(words, axis=1), np.stack(halves, axis=1))


Met = list[tuple[int, np.ndarray, np.ndarray]]


def _rows(packing: Packing, taps: int, stride: int, phase: int, row: int, wide: int) -> Met:
    """Lists the meetings of weights row by row."""
    by_weight: Met = []
    for number in range(taps * taps):
        r, s = divmod(number, taps)
        column = stride * np.arange(wide) + s
        if r == taps - 1:
            by_weight.append((number, taps // 2 * row + column // 2, column % 2))
            continue
        words = r // 2 * row + s % stride * phase + column // stride
        by_weight.append((number, words, np.full(wide, r % 2)))
    return by_weight


def _pairs(packing: Packing, taps: int, stride: int, phase: int, row: int, wide: int) -> Met:
    """Lists the meetings of weights of two rows in pairs."""
    pixels = np.arange(wide)
    by_weight: Met = []
    for at, pairs, is_line in _runs(packing, taps, stride, phase, row):
        if is_line:
            places: dict[int, int] = {}
            for two, bytes_ in zip(line_order(taps), pairs, strict=True):
                places |= dict(zip(two, bytes_, strict=True))
            for tap in range(taps):
                column = pixels + tap
                by_weight.append((places[tap], at + column // 2, column % 2))
            continue
        for word, couple in enumerate(pairs, at):
            for half, place in enumerate(couple):
                by_weight.append((place, word + pixels, np.full(wide, half)))
    return by_weight


def _runs(
    packing: Packing, taps: int, stride: int, phase: int, row: int
) -> Iterator[tuple[int, list[tuple[int, int]], bool]]:
    """Pairs of weights that neighbouring words meet: the first of these words, where each pair is
    in the stream, and whether they are those of a last row at a stride of one."""
    counts = pair_counts(taps, stride)
    last, rows = taps // 2 * row, taps // 2
    if taps == SQUARE_TAPS:
        # All of them are one run of pairs.
        pairs = packing.pairs(2 * SQUARE_TAPS)
        ends = list(itertools.accumulate([*counts, taps if stride == 1 else counts[0]], initial=0))
        for at, first, stop in zip([*[0, phase][:stride], last], ends, ends[1:], strict=False):
            yield at, pairs[first:stop], stride == 1 and at == last
        return
    for number in range(rows):
        first = 2 * number * whole_pairs(taps)
        pairs = [(first + a, first + b) for a, b in packing.pairs(whole_pairs(taps))]
        yield number * row, pairs[: counts[0]], False
        if stride > 1:
            yield number * row + phase, pairs[counts[0] : taps], False
    size, first = (taps if stride == 1 else counts[0]), 2 * rows * whole_pairs(taps)
    pairs = [(first + a, first + b) for a, b in packing.pairs(whole_pairs(size))]
    yield last, pairs[:size], stride == 1


def _strip(taps: int, stride: int) -> Instruction:
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
        met = meetings(m.packing, taps, stride, phase, row, wide)
        channel = np.arange(lanes + lanes % 2)[:, None, None]
        size = channel_bytes(taps, stride, m.packing)
        taken = m.take(np.uint8, channel.size * size).astype(np.uint8).reshape(-1, size)
        words, multipliers = (
            np.ascontiguousarray(part).view(np.int32).astype(np.int64)
            for part in (taken[:, :4], taken[:, -4:])
        )
        weights = taken[:, 4 + met.bytes].view(np.int8).astype(np.int64)
        met_taps = m.tile[channel // 2 * plane + met.words, 2 * met.halves + channel % 2]
        acc = (words >> BIAS) + (met_taps @ weights[..., None])[..., 0]
        m.store(ram, finish_channels(m, acc, words, multipliers)[:lanes].T)

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
const int32_t per_group = channels / p->groups;
/* Outputs of a channel, and as many channels as are staged at a time. */
const int32_t readers = (p->run != 0U) ? 1 : per_group;
const int32_t most = (p->run != 0U) ? 4 : 1;
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

	for (int32_t c = 0, lanes; c < channels; c += lanes) {
		lanes = vmcu_min(4, per_group - c % per_group);
		vmcu_stage(call->scratch, &in, 0, pixel, c / readers, call, job.wide,
			   vmcu_min(lanes, most));
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
