# SPDX-License-Identifier: Apache-2.0
"""Instructions of depthwise convolutions of any window, four channels of a pixel at a time.

Scratch holds where each tap of the pixel's window is, for all of its channels: an offset from the
pool's start (places.h). Taps are read from the pool as words of four channels.

The flash stream holds, for each four channels: their biases, their weights as tap_order() says, the
requantiser's multipliers, and a byte for each shift, one less. There is EXACT in place of these
where the fast requantiser does not apply to all of them; the shifts, or the words of float32
factors, then follow as words.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....quant import FixedPoint, wrap_int32
from ...integer_scale import IntegerScale
from ...language.evaluate import Machine
from ...language.ir import Ram, Stream, Tile
from .depthwise import EXACT, GROUP
from .registry import compound, define
from .tile import finish, fixed_fast

HELPERS = {
    "two_taps": r"""
/* Two taps of four channels times their weights, see tap_order() in targets/portable/places.py. */
VMCU_INLINE void vmcu_two_taps(int32_t *acc, uint32_t a, uint32_t b, const uint8_t **w)
{
	const int8_t *v = (const int8_t *)*w;

	acc[0] = vmcu_mac(acc[0], (int8_t)a, v[0]);
	acc[1] = vmcu_mac(acc[1], (int8_t)(a >> 8), v[1]);
	acc[0] = vmcu_mac(acc[0], (int8_t)b, v[2]);
	acc[1] = vmcu_mac(acc[1], (int8_t)(b >> 8), v[3]);
	acc[2] = vmcu_mac(acc[2], (int8_t)(a >> 16), v[4]);
	acc[3] = vmcu_mac(acc[3], (int8_t)(a >> 24), v[5]);
	acc[2] = vmcu_mac(acc[2], (int8_t)(b >> 16), v[6]);
	acc[3] = vmcu_mac(acc[3], (int8_t)(b >> 24), v[7]);
	*w += 8;
}
""",
    "one_tap": r"""
/* A tap of four channels times its weights. */
VMCU_INLINE void vmcu_one_tap(int32_t *acc, uint32_t a, const uint8_t **w)
{
	const int8_t *v = (const int8_t *)*w;

	acc[0] = vmcu_mac(acc[0], (int8_t)a, v[0]);
	acc[1] = vmcu_mac(acc[1], (int8_t)(a >> 8), v[1]);
	acc[2] = vmcu_mac(acc[2], (int8_t)(a >> 16), v[2]);
	acc[3] = vmcu_mac(acc[3], (int8_t)(a >> 24), v[3]);
	*w += 4;
}
""",
    "two_offsets": r"""
/* The next two offsets of a list. */
VMCU_INLINE void vmcu_two_offsets(const int32_t **list, int32_t *a, int32_t *b)
{
	*a = (*list)[0];
	*b = (*list)[1];
	*list += 2;
}
""",
    "direct": r"""
/* Whether fours of channels are computed in place: where there is no faster way. */
#define VMCU_DIRECT_IN_PLACE 1

/* As many fours of channels as there is a faster way for; how many are left. */
#define vmcu_direct_fours(stream, x, offsets, out, taps, fours, half, sums) ((void)(x), (fours))
""",
}


def tap_order(taps: int) -> list[tuple[int, int]]:
    """(tap, channel) of the weights of four channels, as dot_taps reads them: all four of the first
    of an odd number of taps, then two taps of two channels in a word."""
    order = [(0, n) for n in range(GROUP)] * (taps % 2)
    for tap in range(taps % 2, taps, 2):
        order += [(t, n) for half in (0, 2) for t in (tap, tap + 1) for n in (half, half + 1)]
    return order


@define(
    "RAMLoad",
    "vmcu_lane_t *tile, struct vmcu_places *in, int32_t row, int32_t pixel, int32_t channel, "
    "const struct vmcu_call *call",
    """
(void)channel;
vmcu_places_find(in, call, (int32_t *)tile, row, pixel);
""",
)
def find_taps(m: Machine, tile: Tile, ram: Ram, call: int) -> None:
    """Finds the taps under an output pixel, without reading any."""


def add_taps(m: Machine, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """Biases and taps of four channels, of which `lanes` exist; a channel of the input for each,
    or one for all."""
    taps = m.load(ram, m.names["p->input_zero"])
    taps = taps.reshape(-1, taps.shape[-1])
    acc[:] = m.take(np.int32, GROUP)
    weights = np.zeros((len(taps), GROUP), np.int64)
    data = m.take(np.int8, weights.size)
    for place, weight in zip(tap_order(len(taps)), data, strict=True):
        weights[place] = weight
    acc[:lanes] += (taps * weights[:, :lanes]).sum(axis=0)


TAPS_PARAMETERS = (
    "int32_t *acc, const struct vmcu_places *in, int32_t row, int32_t pixel, int32_t channel, "
)


@define(
    "Dot",
    TAPS_PARAMETERS + "int32_t spread, const uint8_t **w",
    """
int32_t sums[4];

