# SPDX-License-Identifier: Apache-2.0
"""SVDF: a dense layer, and along time a filter for each of its results, the sums of some of which
are an output (TensorFlow Lite Micro, kernels/svdf_common.cc).

The file's state has the latest results of each filter, and each call moves all of them. Here they
are rows of a ring buffer: the graph of a first call has padding in front of its row. Beside states
that layers compute, which no ring buffer goes with, these rows are one of them.
"""

from __future__ import annotations

import numpy as np
import tflite

from ...graph import Op, RecurrentState, Tensor, Window
from ...ops.concat import Concat
from ...ops.conv2d import Conv2D
from ...ops.depthwise import DepthwiseConv2D
from ...ops.fully_connected import FullyConnected
from ...ops.lookup import Lookup
from ...ops.move import Move
from ...ops.pad import Pad
from ...ops.svdf import DenseInt16, FilterInt16
from ...quant import INT8_MAX, INT8_MIN, FixedPoint
from ..common import KEEP_QUANTISATION, fixed_point, require
from .file import FileOp, FileTensor
from .ops import Importer, bias_of, rule
from .states import computes_states

_FEATURES, _TIME, _BIASES, _STATE = 1, 2, 3, 4
# Bytes of an element of the state.
_BYTES = {"INT8": 1, "INT16": 2}


@rule("SVDF", constraints="batch 1; int8 or int16 state and time weights; one scale for all")
def _svdf(importer: Importer, op: FileOp) -> None:
    require(len(op.inputs) == 5, f"{len(op.inputs)} inputs instead of five")
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    state = importer.model.tensors[op.inputs[_STATE]]
    kind, other = state.type, f"the state is {state.type.lower()}, not int8 or int16"
    require(kind in _BYTES, other, "convert it with int8 activations")
    features = importer.constant(op, _FEATURES, ("INT8",), "feature weights")
    time = importer.constant(op, _TIME, (kind,), "time weights")
    rank = op.options(tflite.SVDFOptions).Rank()
    _check(importer, op, x, (features, time, state), rank)
    filters, memory = time.shape
    units = filters // rank
    # As the runtime rounds them: in float32 first.
    scale = np.float32(x.scale) * np.float32(features.scales[0]) / np.float32(state.scales[0])
    name = f"{out.name}/features"
    shape = (1, 1, filters * _BYTES[kind])
    row = importer.builder.add_tensor(Tensor(name, shape, float(state.scales[0]), 0))
    dense = _dense(features.values, np.float64(scale), kind)
    importer.builder.add_node(name, dense, [x.name], name)
    zero = int(state.zero_points[0])
    if zero:
        # The runtime adds it to a value that is within int8 already, and keeps a byte of that.
        table = np.arange(INT8_MIN, INT8_MAX + 1) + zero
        name = f"{out.name}/state"
        moved = importer.builder.add_tensor(Tensor(name, row.shape, row.scale, zero))
        importer.builder.add_node(name, Lookup(table.astype(np.int8)), [row.name], name)
        row = moved
    if memory > 1:
        row = _behind_earlier(importer, row, memory, f"{out.name}/rows")
    scale = np.float32(state.scales[0]) * np.float32(time.scales[0]) / np.float32(out.scale)
    filtered = _filter(time.values, bias_of(importer, op, units, _BIASES), rank, float(scale))
    importer.emit(op, filtered, [row], (1, 1, units))


def _behind_earlier(importer: Importer, row: Tensor, memory: int, name: str) -> Tensor:
    """A row of a call, and in front of it those of earlier ones."""
    builder = importer.builder
    zero, shape = row.zero_point, row.shape[1:]
    rows = builder.add_tensor(Tensor(name, (memory, *shape), row.scale, zero))
    if not computes_states(importer.model):
        pad = Pad(((memory - 1, 0), (0, 0), (0, 0)), zero)
        builder.add_node(name, pad, [row.name], name)
        return rows
    earlier, later = (
        builder.add_tensor(Tensor(f"{name} {what}", (memory - 1, *shape), row.scale, zero))
        for what in ("before", "behind")
    )
    builder.add_node(name, Concat(0, (None, None)), [earlier.name, row.name], name)
    kept = Move.of(np.arange(row.bytes, rows.bytes).reshape(later.shape))
    assert kept is not None
    builder.add_node(later.name, kept, [name], later.name)
    builder.recurrent.append(RecurrentState(earlier.name, later.name, zero))
    return rows


def _dense(weights: np.ndarray, scale: float, kind: str) -> Op:
    """weights int8 (filters, width); kind: the type of the results."""
    filters = len(weights)
    if kind == "INT16":
        return DenseInt16(weights, _one(scale, 1))
    return FullyConnected(weights, np.zeros(filters, np.int32), _one(scale, filters))


def _filter(weights: np.ndarray, bias: np.ndarray, rank: int, scale: float) -> Op:
    """weights (filters, memory), of the type of the filtered tensor."""
    filters, memory = weights.shape
    window, requant = Window((memory, 1)), _one(scale, filters // rank)
    if weights.dtype == np.int16:
        by_row = weights.reshape(-1, rank, memory).swapaxes(1, 2).copy()
        return FilterInt16(by_row, bias, window, _one(scale, 1))
    if rank == 1:
        return DepthwiseConv2D(weights.T[:, None, :].copy(), bias, window, requant)
    by_unit = weights.reshape(-1, rank, memory).transpose(0, 2, 1)[:, :, None, :]
    return Conv2D(by_unit.copy(), bias, window, requant, filters // rank)


def _one(scale: float, channels: int) -> FixedPoint:
    """One factor, for each channel."""
    return fixed_point(np.full(channels, np.float64(scale)))


def _check(
    importer: Importer, op: FileOp, x: Tensor, parts: tuple[FileTensor, ...], rank: int
) -> None:
    features, time, state = parts
    shape = importer.shape(op.inputs[0])
    plain = len(shape) == 2 and shape[0] == 1
    require(plain, f"the input has the shape {list(shape)}", "use batch size 1")
    fits = len(features.shape) == len(time.shape) == 2 and len(features.values) == len(time.values)
    fits = fits and features.shape[1] == shape[1] and min(time.shape) > 0
    require(fits, "the weights do not fit the input and each other")
    filters, memory = time.shape
    require(rank > 0 and filters % rank == 0, f"{filters} filters of rank {rank}")
    what = f"the state is {state.type.lower()} {list(state.shape)}"
    own = state.data is None and state.shape == (1, memory * filters)
    require(own and op.inputs[_STATE] not in importer.model.inputs, what, "export it again")
    for tensor in parts:
        one = len(tensor.scales) == len(tensor.zero_points) == 1 and 0 < tensor.scales[0] < np.inf
        require(one, f"'{tensor.name}' has not one scale", KEEP_QUANTISATION)
        symmetric = tensor is state or tensor.zero_points[0] == 0
        require(symmetric, f"'{tensor.name}' has a zero point", KEEP_QUANTISATION)
    zero = int(state.zero_points[0])
    least, most = (0, 0) if state.type == "INT16" else (INT8_MIN, INT8_MAX)
    require(least <= zero <= most, f"'{state.name}' has the zero point {zero}")
    users = [other for other in importer.model.ops if op.inputs[_STATE] in other.inputs]
    require(len(users) == 1, "its state is read elsewhere", "export it again")
