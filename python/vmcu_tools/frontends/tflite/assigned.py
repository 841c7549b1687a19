# SPDX-License-Identifier: Apache-2.0
"""Variables of a .tflite file to which layers assign values computed from the old ones.

The value that a call reads of a variable becomes an input of the model, and the assigned one an
output, which is the next call's input. Operators run in the file's order: reads behind an
assignment return the assigned value.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..common import UnsupportedError, require
from .file import FileModel, FileOp, FileTensor

REMEDY = "export it with variables of int8 that are read and assigned in each call"


@dataclass
class _State:
    """A variable on its way through the operators. read: the tensor that a call begins with, -1
    until something reads it; now: the one that it holds."""

    name: str
    begin: int
    read: int = -1
    now: int = -1


@dataclass
class _Walk:
    """The operators without those of variables. instead: of tensors that are another one."""

    model: FileModel
    begins: dict[str, np.ndarray | None]
    names: dict[int, str]
    states: dict[str, _State] = field(default_factory=dict)
    instead: dict[int, int] = field(default_factory=dict)
    ops: list[FileOp] = field(default_factory=list)

    def run(self) -> None:
        for op in self.model.ops:
            if op.op == "READ_VARIABLE":
                self._read(self._state(op), op.outputs[0])
            elif op.op == "ASSIGN_VARIABLE":
                self._state(op).now = self.instead.get(op.inputs[1], op.inputs[1])
            elif op.op not in ("VAR_HANDLE", "CALL_ONCE"):
                inputs = tuple(self.instead.get(i, i) for i in op.inputs)
                self.ops.append(replace(op, inputs=inputs))

    def _state(self, op: FileOp) -> _State:
        require(op.inputs[0] in self.names, "a variable has no handle", REMEDY)
        name = self.names[op.inputs[0]]
        if name not in self.states:
            self.states[name] = _State(name, _begin(name, self.begins.get(name)))
        return self.states[name]

    def _read(self, state: _State, tensor: int) -> None:
        if state.now < 0:
            state.read = state.now = tensor
            return
        held, read = (self.model.tensors[i] for i in (state.now, tensor))
        what = f"variable '{state.name}' is read in another shape or scale than it was given"
        require(alike(held, read), what, REMEDY)
        self.instead[tensor] = state.now


def computed_variables(
    model: FileModel, names: dict[int, str], begins: dict[str, np.ndarray | None]
) -> FileModel:
    """The model with an input and an output in place of each variable, behind its own.

    names: of variables by their handles; begins: the initial value of each. Raises UnsupportedError
    for variables of any other use.
    """
    walk = _Walk(model, begins, names)
    walk.run()
    # Variables that no call reads have no effect.
    states = [state for state in walk.states.values() if state.read >= 0]
    for state in states:
        read, written = (model.tensors[i] for i in (state.read, state.now))
        what = f"variable '{state.name}' is {_said(read)}, and is assigned {_said(written)}"
        same = read.shape == written.shape and read.type == written.type == "INT8"
        require(same, what, REMEDY)
    return replace(
        model,
        ops=tuple(walk.ops),
        inputs=(*model.inputs, *(state.read for state in states)),
        outputs=(
            *(walk.instead.get(i, i) for i in model.outputs),
            *(state.now for state in states),
        ),
        states=tuple(state.name for state in states),
        begins=tuple(state.begin for state in states),
    )


def _begin(name: str, values: np.ndarray | None) -> int:
    """The byte that all of a variable begins with."""
    what = f"variable '{name}' does not begin with a constant of int8"
    if values is None or values.dtype != np.int8 or not values.size:
        raise UnsupportedError(what, REMEDY)
    first = int(values.flat[0])
    require(bool((values == first).all()), f"variable '{name}' begins with several values", REMEDY)
    return first


def _said(tensor: FileTensor) -> str:
    return f"{tensor.type.lower()} {list(tensor.shape)}"


def alike(one: FileTensor, other: FileTensor) -> bool:
    return (
        one.shape == other.shape
        and one.type == other.type
        and np.array_equal(one.scales, other.scales)
        and np.array_equal(one.zero_points, other.zero_points)
    )
