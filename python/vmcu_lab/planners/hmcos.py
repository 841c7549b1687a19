# SPDX-License-Identifier: Apache-2.0
"""HMCOS: the order with the smallest peak, tensors whole, nothing in place but element-wise ops.

The order is found over sets of executed nodes, as the paper does it once its hierarchy has made the
graph small (Wang et al., "Hierarchical Memory-Constrained Operator Scheduling of Neural
Architecture Search Networks", DAC 2022). The vMCU paper compares itself with it. A tensor lives
from the step that writes it to the last that reads it; an element-wise op writes over an input that
dies. Placement, of which that paper says nothing, is the lowest found, usually the peak itself.
"""

from __future__ import annotations

from collections.abc import Callable

from vmcu_tools.graph import Graph, Node
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.places.lifetimes import lifetimes
from vmcu_tools.planner.places.order import reordered, whole_cost
from vmcu_tools.planner.places.overlap import Clearance
from vmcu_tools.planner.places.pieces import Live, Piece, Way
from vmcu_tools.planner.places.smallest_pool import smallest_found

from .foreign import ElementwiseLayer, ForeignLayer, foreign_plan
from .sharing import bases_of, buffers_of

Heir = Callable[[Node], str | None]


def heir(graph: Graph, node: Node) -> str | None:
    """The first input that dies in an element-wise op."""
    if not node.op.elementwise:
        return None
    lives, step = lifetimes(graph), graph.nodes.index(node)
    return next((name for name in node.inputs if lives[name].last == step), None)


def bases_in(graph: Graph, heir: Heir) -> tuple[dict[str, int], int]:
    """Base addresses and the pool's bytes."""
    buffers = buffers_of(graph, heir)
    pieces = []
    for number, one in enumerate(buffers):
        live = tuple(
            Live(str(other), before.size, Clearance.apart(before.size, one.size))
            for other, before in enumerate(buffers[:number])
            if before.life.overlaps(one.life)
        )
        pieces.append(Piece(str(number), one.size, one.size, (Way(False, live),), True))
    placement = smallest_found(pieces, max(piece.bound() for piece in pieces))
    return bases_of(buffers, [placement.bases[piece.name] for piece in pieces]), placement.pool


def plan(graph: Graph) -> Plan:
    """The plan in bytes as HMCOS's paper counts them: tensors, without scratch."""
    order = reordered(graph, whole_cost)
    graph = order.graph
    bases, pool = bases_in(graph, lambda node: heir(graph, node))

    def kernel_of(node: Node) -> type[ForeignLayer]:
        in_place = any(bases[name] == bases[node.outputs[0]] for name in node.inputs)
        return ElementwiseLayer if in_place else ForeignLayer

    return order.noted(foreign_plan("hmcos", graph, bases, pool, kernel_of))
