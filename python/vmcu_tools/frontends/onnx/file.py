# SPDX-License-Identifier: Apache-2.0
"""Reads an .onnx file into plain dataclasses, external weights included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError

from ...errors import Problem, UserError
from ..common import AGAIN, MAX_NODES, MAX_PORTS, MAX_RANK, check_file_size, parsing, require
from .attributes import attributes_of
from .control_flow import inline_control_flow, subgraphs
from .patterns import fuse_normalisations

MINIMUM_OPSET = 10
_NO_OUTPUTS = "export it again, and name the tensors that it is to compute as its outputs"
_NEWER = "export it again with a newer opset, or run onnx.version_converter on it"
_BESIDE = "save the model as one file, or its weights next to it"
_ONNX_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True, eq=False)
class FileNode:
    """A node. `op` carries its domain in front unless that is ONNX's own. `qoperator`: the
    operation within such a one."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    proto: onnx.NodeProto = field(default_factory=onnx.NodeProto)
    qoperator: bool = False

    def ints(self, name: str, default: list[int]) -> list[int]:
        return [int(i) for i in self.attributes.get(name, default)]


@dataclass(frozen=True)
class FileValue:
    """A graph input or output. A symbolic size is -1; a symbolic batch counts as 1."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Carry:
    """A state of a loop, in which each step reads the rows that the one before has made.

    loop: the name that all states of a loop share; before, after: tensors (steps * batch, size)
    with the rows before and behind each step; initial: the rows (batch, size) before the first, or
    the name of the tensor that has them.
    """

    loop: str
    before: str
    after: str
    initial: str | np.ndarray
    batch: int
    size: int
    steps: int

    @property
    def outputs(self) -> tuple[str, ...]:
        """The tensors that the graph computes for it."""
        named = (self.initial,) if isinstance(self.initial, str) else ()
        return self.after, *named


@dataclass(frozen=True, eq=False)
class FileModel:
    nodes: tuple[FileNode, ...]
    constants: dict[str, np.ndarray]
    inputs: tuple[FileValue, ...]
    outputs: tuple[FileValue, ...]
    opset: int
    metadata: dict[str, str] = field(default_factory=dict)
    carries: tuple[Carry, ...] = ()


def read(path: Path) -> FileModel:
    """Raises UserError for a file that is no ONNX model, is damaged, or of an opset below
    MINIMUM_OPSET."""
    return plain(load_proto(path), str(path))


def load_proto(path: Path) -> onnx.ModelProto:
    """The model of a file with its external weights, its functions and known branches inlined.
    Raises UserError for a file that is no ONNX model, or is damaged."""
    file = str(path)
    try:
        model = onnx.load(path, load_external_data=False)
    except DecodeError as error:
        raise UserError(Problem("not an ONNX file, or truncated", AGAIN, file)) from error
    with parsing(file):
        _load_external(model, path)
        if model.functions:
            _check_functions(model)
            model = onnx.inliner.inline_local_functions(model)
        model = inline_control_flow(model)
        if not model.graph.node:
            raise ValueError("the file holds no graph")
        require(len(model.graph.output) > 0, "the model has no outputs", _NO_OUTPUTS)
    return model


def plain(model: onnx.ModelProto, file: str, minimum: int = MINIMUM_OPSET) -> FileModel:
    """The dataclasses of a model, whose normalisations it fuses. file: for messages. Raises
    UserError for a damaged model, or an opset below `minimum`."""
    with parsing(file):
        opset = max((o.version for o in model.opset_import if o.domain in _ONNX_DOMAINS), default=0)
        old = f"the model uses ONNX opset {opset}; {MINIMUM_OPSET} is the oldest supported"
        require(opset >= minimum, old, _NEWER)
        fuse_normalisations(model.graph)
        metadata = {one.key: one.value for one in model.metadata_props}
        return replace(_graph(model.graph, opset), metadata=metadata)


# The key of the metadata in which a file says what its scales come from.
CALIBRATION, RANDOM = "vmcu.calibration", "random"
_SCALING = ("QuantizeLinear", "DequantizeLinear")
# How many of these an operator has: behind it, and behind its constants.
QDQ_NODES = 4


def _check_functions(model: onnx.ModelProto) -> None:
    """Functions that call each other twice, many levels deep, would grow without bounds."""
    functions = {(f.domain, f.name): f for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Sequence[onnx.NodeProto], depth: int) -> int:
        if depth > len(functions):
            raise ValueError("the functions call each other in a circle")
        total = 0
        for node in nodes:
            key = node.domain, node.op_type
            if key in functions and key not in sizes:
                sizes[key] = size(functions[key].node, depth + 1)
            total += sizes.get(key, 1)
            total += sum(size(a.g.node, depth) for a in node.attribute if a.HasField("g"))
        return total

    total = size(model.graph.node, 0)
    if total > MAX_NODES * (1 + QDQ_NODES):
        raise ValueError(f"the model has {total} nodes, too many")


def _graph(graph: onnx.GraphProto, opset: int) -> FileModel:
    scaling = sum(node.op_type in _SCALING for node in graph.node)
    most = max(len(graph.node) - scaling, len(graph.input) + len(graph.output))
    if most > MAX_NODES or scaling > MAX_NODES * QDQ_NODES:
        raise ValueError(f"the model has {len(graph.node)} nodes, too many")
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    inputs = [_value(v) for v in graph.input if v.name not in constants]
    outputs = [_value(v) for v in graph.output]
    if max(len(inputs), len(outputs)) > MAX_PORTS:
        raise ValueError(f"the model has {len(inputs)} inputs and {len(outputs)} outputs")
    nodes = [_node(node) for node in graph.node]
    return FileModel(tuple(nodes), constants, tuple(inputs), tuple(outputs), opset)


def _node(node: onnx.NodeProto) -> FileNode:
    if any(isinstance(t, bytes) for t in (node.name, node.op_type, *node.input, *node.output)):
        raise ValueError("a name is not text")
    op = node.op_type if node.domain in _ONNX_DOMAINS else f"{node.domain}.{node.op_type}"
    name = node.name or (node.output[0] if node.output else "")
    return FileNode(name, op, tuple(node.input), tuple(node.output), attributes_of(node), node)


def _value(value: onnx.ValueInfoProto) -> FileValue:
    kind = value.type.tensor_type
    dtype = onnx.TensorProto.DataType.Name(kind.elem_type).lower()
    dtype = {"float": "float32", "undefined": "unknown"}.get(dtype, dtype)
    if not kind.HasField("shape"):
        return FileValue(value.name, dtype, None)
    if len(kind.shape.dim) > MAX_RANK:
        raise ValueError(f"'{value.name}' has {len(kind.shape.dim)} dimensions")
    shape = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
    if len(shape) > 1 and shape[0] == -1:
        shape[0] = 1
    return FileValue(value.name, dtype, tuple(shape))


def _load_external(model: onnx.ModelProto, path: Path) -> None:
    """Loads weights kept in other files, which must lie in the model's own folder."""
    tensors: list[onnx.TensorProto] = []
    for graph in subgraphs(model.graph):
        tensors += graph.initializer
        tensors += [a.t for node in graph.node for a in node.attribute if a.HasField("t")]
    folder = path.parent.resolve()
    total = 0
    for tensor in tensors:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        target = (folder / location).resolve()
        outside = f"weights '{tensor.name}' are kept in '{location}', outside the model's folder"
        require(bool(location) and target.is_relative_to(folder), outside, _BESIDE)
        missing = f"the weights file '{location}' is missing"
        require(target.is_file(), missing, f"put it into {folder}")
        total += target.stat().st_size
        check_file_size(target, total)
        try:
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        except onnx.checker.ValidationError as error:
            raise ValueError(str(error)) from error
        tensor.data_location = onnx.TensorProto.DEFAULT
