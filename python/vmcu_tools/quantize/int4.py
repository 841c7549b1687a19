# SPDX-License-Identifier: Apache-2.0
"""int4 weights for layers of a model that has int8 ones: their scales and how a file states them.

One output channel has one scale, or one for each group of inputs. The scales of the groups of a
channel are whole multiples, 1 to 255, of one step: a kernel then needs a byte for each group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ..frontends.onnx.attributes import attributes_of
from ..frontends.onnx.node_writer import NodeWriter

# DequantizeLinear has int4 and block_size from this opset on, which this version of files has.
OPSET, IR_VERSION = 21, 10
LOW, HIGH = -8, 7
MOST_MULTIPLE = 255
# Candidates of scales: the largest weight becomes HIGH times one of these, rounded or cut off.
_CLIPPED = np.linspace(0.9, 2.1, 13)
# Of a bias in a sum, which float32 then has exactly, and an int4 kernel, too (kernels/pack.py).
_MOST_BIAS = 2.0**23


@dataclass(frozen=True, eq=False)
class WeightedLayer:
    """A layer with int8 weights in a quantised model.

    node, op: of the file; output: its tensor; source: the float weights' name; weights: that of
    the int8 weights; dequantised: the node that reads them; bias: the node that dequantises the
    bias, "" if none; channel_axis, shape: of the weights; real: the float weights, (channels,
    inputs); scales: of the int8 weights, (channels,); floor: the smallest scales of int4 weights
    that leave room for the bias, (channels,).
    """

    node: str
    op: str
    output: str
    source: str
    weights: str
    dequantised: str
    bias: str
    channel_axis: int
    shape: tuple[int, ...]
    real: np.ndarray
    scales: np.ndarray
    floor: np.ndarray

    def can_group(self, group: int) -> bool:
        """Whether the inputs of a fully connected layer are several whole groups."""
        inputs = self.real.shape[1]
        return self.op != "Conv" and 0 < group < inputs and inputs % group == 0

    def laid(self, by_channel: np.ndarray) -> np.ndarray:
        """Inverts rows(): returns weights in their shape again."""
        axis = self.channel_axis
        shape = [self.shape[axis], *(n for i, n in enumerate(self.shape) if i != axis)]
        return np.moveaxis(by_channel.reshape(shape), 0, axis)


@dataclass(frozen=True, eq=False)
class Int4Weights:
    """scales: float32 (channels, groups); unit: of each channel's sums, float32 (channels,): the
    scale itself, or the step that the scales of its groups are multiples of; shift: to subtract
    from a channel's output by the bias, (channels,)."""

    scales: np.ndarray
    unit: np.ndarray
    shift: np.ndarray


def weighted_layers(quantised: onnx.ModelProto, real: onnx.ModelProto) -> list[WeightedLayer]:
    """The convolutions and fully connected layers whose weights can be stated in int4, in the order
    of the file. real: the float model that `quantised` was made of."""
    layers = _Layers(quantised, real)
    return [layer for node in quantised.graph.node for layer in layers.layer(node)]


