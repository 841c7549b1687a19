# SPDX-License-Identifier: Apache-2.0
"""Constant folding by onnx's reference evaluator, in a graph that exporters have left it in."""

from __future__ import annotations

import numpy as np

from ..common import PARSE_ERRORS, UnsupportedError, require
from .context import RULES, Context
from .evaluation import evaluate, folds
from .file import FileModel, FileNode
from .values import Args, Constant, Value, operand
from .views import file_shape

# Elements of all constants of a file.
_MAX_FOLDED = 1 << 26


def constant_nodes(model: FileModel) -> set[FileNode]:
    """The nodes whose values depend on constants and shapes alone."""
    names, nodes = {"", *model.constants}, set[FileNode]()
    for node in model.nodes:
        if node.op == "Shape" or (folds(node.op) and names.issuperset(node.inputs)):
            names.update(node.outputs)
            nodes.add(node)
    return nodes


def fold(context: Context, node: FileNode, args: Args) -> list[Value] | None:
    """The node's values if they are constants, else None."""
    if node.op == "Shape":
        return [_shape(node, args)]
    if not folds(node.op) or not all(arg is None or isinstance(arg, Constant) for arg in args):
        return None
    arrays = {
        name: arg.array
        for name, arg in zip(node.inputs, args, strict=True)
        if isinstance(arg, Constant)
    }
    try:
        values = evaluate(node.proto, arrays, context.model.opset)
    except (*PARSE_ERRORS, RuntimeError) as error:
        if node.op in RULES and not isinstance(error, MemoryError):
            return None
        raise UnsupportedError(f"the constant value cannot be computed: {error}") from error
    context.folded += sum(value.size for value in values)
    require(context.folded <= _MAX_FOLDED, "its constants and those before it are too large")
    return [Constant(value) for value in values]


def _shape(node: FileNode, args: Args) -> Constant:
    shape = file_shape(operand(args[0]))
    end = node.attributes.get("end", len(shape))
    return Constant(np.array(shape[node.attributes.get("start", 0) : end], np.int64))
