# SPDX-License-Identifier: Apache-2.0
"""Plans for a window that moves along time: all layers in one stage that never ends.

What the next position of the window needs stays in the rings of the stage's tensors. Each ring has
bytes of its own: rings turn at different speeds, so that sooner or later every byte of one is alive
with every byte of another. Only outputs in place of pixels that are dead by then share a ring, and
turn with it (places/in_place.py).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import Problem, UserError
from ...graph import Graph
from ...ops import Form, Layer, bind
from ...passes.state.options import HOP_OPTION
from ...passes.state.streaming import expand_steps, unbounded_part
from ...passes.state.transpose import transpose_rows
from ...plan.plan import MOST_CALLS, Plan, pool_scratch
from ...plan.turns import turns_of
from ..options import CompileOptions
from ..params import TILES
from ..places.hops import in_hop
from ..places.layout import Binder, Cut, Layout
from ..places.smallest_pool import linear, place
from .costs import extra_cost
from .windows import planned as behind

MOST_HOPS = 4096


def plan(graph: Graph, options: CompileOptions) -> Plan:
    """The smallest pool for a graph whose window moves by options.hop rows, at equal size the
    fewest cycles by estimate. Its graph has so many hops that every ring has turned around.

    Raises UserError where the graph has no such plan.
    """
    # Of an image, rows that are the only ones are those of a hop and no sequence.
    if not graph.state.names and 1 in graph.tensors[graph.inputs[0].tensor].shape[:2]:
        graph = transpose_rows(graph)
    few = expand_steps(graph, options.hop, _enough(graph, options.hop))
    unbounded = unbounded_part(few) if few.state.unbounded_nodes else few
    plans = [_placed(unbounded, cut, few.state.unbounded_nodes > 0) for cut in _cuts(unbounded)]
    best = min(plans, key=lambda one: (one.pool_bytes, _cost(one)))
    if few.state.unbounded_nodes:
        best = behind(few, best)
    return _tall(best, graph, options.hop)


def _enough(graph: Graph, hop: int) -> int:
    """Hops after which all are alike: no ring holds anything of the first any more."""
    if graph.state.recurrent:
        # Layers of one call see nothing of the others.
        return 4
    height = graph.tensors[graph.inputs[0].tensor].shape[0]
    seen = sum(_rows_seen(bind(graph, node)) for node in graph.nodes)
    return (seen if graph.state.names else -(-height // max(hop, 1))) + 3


def _rows_seen(layer: Layer[Any]) -> int:
    """The most rows of an input that one row is made of, about."""
    reaches = (layer.reach(index) for index in range(len(layer.ins)))
    return max(reach.before[0] + reach.after[0] for reach in reaches) + 1


def _cuts(graph: Graph) -> list[Cut]:
    wide = any(tensor.shape[1] > 1 for tensor in graph.tensors.values())
    tiles = TILES if wide else TILES[:1]
    binder, count = Binder(graph), len(graph.nodes)
    able = [number for number in range(count) if binder.serves(number, Form.DIRECT)]
    return [
        Cut(0, count, tile, direct)
        for tile in tiles
        for direct in sorted({0, *(pool_scratch(binder.layer(number, tile)) for number in able)})
    ]


def _placed(graph: Graph, cut: Cut, straight: bool) -> Plan:
    """A plan in a pool whose end tensors may reach around, if not `straight`."""
    layout = Layout(graph, (cut,), streamed=True)
    trace = layout.groups[0].trace
    assert trace is not None
    kept = tuple(
        tensor.name
        for number, tensor in enumerate(trace.tensors)
        if in_hop(trace, trace.homes[number].owner)[1] is None
    )
    placed = linear if straight else place
    return replace(placed("vmcu", layout), kept=kept)


def _cost(plan: Plan) -> float:
    return sum(extra_cost(step.bind(plan.graph)) for step in plan.steps)


def _tall(plan: Plan, graph: Graph, hop: int) -> Plan:
    """The plan with as many hops as it takes for every layer's count to start over, and more."""
    turns = turns_of(plan)
    rows = plan.graph.tensors[plan.graph.inputs[0].tensor].shape[0]
    again = (turn + start for turn, start in zip(turns.rows, turns.starts, strict=True))
    hops = 1 + max(
        math.ceil(row * every / hop) for row, every in zip(again, turns.every, strict=True)
    )
    hops = max(hops, turns.source // hop + 1)
    hops += -(-rows // hop)
    taller = over(replace(plan, original=graph), hop, hops)
    most = max(tensor.shape[0] * tensor.shape[1] for tensor in taller.graph.tensors.values())
    if hops > MOST_HOPS or most > MOST_CALLS:
        raise UserError(
            Problem(
                f"the line buffers return to their first position only after {hops} hops; the "
                f"maximum is {MOST_HOPS}",
                f"change the length of a window by one, or leave out {HOP_OPTION}",
                graph.origin,
            )
        )
    return taller


def over(plan: Plan, hop: int, hops: int) -> Plan:
    """The same plan, of which so many hops are looked at."""
    tall = expand_steps(plan.model, hop, hops)
    nodes = iter(tall.nodes)
    first, *others = plan.stages
    first = tuple(replace(step, node=next(nodes)) for step in first)
    if tall.state.unbounded_nodes:
        # Layers of one window are what they were, in the order of the plan.
        behind = tuple(step.node for stage in others for step in stage)
        tall = replace(tall, nodes=(*tall.nodes[: tall.state.unbounded_nodes], *behind))
    return replace(plan, graph=tall, stages=(first, *others))


def hops_in(plan: Plan, rows: int) -> int:
    """The answers to so many rows of a stream."""
    window = plan.model.tensors[plan.model.inputs[0].tensor].shape[0]
    return (rows - window) // plan.graph.state.step_rows + 1


def over_rows(plan: Plan, rows: np.ndarray) -> tuple[Plan, np.ndarray]:
    """The same plan for all hops of a stream, int8 (rows, W, C), and the rows that they need."""
    tall = over(plan, plan.graph.state.step_rows, hops_in(plan, len(rows)))
    return tall, rows[: tall.graph.tensors[tall.graph.inputs[0].tensor].shape[0]]
