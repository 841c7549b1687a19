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

# DequantizeLinear has int4 and block_size from this opset on, which this version of files has.
OPSET, IR_VERSION = 21, 10
LOW, HIGH = -8, 7
MOST_MULTIPLE = 255
# The largest weight becomes HIGH times one of these: values beyond HIGH are cut off.
_CLIPPED = np.linspace(1.0, 2.5, 61)
# Sums of int4 kernels have 27 bits (kernels/pack.py); a bias may have half of that.
_MOST_BIAS = 2.0**26


@dataclass(frozen=True, eq=False)
class WeightedLayer:
    """A layer with int8 weights in a quantised model.

    node, op: of the file; output: its tensor; weights: the initialiser's name; dequantised: the
    node that reads it; bias: the node that dequantises the bias, "" if none; channel_axis: of the
    weights; real: the float weights, (channels, inputs); scales: of the int8 weights,
    (channels,); floor: the smallest scale of int4 weights that leaves room for the bias.
    """

    node: str
    op: str
    output: str
    weights: str
    dequantised: str
    bias: str
    channel_axis: int
    real: np.ndarray
    scales: np.ndarray
    floor: np.ndarray

    def can_group(self, group: int) -> bool:
        """Whether the inputs of a fully connected layer are whole groups."""
        return self.op != "Conv" and group > 0 and self.real.shape[1] % group == 0


def weighted_layers(quantised: onnx.ModelProto, real: onnx.ModelProto) -> list[WeightedLayer]:
    """The convolutions and fully connected layers whose weights can be stated in int4, in the order
    of the file. real: the float model that `quantised` was made of."""
    found = _Layers(quantised, real)
    return [layer for node in quantised.graph.node for layer in found.layer(node)]


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
        real = self.real.get(tensor.name.removesuffix("_quantized"))
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
            # onnxruntime's quantiser renames what becomes an output once it is quantised.
            node.output[0].removesuffix("_QuantizeLinear_Input"),
            tensor.name,
            name_of(dequantised),
            "" if bias is None else name_of(bias),
            axis,
            weights,
            scales,
            np.zeros(len(weights)) if bias is None else self._floor(bias, scales),
        )

    def _constant(self, node: NodeProto, place: int, kind: int) -> NodeProto | None:
        """The DequantizeLinear of a constant input that nothing else reads."""
        name = node.input[place] if place < len(node.input) else ""
        found = self.made.get(name)
        if found is None or found.op_type != "DequantizeLinear":
            return None
        tensor = self.constants.get(found.input[0])
        alone = len(self.readers[name]) == len(self.readers[found.input[0]]) == 1
        return found if alone and tensor is not None and tensor.data_type == kind else None

    def _array(self, node: NodeProto, place: int) -> np.ndarray:
        return numpy_helper.to_array(self.constants[node.input[place]]).ravel()

    def _floor(self, bias: NodeProto, scales: np.ndarray) -> np.ndarray:
        """A bias has the scale of the input times that of the weights."""
        sums = np.abs(self._array(bias, 0).astype(np.float64))
        return np.broadcast_to(sums * scales / _MOST_BIAS, scales.shape)


def name_of(node: NodeProto) -> str:
    """As problems of the file name it."""
    return node.name or node.output[0]


def rows(weights: np.ndarray, channel_axis: int) -> np.ndarray:
    """Weights by output channel, (channels, inputs)."""
    return np.moveaxis(weights, channel_axis, 0).reshape(weights.shape[channel_axis], -1)


