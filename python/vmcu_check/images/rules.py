# SPDX-License-Identifier: Apache-2.0
"""The order in which kernels read and write bytes, as vmcu/kernels.h and vmcu/operators.h have it.

A rule returns the bytes of a call with steps: in each step a kernel reads, then writes. Of a byte
that is read again and again only the last read counts. Bytes are counted from the beginning of
their tensor: (y * width + x) * channels + c. This module has the families of kernels that take
pixels one after another; moves.py has those that rearrange bytes or read whole rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .elf import require
from .tables import FOUR, VECTOR, Axes, ImageLayer, ImageTensor

# Channels that kernels compute together; all of them.
EIGHT, ALL = 8, 1 << 16
ArrayReader = Callable[[str, int, int], np.ndarray]


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


class KernelCall:
    """`columns` pixels of row y of a layer, from column x on. array: reads an array of the image.

    channels: int64 (channels,), those of the output; across, turns: int64 (columns,), the call's
    columns, and which of its pixels each one is; own: int64 (columns, channels), the bytes of the
    output.
    """

    def __init__(self, layer: ImageLayer, y: int, x: int, columns: int, array: ArrayReader):
        self.layer, self.p, self.ins, self.out = layer, layer.p, layer.ins, layer.out
        self.y, self.x, self.columns, self.array = y, x, columns, array
        self.channels, self.across = np.arange(self.out.channels), x + np.arange(columns)
        self.turns = np.arange(columns)[:: -1 if layer.descending else 1]
        self.own = self.pixels(self.out, y, self.across)

    def pixels(self, tensor: ImageTensor, y: int, x: ArrayLike) -> np.ndarray:
        """int64 (n, channels): the bytes of pixels of a row."""
        first = (y * tensor.width + np.asarray(x, np.int64)) * tensor.channels
        return first[:, None] + np.arange(tensor.channels)

    def row(self, index: int = 0) -> np.ndarray:
        """int64 (width, channels): an input's row at the output's."""
        return self.pixels(self.ins[index], self.y, np.arange(self.ins[index].width))


AccessRule = Callable[[KernelCall], CallAccess]
# By kind of kernel.
RULES: dict[str, AccessRule] = {}


def rule(kinds: str) -> Callable[[AccessRule], AccessRule]:
    """Registers a rule for some kinds of kernels."""
    return lambda one: RULES.update(dict.fromkeys(kinds.split(), one)) or one


def _flat(at: ArrayLike, steps: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Broadcasts bytes and steps and returns both as int64 (n,)."""
    one, other = np.broadcast_arrays(np.asarray(at, np.int64), np.asarray(steps, np.int64))
    return one.ravel(), other.ravel()


def reads(index: int, at: ArrayLike, steps: ArrayLike, stride: int = 1) -> CallReads:
    """Returns bytes that a call reads in these steps."""
    return CallReads(index, *_flat(at, steps), stride)


def access(call: KernelCall, steps: ArrayLike, *read: CallReads) -> CallAccess:
    """Returns the access of a call that writes its columns in these steps."""
    return CallAccess(list(read), *_flat(call.own, steps))


