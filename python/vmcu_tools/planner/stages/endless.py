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

from ...errors import Problem, UserError
from ...graph import Graph
from ...passes.moving import OPTION, moving
from ...plan.plan import MOST_CALLS, Plan
from ...plan.turns import turns_of
from ..options import Options
from ..places.hops import in_hop
from ..places.layout import Cut, Layout
from ..places.swing import place
from .costs import extra_cost
from .cuts import TILES

MOST_HOPS = 4096


def plan(graph: Graph, options: Options) -> Plan:
    """The smallest pool for a graph whose window moves by options.hop rows, at equal size the
    fewest cycles by estimate. Its graph has so many hops that every ring has turned around.

    Raises UserError where the graph has no such plan.
    """
    height = graph.tensors[graph.inputs[0].tensor].shape[0] if graph.inputs else 1
    few = moving(graph, options.hop, -(-height // max(options.hop, 1)) + 2)
    found = [_placed(few, cut, options) for cut in _cuts(few)]
    best = min(found, key=lambda one: (one.pool_bytes, _cost(one)))
    return replace(_tall(best, graph, options.hop), original=graph)


def _cuts(graph: Graph) -> list[Cut]:
    wide = any(tensor.shape[1] > 1 for tensor in graph.tensors.values())
    tiles = TILES if wide else TILES[:1]
    return [Cut(0, len(graph.nodes), tile, direct) for tile in tiles for direct in (False, True)]


def _placed(graph: Graph, cut: Cut, options: Options) -> Plan:
    layout = Layout(graph, (cut,), streamed=True)
    trace = layout.groups[0].trace
    assert trace is not None
    kept = tuple(
        tensor.name
        for number, tensor in enumerate(trace.tensors)
        if trace.homes[number].owner == number and in_hop(trace, number)[1] is None
    )
    return replace(place("vmcu", layout, options.seconds), kept=kept)


def _cost(plan: Plan) -> float:
    return sum(extra_cost(step.bind(plan.graph)) for step in plan.steps)


def _tall(plan: Plan, graph: Graph, hop: int) -> Plan:
    """The plan with as many hops as it takes for every layer's count to start over, and one more."""
    turns = turns_of(plan)
    rows = plan.graph.tensors[plan.graph.inputs[0].tensor].shape[0]
    hops = 1 + max(
        math.ceil(turn * every / hop) for turn, every in zip(turns.rows, turns.every, strict=True)
    )
    hops += -(-rows // hop)
    tall = moving(graph, hop, hops)
    most = max(tensor.shape[0] * tensor.shape[1] for tensor in tall.tensors.values())
    if hops > MOST_HOPS or most > MOST_CALLS:
        raise UserError(
            Problem(
                f"its rings come round together after {hops} hops only, the most is {MOST_HOPS}",
                f"change the length of a window by one, or leave out {OPTION}",
                graph.origin,
            )
        )
    nodes = iter(tall.nodes)
    stages = tuple(tuple(replace(step, node=next(nodes)) for step in s) for s in plan.stages)
    return replace(plan, graph=tall, stages=stages)
