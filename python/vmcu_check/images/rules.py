# SPDX-License-Identifier: Apache-2.0
"""The order in which a kernel reads and writes bytes, by kernel: the interface in vmcu/kernels.h.

A rule returns the bytes of a call with steps: in each step a kernel reads, then writes. Of a byte
that is read again and again only the last read counts. Bytes are counted from the beginning of
their tensor: (y * width + x) * channels + c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .params import parts
from .tables import ImageLayer, ImageTensor

# Steps of a pixel in rules that count them by channel.
FOUR = 4
VECTOR = 16


@dataclass(frozen=True)
class CallReads:
    """Bytes of input `index`, int64 (n,), the step of each, and rows of the input for a row of the
    output."""

    index: int
    at: np.ndarray
    steps: np.ndarray
    stride: int = 1


@dataclass(frozen=True)
class CallAccess:
    """The bytes that a call reads, and those of the output that it writes, int64 (n,), with steps.
    appends: it adds to sums in scratch memory."""

    reads: list[CallReads]
    written: np.ndarray
    steps: np.ndarray
    appends: bool = False


@dataclass(frozen=True)
class KernelCall:
    """`columns` pixels of row y from column x on. arrays: reads an array of the image."""

    layer: ImageLayer
    params: Mapping[str, Any]
    ins: tuple[ImageTensor, ...]
    out: ImageTensor
    y: int
    x: int
    columns: int
    arrays: Callable[[str, int, int], np.ndarray] = field(compare=False)

    @property
    def turns(self) -> np.ndarray:
        """int64 (columns,): which of the call's pixels each column is."""
        turns = np.arange(self.columns, dtype=np.int64)
        return turns[::-1] if self.layer.descending else turns

    def pixels(self, tensor: ImageTensor, y: int, x: np.ndarray) -> np.ndarray:
        """int64 (n, channels): the bytes of pixels of a row."""
        first = (y * tensor.width + np.asarray(x, np.int64)) * tensor.channels
        return first[:, None] + np.arange(tensor.channels)

    @property
    def own(self) -> np.ndarray:
        """int64 (columns, channels): the output's bytes."""
        return self.pixels(self.out, self.y, self.x + np.arange(self.columns))


AccessRule = Callable[[KernelCall], CallAccess]
# By kind of kernel, see params.parts().
RULES: dict[str, AccessRule] = {}


def rule(kinds: str) -> Callable[[AccessRule], AccessRule]:
    """Registers a rule for some kinds of kernels."""

    def note(one: AccessRule) -> AccessRule:
        RULES.update(dict.fromkeys(kinds.split(), one))
        return one

    return note