def under(
    axes: Axes, tensor: ImageTensor, y: int, across: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the taps inside an input of the windows of some columns of row y: their pixels' first
    bytes and the numbers of their windows, int64 (n,) each."""
    rows, columns = (
        at[:, None] * stride - pad + np.arange(taps) * dilation
        for (taps, stride, dilation, pad), at in zip(axes, (np.array([y]), across), strict=True)
    )
    rows = rows[(rows >= 0) & (rows < tensor.height)]
    which, tap = np.nonzero((columns >= 0) & (columns < tensor.width))
    first = (rows[:, None] * tensor.width + columns[which, tap]) * tensor.channels
    return first.ravel(), np.broadcast_to(which, (len(rows), len(which))).ravel()


def windows(
    call: KernelCall, write: np.ndarray, last: ArrayLike, turns: np.ndarray | None = None
) -> CallAccess:
    """Returns the access of a call that takes one pixel, or all of one turn, after another.

    In each turn, it writes output channels in the steps `write`, and reads input channels under
    the window for the last time in the steps `last`.
    """
    tensor = call.ins[0]
    last = np.broadcast_to(np.asarray(last, np.int64), tensor.channels)
    turns = (call.turns if turns is None else turns)[:, None]
    turns = turns * (1 + max(int(write.max()), int(last.max())))
    first, which = under(call.layer.axes, tensor, call.y, call.across)
    at = first[:, None] + np.arange(tensor.channels)
    stride = call.layer.axes[0][1]
    return access(call, turns + write, reads(0, at, (turns + last)[which], stride))


def _tiles(columns: int, most: int, descending: bool) -> np.ndarray:
    """int64 (columns,): the tile of each pixel: `most` pixels each, halved until they fit."""
    sizes = [most] * (columns // most) + [size for size in (2, 1) if columns % most & size]
    return np.repeat(np.arange(len(sizes)), sizes)[:: -1 if descending else 1]


@rule("conv pointwise")
def conv(call: KernelCall) -> CallAccess:
    """Pixels in tiles; of each tile, each group reads its windows, then writes its channels."""
    groups, inputs = call.p["groups"], call.ins[0].channels
    most = 2 if call.layer.form == "_narrow" else FOUR
    turns = _tiles(call.columns, most, call.layer.descending)
    last = np.arange(inputs) // max(inputs // groups, 1)
    return windows(call, call.channels // max(call.out.channels // groups, 1), last, turns)


# Of kernels that take one pixel after another, and in it so many output channels: reads so many
# input channels for the last time, "end" all of them with the last ones, then writes. A name is
# that of a parameter, "lanes" the channels that the core computes together.
BLOCKS = {
    "dense grouped": (FOUR, "end"),
    "dense_int16": (EIGHT, "end"),
    "average_pool max_pool": ("lanes", "lanes"),
    "softmax_tflite softmax_onnx log_softmax_tflite log_softmax_onnx l2_norm rms_norm": (1, 1),
    "layer_norm hardmax cum_sum table_mean": (1, 1),
    "arg_max embedding": (ALL, ALL),
    "requantize_wide": ("output_bytes", "input_bytes"),
    "softmax_int16": (2, 1),
    "filter_int16": (1, "filter_bytes"),
}


def by_blocks(written: Any, read: Any, call: KernelCall) -> CallAccess:
    """Takes blocks of channels of one pixel after another, see BLOCKS."""
    sizes = {"lanes": call.layer.lanes, "filter_bytes": 2 * max(call.p.get("rank", 1), 1), **call.p}
    write = call.channels // sizes.get(written, written)
    if read == "end":
        return windows(call, write, write[-1])
    return windows(call, write, np.arange(call.ins[0].channels) // sizes.get(read, read))


for _kinds, _sizes in BLOCKS.items():
    rule(_kinds)(partial(by_blocks, *_sizes))


@rule("dense_per_tensor")
def dense_per_tensor(call: KernelCall) -> CallAccess:
    """Takes four channels of a pixel at once: reads the whole row, then writes."""
    block = call.channels // FOUR
    steps = call.turns[:, None] * (block[-1] + 1) + block
    return access(call, steps, reads(0, call.row(), block[-1]))


@rule("depthwise")
def depthwise(call: KernelCall) -> CallAccess:
    """Takes each strip of pixels, or pixel, for each block of channels: reads their windows, then
    writes. Outputs of one input channel are a group of their own if there are several."""
    strip = call.turns // (1 if call.layer.form == "_any" else call.p["steps"])
    lanes, inputs = call.layer.lanes, np.arange(call.ins[0].channels)
    if call.p["run"]:
        return windows(call, call.channels // lanes, inputs // lanes, strip)
    each = call.out.channels // call.ins[0].channels
    blocks = -(-each // lanes)
    write = call.channels // each * blocks + call.channels % each // lanes
    return windows(call, write, (inputs + 1) * blocks - 1, strip)


@rule("add add_exact add_float binary lookup requantize remember")
def by_element(call: KernelCall) -> CallAccess:
    """Takes each byte, or some at once, ascending: reads those at its place in all inputs, then
    writes. Inputs of one row, column or channel are repeated."""
    steps, read = by_byte(call, call.layer.lanes if call.layer.kind == "add" else 1), []
    for index, tensor in enumerate(call.ins):
        x = call.across if tensor.width > 1 else 0 * call.across
        at = call.pixels(tensor, call.y if tensor.height > 1 else 0, x)
        read.append(reads(index, at, steps, int(tensor.height > 1)))
    return access(call, steps, *read)


@rule("look_back recall")
def of_hop(call: KernelCall) -> CallAccess:
    """Takes each byte of a window of the past, or of the state before: walk.py knows where they
    are. Reads the number of the hop first."""
    steps, past = by_byte(call), call.pixels(call.ins[0], call.y, call.across)
    return access(call, steps, reads(0, past, steps), reads(1, np.arange(2), 0))


def by_byte(call: KernelCall, lanes: int = 1) -> np.ndarray:
    """(columns, channels): pixel by pixel, so many channels at once; of the last ones, too few for
    all lanes but a vector's, one."""
    whole = call.out.channels if lanes == VECTOR else call.out.channels // lanes * lanes
    block = np.where(call.channels < whole, call.channels // lanes * lanes, call.channels)
    steps: np.ndarray = call.turns[:, None] * call.out.channels + block
    return steps


@rule("fetch hop_count")
def fetch(call: KernelCall) -> CallAccess:
    """Reads no bytes of the pool."""
    return access(call, by_byte(call))


@rule("average_pool_sum")
def summing(call: KernelCall) -> CallAccess:
    """Adds pixels of an input row to sums; the last call of the last row writes the output."""
    tensor = call.ins[0]
    last = call.y == tensor.height - 1 and call.x + call.columns == tensor.width
    at = call.pixels(tensor, call.y, call.across)
    read = reads(0, at, call.turns[:, None])
    out = np.arange(call.out.bytes if last else 0, dtype=np.int64)
    return CallAccess([read], out, np.full(len(out), call.columns, np.int64), True)


@rule("recomputed")
def recomputed(call: KernelCall) -> CallAccess:
    """Takes some columns at once: computes the first layer under their windows row by row, in
    scratch memory, then the second one."""
    inner, outer = call.layer.within
    between, size, read = inner.out, call.p["columns"], []
    turns = np.arange(call.columns) // size
    stride = inner.p["stride_h"] * outer.p["stride_h"]
    for turn in range(turns[-1] + 1):
        across = call.across[turns == turn]
        pixels = under(outer.axes, between, call.y, across)[0] // between.channels
        if not len(pixels):
            continue
        rows, columns = np.unique(pixels // between.width), pixels % between.width
        kept = np.arange(columns.min(), columns.max() + 1)
        places = (rows[:, None] * between.width + kept) * between.channels % between.ring
        what = f"layer {call.layer.number}: its second layer reads overwritten pixels"
        require(len(np.unique(places)) == places.size, what)
        for y in rows:
            at = under(inner.axes, call.ins[0], int(y), kept)[0][:, None]
            read.append(reads(0, at + np.arange(call.ins[0].channels), turn, stride))
    return access(call, turns[:, None], *read)