class _Layers:
    def __init__(self, quantised: onnx.ModelProto, real: onnx.ModelProto):
        graph = quantised.graph
        self.constants = {t.name: t for t in graph.initializer}
        self.real = {t.name: t for t in real.graph.initializer}
        self.made = {name: node for node in graph.node for name in node.output}
        self.readers: defaultdict[str, list[NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self.readers[name].append(node)

    def layer(self, node: NodeProto) -> Iterator[WeightedLayer]:
        """The layer that a node is, if it is one whose weights and bias no other layer reads."""
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            return
        dequantised = self._constant(node, 1, TensorProto.INT8)
        if dequantised is None:
            return
        tensor = self.constants[dequantised.input[0]]
        source = tensor.name.removesuffix("_quantized")
        real = self.real.get(source)
        flat = node.op_type != "Conv"
        if real is None or real.dims != tensor.dims or (flat and len(tensor.dims) != 2):
            return
        bias = self._constant(node, 2, TensorProto.INT32)
        if bias is None and len(node.input) > 2 and node.input[2] in self.made:
            return
        axis = 1 if flat and not attributes_of(node).get("transB") else 0
        if bias is not None and self.constants[bias.input[0]].dims[-1:] != [tensor.dims[axis]]:
            return
        weights = rows(numpy_helper.to_array(real), axis).astype(np.float64)
        scales = np.broadcast_to(self._array(dequantised, 1), len(weights)).astype(np.float64)
        yield WeightedLayer(
            name_of(node),
            node.op_type,
            # onnxruntime's quantiser renames a tensor that becomes an output once it is quantised.
            node.output[0].removesuffix("_QuantizeLinear_Input"),
            source,
            tensor.name,
            name_of(dequantised),
            "" if bias is None else name_of(bias),
            axis,
            tuple(tensor.dims),
            weights,
            scales,
            np.zeros(len(weights)) if bias is None else self._floor(bias, scales),
        )

    def _constant(self, node: NodeProto, place: int, kind: int) -> NodeProto | None:
        """The DequantizeLinear of a constant input that nothing else reads."""
        name = node.input[place] if place < len(node.input) else ""
        producer = self.made.get(name)
        if producer is None or producer.op_type != "DequantizeLinear":
            return None
        tensor = self.constants.get(producer.input[0])
        alone = len(self.readers[name]) == len(self.readers[producer.input[0]]) == 1
        return producer if alone and tensor is not None and tensor.data_type == kind else None

    def _array(self, node: NodeProto, place: int) -> np.ndarray:
        return numpy_helper.to_array(self.constants[node.input[place]]).ravel()

    def _floor(self, bias: NodeProto, scales: np.ndarray) -> np.ndarray:
        """A bias has the scale of the input times that of the weights."""
        sums = np.abs(self._array(bias, 0).astype(np.float64))
        return np.broadcast_to(sums * scales / _MOST_BIAS, scales.shape)


def name_of(node: NodeProto) -> str:
    """Returns the name of a node in problems of the file."""
    return node.name or node.output[0]


def rows(weights: np.ndarray, channel_axis: int) -> np.ndarray:
    """Weights by output channel, (channels, inputs)."""
    return np.moveaxis(weights, channel_axis, 0).reshape(weights.shape[channel_axis], -1)


def candidates(layer: WeightedLayer, group: int) -> list[Int4Weights]:
    """Scales to choose from, with no shift. group: inputs that share one; 0: all of a channel."""
    channels, inputs = layer.real.shape
    parts = layer.real.reshape(-1, group or inputs)
    usual = np.repeat(layer.scales, len(parts) // channels)
    most = np.abs(parts).max(axis=1)
    choices = []
    for clipped in _CLIPPED:
        # Rows of zeros have the scale of int8.
        scales = np.where(most > 0, most / (HIGH * clipped), usual)
        fitted = _fitted(parts, scales).reshape(channels, -1)
        choices.append(_grouped(layer, fitted) if group else _of_channels(layer, fitted))
    return choices


def _fitted(parts: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Returns the scales that lose the least squares for the integers that rows become with
    these scales."""
    ints = _rounded(parts, scales[:, None])
    squares = (ints * ints).sum(axis=1)
    best: np.ndarray = np.where(
        squares > 0, (ints * parts).sum(axis=1) / np.maximum(squares, 1), scales
    )
    return best


def _of_channels(layer: WeightedLayer, fitted: np.ndarray) -> Int4Weights:
    scales = np.maximum(fitted, layer.floor[:, None]).astype(np.float32)
    return Int4Weights(scales, scales[:, 0], np.zeros(len(scales)))


def _grouped(layer: WeightedLayer, fitted: np.ndarray) -> Int4Weights:
    """Makes the largest scale of each channel the largest multiple."""
    step = np.maximum(fitted.max(axis=1) / MOST_MULTIPLE, layer.floor).astype(np.float32)
    multiples = np.clip(np.rint(fitted / step[:, None]), 1, MOST_MULTIPLE)
    multiples[np.arange(len(step)), fitted.argmax(axis=1)] = MOST_MULTIPLE
    return Int4Weights(step[:, None] * multiples.astype(np.float32), step, np.zeros(len(step)))


def int4_values(layer: WeightedLayer, scales: np.ndarray) -> np.ndarray:
    """The weights in steps of their scales, float (channels, inputs)."""
    channels, groups = scales.shape
    parts = layer.real.reshape(channels, groups, -1)
    return _rounded(parts, scales[..., None]).reshape(channels, -1)


def _rounded(real: np.ndarray, scale: np.ndarray) -> np.ndarray:
    clipped: np.ndarray = np.clip(np.rint(real / scale), LOW, HIGH)
    return clipped


def with_int4(
    quantised: onnx.ModelProto,
    layers: Iterable[WeightedLayer],
    chosen: Mapping[str, Int4Weights],
) -> onnx.ModelProto:
    """A copy of a model in which some layers have int4 weights, of opset 21. chosen: by the layers'
    weights; a bias makes up for the shift."""
    model = onnx.ModelProto()
    model.CopyFrom(quantised)
    model.ir_version = max(model.ir_version, IR_VERSION)
    nodes = {name_of(node): node for node in model.graph.node}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for layer in layers:
        if layer.weights not in chosen:
            continue
        made, weights, axis = chosen[layer.weights], constants[layer.weights], layer.channel_axis
        ints = layer.laid(int4_values(layer, made.scales)).astype(int).ravel().tolist()
        weights.CopyFrom(helper.make_tensor(weights.name, TensorProto.INT4, layer.shape, ints))
        groups = made.scales.shape[1]
        if groups > 1:
            stated, given = made.scales.T if axis else made.scales, {"axis": 1 - axis}
            given["block_size"] = layer.real.shape[1] // groups
        else:
            stated, given = made.scales[:, 0], {"axis": axis}
        _state(model.graph, nodes[layer.dequantised], stated, **given)
        if layer.bias:
            node = nodes[layer.bias]
            bias, old = constants[node.input[0]], constants[node.input[1]]
            scales = numpy_helper.to_array(old).astype(np.float64)
            real = numpy_helper.to_array(bias) * scales - made.shift
            stated = (scales * (made.unit / layer.scales)).astype(np.float32)
            sums = np.rint(real / stated).astype(np.int32)
            bias.CopyFrom(numpy_helper.from_array(sums, bias.name))
            _state(model.graph, node, stated, axis=len(bias.dims) - 1)
    _drop_unread(model.graph)
    return model


def _state(graph: onnx.GraphProto, node: NodeProto, scales: np.ndarray, **given: int) -> None:
    """Gives a DequantizeLinear other scales and no zero point."""
    node.input[:] = [node.input[0], NodeWriter(graph, node.output[0]).constant("scales", scales)]
    del node.attribute[:]
    node.attribute.extend(helper.make_attribute(key, value) for key, value in given.items())


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Removes the scales and zero points that int4 replaced."""
    read = {name for node in graph.node for name in node.input}
    read |= {value.name for value in graph.output}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
