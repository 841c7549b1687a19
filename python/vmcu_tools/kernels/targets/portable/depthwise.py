# SPDX-License-Identifier: Apache-2.0
"""Instructions of depthwise convolutions.

The tile holds the columns under a strip of output pixels for four channels, as bytes. Its words
join two taps of two channels: bytes (a0, a1, b0, b1) are channels 0 and 1 of taps a and b, and the
same word of the second plane holds channels 2 and 3. Taps a and b are either one above the
other, in rows 2r and 2r + 1 of the window, a word for each column, or, in the window's last row,
side by side, a word for two columns. With a stride of two, columns 0, 2, 4 ... precede columns 1,
3, 5 ..., so that neighbouring output pixels always meet neighbouring words.

The flash stream holds, for each channel: the bias, gap bytes, the weights in reading order, the
requantiser's constants. Weights come in pairs, one for each of a and b, which stand where
Packing.pairs says. Portable C multiplies the tile's bytes one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ....quant import FixedPoint, wrap_int32
from ...integer_scale import IntegerScale
from ...language.evaluate import Machine
from ...language.instruction import Instruction
from ...language.ir import Ram, Stream, Tile
from ...language.packing import Packing
from .registry import define
from .tile import finish, fixed_fast

# The taps across a window that have a kernel of their own.
TAPS = (3, 5, 7)
STRIDES = (1, 2)
GROUP = 4  # channels in a tile
EXACT = -1  # in place of a shift: the fast requantiser would not be exact
# Words of a tile that no column was staged for.
UNUSED = 77

HELPERS = {
    "interleave": r"""
/* Words of two taps, see targets/portable/depthwise.py: u has channels 0 and 1, v 2 and 3. */
VMCU_INLINE void vmcu_interleave(uint32_t **u, uint32_t **v, const int8_t **a, int32_t pitch_a,
				 const int8_t **b, int32_t pitch_b, int32_t words)
{
	for (; words > 0; words--, *a += pitch_a, *b += pitch_b) {
		uint32_t x, y;

		__builtin_memcpy(&x, *a, 4);
		__builtin_memcpy(&y, *b, 4);
		*(*u)++ = (x & 0xffffU) | y << 16;
		*(*v)++ = x >> 16 | (y & 0xffff0000U);
	}
}
""",
    "two_taps": r"""
/* Two taps of four channels times their weights, see tap_order() in targets/portable/depthwise.py. */
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
}

SQUARE_TAPS = 3
# Windows of so many taps may be computed in blocks that are so many pixels wider, too.
WIDER = 2
DOT_PARAMETERS = "int32_t *acc, const vmcu_lane_t *tile, int32_t at, int32_t odd, const uint8_t **w"


def pair_counts(taps: int, stride: int) -> list[int]:
    """Words that one output pixel meets in two rows of the window, by phase of the stride."""
    return [len(range(phase, taps, stride)) for phase in range(stride)]


def line_order(taps: int) -> Iterator[tuple[int, int]]:
    """The weights of a window's last row in pairs, -1 for none. Output pixels at an even place
    meet pairs (0, 1), (2, 3) ..., those at an odd place (-1, 0), (1, 2) ...; the first of the
    latter is made from the first of the former."""
    yield 0, 1
    for tap in range(2, taps + 1, 2):
        yield tap, tap + 1 if tap + 1 < taps else -1
        yield tap - 1, tap


def take_pairs(m: Machine, count: int) -> np.ndarray:
    """(count, 2) weights, int64."""
    data = m.take(np.int8, 2 * count)
    return np.array([[data[a], data[b]] for a, b in m.packing.pairs(count)])


def widened(m: Machine, at: int, count: int, odd: int) -> np.ndarray:
    """(count, 2) taps of one channel."""
    return m.tile[at : at + count, odd::2]


