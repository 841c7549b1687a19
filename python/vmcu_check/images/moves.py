# SPDX-License-Identifier: Apache-2.0
"""The order in which kernels read and write bytes that rearrange bytes or read whole rows."""

from __future__ import annotations

import numpy as np

from .rules import EIGHT, CallAccess, KernelCall, access, by_byte, reads, rule, windows
from .tables import FOUR


def _gathered(call: KernelCall, at: np.ndarray, index: np.ndarray | int = 0) -> CallAccess:
    """Takes each byte of a row, ascending: reads byte at[i] of an input, or none if it is negative,
    then writes. index: which input."""
    steps = np.arange(at.size, dtype=np.int64)
    at, which = at.ravel(), np.broadcast_to(index, at.shape).ravel()
    mine = [(which == number) & (at >= 0) for number in range(len(call.ins))]
    read = [reads(number, at[one], steps[one]) for number, one in enumerate(mine)]
    return access(call, steps.reshape(call.own.shape), *read)


@rule("pad")
def pad(call: KernelCall) -> CallAccess:
    """The input at its place in the output; constants elsewhere."""
    p, tensor = call.p, call.ins[0]
    y, x, c = call.y - p["top"], call.across[:, None] - p["left"], call.channels - p["before"]
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
    axis, shapes = call.p["axis"], np.array([one.shape for one in call.ins])
    ends = np.cumsum(shapes[:, axis])
    place = [*np.broadcast_arrays(np.int64(call.y), call.across[:, None], call.channels)]
    index = np.searchsorted(ends, place[axis], side="right")
    place[axis] = place[axis] - np.concatenate([[0], ends])[index]
    _, widths, depths = shapes[index].transpose(2, 0, 1)
    return _gathered(call, (place[0] * widths + place[1]) * depths + place[2], index)