def _flat(at: ArrayLike, steps: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Broadcasts bytes and steps and returns both as int64 (n,)."""
    one, other = np.broadcast_arrays(np.asarray(at, np.int64), np.asarray(steps, np.int64))
    return one.ravel(), other.ravel()


def _reads(index: int, at: ArrayLike, steps: ArrayLike, stride: int = 1) -> CallReads:
    return CallReads(index, *_flat(at, steps), stride)


def _access(call: KernelCall, steps: ArrayLike, *reads: CallReads) -> CallAccess:
    """A call that writes its columns in these steps."""
    return CallAccess(list(reads), *_flat(call.own, steps))


def _tiles(columns: int, most: int, descending: bool) -> np.ndarray:
    """int64 (columns,): the tile of each pixel: `most` pixels each, halved until they fit."""
    tile, at, number = np.zeros(columns, np.int64), 0, 0
    while at < columns:
        while most > columns - at:
            most //= 2
        tile[at : at + most] = number
        at, number = at + most, number + 1
    return tile[::-1] if descending else tile


def under(call: KernelCall, tensor: ImageTensor, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The taps inside the image of windows of output columns x: their pixels' first bytes and the
    numbers of their windows, int64 (n,) each."""
    p = call.params
    rows = call.y * p["stride_h"] - p["pad_top"] + np.arange(p["kernel_h"]) * p["dilation_h"]
    rows = rows[(rows >= 0) & (rows < tensor.height)]
    taps = np.arange(p["kernel_w"]) * p["dilation_w"]
    columns = x[:, None] * p["stride_w"] - p["pad_left"] + taps
    which, tap = np.nonzero((columns >= 0) & (columns < tensor.width))
    first = (rows[:, None] * tensor.width + columns[which, tap]) * tensor.channels
    return first.ravel(), np.broadcast_to(which, (len(rows), len(which))).ravel()


def _windowed(call: KernelCall, step: np.ndarray, last: np.ndarray) -> CallAccess:
    """A window over all or some channels. step: (columns, output channels), of writes; last:
    (columns, input channels), of the last read of a channel under the window."""
    tensor = call.ins[0]
    first, which = under(call, tensor, call.x + np.arange(call.columns))
    at = first[:, None] + np.arange(tensor.channels)
    whole = np.broadcast_to(last, (call.columns, tensor.channels))
    return _access(call, step, _reads(0, at, whole[which], call.params["stride_h"]))


def _columns(call: KernelCall, index: int = 0) -> np.ndarray:
    """The pixels of an input at the places of the call's, (columns, channels)."""
    return call.pixels(call.ins[index], call.y, call.x + np.arange(call.columns))


def _row(call: KernelCall, index: int = 0) -> np.ndarray:
    """An input's whole row, (width, channels)."""
    return call.pixels(call.ins[index], call.y, np.arange(call.ins[index].width))


def _in_groups(call: KernelCall, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """The group of each output and of each input channel."""
    outputs, inputs = call.out.channels, call.ins[0].channels
    return (
        np.arange(outputs) // max(outputs // groups, 1),
        np.arange(inputs) // max(inputs // groups, 1),
    )


@rule("conv pointwise")
def conv(call: KernelCall) -> CallAccess:
    """Pixels in tiles; of each tile, each group reads its windows, then writes its channels."""
    form = parts(call.layer.kernel)[1]
    groups = call.params["groups"]
    tile = _tiles(call.columns, 2 if form == "_narrow" else 4, call.layer.descending)[:, None]
    outputs, inputs = _in_groups(call, groups)
    return _windowed(call, tile * groups + outputs, tile * groups + inputs)


@rule("dense dense_per_tensor grouped")
def dense(call: KernelCall) -> CallAccess:
    """Takes four output channels of a pixel at once: reads all taps, then writes."""
    blocks = -(-call.out.channels // FOUR)
    turns = call.turns[:, None] * blocks
    steps = turns + np.arange(call.out.channels) // FOUR
    if "kernel_h" not in call.params:
        return _access(call, steps, _reads(0, _row(call), blocks - 1))
    return _windowed(call, steps, turns + blocks - 1)


@rule("depthwise")
def depthwise(call: KernelCall) -> CallAccess:
    """Takes each strip of pixels, or pixel, for each block of channels: reads their windows, then
    writes. Outputs of one input channel are a group of their own if there are several."""
    form, packing = parts(call.layer.kernel)[1:]
    p = call.params
    wide = 1 if form == "_any" else p["steps"]
    strip = call.turns[:, None] // wide
    lanes = VECTOR if packing.startswith("_helium") else FOUR
    outputs, inputs = np.arange(call.out.channels), np.arange(call.ins[0].channels)
    if p["run"]:
        blocks = -(-call.out.channels // lanes)
        return _windowed(call, strip * blocks + outputs // lanes, strip * blocks + inputs // lanes)
    each = call.out.channels // call.ins[0].channels
    blocks = -(-each // lanes)
    strip = strip * blocks * call.ins[0].channels
    step = strip + outputs // each * blocks + outputs % each // lanes
    return _windowed(call, step, strip + (inputs + 1) * blocks - 1)


@rule("average_pool max_pool")
def pool(call: KernelCall) -> CallAccess:
    """Takes each pixel, for each block of channels: reads the taps, then writes."""
    lanes = VECTOR if call.layer.kernel.endswith("_helium") else FOUR
    blocks = -(-call.out.channels // lanes)
    step = call.turns[:, None] * blocks + np.arange(call.out.channels) // lanes
    return _windowed(call, step, step)


@rule("add_exact add_float binary lookup requantize remember")
def by_element(call: KernelCall) -> CallAccess:
    """Takes each byte, ascending: reads those at its place in all inputs, then writes. Inputs of
    one row, column or channel are repeated."""
    return _aligned(call, _steps(call, 1))


@rule("add")
def add(call: KernelCall) -> CallAccess:
    """by_element(), four or sixteen channels at once."""
    lanes = VECTOR if call.layer.kernel.endswith("_helium") else FOUR
    return _aligned(call, _steps(call, lanes))


def _steps(call: KernelCall, lanes: int) -> np.ndarray:
    """(columns, channels): pixel by pixel, so many channels at once; of the last ones, too few for
    all lanes but a vector's, one."""
    channels = np.arange(call.out.channels)
    whole = call.out.channels // lanes * lanes
    block = np.where(channels < whole, channels // lanes * lanes, channels)
    if lanes == VECTOR:
        block = channels // lanes * lanes
    steps: np.ndarray = call.turns[:, None] * call.out.channels + block
    return steps


def _aligned(call: KernelCall, steps: np.ndarray) -> CallAccess:
    reads = []
    for index, tensor in enumerate(call.ins):
        y = call.y if tensor.height > 1 else 0
        x = call.x + np.arange(call.columns) if tensor.width > 1 else np.zeros(call.columns, int)
        reads.append(_reads(index, call.pixels(tensor, y, x), steps, int(tensor.height > 1)))
    return _access(call, steps, *reads)


@rule(
    "softmax_tflite softmax_onnx log_softmax_tflite log_softmax_onnx l2_norm rms_norm layer_norm"
    " hardmax cum_sum"
)
def by_pixel(call: KernelCall) -> CallAccess:
    """Takes each pixel: reads all channels, then for each one: reads it again and writes."""
    steps = _steps(call, 1)
    return _access(call, steps, _reads(0, _columns(call), steps))


@rule("arg_max embedding")
def pixel_at_once(call: KernelCall) -> CallAccess:
    """Takes each pixel: reads all channels, then writes all."""
    turns = call.turns[:, None]
    return _access(call, turns, _reads(0, _columns(call), turns))


@rule("requantize_wide")
def wide(call: KernelCall) -> CallAccess:
    """Takes each element of several bytes: reads all of it, then writes all."""
    sizes = call.params["input_bytes"], call.params["output_bytes"]
    turns = call.turns[:, None] * (call.out.channels // sizes[1])
    read = _reads(0, _columns(call), turns + np.arange(call.ins[0].channels) // sizes[0])
    return _access(call, turns + np.arange(call.out.channels) // sizes[1], read)


@rule("average_pool_sum")
def summing(call: KernelCall) -> CallAccess:
    """Adds pixels of an input row to sums; the last call of the last row writes the output."""
    tensor = call.ins[0]
    last = call.y == tensor.height - 1 and call.x + call.columns == tensor.width
    out = np.arange(call.out.bytes if last else 0, dtype=np.int64)
    read = _reads(0, _columns(call), call.turns[:, None])
    return CallAccess([read], out, np.full(len(out), call.columns, np.int64), True)


def _gathered(call: KernelCall, at: np.ndarray, index: np.ndarray | int = 0) -> CallAccess:
    """Takes each byte of a row, ascending: reads byte at[i] of an input, or none if it is negative,
    then writes. index: which input."""
    steps = np.arange(at.size, dtype=np.int64)
    at = at.ravel()
    which = np.broadcast_to(index, at.shape)
    mine = [(which == number) & (at >= 0) for number in range(len(call.ins))]
    reads = [_reads(number, at[one], steps[one]) for number, one in enumerate(mine)]
    return _access(call, steps.reshape(call.own.shape), *reads)


@rule("pad")
def pad(call: KernelCall) -> CallAccess:
    """The input at its place in the output; constants elsewhere."""
    p, tensor = call.params, call.ins[0]
    y = call.y - p["top"]
    x = call.x + np.arange(call.columns)[:, None] - p["left"]
    c = np.arange(call.out.channels) - p["before"]
    inside = (0 <= y < tensor.height) & (x >= 0) & (x < tensor.width)
    inside = inside & (c >= 0) & (c < tensor.channels)
    return _gathered(call, np.where(inside, (y * tensor.width + x) * tensor.channels + c, -1))


@rule("reshape")
def reshape(call: KernelCall) -> CallAccess:
    """The bytes in their order."""
    return _gathered(call, call.own)


@rule("concat")
def concat(call: KernelCall) -> CallAccess:
    """The inputs behind one another along an axis."""
    axis = call.params["axis"]
    sizes = [(one.height, one.width, one.channels)[axis] for one in call.ins]
    ends = np.cumsum(sizes)
    x = np.broadcast_to((call.x + np.arange(call.columns))[:, None], call.own.shape)
    c = np.broadcast_to(np.arange(call.out.channels), call.own.shape)
    place = [np.full(call.own.shape, call.y), x, c]
    index = np.searchsorted(ends, place[axis], side="right")
    place[axis] = place[axis] - np.concatenate([[0], ends])[index]
    widths = np.array([one.width for one in call.ins])[index]
    depths = np.array([one.channels for one in call.ins])[index]
    return _gathered(call, (place[0] * widths + place[1]) * depths + place[2], index.ravel())


@rule("move")
def move(call: KernelCall) -> CallAccess:
    """Bytes from where three tables say."""
    p, run = call.params, max(call.params["run"], 1)
    rows = call.arrays("i", p["rows"], call.out.height)
    columns = call.arrays("i", p["columns"], call.out.width)
    channels = call.arrays("i", p["channels"], -(-call.out.channels // run))
    c = np.arange(call.out.channels)
    within = channels[c // run] + c % run
    across = columns[call.x : call.x + call.columns, None]
    return _gathered(call, np.int64(rows[call.y]) + across + within)


@rule("pick")
def pick(call: KernelCall) -> CallAccess:
    """Bytes of the input's row from where a table says."""
    run = max(call.params["run"], 1)
    own = np.arange(call.out.row)
    firsts = call.arrays("H", call.params["bytes"], -(-call.out.row // run))
    at = call.y * call.ins[0].row + firsts[own // run].astype(np.int64) + own % run
    first = call.x * call.out.channels
    return _gathered(call, at[first : first + call.columns * call.out.channels])


@rule("resize")
def resize(call: KernelCall) -> CallAccess:
    """Four taps of each byte, by two tables of (first, second, weight)."""
    tensor, p, steps = call.ins[0], call.params, _steps(call, 1)
    rows = call.arrays("h", p["rows"], 3 * call.out.height).reshape(-1, 3)[call.y, :2]
    columns = call.arrays("h", p["columns"], 3 * call.out.width).reshape(-1, 3)[:, :2]
    columns = columns[call.x : call.x + call.columns]
    taps = rows[:, None, None].astype(np.int64) * tensor.width + columns
    at = taps[..., None] * tensor.channels + np.arange(tensor.channels)
    return _access(call, steps, _reads(0, at, steps[None, :, None]))


@rule("table_mean")
def table_mean(call: KernelCall) -> CallAccess:
    """Takes each byte: reads all taps of its channel, then writes."""
    return _windowed(call, _steps(call, 1), _steps(call, 1))


@rule("transpose_conv")
def transpose_conv(call: KernelCall) -> CallAccess:
    """Takes each pixel, for each channel: reads all taps of its group, then writes."""
    p, tensor = call.params, call.ins[0]
    groups = p["groups"]
    taps_y = call.y + p["pad_top"] - np.arange(p["kernel_h"]) * p["dilation_h"]
    taps_y = taps_y[taps_y % p["stride_h"] == 0] // p["stride_h"]
    taps_y = taps_y[(taps_y >= 0) & (taps_y < tensor.height)]
    x = call.x + np.arange(call.columns)
    taps_x = x[:, None] + p["pad_left"] - np.arange(p["kernel_w"]) * p["dilation_w"]
    inside = (taps_x % p["stride_w"] == 0) & (taps_x >= 0)
    inside &= taps_x // p["stride_w"] < tensor.width
    which, tap = np.nonzero(inside)
    columns = taps_x[which, tap] // p["stride_w"]
    last = (_in_groups(call, groups)[1] + 1) * (call.out.channels // groups) - 1
    first = (taps_y[:, None] * tensor.width + columns) * tensor.channels
    at = first[..., None] + np.arange(tensor.channels)
    steps = call.turns[which][:, None] * call.out.channels + last
    return _access(call, _steps(call, 1), _reads(0, at, steps))


@rule("matmul matmul_transposed")
def matmul(call: KernelCall) -> CallAccess:
    """Takes each line, for each four channels, or one: reads the line and columns, then writes."""
    lanes = 1 if call.layer.kernel == "vmcu_matmul_transposed" else FOUR
    other, blocks = call.ins[1], -(-call.out.channels // lanes)
    turns = call.turns[:, None] * blocks
    block = np.arange(other.width)[:, None] if lanes == 1 else np.arange(other.channels) // lanes
    return _access(
        call,
        turns + np.arange(call.out.channels) // lanes,
        _reads(0, _columns(call), turns + blocks - 1),
        _reads(1, _row(call, 1), (call.columns - 1) * blocks + block),
    )


@rule("attention")
def attention(call: KernelCall) -> CallAccess:
    """Takes each head: reads its query and all keys that it sees; then for each eight channels,
    then four, then the rest: reads them of all values, then writes them."""
    p, (query, keys, values) = call.params, call.ins[:3]
    heads, sharing = max(p["heads"], 1), max(p["sharing"], 1)
    each, depth = call.out.channels // heads, query.channels // heads
    c = np.arange(each)
    eights = each // 8
    block = np.where(c < 8 * eights, c // 8, eights + (c - 8 * eights) // FOUR)
    steps = int(block[-1]) + 1
    rows = call.y * p["stride_h"] - p["pad_top"] + np.arange(p["kernel_h"])
    rows = rows[(rows >= 0) & (rows < keys.height)][:, None]
    head = np.arange(query.channels) // depth
    last = (np.arange(keys.channels) // max(depth, 1) + 1) * sharing - 1
    of_values = np.arange(values.channels)
    last_value = (of_values // each + 1) * sharing - 1
    stride = p["stride_h"]
    of_keys = rows * keys.row + np.arange(keys.channels)
    steps_of_values = last_value * steps + block[of_values % each]
    reads = [
        _reads(0, call.pixels(query, call.y, np.array([0])), head * steps),
        _reads(1, of_keys, last * steps, stride),
        _reads(2, rows * values.row + of_values, steps_of_values, stride),
    ]
    if len(call.ins) > 3:
        mask = call.ins[3]
        at = rows * mask.row if p["mask_rows"] else min(call.y, mask.height - 1) * mask.row
        at, own_rows = at + np.arange(mask.channels), stride if p["mask_rows"] else p["bias_row"]
        reads.append(_reads(3, at, (heads - 1) * steps, own_rows))
    own = np.arange(call.out.channels)
    return _access(call, own // each * steps + block[own % each], *reads)


@rule("lstm")
def lstm(call: KernelCall) -> CallAccess:
    """Reads the outputs of all units; then for each unit: reads all of input 0 and the unit's cell,
    then writes its three bytes."""
    units = call.out.channels // 3
    unit = np.concatenate([np.arange(units), np.arange(2 * units) // 2])
    y = call.y - 1 if call.layer.inputs[1] == call.layer.output else call.y
    reads = [_reads(0, _row(call), units - 1)]
    if y >= 0:
        cells = np.where(np.arange(3 * units) < units, 0, unit)
        reads.append(_reads(1, call.pixels(call.ins[1], y, np.array([0])), cells))
    return _access(call, unit, *reads)


@rule("dense_by_rows")
def dense_by_rows(call: KernelCall) -> CallAccess:
    """Reads the number of the row before; then for each channel: reads all of input 0 and the
    channel's sum, then writes its result and its sum. Writes the number last."""
    channels = call.out.row // 6
    c, of_sums = np.arange(channels), np.arange(4 * channels) // 4
    reads = [_reads(0, _row(call), channels - 1)]
    if call.y > 0:
        at = (call.y - 1) * call.out.row + np.arange(channels, call.out.row)
        reads.append(_reads(1, at, np.concatenate([of_sums, c * 0])))
    step = np.concatenate([c, of_sums, c * 0 + channels])
    return _access(call, step.reshape(call.out.width, -1), *reads)


@rule("dense_int16")
def dense_int16(call: KernelCall) -> CallAccess:
    """Takes each element: reads all channels, then writes two bytes; up to four elements ahead."""
    blocks = -(-call.out.channels // (2 * FOUR))
    turns = call.turns[:, None] * blocks
    steps = turns + np.arange(call.out.channels) // (2 * FOUR)
    return _access(call, steps, _reads(0, _columns(call), turns + blocks - 1))


@rule("filter_int16")
def filter_int16(call: KernelCall) -> CallAccess:
    """Takes each channel: reads all elements of its filters along the window, then writes."""
    bytes_each = 2 * max(call.params["rank"], 1)
    step = np.arange(call.out.channels)[None, :]
    return _windowed(call, step, np.arange(call.ins[0].channels)[None, :] // bytes_each)


@rule("look_back recall")
def of_hop(call: KernelCall) -> CallAccess:
    """by_element(), of a window of the past or of the state before: walk.py knows where they are.
    Reads the number of the hop first."""
    number = CallReads(1, np.arange(2, dtype=np.int64), np.zeros(2, np.int64))
    access = by_element(replace(call, ins=call.ins[:1]))
    return replace(access, reads=[*access.reads, number])


@rule("fetch hop_count")
def fetch(call: KernelCall) -> CallAccess:
    """Reads no bytes of the pool."""
    return _access(call, _steps(call, 1))


@rule("trained_dense")
def trained_dense(call: KernelCall) -> CallAccess:
    """Takes each output: reads all of input 0 and a row of input 1, then writes."""
    weights, c = np.arange(call.ins[1].bytes), np.arange(call.out.channels)
    reads = [_reads(0, _row(call), c[-1]), _reads(1, weights, weights // call.ins[1].row)]
    return _access(call, c, *reads)


@rule("softmax_int16")
def softmax_int16(call: KernelCall) -> CallAccess:
    """Takes each pixel: reads all channels, then for each one: reads it again, writes two bytes."""
    steps = _steps(call, 1) // 2
    each = call.out.channels // call.ins[0].channels
    return _access(call, steps, _reads(0, _columns(call), steps[:, ::each]))


@rule("class_error")
def class_error(call: KernelCall) -> CallAccess:
    """Takes each class: reads two bytes of input 0 and the label, then writes two bytes."""
    pair = np.arange(call.out.channels) // 2
    return _access(call, pair, _reads(0, _row(call), pair), _reads(1, 0, pair[-1]))


@rule("dense_gradient")
def dense_gradient(call: KernelCall) -> CallAccess:
    """Takes each value of input 2: reads it, all of input 0 and its weights; writes two bytes."""
    pair = np.arange(call.out.channels) // 2
    weights, values = np.arange(call.ins[1].bytes), np.arange(call.ins[2].bytes)
    return _access(
        call,
        pair,
        _reads(0, np.arange(call.ins[0].bytes), pair[-1]),
        _reads(1, weights, np.minimum(weights % call.ins[1].row // 2, pair[-1])),
        _reads(2, values, values),
    )


@rule("dense_update")
def dense_update(call: KernelCall) -> CallAccess:
    """Takes each weight, two bytes, then the bias: reads it, its input and the error, writes it."""
    weights, values = call.ins[0], np.arange(call.ins[2].bytes)
    row = np.arange(weights.row)
    step = np.minimum(row // 2, len(values))
    error = 2 * (call.params["first"] + call.y) + np.arange(2)
    return _access(
        call,
        step.reshape(call.out.width, -1),
        _reads(0, call.y * weights.row + row, step),
        _reads(1, error, step[-1]),
        _reads(2, values, values),
    )
