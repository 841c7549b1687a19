# SPDX-License-Identifier: Apache-2.0
"""The ops, a file each: a node's fields, its reference semantics, the order in which its kernel
accesses memory, the kernel's parameters in C and its cost.

A file in this folder is all that it takes: importing the folder imports every file of it.
"""

from __future__ import annotations

from typing import Any

from ..errors import Problem, UserError
from ..graph import Graph, Node, Op
from ..paths import import_modules
from ..quant import INT8_MAX, INT8_MIN
from .biases import REMEDY
from .interval import Interval
from .layer import LAYER_OF, NEVER, Form, Layer, ProgramLayer
from .values import Kernel

__all__ = ["LAYER_OF", "NEVER", "Form", "Interval", "Layer", "ProgramLayer"]
__all__ += ["bind", "kernel_of", "serves"]

import_modules(__name__)
if set(Op.__subclasses__()) != set(LAYER_OF):
    raise TypeError(f"ops without a layer: {set(Op.__subclasses__()) - set(LAYER_OF)}")


def serves(graph: Graph, node: Node, form: Form) -> bool:
    """True if a node's layer can work in a form."""
    return LAYER_OF[type(node.op)].working(graph, node, form) is not None


def bind(
    graph: Graph,
    node: Node,
    descending: bool = False,
    columns: int | None = None,
    form: Form = Form.USUAL,
) -> Layer[Any]:
    """The layer of a node, with the tensors it reads and writes, in a direction. columns: of a
    call, all of a row by default. form: one that serves()."""
    kind = LAYER_OF[type(node.op)].working(graph, node, form)
    assert kind is not None, f"{node.kind} cannot be {form}"
    return kind(graph, node, descending, columns, form)


def kernel_of(graph: Graph, layer: Layer[Any]) -> Kernel:
    """The kernel that runs a layer, with its parameters. Raises UserError where a fused activation
    is one too many for it."""
    node = layer.node
    if not node.op.clamps and (node.op.act_min, node.op.act_max) != (INT8_MIN, INT8_MAX):
        reason = "a fused activation is not supported here"
        remedy = "make the activation a layer of its own"
        raise UserError(Problem(reason, remedy, graph.origin, node.name, node.kind))
    return layer.kernel


def bias_warnings(graph: Graph) -> list[Problem]:
    """Nodes whose biases leave int32, or whose sums float32 does not hold. All targets
    compute the same bytes all the same."""
    return [
        Problem(reason, REMEDY, graph.origin, node.name, node.kind)
        for node in graph.nodes
        for biases in [bind(graph, node).biases()]
        if biases is not None
        for reason in biases.reasons()
    ]