def int4_scales(layer: WeightedLayer, group: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """float32 scales (channels, groups), and the unit of each channel's sums, float32 (channels,):
    the scale itself, or the step that the scales of its groups are multiples of."""
    channels, inputs = layer.real.shape
    parts = layer.real.reshape(-1, group or inputs)
    usual = np.repeat(layer.scales, len(parts) // channels)
    best = _least_error(parts, usual).reshape(channels, -1)
    if not group:
        scales = np.maximum(best, layer.floor[:, None]).astype(np.float32)
        return scales, scales[:, 0]
    step = np.maximum(best.max(axis=1) / MOST_MULTIPLE, layer.floor).astype(np.float32)
    multiples = np.clip(np.rint(best / step[:, None]), 1, MOST_MULTIPLE)
    multiples[np.arange(channels), best.argmax(axis=1)] = MOST_MULTIPLE
    return step[:, None] * multiples.astype(np.float32), step


def int4_values(layer: WeightedLayer, scales: np.ndarray) -> np.ndarray:
    """The weights in steps of their scales, float (channels, inputs)."""
    channels, groups = scales.shape
    parts = layer.real.reshape(channels, groups, -1)
    return _rounded(parts, scales[..., None].astype(np.float64)).reshape(channels, -1)


def _rounded(real: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(real / scale), LOW, HIGH)


def _least_error(parts: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """The scale of each row of weights that loses the least: the sum of squared differences. Rows
    of zeros have the usual scale."""
    most = np.abs(parts).max(axis=1)
    best, least = usual.copy(), np.full(len(parts), np.inf)
    for clipped in _CLIPPED:
        scale = np.where(most > 0, most / (HIGH * clipped), usual)[:, None]
        ints = _rounded(parts, scale)
        # The best scale of these integers, by least squares.
        squares = (ints * ints).sum(axis=1)
        fitted = np.divide((ints * parts).sum(axis=1), squares, where=squares > 0, out=scale[:, 0])
        errors = ((parts - _rounded(parts, fitted[:, None]) * fitted[:, None]) ** 2).sum(axis=1)
        better = errors < least
        best[better], least[better] = fitted[better], errors[better]
    return best


def with_int4(
    quantised: onnx.ModelProto, layers: Iterable[WeightedLayer], groups: Mapping[str, int]
) -> onnx.ModelProto:
    """A copy of a model in which some layers have int4 weights, of opset 21.

    groups: by weights of the layers to change, the inputs that share a scale; 0: all of a channel.
    """
    model = onnx.ModelProto()
    model.CopyFrom(quantised)
    model.ir_version = max(model.ir_version, IR_VERSION)
    nodes = {name_of(node): node for node in model.graph.node}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for layer in layers:
        if layer.weights not in groups:
            continue
        group, axis = groups[layer.weights], layer.channel_axis
        scales, unit = int4_scales(layer, group)
        weights = constants[layer.weights]
        shape = [weights.dims[axis], *(n for i, n in enumerate(weights.dims) if i != axis)]
        ints = np.moveaxis(int4_values(layer, scales).reshape(shape), 0, axis)
        dims = list(weights.dims)
        values = ints.astype(int).ravel().tolist()
        weights.CopyFrom(helper.make_tensor(weights.name, TensorProto.INT4, dims, values))
        stated = (scales.T if axis else scales) if group else scales[:, 0]
        more = {"axis": 1 - axis, "block_size": group} if group else {"axis": axis}
        _state(model.graph, nodes[layer.dequantised], stated, **more)
        if layer.bias:
            node = nodes[layer.bias]
            bias = constants[node.input[0]]
            old = numpy_helper.to_array(constants[node.input[1]])
            stated = (old * (unit / layer.scales)).astype(np.float32)
            sums = np.rint(numpy_helper.to_array(bias) * (old.astype(np.float64) / stated))
            bias.CopyFrom(numpy_helper.from_array(sums.astype(np.int32), bias.name))
            _state(model.graph, node, stated, axis=len(bias.dims) - 1)
    _drop_unread(model.graph)
    return model


def _state(graph: onnx.GraphProto, node: NodeProto, scales: np.ndarray, **given: int) -> None:
    """Gives a DequantizeLinear other scales and no zero point."""
    name = f"{node.output[0]}/scales"
    graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(scales), name))
    node.input[:] = [node.input[0], name]
    del node.attribute[:]
    node.attribute.extend(helper.make_attribute(key, value) for key, value in given.items())


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Removes the scales and zero points that int4 replaced."""
    read = {name for node in graph.node for name in node.input}
    read |= {value.name for value in graph.output}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