(void)row;
(void)pixel;
if (in->is_direct) {
	vmcu_dot_places(acc, in, channel, w);
	return;
}
*w = vmcu_dot_any(sums, in, channel, 4, spread, *w);
__builtin_memcpy(acc, sums, sizeof(sums));
""",
)
def dot_taps(m: Machine, acc: np.ndarray, ram: Ram, spread: int, stream: Stream) -> None:
    """The biases and all taps of four channels, `spread` bytes apart in the input, straight from
    the pool: any window."""
    add_taps(m, acc, ram, GROUP)


@define(
    "Dot",
    TAPS_PARAMETERS + "int32_t lanes, int32_t spread, const uint8_t **w",
    """
int32_t sums[4];

(void)row;
(void)pixel;
*w = vmcu_dot_any(sums, in, channel, lanes, spread, *w);
__builtin_memcpy(acc, sums, sizeof(sums));
""",
)
def dot_some_taps(
    m: Machine, acc: np.ndarray, ram: Ram, lanes: int, spread: int, stream: Stream
) -> None:
    """Multiplies fewer than four channels by weights for four."""
    add_taps(m, acc, ram, lanes)


def store_channels(m: Machine, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """Requantises four channels and stores those that exist."""
    multiplier, shifts = m.take(np.int32, GROUP), m.take(np.uint8, GROUP)
    if shifts[0] & EXACT == 0:
        m.store(ram, fixed_fast(m, wrap_int32(acc), multiplier, shifts)[:lanes])
        return
    kind = IntegerScale if m.names["p->is_float"] else FixedPoint
    requant = kind(multiplier[:lanes], m.take(np.int32, GROUP)[:lanes])
    m.store(ram, finish(m, acc[:lanes], requant, 1)[0])


@define(
    "RAMStore",
    "const struct vmcu_mac_params *p, const int32_t *acc, const uint8_t **w, int8_t *out",
    """
const int32_t *c = (const int32_t *)*w;
const uint8_t *shift = (const uint8_t *)&c[4];
const int32_t half = vmcu_half(p);

if (vmcu_is_exact(c[4])) {
	const int32_t sums[] = {acc[0], acc[1], acc[2], acc[3]};

	*w = vmcu_store_places(p, sums, c, out, 4);
	return;
}
*w += 20;
out[0] = vmcu_fixed(acc[0], c[0], vmcu_wrapping_shift(half, shift[0]), shift[0]);
out[1] = vmcu_fixed(acc[1], c[1], vmcu_wrapping_shift(half, shift[1]), shift[1]);
out[2] = vmcu_fixed(acc[2], c[2], vmcu_wrapping_shift(half, shift[2]), shift[2]);
out[3] = vmcu_fixed(acc[3], c[3], vmcu_wrapping_shift(half, shift[3]), shift[3]);
""",
)
def store_taps(m: Machine, p: int, acc: np.ndarray, stream: Stream, ram: Ram) -> None:
    """Requantises and stores four channels: all of them in the fast way, or none."""
    store_channels(m, acc, ram, GROUP)


@define(
    "RAMStore",
    "const struct vmcu_mac_params *p, const int32_t *acc, const uint8_t **w, int8_t *out, "
    "int32_t lanes",
    """
const int32_t sums[] = {acc[0], acc[1], acc[2], acc[3]};

*w = vmcu_store_places(p, sums, (const int32_t *)*w, out, lanes);
""",
)
def store_some_taps(
    m: Machine, p: int, acc: np.ndarray, stream: Stream, ram: Ram, lanes: int
) -> None:
    """Requantises and stores fewer than four channels, none of them in the fast way."""
    store_channels(m, acc, ram, lanes)


@compound(
    "RAMStore",
    "const struct vmcu_mac_params *p, const struct vmcu_places *in, int32_t row, int32_t pixel, "
    "int32_t channel, int32_t spread, const uint8_t **w, int8_t *out, int32_t count",
    """
int32_t left = count;
int32_t acc[4];

while (left > 0) {
	int32_t done = 4 * (count - left);

	if (VMCU_DIRECT_IN_PLACE) {
		vmcu_dot_taps(acc, in, row, pixel, channel + done * spread, spread, w);
	} else if (in->is_direct) {
		const int8_t *x = in->start + channel + done;

		left = vmcu_direct_fours(w, x, in->offsets, out + done, in->count, left,
					 vmcu_half(p), acc);
		if (left == 0) {
			break;
		}
		done = 4 * (count - left);
	} else {
		*w = vmcu_dot_any(acc, in, channel + done * spread, 4, spread, *w);
	}
	vmcu_store_taps(p, acc, w, out + done);
	left--;
}
(void)row;
(void)pixel;
""",
)
def run_taps(
    m: Machine, p: int, source: Ram, spread: int, stream: Stream, ram: Ram, count: int
) -> None:
    """`count` times four channels, one four after the other."""
    for first in range(0, GROUP * count, GROUP):
        acc = np.zeros(GROUP, np.int64)
        taps = replace(source, channel=source.channel + first * spread)
        dot_taps.meaning(m, acc, taps, spread, stream)
        store_taps.meaning(m, p, acc, stream, replace(ram, channel=ram.channel + first))
