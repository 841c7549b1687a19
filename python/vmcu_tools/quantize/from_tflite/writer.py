# SPDX-License-Identifier: Apache-2.0
"""The ONNX graph that rules write, one .tflite operator after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ...frontends.common import MAX_TENSOR_BYTES, SMALLER, Rules, require
from ...frontends.tflite.file import FileModel, FileOp, FileTensor
from ...frontends.tflite.ops import ACTIVATIONS, Importer
from ..kept import KeptWeights

_QUANTISED = ("INT8", "INT4", "UINT8", "INT16")
_FIXED = "convert the model with fixed shapes"


@dataclass
class Writer:
    """The nodes and constants so far. values: the ONNX name of each tensor that is computed.
    importer: reads the operands that must be constant. done: operators that the rule of another
    one has converted. op: the operator whose results a rule returns."""

    model: FileModel
    importer: Importer
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, TensorProto] = field(default_factory=dict)
    values: dict[int, str] = field(default_factory=dict)
    kept: dict[str, KeptWeights] = field(default_factory=dict)
    done: set[FileOp] = field(default_factory=set)
    # The file's constant of each tensor that DEQUANTIZE makes of one.
    sources: dict[int, int] = field(default_factory=dict)
    op: FileOp = field(init=False)

    def __post_init__(self) -> None:
        self._taken = {tensor.name for tensor in self.model.tensors}

    def convert(self, op: FileOp) -> None:
        """Applies the rule of an operator and gives its results the file's names. A result that
        no node of the operator computes stays the other tensor that it is equal to."""
        self.op, first = op, len(self.nodes)
        results = RULES[op.op](self, op)
        results = [results] if isinstance(results, str) else results
        nodes = self.nodes[first:]
        for index, result in zip(self.op.outputs, results, strict=True):
            name = self.model.tensors[index].name
            if not any(result in node.output for node in nodes):
                self.values[index] = result
                continue
            for node in nodes:
                for names in (node.input, node.output):
                    names[:] = [name if one == result else one for one in names]
                node.name = node.output[0]
            self.values[index] = name

    def _fresh(self, what: str) -> str:
        stem = name = f"{self.model.tensors[self.op.outputs[0]].name}/{what}"
        count = 1
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name

    def add(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node with one output. Returns the output's name."""
        name = self._fresh(kind.lower())
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def add_several(self, kind: str, inputs: Sequence[str], count: int, **more: Any) -> list[str]:
        """Adds a node with `count` outputs. Returns their names."""
        names = [self._fresh(kind.lower()) for _ in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, names, names[0], **more))
        return names

    def constant(self, array: Any, what: str) -> str:
        """Adds a constant. Returns its name."""
        name = self._fresh(what)
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def number(self, value: float) -> str:
        """Adds a float32 scalar. Returns its name."""
        return self.constant(np.array(value, np.float32), "value")

    def integers(self, values: Sequence[int], what: str) -> str:
        """Adds an int64 vector. Returns its name."""
        return self.constant(np.array(list(values), np.int64), what)

    def tensor(self, index: int) -> FileTensor:
        require(index >= 0, "an input is missing")
        return self.model.tensors[index]

    def shape(self, index: int) -> tuple[int, ...]:
        """A tensor's shape in the file, which must be known."""
        tensor = self.tensor(index)
        known = not tensor.dynamic and all(size > 0 for size in tensor.shape)
        require(known, f"the shape of '{tensor.name}' is not fixed", _FIXED)
        small = math.prod(tensor.shape) <= MAX_TENSOR_BYTES
        require(small, f"'{tensor.name}' has {math.prod(tensor.shape)} elements", SMALLER)
        return tensor.shape

    def array(self, index: int) -> np.ndarray | None:
        """The numbers of a constant; quantised and float16 ones as float32. None for a tensor that
        the model computes."""
        tensor = self.tensor(self.sources.get(index, index))
        data = tensor.data
        if data is None:
            return None
        if tensor.type == "FLOAT16":
            return data.astype(np.float32)
        if tensor.type not in _QUANTISED or not tensor.scales.size:
            return data
        sizes = [1] * data.ndim
        if tensor.scales.size > 1:
            fits = tensor.axis < data.ndim and data.shape[tensor.axis] == tensor.scales.size
            require(fits, f"'{tensor.name}' has {tensor.scales.size} scales for {data.shape}")
            sizes[tensor.axis] = -1
        zeros = tensor.zero_points.reshape(sizes)
        real: np.ndarray = (data - zeros).astype(np.float32) * tensor.scales.reshape(sizes)
        return real

    def read(self, index: int) -> str:
        """The name of a tensor in the ONNX model."""
        if index not in self.values:
            array, name = self.array(index), self.tensor(index).name
            require(array is not None, f"tensor '{name}' is used before it is computed")
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
            self.constants[name].dims[:] = self.tensor(index).shape
            self.values[index] = name
        return self.values[index]

    def weights(self, index: int, axes: tuple[int, ...], channels: int) -> str:
        """Weights with their axes in another order. `channels`: the axis that may have scales."""
        tensor = self.tensor(index)
        sparse = tensor.data is None and index not in self.values and index not in self.sources
        require(not sparse, "the weights are sparse", "convert the model without sparsity")
        require(len(tensor.shape) == len(axes), f"the weights have the shape {tensor.shape}")
        array = self.array(index)
        if array is None:
            return self.add("Transpose", [self.read(index)], perm=axes)
        name = self.constant(np.transpose(array, axes), "weights")
        source = self.tensor(self.sources.get(index, index))
        if source.type in _QUANTISED and (source.scales > 0).all() and source.scales.size:
            single = source.scales.size == 1
            if single or source.axis == channels:
                axis = None if single else axes.index(channels)
                self.kept[name] = KeptWeights(source.scales, source.zero_points, axis)
        return name

    def transposed(self, value: str, *axes: int) -> str:
        return self.add("Transpose", [value], perm=axes)

    def reshaped(self, value: str, shape: Sequence[int]) -> str:
        return self.add("Reshape", [value, self.integers(shape, "shape")])

    def activated(self, value: str, activation: int) -> str:
        """A value behind a fused activation."""
        require(activation in ACTIVATIONS, f"fused activation {activation} is not supported")
        return self.clipped(value, *ACTIVATIONS[activation])

    def clipped(self, value: str, low: float, high: float) -> str:
        if (low, high) == (-np.inf, np.inf):
            return value
        if (low, high) == (0, np.inf):
            return self.add("Relu", [value])
        return self.add("Clip", [value, self.number(low), self.number(high)])


Rule = Callable[[Writer, FileOp], str | list[str]]
RULES: Rules[Rule] = Rules()
rule = RULES.rule
