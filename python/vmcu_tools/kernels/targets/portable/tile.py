# SPDX-License-Identifier: Apache-2.0
"""Instructions of multiply-accumulate kernels that widen their input into a tile.

Flash streams hold, for each block of output channels: the biases (int32), the weights in reading
order, as many taps of each channel as there are lanes after as many more, woven into each other,
and the constants of the requantiser. Tiles hold the input of up to four pixels, as many taps of
one as there are lanes after as many of the next.

In portable C a tile is bytes: cores without SIMD instructions widen a byte as they load it.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from ....quant import FixedPoint, requantize, wrap_int32
from ...integer_scale import IntegerScale
from ...language.evaluate import Machine
from ...language.instruction import Instruction
from ...language.ir import Ram, Stream, Tile
from ...language.packing import Packing
from .registry import compound, define

# Pixels of a tile.
PIXELS = (4, 2, 1)
SEVERAL = {4: "four pixels", 2: "two pixels", 1: "one pixel"}

HELPERS = {
    "mac": r"""
/*
 * Accumulators wrap, as they do on every other target. That makes sums associative, and compilers
 * would rather add up products in pairs than use the multiply-accumulate that is there.
 */
VMCU_INLINE int32_t vmcu_mac(int32_t acc, int32_t x, int32_t y)
{
	acc = (int32_t)((uint32_t)acc + (uint32_t)(x * y));
	__asm__("" : "+r"(acc));
	return acc;
}
""",
    "tile": r"""
typedef int8_t vmcu_lane_t;

/* What four taps of a pixel take of a tile. */
#define VMCU_FOUR 4

/* Where tap k of pixel `lane` is in a tile of `pixels`. */
VMCU_INLINE int32_t vmcu_lane_at(int32_t pixels, int32_t lane, int32_t k)
{
	return ((k & ~3) * pixels) + 4 * lane + (k & 3);
}

VMCU_INLINE void vmcu_lane_put(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				 int32_t value)
{
	t[vmcu_lane_at(pixels, lane, k)] = (int8_t)value;
}

/* Taps k .. k + count - 1 of pixel `lane`; k and count are multiples of four. */
VMCU_INLINE void vmcu_lane_fours(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				   const int8_t *x, int32_t count)
{
	t += vmcu_lane_at(pixels, lane, k);
	for (; count > 0; count -= 4, t += 4 * pixels, x += 4) {
		__builtin_memcpy(t, x, 4);
	}
}

/* All of the fours that have any of `count` taps, the same `value`. */
VMCU_INLINE void vmcu_lane_fill(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				  int32_t value, int32_t count)
{
	const uint32_t word = (uint8_t)value * 0x01010101U;

	t += vmcu_lane_at(pixels, lane, k);
	for (; count > 0; count -= 4, t += 4 * pixels) {
		__builtin_memcpy(t, &word, 4);
	}
}
""",
    "tile_done": r"""
/* What has been written to a tile is in memory before assembly reads it. */
VMCU_INLINE void vmcu_tile_done(void)
{
	__asm__ volatile("" ::: "memory");
}
""",
    "fixed": r"""
/* See fixed_fast() in targets/portable/tile.py. */
VMCU_INLINE int8_t vmcu_fixed(int32_t acc, int32_t multiplier, int32_t bias, int32_t shift)
{
	const uint32_t high = (uint32_t)(bias + (acc >> 31));
	const uint64_t sum = ((uint64_t)high << 32) | 0x80000000U;
	const int64_t doubled = (int32_t)((uint32_t)acc << 1);

	return vmcu_saturate8((int32_t)((sum + (uint64_t)(doubled * multiplier)) >> 32) >> shift);
}
""",
}


def fixed_fast(acc: np.ndarray, multiplier: np.ndarray, bias: np.ndarray, shift: np.ndarray):
    """FixedPoint with a right shift of at least one, in one 64-bit sum; int64 as acc, within int8.

    SaturatingRoundingDoublingHighMul(x, m) is (2 x m + 2**31) >> 32; the rounding division that
    follows adds half, less one for a negative x, before it shifts. Half and the zero point are
    one constant, `bias` = (1 << (shift - 1)) + (zero_point << shift).
    """
    total = (acc << 1) * multiplier + ((bias + (acc >> 63)) << 32) + (1 << 31)
    return np.clip((total >> 32) >> shift, -128, 127)


def any_requant(m: Machine, channels: int) -> FixedPoint | IntegerScale:
    """A block's constants where the fast requantiser does not apply, taken from the stream."""
    if m.names["p->is_float"]:
        return IntegerScale(m.take(np.int32, channels), m.take(np.int32, channels))
    multiplier, shift, _ = m.take(np.int32, 3 * channels).reshape(3, channels)
    return FixedPoint(multiplier, shift)


def finish(m: Machine, acc: np.ndarray, requant: FixedPoint | IntegerScale, pixels: int):
    """(pixels, channels) int8 of accumulators (channels * pixels,), by the reference
    requantisers."""
    zero, low, high = (m.names[f"p->{name}"] for name in ("output_zero", "act_min", "act_max"))
    return requantize(wrap_int32(acc).reshape(-1, pixels).T, requant, zero, low, high)