@rule("move")
def move(call: KernelCall) -> CallAccess:
    """Bytes from where three tables say."""
    p, run = call.p, max(call.p["run"], 1)
    rows = call.array("i", p["rows"], call.out.height)
    columns = call.array("i", p["columns"], call.out.width)
    channels = call.array("i", p["channels"], -(-call.out.channels // run))
    within = channels[call.channels // run] + call.channels % run
    return _gathered(call, np.int64(rows[call.y]) + columns[call.across, None] + within)


@rule("pick")
def pick(call: KernelCall) -> CallAccess:
    """Bytes of the input's row from where a table says."""
    run = max(call.p["run"], 1)
    firsts = call.array("H", call.p["bytes"], -(-call.out.row // run)).astype(np.int64)
    own = call.across[:, None] * call.out.channels + call.channels
    return _gathered(call, call.y * call.ins[0].row + firsts[own // run] + own % run)


@rule("resize")
def resize(call: KernelCall) -> CallAccess:
    """Four taps of each byte, by two tables of (first, second, weight)."""
    tensor, p, steps = call.ins[0], call.p, by_byte(call)
    rows = call.array("h", p["rows"], 3 * call.out.height).reshape(-1, 3)[call.y, :2]
    columns = call.array("h", p["columns"], 3 * call.out.width).reshape(-1, 3)[call.across, :2]
    taps = rows[:, None, None].astype(np.int64) * tensor.width + columns
    at = taps[..., None] * tensor.channels + np.arange(tensor.channels)
    return access(call, steps, reads(0, at, steps[None, :, None]))


@rule("transpose_conv")
def transpose_conv(call: KernelCall) -> CallAccess:
    """Takes each pixel, for each channel: reads all taps of its group, then writes."""
    tensor, outputs, groups = call.ins[0], call.out.channels, call.p["groups"]
    axes, at = call.layer.axes, (np.array([call.y]), call.across)
    rows, columns = (
        one[:, None] + pad - np.arange(taps) * dilation
        for (taps, _, dilation, pad), one in zip(axes, at, strict=True)
    )
    down, right = (stride for _, stride, *_ in axes)
    rows = rows[(rows % down == 0) & (rows >= 0) & (rows // down < tensor.height)] // down
    inside = (columns % right == 0) & (columns >= 0) & (columns // right < tensor.width)
    which, tap = np.nonzero(inside)
    inputs = np.arange(tensor.channels)
    last = (inputs // max(tensor.channels // groups, 1) + 1) * (outputs // groups) - 1
    first = (rows[:, None] * tensor.width + columns[which, tap] // right) * tensor.channels
    steps = call.turns[which][:, None] * outputs + last
    return access(call, by_byte(call), reads(0, first[..., None] + inputs, steps))


@rule("matmul matmul_transposed")
def matmul(call: KernelCall) -> CallAccess:
    """Takes each line, for each four channels, or one: reads the line and columns, then writes."""
    lanes = 1 if call.layer.kind == "matmul_transposed" else FOUR
    other, block = call.ins[1], call.channels // lanes
    last = np.arange(other.width)[:, None] if lanes == 1 else np.arange(other.channels) // lanes
    lines = windows(call, block, block[-1])
    columns = reads(1, call.row(1), (call.columns - 1) * (block[-1] + 1) + last)
    return CallAccess([*lines.reads, columns], lines.written, lines.steps)


@rule("attention")
def attention(call: KernelCall) -> CallAccess:
    """Takes each head: reads its query and all keys that it sees; then for each eight channels,
    then four, then the rest: reads them of all values, then writes them."""
    p, (query, keys, values) = call.p, call.ins[:3]
    heads, sharing, stride = max(p["heads"], 1), max(p["sharing"], 1), p["stride_h"]
    each, depth = call.out.channels // heads, query.channels // heads
    c = np.arange(each)
    eights = each // EIGHT
    block = np.where(c < EIGHT * eights, c // EIGHT, eights + (c - EIGHT * eights) // FOUR)
    steps = int(block[-1]) + 1
    rows = call.y * stride - p["pad_top"] + np.arange(p["kernel_h"])
    rows = rows[(rows >= 0) & (rows < keys.height)][:, None]
    of_keys, of_values = np.arange(keys.channels), np.arange(values.channels)
    last, last_value = (
        (channels // max(size, 1) + 1) * sharing - 1
        for channels, size in ((of_keys, depth), (of_values, each))
    )
    head = np.arange(query.channels) // depth
    steps_of_values = last_value * steps + block[of_values % each]
    read = [
        reads(0, call.pixels(query, call.y, [0]), head * steps),
        reads(1, rows * keys.row + of_keys, last * steps, stride),
        reads(2, rows * values.row + of_values, steps_of_values, stride),
    ]
    if len(call.ins) > 3:
        mask = call.ins[3]
        at = rows * mask.row if p["mask_rows"] else min(call.y, mask.height - 1) * mask.row
        own_rows = stride if p["mask_rows"] else p["bias_row"]
        read.append(reads(3, at + np.arange(mask.channels), (heads - 1) * steps, own_rows))
    own = call.channels
    return access(call, own // each * steps + block[own % each], *read)


@rule("lstm")
def lstm(call: KernelCall) -> CallAccess:
    """Reads the outputs of all units; then for each unit: reads all of input 0 and the unit's cell,
    then writes its three bytes: an output in the first column, a cell in the others."""
    units = call.out.channels
    cells = (np.arange(2 * units) // 2).reshape(2, units)
    y = call.y - (call.ins[1] == call.out)
    read = [reads(0, call.row(), units - 1)]
    if y >= 0:
        state = call.pixels(call.ins[1], y, np.arange(3))
        read.append(reads(1, state, np.vstack([np.zeros(units), cells])))
    return access(call, np.vstack([np.arange(units), cells]), *read)


@rule("dense_by_rows")
def dense_by_rows(call: KernelCall) -> CallAccess:
    """Reads the number of the row before; then for each channel: reads all of input 0 and the
    channel's sum, then writes its result and its sum. Writes the number last."""
    channels = call.out.row // 6
    c, of_sums = np.arange(channels), np.arange(4 * channels) // 4
    read = [reads(0, call.row(), channels - 1)]
    if call.y > 0:
        at = (call.y - 1) * call.out.row + np.arange(channels, call.out.row)
        read.append(reads(1, at, np.concatenate([of_sums, c * 0])))
    step = np.concatenate([c, of_sums, c * 0 + channels])
    return access(call, step.reshape(call.out.width, -1), *read)


@rule("trained_dense")
def trained_dense(call: KernelCall) -> CallAccess:
    """Takes each output: reads all of input 0 and a row of input 1, then writes."""
    weights, c = np.arange(call.ins[1].bytes), call.channels
    return access(
        call, c, reads(0, call.row(), c[-1]), reads(1, weights, weights // call.ins[1].row)
    )


@rule("class_error")
def class_error(call: KernelCall) -> CallAccess:
    """Takes each class: reads two bytes of input 0 and the label, then writes two bytes."""
    pair = call.channels // 2
    return access(call, pair, reads(0, call.row(), pair), reads(1, 0, pair[-1]))


@rule("dense_gradient")
def dense_gradient(call: KernelCall) -> CallAccess:
    """Takes each value of input 2: reads it, all of input 0 and its weights; writes two bytes."""
    last = call.channels[-1] // 2
    errors, weights, values = (np.arange(one.bytes) for one in call.ins)
    column = np.minimum(weights % call.ins[1].row // 2, last)
    read = reads(0, errors, last), reads(1, weights, column), reads(2, values, values)
    return access(call, call.channels // 2, *read)


@rule("dense_update")
def dense_update(call: KernelCall) -> CallAccess:
    """Takes each weight, two bytes, then the bias: reads it, its input and the error, writes it."""
    weights, values = call.ins[0], np.arange(call.ins[2].bytes)
    step = np.minimum(np.arange(weights.row) // 2, len(values))
    error = 2 * (call.p["first"] + call.y) + np.arange(2)
    read = (
        reads(0, call.y * weights.row + np.arange(weights.row), step),
        reads(1, error, step[-1]),
        reads(2, values, values),
    )
    return access(call, step.reshape(call.out.width, -1), *read)