def add_line(m: Machine, acc: np.ndarray, at: int, odd: int, pairs: np.ndarray) -> None:
    """Adds a row of taps at a stride of one; a pair of weights for each tap."""
    taps, pixels = len(pairs), len(acc)
    weights = np.zeros(taps + 1, np.int64)
    for (a, b), (weight_a, weight_b) in zip(line_order(taps), pairs, strict=True):
        weights[a], weights[b] = weight_a, weight_b
    columns = widened(m, at, (taps + pixels) // 2, odd).reshape(-1)
    for pixel in range(pixels):
        acc[pixel] += weights[:taps] @ columns[pixel : pixel + taps]


def add_pairs(m: Machine, acc: np.ndarray, at: int, odd: int, pairs: np.ndarray) -> None:
    """Adds words that each meet a pair of weights."""
    for pixel in range(len(acc)):
        acc[pixel] += (pairs * widened(m, at + pixel, len(pairs), odd)).sum()


def take_requant(m: Machine) -> tuple[np.ndarray, FixedPoint | IntegerScale | None]:
    """The constants of a channel, and the requantiser where the fast one does not apply."""
    constants = m.take(np.int32, 3)
    if constants[2] != EXACT:
        return constants, None
    if m.names["p->is_float"]:
        return constants, IntegerScale(constants[:1], constants[1:2])
    return constants, FixedPoint(constants[0], constants[1])


def bias_c(pixels: int, size: str = "4 + gap") -> list[str]:
    lines = ["const int32_t b = *(const int32_t *)*w;", "", f"*w += {size};"]
    return [*lines, *(f"acc[{i}] = b;" for i in range(pixels))]


Couples = Iterable[tuple[int, int]]
HEAD_C = [
    "const int8_t *x = (const int8_t *)tile + 4 * at + odd;",
    "const int8_t *v = (const int8_t *)*w;",
    "",
]


def pairs_c(pixels: int, places: Couples) -> list[str]:
    """Words times pairs of weights, whose bytes are at `places` in the stream."""
    return [
        f"acc[{pixel}] = vmcu_mac(acc[{pixel}], x[{4 * (word + pixel) + 2 * half}], v[{place}]);"
        for word, couple in enumerate(places)
        for half, place in enumerate(couple)
        for pixel in range(pixels)
    ]


def line_c(pixels: int, taps: int, places: Couples) -> list[str]:
    """The last row of a window."""
    place: dict[int, int] = {}
    for weights, couple in zip(line_order(taps), places, strict=True):
        place |= dict(zip(weights, couple, strict=True))
    return [
        f"acc[{pixel}] = vmcu_mac(acc[{pixel}], x[{2 * (tap + pixel)}], v[{place[tap]}]);"
        for tap in range(taps)
        for pixel in range(pixels)
    ]


@define(
    "RAMLoad",
    "vmcu_lane_t *tile, struct vmcu_band *in, int32_t row, int32_t pixel, "
    "int32_t channel, const struct vmcu_call *call, int32_t wide, int32_t lanes",
    """
(void)row;
if (channel == 0) {
	vmcu_band_start(in, call, (uint32_t *)tile, pixel, wide);
}
vmcu_stage_band(in, channel, lanes);
vmcu_tile_done();
""",
)
def stage(m: Machine, tile: Tile, ram: Ram, call: int, wide: int, lanes: int) -> None:
    """Brings the columns under `wide` output pixels into the tile, for `lanes` channels."""
    taps = m.load(ram, m.names["p->input_zero"])
    rows, columns, _ = taps.shape
    taps = np.pad(taps, ((0, 0), (0, 0), (0, GROUP - lanes)))
    phase, row, plane = (m.names[name] for name in ("phase", "row", "plane"))
    stride = m.names["p->window.stride_w"]
    m.tile = np.full((2 * plane, GROUP), UNUSED, np.int64)
    for r in range(rows):
        for column in range(columns):
            if r + 1 < rows or rows % 2 == 0:
                word, half = r // 2 * row + column % stride * phase + column // stride, r % 2
            else:
                word, half = rows // 2 * row + column // 2, column % 2
            for lane in range(GROUP):
                m.tile[lane // 2 * plane + word, 2 * half + lane % 2] = taps[r, column, lane]


@define(
    "FlashLoad",
    "int32_t *acc, const uint8_t **w, int32_t gap",
    lambda packing: "\n".join(bias_c(packing.pixels)),
)
def bias_depthwise(m: Machine, acc: np.ndarray, stream: Stream, gap: int) -> None:
    """Starts the accumulators of a block at a channel's bias."""
    acc[:] = m.take(np.int32, 1)
    m.take(np.int8, gap)


def _pair(count: int) -> Instruction:
    def text(packing: Packing) -> str:
        return "\n".join(
            [*HEAD_C, *pairs_c(packing.pixels, packing.pairs(count)), f"*w += {2 * count};"]
        )

    @define("Dot", DOT_PARAMETERS, text, count, "A word" if count == 1 else f"{count} words")
    def dot_pair(
        m: Machine, acc: np.ndarray, tile: Tile, at: int, odd: int, stream: Stream
    ) -> None:
        """{what} for each pixel of a block times a channel's pairs of weights."""
        add_pairs(m, acc, at, odd, take_pairs(m, count))

    return dot_pair


def _line(taps: int) -> Instruction:
    def text(packing: Packing) -> str:
        body = line_c(packing.pixels, taps, packing.pairs(taps))
        return "\n".join([*HEAD_C, *body, f"*w += {2 * taps};"])

    @define("Dot", DOT_PARAMETERS, text, taps, f"{taps} taps")
    def dot_line(
        m: Machine, acc: np.ndarray, tile: Tile, at: int, odd: int, stream: Stream
    ) -> None:
        """A row of {what} for each pixel of a block, at a stride of one."""
        add_line(m, acc, at, odd, take_pairs(m, taps))

    return dot_line


def square_c(packing: Packing, stride: int) -> str:
    """Blocks of as many pixels as whole strips have; those of a last one may not exist."""
    pixels, places = packing.pixels + (WIDER if stride == 2 else 0), packing.pairs(2 * SQUARE_TAPS)
    factors = 4 + 4 * SQUARE_TAPS

    def pairs(first: int, count: int) -> list[str]:
        return pairs_c(pixels, places[first : first + count])

    if stride == 1:
        rows = [*pairs(0, 3), "x = last;", *line_c(pixels, SQUARE_TAPS, places[3:])]
        last = "x + 4 * row - 2 * at"
    else:
        rows = [*pairs(0, 2), "x += 4 * phase;", *pairs(2, 1), "x = last;", *pairs(3, 2)]
        last = "x + 4 * row"
    channel = [
        "const int8_t *x = (const int8_t *)tile + 4 * ((n >> 1) * plane + at) + (n & 1);",
        f"const int8_t *last = {last};",
        "const int8_t *v = (const int8_t *)*w + 4;",
        f"const int32_t *c = (const int32_t *)(*w + {factors});",
        "const int32_t multiplier = c[0], bias = c[1], shift = c[2];",
        "int8_t *o = (int8_t *)patch + n;",
        f"int32_t acc[{pixels}];",
        "",
        *(f"acc[{i}] = *(const int32_t *)*w;" for i in range(pixels)),
        *rows,
        f"*w += {factors + 12};",
        "if (vmcu_is_exact(shift)) {",
        f"\t{sums_c(pixels)}",
        "",
        f"\tvmcu_finish_any(p, sums, {pixels}, *w - 12, o);",
        "\tcontinue;",
        "}",
        *fixed_stores_c("multiplier, bias, shift", pixels),
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
*w += (lanes & 1) * {factors + 12};
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
            acc = np.full(wide, m.take(np.int32, 1)[0])
            pairs = take_pairs(m, 2 * SQUARE_TAPS)
            if stride == 1:
                add_pairs(m, acc, first, odd, pairs[:3])
                add_line(m, acc, first + row, odd, pairs[3:])
            else:
                add_pairs(m, acc, first, odd, pairs[:2])
                add_pairs(m, acc, first + phase, odd, pairs[2:3])
                add_pairs(m, acc, first + row, odd, pairs[3:5])
            finish_channel(m, acc, patch, channel)
        m.store(ram, channels_of(patch)[:, :lanes])

    return define(
        "RAMStore",
        "const struct vmcu_mac_params *p, const vmcu_lane_t *tile, int32_t phase, int32_t row, "
        "int32_t plane, const uint8_t **w, int8_t *out, int32_t pitch, int32_t wide, int32_t lanes",
        lambda packing: square_c(packing, stride),
        stride,
        "one" if stride == 1 else "two",
    )(store_square)


def channels_of(patch: np.ndarray) -> np.ndarray:
    """int8 (pixels, GROUP) of a patch."""
    return (patch[:, None] >> 8 * np.arange(GROUP)).astype(np.int8)


def store_whole_c(pixels: int) -> list[str]:
    return [
        f"__builtin_memcpy(out + {pixel} * pitch, &patch[{pixel}], 4);" for pixel in range(pixels)
    ]


def sums_c(pixels: int) -> str:
    return f"const int32_t sums[] = {{{', '.join(f'acc[{i}]' for i in range(pixels))}}};"


def finish_any_c(shift: str, pixels: int) -> list[str]:
    """What is not for the fast requantiser, among it channels that do not exist. The accumulators
    go as a copy: their own address must not escape from registers."""
    return [
        f"if (vmcu_is_exact({shift})) {{",
        f"\t{sums_c(pixels)}",
        "",
        f"\tvmcu_finish_any(p, sums, {pixels}, *w - 12, o);",
        "\treturn;",
        "}",
    ]


def finish_c(packing: Packing) -> str:
    pixels = packing.pixels
    lines = [
        "const int32_t *c = (const int32_t *)*w;",
        "const int32_t multiplier = c[0], bias = c[1], shift = c[2];",
        "int8_t *o = (int8_t *)patch + channel;",
        "",
        "*w += 12;",
        *finish_any_c("shift", pixels),
    ]
    return "\n".join([*lines, *fixed_stores_c("multiplier, bias, shift", pixels)])


def fixed_stores_c(constants: str, pixels: int) -> list[str]:
    return [f"o[{4 * i}] = vmcu_fixed(acc[{i}], {constants});" for i in range(pixels)]


def finish_channel(m: Machine, acc: np.ndarray, patch: np.ndarray, channel: int) -> None:
    """Requantises a channel into a patch."""
    constants, requant = take_requant(m)
    if requant is None:
        values = fixed_fast(wrap_int32(acc), *constants)
    else:
        values = finish(m, acc, requant, len(acc)).ravel()
    patch[:] &= ~(0xFF << 8 * channel)
    patch[:] |= (values.astype(np.int64) & 0xFF) << 8 * channel


@define(
    "Call",
    "const struct vmcu_mac_params *p, const int32_t *acc, const uint8_t **w, int32_t *patch, "
    "int32_t channel",
    finish_c,
)
def finish_depthwise(
    m: Machine, p: int, acc: np.ndarray, stream: Stream, patch: np.ndarray, channel: int
) -> None:
    """Requantises a channel of a block into a patch: a word for the bytes of each pixel."""
    finish_channel(m, acc, patch, channel)


@define(
    "RAMStore",
    "const int32_t *patch, int8_t *out, int32_t pitch, int32_t wide, int32_t lanes",
    """
if (lanes == 4 && wide == 4) {
	__builtin_memcpy(out, &patch[0], 4);
	__builtin_memcpy(out + pitch, &patch[1], 4);
	out += 2 * pitch;
	__builtin_memcpy(out, &patch[2], 4);
	__builtin_memcpy(out + pitch, &patch[3], 4);
	return;
}
vmcu_store_part(patch, out, pitch, wide, lanes);
""",
)
def store_patch(m: Machine, patch: np.ndarray, ram: Ram, pitch: int, wide: int, lanes: int) -> None:
    """Stores those pixels and channels of a patch that exist."""
    m.store(ram, channels_of(patch)[:wide, :lanes])


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
    """Likewise of fewer than four channels, with weights for four."""
    add_taps(m, acc, ram, lanes)


def store_channels(m: Machine, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """Requantises four channels and stores those that exist."""
    values = np.zeros(GROUP, np.int64)
    for lane in range(GROUP):
        constants, requant = take_requant(m)
        if requant is None:
            values[lane] = fixed_fast(wrap_int32(acc[lane]), *constants)
        elif lane < lanes:
            values[lane] = finish(m, acc[lane : lane + 1], requant, 1)[0, 0]
    m.store(ram, values[:lanes])


@define(
    "RAMStore",
    "const struct vmcu_mac_params *p, const int32_t *acc, const uint8_t **w, int8_t *out",
    """
const int32_t *c = (const int32_t *)*w;

*w += 48;
if (vmcu_is_exact(c[2])) {
	const int32_t sums[] = {acc[0], acc[1], acc[2], acc[3]};

	vmcu_store_places(p, sums, c, out, 4);
	return;
}
out[0] = vmcu_fixed(acc[0], c[0], c[1], c[2]);
out[1] = vmcu_fixed(acc[1], c[3], c[4], c[5]);
out[2] = vmcu_fixed(acc[2], c[6], c[7], c[8]);
out[3] = vmcu_fixed(acc[3], c[9], c[10], c[11]);
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

vmcu_store_places(p, sums, (const int32_t *)*w, out, lanes);
*w += 48;
""",
)
def store_some_taps(
    m: Machine, p: int, acc: np.ndarray, stream: Stream, ram: Ram, lanes: int
) -> None:
    """Requantises and stores fewer than four channels, none of them in the fast way."""
    store_channels(m, acc, ram, lanes)


SQUARE = {stride: _square(stride) for stride in STRIDES}
LINE = {taps: _line(taps) for taps in TAPS if taps != SQUARE_TAPS}
PAIR = {
    count: _pair(count)
    for count in sorted(
        {
            count
            for taps in TAPS
            for stride in STRIDES
            if taps != SQUARE_TAPS
            for count in pair_counts(taps, stride)
        }
    )
}