def widen_rows(pixels: int) -> str:
    taps = ["x", *("x + pitch" if i == 1 else f"x + {i} * pitch" for i in range(1, pixels))]
    fours = "\n".join(f"\t\t__builtin_memcpy(t + {4 * i}, {x}, 4);" for i, x in enumerate(taps))
    rest = "\n".join(f"\t\tt[k + {4 * i}] = *({x} + k);" for i, x in enumerate(taps))
    return f"""
/* `count` taps of each of {SEVERAL[pixels]}, `pitch` bytes apart. */
VMCU_APART void vmcu_widen_rows_{pixels}(vmcu_lane_t *t, const int8_t *x, int32_t pitch,
					int32_t count)
{{
	for (; count >= 4; count -= 4, x += 4, t += {4 * pixels}) {{
{fours}
	}}
	for (int32_t k = 0; k < count; k++) {{
{rest}
	}}
	(void)pitch;
}}
"""


# `count` taps of each pixel of a tile.
WIDEN_ROWS = """
/* The same for tiles of any number of pixels. */
VMCU_INLINE void vmcu_widen_rows(vmcu_lane_t *t, int32_t pixels, const int8_t *x, int32_t pitch,
				 int32_t count)
{
	if (pixels == 4) {
		vmcu_widen_rows_4(t, x, pitch, count);
	} else if (pixels == 2) {
		vmcu_widen_rows_2(t, x, pitch, count);
	} else {
		vmcu_widen_rows_1(t, x, pitch, count);
	}
}
"""
NINES = """
/* Windows of three rows of nine bytes, `step` bytes apart; false: there is no faster way. */
VMCU_INLINE bool vmcu_widen_nines(vmcu_lane_t *t, int32_t pixels, const int8_t *x, int32_t step,
				  int32_t pitch)
{
	(void)t;
	(void)pixels;
	(void)x;
	(void)step;
	(void)pitch;
	return false;
}
"""
HELPERS |= {"widen": "".join(map(widen_rows, PIXELS)), "nines": NINES, "widen_any": WIDEN_ROWS}


def _widen(pixels: int) -> Instruction:
    parameters = "vmcu_lane_t *t, const int8_t *x, int32_t depth"
    text = f"vmcu_widen_rows_{pixels}(t, x, depth, depth);\nvmcu_tile_done();"

    @define("RAMLoad", parameters, text, pixels, SEVERAL[pixels])
    def widen(m: Machine, tile: Tile, ram: Ram, depth: int) -> None:
        """Widens {what} of depth channels each, taps beyond depth are anything."""
        values = m.load(ram)
        m.tile = np.zeros((pixels, m.packing.steps(depth) * m.packing.step), np.int64)
        m.tile[:, :depth] = values

    return widen


def _gather(pixels: int) -> Instruction:
    parameters = (
        "vmcu_lane_t *t, const struct vmcu_source *in, int32_t row, int32_t pixel, int32_t channel"
    )
    text = f"vmcu_gather(t, {pixels}, in, row, pixel, channel);\nvmcu_tile_done();"

    @define("RAMLoad", parameters, text, pixels, SEVERAL[pixels])
    def gather(m: Machine, tile: Tile, ram: Ram) -> None:
        """Widens the windows of {what}; the zero point stands in for taps in the padding."""
        taps = np.moveaxis(m.load(ram, m.names["p->input_zero"]), 1, 0)
        runs = taps.reshape(pixels, -1, taps[0].size if m.names["p->packed"] else m.names["p->run"])
        m.tile = np.zeros((pixels, m.names["p->steps"] * m.packing.step), np.int64)
        for number in range(runs.shape[1]):
            at = number * m.packing.padded(runs.shape[2])
            m.tile[:, at : at + runs.shape[2]] = runs[:, number]

    return gather


def sums_c(pixels: int, packing: Packing) -> str:
    lanes, channels, step = packing.lanes, packing.channels, packing.step
    lines = ["const int32_t *b = (const int32_t *)*w;"]
    lines.append(f"const int8_t *v = (const int8_t *)&b[{channels}];")
    lines += ["", *(f"acc[{i}] = b[{i // pixels}];" for i in range(channels * pixels))]
    lines.append(f"for (; steps > 0; steps--, tile += {step * pixels}, v += {step * channels}) {{")
    places = {place: at for at, place in enumerate(packing.weave(channels, lanes))}
    for tap in range(step):
        group, lane = divmod(tap, lanes)
        for i in range(channels * pixels):
            channel, pixel = divmod(i, pixels)
            x = f"tile[{lanes * (group * pixels + pixel) + lane}]"
            weight = f"v[{lanes * channels * group + places[channel, lane]}]"
            lines.append(f"\tacc[{i}] = vmcu_mac(acc[{i}], {x}, {weight});")
    return "\n".join([*lines, "}", "*w = (const uint8_t *)v;"])


