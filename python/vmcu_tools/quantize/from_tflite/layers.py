# SPDX-License-Identifier: Apache-2.0
"""Layers with weights or windows, and recurrent layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tflite

from ...frontends.common import require, same_padding
from ...frontends.tflite.batches import dilated
from ...frontends.tflite.file import FileOp
from ...frontends.tflite.ops import CONVOLUTIONS
from .writer import Writer, rule

_OIHW, _IOHW = (0, 3, 1, 2), (3, 0, 1, 2)
_CHANNELS_FIRST, _CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
# Places of the 24 inputs of an LSTM. TensorFlow Lite orders the gates input, forget, cell, output.
_WEIGHTS, _RECURRENT, _BIASES = range(1, 5), range(5, 9), range(12, 16)
_ONNX_GATES = (0, 3, 1, 2)
_LSTM_OTHERS = (*range(9, 12), 16, 17, *range(20, 24))
# A cell grows by one at most in each step, and a cell of this size saturates the output.
_CLIP_WITHOUT_EFFECT = 10.0


def image(w: Writer, index: int) -> str:
    """An image with its channels first."""
    shape = w.shape(index)
    require(len(shape) == 4, f"the input has {len(shape)} dimensions instead of four")
    return w.transposed(w.read(index), *_CHANNELS_FIRST)


def channels_last(w: Writer, value: str) -> str:
    return w.transposed(value, *_CHANNELS_LAST)


def _pads(
    options: Any, sizes: tuple[int, ...], kernel: tuple[int, ...], dilation: tuple[int, int]
) -> list[int]:
    """ONNX pads (top, left, bottom, right) of SAME or VALID padding."""
    stride = (options.StrideH(), options.StrideW())
    require(min(*kernel, *stride, *dilation) >= 1, f"invalid {kernel=}, {stride=} or {dilation=}")
    if options.Padding() != tflite.Padding.SAME:
        return [0, 0, 0, 0]
    pairs = [same_padding(*one) for one in zip(sizes, kernel, stride, dilation, strict=True)]
    return [pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]]


def _bias(w: Writer, op: FileOp, place: int, count: int) -> list[str]:
    if len(op.inputs) <= place or op.inputs[place] < 0:
        return []
    shape = w.shape(op.inputs[place])
    require(math.prod(shape) == count, f"{math.prod(shape)} biases for {count} channels")
    value = w.read(op.inputs[place])
    return [value if len(shape) == 1 else w.reshaped(value, [count])]


def _convolution(w: Writer, op: FileOp, x: str, depth: int, **window: Any) -> str:
    """A convolution with channels first. depth: the channels of its input."""
    options = op.options(CONVOLUTIONS[op.op])
    weights = w.shape(op.inputs[1])
    require(len(weights) == 4, f"the weights have the shape {list(weights)}")
    if op.op == "CONV_2D":
        count, groups = weights[0], depth // weights[3]
        require(groups * weights[3] == depth, f"{depth} channels for weights of {weights[3]}")
        inputs = [x, w.weights(op.inputs[1], _OIHW, 0), *_bias(w, op, 2, count)]
    else:
        count, groups = weights[3], depth
        require(weights[0] == 1, f"the weights have the shape {list(weights)}")
        inputs = [x, w.weights(op.inputs[1], _IOHW, 3), *_bias(w, op, 2, count)]
    value = w.add("Conv", inputs, kernel_shape=weights[1:3], group=groups, **window)
    return w.activated(value, options.FusedActivationFunction())


@rule("CONV_2D", "DEPTHWISE_CONV_2D")
def _conv(w: Writer, op: FileOp) -> str:
    options = op.options(CONVOLUTIONS[op.op])
    x, shape = image(w, op.inputs[0]), w.shape(op.inputs[0])
    dilations = (options.DilationHFactor(), options.DilationWFactor())
    pads = _pads(options, shape[1:3], w.shape(op.inputs[1])[1:3], dilations)
    strides = (options.StrideH(), options.StrideW())
    window = {"pads": pads, "strides": strides, "dilations": dilations}
    return channels_last(w, _convolution(w, op, x, shape[3], **window))


@rule("SPACE_TO_BATCH_ND")
def _dilated(w: Writer, op: FileOp) -> str:
    """A dilated convolution with all operators up to BATCH_TO_SPACE_ND."""
    whole = dilated(w.importer, op)
    shape = w.shape(op.inputs[0])
    require(len(shape) in (3, 4), f"the input has {len(shape)} dimensions")
    x = w.read(op.inputs[0])
    if len(shape) == 3:
        sizes = (shape[1], 1) if whole.upright else (1, shape[1])
        x, shape = w.reshaped(x, (shape[0], *sizes, shape[2])), (shape[0], *sizes, shape[2])
    x = w.transposed(x, *_CHANNELS_FIRST)
    window = {"pads": whole.pad, "dilations": whole.dilation}
    value = channels_last(w, _convolution(w, whole.conv, x, shape[3], **window))
    to = w.shape(whole.end.outputs[0])
    w.done.update(whole.followers)
    w.op = whole.end
    return value if len(to) == 4 else w.reshaped(value, to)


@rule("TRANSPOSE_CONV")
def _transpose_conv(w: Writer, op: FileOp) -> str:
    options = op.options(tflite.TransposeConvOptions)
    x, shape = image(w, op.inputs[2]), w.shape(op.inputs[2])
    weights, out = w.shape(op.inputs[1]), w.shape(op.outputs[0])
    require(len(weights) == len(out) == 4, f"the weights have the shape {list(weights)}")
    stride, pads, more = (options.StrideH(), options.StrideW()), [], []
    require(min(stride) >= 1, f"invalid {stride=}")
    for axis in (0, 1):
        whole = (shape[axis + 1] - 1) * stride[axis] + weights[axis + 1]
        total = max(whole - out[axis + 1], 0)
        pads.append((total // 2, total - total // 2))
        more.append(max(out[axis + 1] - whole, 0))
    inputs = [x, w.weights(op.inputs[1], _IOHW, 0), *_bias(w, op, 3, weights[0])]
    value = w.add(
        "ConvTranspose",
        inputs,
        kernel_shape=weights[1:3],
        strides=stride,
        pads=[*(p[0] for p in pads), *(p[1] for p in pads)],
        output_padding=more,
    )
    return channels_last(w, w.activated(value, options.FusedActivationFunction()))


@rule("AVERAGE_POOL_2D", "MAX_POOL_2D")
def _pool(w: Writer, op: FileOp) -> str:
    options = op.options(tflite.Pool2DOptions)
    x, shape = image(w, op.inputs[0]), w.shape(op.inputs[0])
    kernel = (options.FilterHeight(), options.FilterWidth())
    kind = "MaxPool" if op.op == "MAX_POOL_2D" else "AveragePool"
    pads = _pads(options, shape[1:3], kernel, (1, 1))
    strides = (options.StrideH(), options.StrideW())
    value = w.add(kind, [x], kernel_shape=kernel, strides=strides, pads=pads)
    return channels_last(w, w.activated(value, options.FusedActivationFunction()))


@rule("FULLY_CONNECTED")
def _fully_connected(w: Writer, op: FileOp) -> str:
    options = op.options(tflite.FullyConnectedOptions)
    require(options.WeightsFormat() == 0, "the weights are in a shuffled format")
    x, shape = w.read(op.inputs[0]), w.shape(op.inputs[0])
    weights = w.shape(op.inputs[1])
    require(len(weights) == 2, f"the weights have the shape {list(weights)}")
    count, depth = weights
    rows = math.prod(shape) // depth
    require(rows * depth == math.prod(shape), f"inputs {list(shape)} for weights {list(weights)}")
    x = x if shape == (rows, depth) else w.reshaped(x, [rows, depth])
    bias = _bias(w, op, 2, count)
    if w.array(op.inputs[1]) is None:
        value = w.add("MatMul", [x, w.transposed(w.read(op.inputs[1]), 1, 0)])
        value = w.add("Add", [value, *bias]) if bias else value
    else:
        inputs = [x, w.weights(op.inputs[1], (0, 1), 0), *bias]
        value = w.add("Gemm", inputs, transB=1)
    value = w.activated(value, options.FusedActivationFunction())
    out = w.shape(op.outputs[0])
    return value if out == (rows, count) else w.reshaped(value, out)


@rule("BATCH_MATMUL")
def _batch_matmul(w: Writer, op: FileOp) -> str:
    options = op.options(tflite.BatchMatMulOptions)
    inputs = []
    for index, turned in zip(op.inputs, (options.AdjX(), options.AdjY()), strict=True):
        rank = len(w.shape(index))
        axes = (*range(rank - 2), rank - 1, rank - 2) if turned else tuple(range(rank))
        if w.array(index) is not None:
            inputs.append(w.weights(index, axes, w.tensor(index).axis))
        else:
            inputs.append(w.transposed(w.read(index), *axes) if turned else w.read(index))
    return w.add("MatMul", inputs)


@rule("EMBEDDING_LOOKUP")
def _embedding_lookup(w: Writer, op: FileOp) -> str:
    return w.add("Gather", [w.read(op.inputs[1]), w.read(op.inputs[0])], axis=0)


@rule("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _lstm(w: Writer, op: FileOp) -> str:
    options = op.options(tflite.UnidirectionalSequenceLSTMOptions)
    require(len(op.inputs) >= 20, f"{len(op.inputs)} inputs instead of 24")
    plain = all(op.inputs[i] < 0 for i in _LSTM_OTHERS if i < len(op.inputs))
    plain &= options.FusedActivationFunction() == tflite.ActivationFunctionType.TANH
    plain &= options.ProjClip() == 0
    hint = "convert a Keras LSTM with its default options"
    require(plain, "an LSTM with peepholes, projection or another activation", hint)
    clip = options.CellClip()
    require(clip == 0 or clip >= _CLIP_WITHOUT_EFFECT, f"the cell is clipped to {clip}", hint)
    gates = [[_gate(w, op, place) for place in part] for part in (_WEIGHTS, _RECURRENT, _BIASES)]
    weights, recurrent, biases = (
        np.concatenate([part[gate] for gate in _ONNX_GATES])[None] for part in gates
    )
    biases = np.concatenate([biases, np.zeros_like(biases)], axis=1)
    x = w.read(op.inputs[0])
    x = x if options.TimeMajor() else w.transposed(x, 1, 0, 2)
    inputs = [
        x,
        w.constant(weights, "weights"),
        w.constant(recurrent, "recurrent"),
        w.constant(biases, "biases"),
    ]
    value = w.add("LSTM", inputs, hidden_size=recurrent.shape[2])
    value = w.add("Squeeze", [value, w.integers([1], "axes")])
    return value if options.TimeMajor() else w.transposed(value, 1, 0, 2)


def _gate(w: Writer, op: FileOp, place: int) -> np.ndarray:
    require(op.inputs[place] >= 0, "an LSTM without all of its gates")
    array = w.array(op.inputs[place])
    require(array is not None, "the weights are not constant", "freeze the model")
    assert array is not None
    return array
