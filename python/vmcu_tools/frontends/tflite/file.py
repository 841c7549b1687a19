# SPDX-License-Identifier: Apache-2.0
"""Reads a .tflite flatbuffer into plain dataclasses, checking every index and length on the way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from ..common import AGAIN, MAX_NODES, MAX_PORTS, MAX_RANK, UnsupportedError, parsing, require

# The smallest file that can hold a root offset and the identifier.
_HEADER_BYTES = 8
MAX_CHANNELS = 1 << 16
IDENTIFIER = b"TFL3"
# Operators that have subgraphs, and how many of these are read.
CONTROL, MAX_SUBGRAPHS = ("IF", "WHILE"), 64


def _names(enum: type) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


_OPERATORS = _names(tflite.BuiltinOperator)
_TYPES = _names(tflite.TensorType)
_OPTIONS = _names(tflite.BuiltinOptions)
# Options tables that do not have their operator's name.
_SHARED = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimumOptions"),
    **dict.fromkeys(("MEAN", "SUM"), "ReducerOptions"),
    **{name: "ReducerOptions" for name in _OPERATORS.values() if name.startswith("REDUCE_")},
    "L2_NORMALIZATION": "L2NormOptions",
}
_NAMESAKES = {name.lower(): name for name in _OPTIONS.values()}
_DTYPES = {
    "FLOAT32": np.float32,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FLOAT16": np.float16,
    "BOOL": np.bool_,
}


@dataclass(frozen=True, eq=False)
class FileTensor:
    """A tensor as the file has it. `data` is None for activations; `type` a schema name. INT4 data
    is unpacked: a byte for each element."""

    name: str
    shape: tuple[int, ...]
    dynamic: bool
    type: str
    scales: np.ndarray
    zero_points: np.ndarray
    axis: int
    data: np.ndarray | None

    @property
    def values(self) -> np.ndarray:
        """The data of a constant."""
        assert self.data is not None, f"'{self.name}' is no constant"
        return self.data


@dataclass(frozen=True, eq=False)
class FileOp:
    """An operator: schema name of its op, tensor indices (-1: absent), its options table and the
    schema class that the file says it is of; None and "" where there is none."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: Any
    table_class: str = ""

    def check_options(self) -> None:
        """Raises UnsupportedError for the options of another operator. A class that the schema
        here does not know is that of a newer one."""
        own = options_class(self.op)
        if self.table_class not in ("", own) and self.table_class in _NAMESAKES.values():
            raise UnsupportedError(
                f"the options belong to another operator, {self.table_class}"
                + (f" and not {own}" if own else ""),
                "the file is damaged, or what wrote it is wrong: export it again",
            )

    def options(self, kind: Callable[[], Any]) -> Any:
        """The options, read as the schema class `kind`."""
        self.check_options()
        if self.table is None or self.table_class != kind.__name__:
            raise UnsupportedError("the operator's options are missing", "export the file again")
        options = kind()
        options.Init(self.table.Bytes, self.table.Pos)
        return options


def options_class(op: str) -> str:
    """The schema class of an operator's options, "" if it has none."""
    return _SHARED.get(op) or _NAMESAKES.get(f"{op.replace('_', '').lower()}options", "")