def _sums(pixels: int) -> Instruction:
    parameters = "int32_t *acc, const vmcu_lane_t *tile, int32_t steps, const uint8_t **w"
    text = functools.partial(sums_c, pixels)

    @define("Dot", parameters, text, pixels, SEVERAL[pixels])
    def sums(m: Machine, acc: np.ndarray, tile: Tile, steps: int, stream: Stream) -> None:
        """The sums of a block of channels of {what}: all taps times their weights, and the
        biases."""
        channels, lanes = m.packing.channels, m.packing.lanes
        acc[:] = np.repeat(m.take(np.int32, channels), pixels)
        groups = m.take(np.int8, channels * steps * m.packing.step).reshape(-1, channels * lanes)
        weights = np.zeros((channels, len(groups), lanes), np.int64)
        for at, (channel, tap) in enumerate(m.packing.weave(channels, lanes)):
            weights[channel, :, tap] = groups[:, at]
        acc += (weights.reshape(channels, -1) @ m.tile.T).reshape(-1)

    return sums


def _store(pixels: int) -> Instruction:
    text = """
const int32_t *c = (const int32_t *)*w;
int32_t m0 = c[0], c0 = c[1], m1 = c[2], c1 = c[3], s0 = c[4], s1 = c[5];
int8_t *o = *out;

*w += 6 * sizeof(int32_t);
"""
    for i in range(2 * pixels):
        channel, pixel = divmod(i, pixels)
        place = " + ".join(["pitch"] * pixel + [str(channel)] * channel) or "0"
        text += f"o[{place}] = vmcu_fixed(acc[{i}], m{channel}, c{channel}, s{channel});\n"
    text += "(void)pitch;\n" if pixels == 1 else ""
    parameters = "const int32_t *acc, const uint8_t **w, int8_t **out, int32_t pitch"

    @define("RAMStore", parameters, f"{text}*out = o + 2;", pixels, SEVERAL[pixels])
    def store_fixed(m: Machine, acc: np.ndarray, stream: Stream, ram: Ram, pitch: int) -> None:
        """Requantises in fixed point and stores a block of channels of {what}."""
        channels = m.packing.channels
        factors = m.take(np.int32, 2 * channels).reshape(channels, 2, 1).swapaxes(0, 1)
        shift = m.take(np.int32, channels)[:, None]
        m.store(ram, fixed_fast(wrap_int32(acc).reshape(channels, pixels), *factors, shift).T)

    return store_fixed


def run_c(pixels: int, packing: Packing) -> str:
    return f"""
for (; blocks > 0; blocks--) {{
	int32_t acc[{packing.channels * pixels}];

	vmcu_sums_{pixels}(acc, tile, p->steps, w);
	vmcu_store_fixed_{pixels}(acc, w, out, pitch);
}}
"""


def _run(pixels: int) -> Instruction:
    parameters = (
        "const struct vmcu_mac_params *p, const vmcu_lane_t *tile, const uint8_t **w, "
        "int8_t **out, int32_t pitch, int32_t blocks"
    )
    text = functools.partial(run_c, pixels)

    @define("RAMStore", parameters, text, pixels, SEVERAL[pixels])
    def run(
        m: Machine, p: int, tile: Tile, stream: Stream, ram: Ram, pitch: int, blocks: int
    ) -> None:
        """So many blocks of channels of {what} from bias to store, in fixed point."""
        acc = np.zeros(m.packing.channels * pixels, np.int64)
        for number in range(blocks):
            SUMS[pixels].meaning(m, acc, tile, m.names["p->steps"], stream)
            place = replace(ram, channel=ram.channel + number * m.packing.channels)
            STORE[pixels].meaning(m, acc, stream, place, pitch)

    return run


def _exact(pixels: int) -> Instruction:
    parameters = (
        "const struct vmcu_mac_params *p, const vmcu_lane_t *t, const uint8_t **w, int8_t **out, "
        "int32_t pitch, int32_t left"
    )
    text = f"*w = vmcu_exact_block_{pixels}(p, t, *w, *out, pitch, left);\n*out += 2;"

    @compound("RAMStore", parameters, text, pixels, SEVERAL[pixels])
    def exact(
        m: Machine, p: int, tile: Tile, stream: Stream, ram: Ram, pitch: int, left: int
    ) -> None:
        """A block of channels of {what} from bias to store, for any shift, range and accumulator,
        in fixed point or float, and for fewer channels at the end."""
        acc = np.zeros(m.packing.channels * pixels, np.int64)
        SUMS[pixels].meaning(m, acc, tile, m.names["p->steps"], stream)
        m.store(ram, finish(m, acc, any_requant(m, m.packing.channels), pixels))

    return exact


WIDEN = {pixels: _widen(pixels) for pixels in PIXELS}
GATHER = {pixels: _gather(pixels) for pixels in PIXELS}
SUMS = {pixels: _sums(pixels) for pixels in PIXELS}
STORE = {pixels: _store(pixels) for pixels in PIXELS}
RUN = {pixels: _run(pixels) for pixels in PIXELS}
EXACT = {pixels: _exact(pixels) for pixels in PIXELS}
