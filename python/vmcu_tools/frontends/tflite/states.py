# SPDX-License-Identifier: Apache-2.0
"""Variables of a .tflite file that keep the latest rows of a tensor from call to call.

Exporters of streaming models write, for each layer that sees rows of earlier calls, a variable in
front of the new rows, and the last of both into the variable:

    READ_VARIABLE -> CONCATENATION with the new rows -> the layer
                                                     -> STRIDED_SLICE -> ASSIGN_VARIABLE

and in a subgraph that CALL_ONCE names the variable's initial value. Where that is the zero point, a
first call sees padding in front of its rows; all later ones see the rows that were there. So the
concatenation is written as PAD, and the graph says that the file keeps its state. A file with a
variable of another use has all of them computed, see assigned.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tflite

from ...errors import Problem, UserError
from ..common import UnsupportedError, parsing, require
from .assigned import computed_variables
from .control_flow import without_branches
from .file import CONTROL, FileModel, FileOp, FileTensor, subgraphs
from .kinds import kind_of

REMEDY = (
    "export it as streaming models are: a variable, beginning with zeros, of the last rows of a "
    "tensor, in front of the new ones"
)
HANDLES = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")
# The axis that rows are along: (1, H, W, C) or (1, H, C).
TIME = 1
_COMPUTED = {"UNIDIRECTIONAL_SEQUENCE_LSTM"}
# Inputs of operators that are their states.
_OWN = {"SVDF": (4,), "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19)}


@dataclass(frozen=True)
class _Variable:
    """A variable: the tensor that was read of it, and the one that is written to it."""

    name: str
    read: int
    written: int


def read(path: Path) -> FileModel:
    """The model of a .tflite file. Raises UserError for a file that is damaged, has several
    subgraphs without being one that keeps the latest rows, or uses variables otherwise."""
    graphs, count = subgraphs(path)
    model = graphs[0]
    with parsing(str(path)):
        if count == len(graphs) and any(op.op in CONTROL for op in model.ops):
            model = without_branches(graphs)
        elif count > 1:
            if count > len(graphs) or not keeps_state(model) or initial(model) != 1:
                raise UserError(_several(count, model, path))
            return _kept(*graphs)
    names = tuple(model.tensors[index].name for index in own_states(model))
    return replace(model, states=names)


def own_states(model: FileModel) -> tuple[int, ...]:
    """The tensors that operators keep from call to call without variables."""
    indices = (
        op.inputs[place]
        for op in model.ops
        for place in _OWN.get(op.op, ())
        if place < len(op.inputs)
    )
    return tuple(index for index in dict.fromkeys(indices) if index >= 0)


def computes_states(model: FileModel) -> bool:
    """True if layers compute states of a model, so that none of them can be a ring buffer."""
    return bool(model.begins) or any(op.op in _COMPUTED for op in model.ops)


def _kept(model: FileModel, once: FileModel) -> FileModel:
    """The model without its variables: all of them rows that are padding in a first call, or
    computed."""
    if not computes_states(model):
        with contextlib.suppress(UnsupportedError):
            return without_variables(model, once)
    return computed_variables(model, _named(model), _beginnings(once))


def _several(count: int, model: FileModel, path: Path) -> Problem:
    """Describes a file with so many subgraphs. model: the first of them."""
    kind = kind_of(model)
    if kind is not None and kind.ops:
        return Problem(kind.reason, kind.remedy, str(path))
    return Problem(
        f"the model has {count} subgraphs; exactly one is supported",
        "export one inference function, without control flow or signatures of its own",
        str(path),
    )


def keeps_state(model: FileModel) -> bool:
    """True if a subgraph has variables."""
    return any(op.op in HANDLES for op in model.ops)


def initial(model: FileModel) -> int:
    """The number of the subgraph that is called once. Raises UnsupportedError if there is none, or
    several."""
    calls = [op for op in model.ops if op.op == "CALL_ONCE"]
    require(len(calls) == 1, f"{len(calls)} subgraphs are called once, one was expected", REMEDY)
    return int(calls[0].options(tflite.CallOnceOptions).InitSubgraphIndex())


def without_variables(model: FileModel, once: FileModel) -> FileModel:
    """The model with padding in place of its variables, which are named in `states`. once: the
    subgraph that is called once. Raises UnsupportedError for variables of any other use."""
    begins = _beginnings(once)
    variables = _variables(model)
    tensors, ops, gone = list(model.tensors), list(model.ops), set()
    for one in variables:
        number, joined = _joined(model, one)
        x = next(i for i in joined.inputs if i != one.read)
        rows = tensors[one.read].shape[TIME]
        _check(one, [tensors[i] for i in (one.read, x, joined.outputs[0])], begins.get(one.name))
        gone.add(_sliced(model, one, joined.outputs[0], rows))
        amounts = np.zeros((len(tensors[x].shape), 2), np.int32)
        amounts[TIME, 0] = rows
        tensors.append(_constant(f"{one.name} rows", amounts))
        ops[number] = FileOp("PAD", (x, len(tensors) - 1), joined.outputs, None)
    kept = [op for n, op in enumerate(ops) if n not in gone and op.op not in HANDLES]
    names = tuple(one.name for one in variables)
    return replace(model, tensors=tuple(tensors), ops=tuple(kept), states=names)


def _named(model: FileModel) -> dict[int, str]:
    """Variables by the tensors that are handles of them."""
    names = {}
    for op in model.ops:
        if op.op == "VAR_HANDLE":
            name = op.options(tflite.VarHandleOptions).SharedName() or b""
            names[op.outputs[0]] = name.decode()
    return names


def _beginnings(once: FileModel) -> dict[str, np.ndarray | None]:
    """Reads the initial values of variables, by name."""
    names = _named(once)
    values = {}
    for op in once.ops:
        if op.op == "ASSIGN_VARIABLE":
            values[names.get(op.inputs[0], "")] = once.tensors[op.inputs[1]].data
    return values


def _variables(model: FileModel) -> list[_Variable]:
    names = _named(model)
    variables = []
    for handle, name in names.items():
        reads = [op for op in model.ops if op.op == "READ_VARIABLE" and op.inputs == (handle,)]
        writes = [
            op for op in model.ops if op.op == "ASSIGN_VARIABLE" and op.inputs[:1] == (handle,)
        ]
        once = len(reads) == len(writes) == 1 and list(names.values()).count(name) == 1
        require(once, f"variable '{name}' is not read once and written once", REMEDY)
        variables.append(_Variable(name, reads[0].outputs[0], writes[0].inputs[1]))
    return variables


def _joined(model: FileModel, one: _Variable) -> tuple[int, FileOp]:
    """The only reader of a variable, which puts it in front of new rows, and its number."""
    readers = [(n, op) for n, op in enumerate(model.ops) if one.read in op.inputs]
    is_joined = len(readers) == 1 and readers[0][1].op == "CONCATENATION"
    require(is_joined, f"variable '{one.name}' is not put in front of new rows", REMEDY)
    number, op = readers[0]
    options = op.options(tflite.ConcatenationOptions)
    rank = len(model.tensors[one.read].shape)
    along = options.Axis() % rank == TIME and options.FusedActivationFunction() == 0
    front = len(op.inputs) == 2 and op.inputs[0] == one.read != op.inputs[1]
    require(along and front and rank in (3, 4), f"variable '{one.name}' is not along H", REMEDY)
    return number, op


def _check(one: _Variable, tensors: Sequence[FileTensor], begin: np.ndarray | None) -> None:
    first, *others = tensors
    same = all(
        np.array_equal(first.scales, other.scales)
        and np.array_equal(first.zero_points, other.zero_points)
        for other in others
    )
    require(
        same and len(first.zero_points) == 1,
        f"variable '{one.name}' has another scale or zero point than the rows that it keeps",
        REMEDY,
    )
    zeros = begin is not None and bool((begin == first.zero_points[0]).all())
    require(zeros, f"variable '{one.name}' does not begin with zeros", REMEDY)


def _sliced(model: FileModel, one: _Variable, joined: int, rows: int) -> int:
    """The number of the operator that takes the last rows, for the variable alone."""
    what = f"variable '{one.name}' does not get the last {rows} rows"
    makers = [(n, op) for n, op in enumerate(model.ops) if one.written in op.outputs]
    is_sliced = len(makers) == 1 and makers[0][1].op == "STRIDED_SLICE"
    require(is_sliced and makers[0][1].inputs[0] == joined, what, REMEDY)
    number, op = makers[0]
    users = [other for other in model.ops if one.written in other.inputs]
    require(len(users) == 1 and one.written not in model.outputs, what, REMEDY)
    shape = model.tensors[joined].shape
    wanted = [(0, size) for size in shape]
    wanted[TIME] = (shape[TIME] - rows, shape[TIME])
    require(_bounds(model, op, shape) == wanted, what, REMEDY)
    return number


def _bounds(model: FileModel, op: FileOp, shape: Sequence[int]) -> list[tuple[int, int]] | None:
    """Reads the bounds of a STRIDED_SLICE on each axis; None where it does more than that."""
    options = op.options(tflite.StridedSliceOptions)
    begin, end, steps = (model.tensors[i].data for i in op.inputs[1:4])
    more = options.EllipsisMask() or options.NewAxisMask() or options.ShrinkAxisMask()
    if begin is None or end is None or steps is None or more or (steps != 1).any():
        return None
    if not len(begin) == len(end) == len(shape):
        return None
    bounds = []
    for axis, size in enumerate(shape):
        start = 0 if options.BeginMask() >> axis & 1 else int(begin[axis])
        stop = size if options.EndMask() >> axis & 1 else int(end[axis])
        bounds.append((start % size if start < 0 else start, stop + size if stop < 0 else stop))
    return bounds


def _constant(name: str, values: np.ndarray) -> FileTensor:
    nothing = np.zeros(0)
    return FileTensor(
        name, values.shape, False, "INT32", nothing, nothing.astype(np.int64), 0, values
    )
