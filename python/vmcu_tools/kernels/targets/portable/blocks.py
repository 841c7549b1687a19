# SPDX-License-Identifier: Apache-2.0
"""Blocks of output channels of the pixels of a tile.

Flash streams hold, for each block: the biases (int32), the weights in reading order, as many taps
of each channel as there are lanes after as many more, woven into each other, and the constants of
the requantiser: multipliers (int32), then shifts, for the fast one as bytes and one less.

Two channels are joined: where the weights of the first are bytes, those of both are the int16 that
begins there, 256 times the second one's plus the first one's. So a target that multiplies by 16
bits needs to widen only the first: the difference of the sums is 256 times the second one's, which
C has in its place until it is requantised. Layers whose weights or sums do not fit have none that
are joined, and take longer.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Mapping

import numpy as np

from ....quant import wrap_int32
from ...language.evaluate import Machine
from ...language.instruction import WIDTH, Instruction, instruction
from ...language.ir import APART, Ram, Stream, Tile
from ...language.packing import Packing, from_nibbles, packed_shifts
from .registry import define
from .shapes import NARROW, SHAPES, WIDE, Shape
from .tile import SEVERAL, any_requant, finish, fixed_fast, take_shifts


def sums_c(shape: Shape, packing: Packing) -> str:
    if packing.paired:
        return ""
    lanes, step = packing.lanes, packing.step
    channels, pixels = shape.channels(packing), shape.pixels
    lines = ["const int32_t *b = (const int32_t *)*w;"]
    lines.append(f"const int8_t *v = (const int8_t *)&b[{channels}];")
    lines += ["", *(f"acc[{i}] = b[{i // pixels}];" for i in range(channels * pixels))]
    lines.append(
        f"for (; steps > 0; steps--, tile += {step * pixels}, "
        f"v += {packing.weight_bytes(step * channels)}) {{"
    )
    for tap in range(step):
        group, lane = divmod(tap, lanes)
        for i in range(channels * pixels):
            channel, pixel = divmod(i, pixels)
            # Where this gives way to a target's own sums, tiles may hold unsigned words.
            x = f"(int32_t)tile[{lanes * (group * pixels + pixel) + lane}]"
            weight = joined_c(packing, channels, channel, lane, lanes * channels * group)
            lines.append(f"\tacc[{i}] = vmcu_mac(acc[{i}], {x}, {weight});")
    lines += ["}", "*w = (const uint8_t *)v;"]
    for i in (i for i in range(channels * pixels) if packing.joined and i // pixels % 2):
        lines.append(f"acc[{i}] = vmcu_second(acc[{i}], acc[{i - pixels}]);")
    return "\n".join(lines)


def joined_c(packing: Packing, channels: int, channel: int, lane: int, first: int = 0) -> str:
    """C of a weight in v, of which the block's next ones begin at `first`."""
    places = {place: at for at, place in enumerate(packing.weave(channels, packing.lanes))}
    if packing.bits == 4:
        second, at = divmod(places[channel, lane], len(places) // 2)
        byte = f"v[{packing.weight_bytes(first) + at}]"
        return f"vmcu_low_half({byte})" if second else f"({byte} >> 4)"
    if not packing.joined:
        return f"v[{first + places[channel, lane]}]"
    low = first + places[channel - channel % 2, lane]
    if channel % 2 == 0:
        return f"v[{low}]"
    high = first + places[channel, lane]
    if high == low + 1 and low % 2 == 0:
        return f"*(const int16_t *)&v[{low}]"
    return f"(v[{high}] * 256 + v[{low}])"


def take_weights(m: Machine, channels: int, steps: int, apart: bool = False) -> np.ndarray:
    """The next weights of a block, whose channels are joined or apart, as a tile's steps need them:
    int64 (channels, taps)."""
    values = m.take(np.int8, m.packing.weight_bytes(channels * steps * m.packing.lanes))
    return _in_order(m.packing, channels, values, apart)


def _in_order(packing: Packing, channels: int, values: np.ndarray, apart: bool) -> np.ndarray:
    """The weights of blocks, int64 (..., bytes), as (..., channels, taps)."""
    size = packing.weight_bytes(channels * packing.lanes)
    woven = values.reshape(*values.shape[:-1], -1, size)
    if packing.bits == 4:
        woven = from_nibbles(woven)
    woven = woven[..., _places(packing, channels)]
    woven = woven.reshape(*woven.shape[:-1], channels, packing.lanes)
    weights = np.moveaxis(woven, -2, -3).reshape(*values.shape[:-1], channels, -1)
    if packing.joined and not apart:
        weights[..., 1::2, :] += weights[..., 0::2, :] < 0
    return weights


@functools.cache
def _places(packing: Packing, channels: int) -> np.ndarray:
    """Returns the places of each channel's next weights among a block's, as many as there are
    lanes."""
    order = [
        channel * packing.lanes + tap for channel, tap in packing.weave(channels, packing.lanes)
    ]
    return np.argsort(order)


def take_biases(m: Machine, channels: int, apart: bool = False) -> np.ndarray:
    """The next block's, int64."""
    biases = m.take(np.int32, channels)
    return biases if apart else _parted(m.packing, biases)


def _parted(packing: Packing, biases: np.ndarray) -> np.ndarray:
    """Those of a block, int64 (..., channels), as each channel has its own."""
    if not packing.joined:
        return biases
    biases[..., 1::2] = wrap_int32(biases[..., 1::2] - biases[..., 0::2]) >> 8
    return biases


def _sums(shape: Shape) -> Instruction:
    parameters = "int32_t *acc, const vmcu_lane_t *tile, int32_t steps, const uint8_t **w"
    text = functools.partial(sums_c, shape)

    @define("Dot", parameters, text, shape.name, SEVERAL[shape.pixels])
    def sums(m: Machine, acc: np.ndarray, tile: Tile, steps: int, stream: Stream) -> None:
        """The sums of a block of joined channels of {what}: all taps times their weights, and the
        biases."""
        add_up(m, acc, steps, shape.channels(m.packing), shape.pixels)

    return sums


def add_up(
    m: Machine, acc: np.ndarray, steps: int, channels: int, pixels: int, apart: bool = False
) -> None:
    """Sets the sums of a block: all taps of a tile times their weights, and the biases."""
    groups = m.packing.step // m.packing.lanes
    acc[:] = np.repeat(take_biases(m, channels, apart), pixels)
    acc += (take_weights(m, channels, steps * groups, apart) @ m.tile.T).reshape(-1)


def order_c(packing: Packing, channels: int) -> str:
    """C of a table: the channel and the tap of each of a block's next weights."""
    pairs = packing.weave(channels, packing.lanes)
    text = ", ".join(f"{channel * packing.lanes + tap}" for channel, tap in pairs)
    return text if len(text) < WIDTH - 30 else "\n" + textwrap.fill(text, WIDTH // 2) + "\n"


def apart_c(packing: Packing) -> str:
    if not packing.joined:
        return ""
    lanes = packing.lanes
    return f"""
static const uint8_t wide[] = {{{order_c(packing, packing.channels)}}};
static const uint8_t narrow[] = {{{order_c(packing, packing.dense)}}};
const uint8_t *order = (channels == {packing.channels}) ? wide : narrow;
const int32_t *b = (const int32_t *)*w;
const int8_t *v = (const int8_t *)&b[channels];

for (int32_t i = 0; i < channels * pixels; i++) {{
	acc[i] = b[i / pixels];
}}
for (steps *= {packing.step // lanes}; steps > 0; steps--, tile += {lanes} * pixels) {{
	for (int32_t i = 0; i < {lanes} * channels; i++) {{
		int32_t *a = &acc[order[i] / {lanes} * pixels];

		for (int32_t pixel = 0; pixel < pixels; pixel++) {{
			const int32_t x = (int32_t)tile[{lanes} * pixel + order[i] % {lanes}];

			a[pixel] = vmcu_mac(a[pixel], x, *v);
		}}
		v++;
	}}
}}
*w = (const uint8_t *)v;
"""


@define(
    "Dot",
    "int32_t *acc, const vmcu_lane_t *tile, int32_t steps, int32_t channels, int32_t pixels, "
    "const uint8_t **w",
    apart_c,
)
def sums_apart(
    m: Machine, acc: np.ndarray, tile: Tile, steps: int, channels: int, pixels: int, stream: Stream
) -> None:
    """The sums of a block of channels that are not joined."""
    add_up(m, acc, steps, channels, pixels, apart=True)


def store_c(shape: Shape, packing: Packing) -> str:
    """Stores a block. The data of a channel is loaded once: a stored byte might be of it, for
    all that C knows."""
    channels = shape.channels(packing)
    lines = ["const int32_t *c = (const int32_t *)*w;"]
    lines += [f"const uint8_t *shifts = (const uint8_t *)&c[{channels}];"]
    lines += ["int8_t *o = *out;", "int32_t multiplier, shift, bias;", ""]
    lines.append(f"*w += {4 * channels + packed_shifts(channels)};")
    for i in range(shape.sums(packing)):
        n, pixel = divmod(i, shape.pixels)
        place = " + ".join(["pitch"] * pixel + [str(n)] * (n > 0)) or "0"
        if pixel == 0:
            lines += [f"multiplier = c[{n}];", f"shift = shifts[{n}];"]
            lines.append("bias = vmcu_wrapping_shift(half, shift);")
        made = "vmcu_fixed_second" if packing.joined and n % 2 else "vmcu_fixed"
        lines.append(f"o[{place}] = {made}(acc[{i}], multiplier, bias, shift);")
    lines += ["(void)pitch;"] * (shape.pixels == 1)
    return "\n".join([*lines, f"*out = o + {channels};"])


def _store(shape: Shape) -> Instruction:
    parameters = "const int32_t *acc, const uint8_t **w, int8_t **out, int32_t pitch, int32_t half"
    text = functools.partial(store_c, shape)

    @define("RAMStore", parameters, text, shape.name, SEVERAL[shape.pixels])
    def store_fixed(
        m: Machine, acc: np.ndarray, stream: Stream, ram: Ram, pitch: int, half: int
    ) -> None:
        """Requantises in fixed point and stores a block of channels of {what}; half: twice the
        output's zero point and a half."""
        channels = shape.channels(m.packing)
        multiplier = m.take(np.int32, channels)[:, None]
        shift = take_shifts(m, channels)[:, None]
        m.store(ram, fixed_fast(m, wrap_int32(acc).reshape(channels, -1), multiplier, shift).T)

    return store_fixed


HELPERS = {
    "run_of": "",
    "seconds": r"""
/* The sums of a block of channels where those of second ones are 256 times that. */
VMCU_CALLED void vmcu_seconds(int32_t *acc, int32_t channels, int32_t pixels)
{
	for (int32_t n = 1; VMCU_CHANNELS_JOINED && n < channels; n += 2) {
		for (int32_t pixel = 0; pixel < pixels; pixel++) {
			acc[n * pixels + pixel] >>= 8;
		}
	}
}
""",
    "some": r"""
/*
 * Requantises and stores the first `left` channels of a block of some pixels, in fixed point;
 * returns where the flash stream goes on.
 */
VMCU_CALLED const uint8_t *vmcu_store_some(const struct vmcu_mac_params *p, const int32_t *acc,
					  int32_t channels, int32_t pixels, const uint8_t *w,
					  int8_t *out, int32_t pitch, int32_t left)
{
	const int32_t *c = (const int32_t *)w;
	const uint8_t *shift = (const uint8_t *)&c[channels];

	for (int32_t i = 0; i < left; i++) {
		const int32_t bias = vmcu_wrapping_shift(vmcu_half(p), shift[i]);
		int8_t *o = out++;

		for (int32_t pixel = 0; pixel < pixels; pixel++, o += pitch) {
			*o = vmcu_fixed(*acc++, c[i], bias, shift[i]);
		}
	}
	return shift + ((channels + 3) & ~3);
}
""",
}


def run_c(shape: Shape, packing: Packing) -> str:
    if packing.paired:
        return ""
    channels = shape.channels(packing)
    return f"""
const int32_t half = vmcu_half(p);

if (channels == 0) {{
	vmcu_sums_{shape.name}((int32_t *)(void *)out, tile, p->steps, w);
}}
for (; channels > 0; channels -= {channels}) {{
	int32_t acc[{shape.sums(packing)}];

	vmcu_sums_{shape.name}(acc, tile, p->steps, w);
	vmcu_store_fixed_{shape.name}(acc, w, &out, pitch, half);
}}
"""


def _run(shape: Shape) -> Instruction:
    parameters = (
        "const struct vmcu_mac_params *p, const vmcu_lane_t *tile, const uint8_t **w, "
        "int8_t *out, int32_t pitch, int32_t channels"
    )
    text = functools.partial(run_c, shape)

    @define("RAMStore", parameters, text, shape.name, SEVERAL[shape.pixels])
    def run(
        m: Machine, p: int, tile: Tile, stream: Stream, ram: Ram, pitch: int, channels: int
    ) -> None:
        """So many channels of {what}, block by block from bias to store, in fixed point; the last
        block may be the tensor's last and a partial one. C has none of these: with no channels it
        leaves the sums of one block, as words."""
        blocks = -(-channels // shape.channels(m.packing))
        if blocks:
            m.store_blocks(ram, np.moveaxis(fast_blocks(m, shape, blocks), -1, -2))

    return run


# Reference semantics of a tile's blocks; their C is that of all of them, `blocks_of`.
MEANT: dict[str, Instruction] = {}


def fast_blocks(m: Machine, shape: Shape, blocks: int) -> np.ndarray:
    """The next blocks of a tile, from bias to requantiser: (blocks, channels, pixels), within
    int8. Each is the result of sums() and store_fixed()."""
    channels = shape.channels(m.packing)
    taps = m.packing.weight_bytes(channels * m.names["p->steps"] * m.packing.step)
    sizes = (4 * channels, taps, 4 * channels, packed_shifts(channels))
    stream = m.take(np.uint8, blocks * sum(sizes)).astype(np.uint8).reshape(blocks, -1)
    parts = np.split(stream, np.cumsum(sizes)[:-1], axis=1)
    biases, weights, multipliers, shifts = (
        np.ascontiguousarray(part).view(kind).astype(np.int64)
        for part, kind in zip(parts, (np.int32, np.int8, np.int32, np.uint8), strict=True)
    )
    acc = (
        _in_order(m.packing, channels, weights, False) @ m.tile.T
        + _parted(m.packing, biases)[..., None]
    )
    shift = shifts[:, :channels, None]
    return fixed_fast(m, wrap_int32(acc), multipliers[..., None], shift)


def _run_of(shapes: Mapping[int, Shape], member: str) -> Instruction:
    @instruction(MEANT, "RAMStore", "", "", member, f"a {member} tile")
    def run_of(
        m: Machine,
        p: int,
        tile: Tile,
        stream: Stream,
        ram: Ram,
        pitch: int,
        taken: int,
        pixels: int,
    ) -> None:
        """So many channels of the pixels of {what}, in fixed point."""
        RUN[shapes[pixels]].meaning(m, p, tile, stream, ram, pitch, taken)

    return run_of


def _exact_of(shapes: Mapping[int, Shape], member: str) -> Instruction:
    @instruction(MEANT, "RAMStore", "", "", member, f"a {member} tile")
    def exact_of(
        m: Machine,
        p: int,
        tile: Tile,
        stream: Stream,
        ram: Ram,
        pitch: int,
        left: int,
        pixels: int,
    ) -> None:
        """A block of channels of the pixels of {what} from bias to store, for any shift, range and
        accumulator, in fixed point or float, and for fewer channels at the end."""
        shape = shapes[pixels]
        acc = np.zeros(shape.sums(m.packing), np.int64)
        channels, apart = shape.channels(m.packing), bool(m.names[APART.text])
        add_up(m, acc, m.names["p->steps"], channels, shape.pixels, apart)
        m.store(ram, finish(m, acc, any_requant(m, channels), pixels))

    return exact_of


def of_pixels(shapes: Mapping[int, Shape], call: str) -> str:
    """C that makes a call for the shape of a block of `pixels`."""
    *several, one = shapes.values()
    text = ""
    for shape in several:
        text += f"if (pixels == {shape.pixels}) {{\n\t{call.format(shape.name)}\n}} else "
    return f"{text}{{\n\t{call.format(one.name)}\n}}"


SUMS = {shape: _sums(shape) for shape in SHAPES}
STORE = {shape: _store(shape) for shape in SHAPES}
RUN = {shape: _run(shape) for shape in SHAPES}
# Of tiles whose pixels are known when they run.
RUN_WIDE, RUN_NARROW = _run_of(WIDE, "wide"), _run_of(NARROW, "narrow")
EXACT_WIDE, EXACT_NARROW = _exact_of(WIDE, "wide"), _exact_of(NARROW, "narrow")
