# SPDX-License-Identifier: Apache-2.0
"""IF with a constant condition as the operators of its branch, and WHILE without a step as its
inputs (tensorflow/lite/kernels/if.cc, while.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tflite

from ..common import MAX_NODES, naming, require
from .assigned import alike
from .file import CONTROL, MAX_SUBGRAPHS, FileModel, FileOp, FileTensor
from .fold import fold

_ALIKE = "convert the model again, with one shape and scale in both branches"


def without_branches(graphs: Sequence[FileModel]) -> FileModel:
    """The first of a file's subgraphs without IF and WHILE whose conditions are constant; others
    stay. Raises UnsupportedError where a branch has tensors of another shape or scale."""
    model = graphs[0]
    for _ in range(MAX_SUBGRAPHS):
        tensors = fold(model).model.tensors
        branches = ((n, _branch(op, tensors, graphs)) for n, op in enumerate(model.ops))
        number, branch = next(((n, b) for n, b in branches if b is not None), (0, None))
        if branch is None or len(model.ops) > MAX_NODES:
            break
        model = _inlined(model, number, branch)
    return model


def _branch(
    op: FileOp, tensors: Sequence[FileTensor], graphs: Sequence[FileModel]
) -> FileModel | None:
    """The subgraph that always runs in an operator's place; None where that is not known."""
    if op.op not in CONTROL or op.table is None:
        return None
    if op.op == "IF":
        options = op.options(tflite.IfOptions)
        condition = tensors[op.inputs[0]].data
        if condition is None:
            return None
        chosen = options.ThenSubgraphIndex if condition.item() else options.ElseSubgraphIndex
        return graphs[int(chosen())]
    test = graphs[int(op.options(tflite.WhileOptions).CondSubgraphIndex())]
    given = list(test.tensors)
    for inner, outer in zip(test.inputs, op.inputs, strict=True):
        given[inner] = replace(given[inner], data=tensors[outer].data)
    goes_on = fold(replace(test, tensors=tuple(given))).model.tensors[test.outputs[0]].data
    if goes_on is None or goes_on.item():
        return None
    return replace(test, ops=(), outputs=test.inputs)


def _inlined(model: FileModel, number: int, branch: FileModel) -> FileModel:
    """The model with the operators of a branch in place of that operator."""
    op, first = model.ops[number], len(model.tensors)
    name = model.tensors[op.outputs[0]].name
    tensors = [*model.tensors, *(replace(t, name=f"{name}/{t.name}") for t in branch.tensors)]
    inputs = [*zip(branch.inputs, op.inputs[op.op == "IF" :], strict=True)]
    outputs = [*zip(branch.outputs, op.outputs, strict=True)]
    same = all(alike(branch.tensors[i], tensors[outer]) for i, outer in (*inputs, *outputs))
    with naming(name, op.op):
        require(same, "a branch has tensors of another shape or scale", _ALIKE)
    places = {i: first + i for i in range(len(branch.tensors))} | {-1: -1} | dict(inputs)
    copies = []
    for i, outer in outputs:
        if tensors[places[i]].data is not None:
            tensors[outer] = replace(tensors[outer], data=tensors[places[i]].data)
        else:
            copies.append(FileOp("RESHAPE", (places[i],), (outer,), None))
    ops = [
        replace(
            inner,
            inputs=tuple(places[i] for i in inner.inputs),
            outputs=tuple(places[i] for i in inner.outputs),
        )
        for inner in branch.ops
    ]
    ops = [*model.ops[:number], *ops, *copies, *model.ops[number + 1 :]]
    return replace(model, tensors=tuple(tensors), ops=tuple(ops))