@dataclass(frozen=True, eq=False)
class FileModel:
    """The one subgraph of a .tflite file. states: variables that keep something from call to
    call. Those of the latest rows of tensors are written as padding, see states.py; the others
    are the last inputs and outputs, and the initial value of each of these is in `begins`."""

    tensors: tuple[FileTensor, ...]
    ops: tuple[FileOp, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[str, ...] = ()
    begins: tuple[int, ...] = ()


def subgraphs(path: Path) -> tuple[tuple[FileModel, ...], int]:
    """The first subgraphs of a file, more than two only for operators that have such, and how many
    it has. Raises UserError for a file that is no .tflite, is damaged, or has none."""
    raw = path.read_bytes()
    with parsing(str(path)):
        known = len(raw) >= _HEADER_BYTES and raw[4:8] == IDENTIFIER
        require(known, "not a TensorFlow Lite file (no TFL3 identifier)", AGAIN)
        model = tflite.Model.GetRootAsModel(raw, 0)
        count = model.SubgraphsLength()
        if not count:
            raise ValueError("there is no subgraph")
        first = _subgraph(raw, model, model.Subgraphs(0))
        most = MAX_SUBGRAPHS if any(op.op in CONTROL for op in first.ops) else 2
        others = (_subgraph(raw, model, model.Subgraphs(i)) for i in range(1, min(count, most)))
        return (first, *others), count


def _subgraph(raw: bytes, model: Any, graph: Any) -> FileModel:
    counts = graph.TensorsLength(), graph.OperatorsLength()
    if counts[0] > 8 * MAX_NODES or counts[1] > MAX_NODES:
        raise ValueError(f"{counts[1]} operators, {counts[0]} tensors")
    names = _unique_names(graph)
    tensors = tuple(_tensor(raw, model, graph, i, name) for i, name in enumerate(names))
    ops = tuple(_op(model, graph.Operators(i)) for i in range(graph.OperatorsLength()))
    inputs = _indices(graph, "Inputs")
    outputs = _indices(graph, "Outputs")
    used = [i for op in ops for i in op.inputs + op.outputs]
    for index in (*used, *inputs, *outputs):
        if not -1 <= index < len(tensors):
            raise IndexError(f"tensor {index} of {len(tensors)}")
    return FileModel(tensors, ops, inputs, outputs)


def _unique_names(graph: Any) -> list[str]:
    """Tensor names; one that is empty or taken gets its index appended."""
    names: list[str] = []
    taken: set[str] = set()
    for index in range(graph.TensorsLength()):
        name = (graph.Tensors(index).Name() or b"").decode()
        if not name or name in taken:
            name = f"{name}#{index}"
        taken.add(name)
        names.append(name)
    return names


def tensor_names(path: Path) -> list[str]:
    """The names the frontend gives to the file's tensors, by tensor index."""
    with parsing(str(path)):
        return _unique_names(tflite.Model.GetRootAsModel(path.read_bytes(), 0).Subgraphs(0))


def _indices(owner: Any, field: str, most: int = MAX_PORTS) -> tuple[int, ...]:
    # Vectors may lie on top of each other, so that a small file can name many large ones.
    length = getattr(owner, f"{field}Length")()
    if length > most:
        raise ValueError(f"{length} {field.lower()}")
    if not length:
        return ()
    return tuple(int(i) for i in getattr(owner, f"{field}AsNumpy")())


def _op(model: Any, op: Any) -> FileOp:
    code = model.OperatorCodes(op.OpcodeIndex())
    builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    name = _OPERATORS.get(builtin, f"builtin {builtin}")
    if name == "CUSTOM":
        name = f"custom {(code.CustomCode() or b'').decode()}"
    number = op.BuiltinOptionsType()
    ends = _indices(op, "Inputs"), _indices(op, "Outputs")
    if number == tflite.BuiltinOptions.NONE:
        return FileOp(name, *ends, None)
    return FileOp(name, *ends, op.BuiltinOptions(), _OPTIONS.get(number, f"options {number}"))


def _tensor(raw: bytes, model: Any, graph: Any, index: int, name: str) -> FileTensor:
    tensor = graph.Tensors(index)
    shape = _indices(tensor, "Shape", MAX_RANK)
    signature = _indices(tensor, "ShapeSignature", MAX_RANK) or shape
    kind = _TYPES.get(tensor.Type(), f"type {tensor.Type()}")
    quantisation = tensor.Quantization()
    scales, zero_points, axis = np.zeros(0, np.float32), np.zeros(0, np.int64), 0
    if quantisation is not None and quantisation.ScaleLength():
        _check_scales(quantisation)
        scales = np.array(quantisation.ScaleAsNumpy(), np.float32)
        axis = quantisation.QuantizedDimension()
        if quantisation.ZeroPointLength():
            zero_points = np.array(quantisation.ZeroPointAsNumpy(), np.int64)
        else:
            zero_points = np.zeros(len(scales), np.int64)
    data = None if tensor.Sparsity() is not None else _data(raw, model, tensor, shape, kind)
    # A symbolic batch stands for the 1 that the shape has; other symbolic sizes are dynamic.
    dynamic = -1 in shape or -1 in signature[1:]
    return FileTensor(name, shape, dynamic, kind, scales, zero_points, axis, data)


def _check_scales(quantisation: Any) -> None:
    lengths = quantisation.ScaleLength(), quantisation.ZeroPointLength()
    if max(lengths) > MAX_CHANNELS:
        raise ValueError(f"{lengths[0]} scales, {lengths[1]} zero points")


def _data(
    raw: bytes, model: Any, tensor: Any, shape: tuple[int, ...], kind: str
) -> np.ndarray | None:
    buffer = model.Buffers(tensor.Buffer())
    if buffer.DataLength():
        content = buffer.DataAsNumpy()
    elif buffer.Offset() > 1:
        # Files over 2 GB, and some exporters, keep buffers behind the flatbuffer.
        content = np.frombuffer(raw, np.uint8, buffer.Size(), buffer.Offset())
    else:
        return None
    if kind == "INT4":
        return _unpacked(content, shape)
    if kind not in _DTYPES:
        array: np.ndarray | None = content
        return array
    # A view: many tensors may share one buffer.
    return np.ascontiguousarray(content).view(_DTYPES[kind]).reshape(shape)


def _unpacked(content: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """int4 elements, two in a byte, the first in the lower half, as int8 of a shape. Raises
    ValueError for another number of bytes. TensorFlow Lite, kernels/internal/tensor_utils.h,
    UnpackPackedIntToInt8."""
    count = math.prod(shape)
    if content.size != -(-count // 2):
        raise ValueError(f"{content.size} bytes for {count} int4 elements")
    pairs = content.view(np.int8)[:, None] << np.array([4, 0], np.int8)
    return (pairs >> 4).reshape(-1)[:count].reshape(shape)
