# SPDX-License-Identifier: Apache-2.0
"""Plans for a window that moves along time where some layers want all of it anew for each hop.

The layers that go on and on are a stage that never ends (unbounded.py); those behind it are planned
as any other model whose input lies outside of its memory: they look back at rows that the stage
keeps. All bytes of the stage together are one piece, which no other layer may touch.
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import PlanError
from ...graph import Graph, Node, Port, Tensor
from ...ops.fetch import Fetch
from ...plan.plan import SCRATCH_ALIGN, Placement, Plan, Step
from ..options import CompileOptions
from ..places.order import reordered
from ..places.widen import widened
from .fusion import best_of_variants

STATE = "what the stage that never ends keeps"


def planned(tall: Graph, front: Plan) -> Plan:
    """The plan of a graph whose first nodes go on and on as `front` has them, in a pool whose end
    nothing reaches around."""
    states = tall.stored_states
    size = front.pool_bytes + sum(tall.tensors[name].bytes for name in states.values())
    rest = widened(best_of_variants(_behind(tall, size), CompileOptions()))
    state = rest.placements[STATE].base
    if state % SCRATCH_ALIGN:
        raise PlanError(f"{STATE} begins at byte {state}, where no scratch can")
    return _joined(tall, front, rest, state)


def _behind(tall: Graph, state: int) -> Graph:
    """The layers of one window as a graph whose windows lie elsewhere, with so many bytes that are
    the stage's in front."""
    states = tall.stored_states
    layers = [
        node
        for node in tall.nodes[tall.state.unbounded_nodes :]
        if node.outputs[0] not in states.values()
    ]
    nodes = [_fetching(node) for node in layers]
    within = {name for node in nodes for name in (*node.inputs, *node.outputs)}
    windows = {node.op.fetches for node in nodes if node.op.fetches}
    tensors = {STATE: Tensor(STATE, (1, 1, state), 1.0, 0)} | {
        name: tensor for name, tensor in tall.tensors.items() if name in within | windows
    }
    held = Port(STATE, STATE, (1, 1, 1, state), "int8")
    ports = tuple(Port(name, name, (1,), "int8") for name in sorted(windows))
    # They are copied when all else is done.
    made = tuple(Port(name, name, (1,), "int8") for name in states)
    graph = replace(
        tall,
        tensors=tensors,
        nodes=tuple(nodes),
        inputs=(held, *ports),
        outputs=(held, *tall.outputs, *made),
        elsewhere=frozenset(windows),
        aligned=frozenset([STATE]),
        state=replace(tall.state, step_rows=0, unbounded_nodes=0),
    )
    return reordered(graph).graph


def _fetching(node: Node) -> Node:
    """A node that looks back, as one that fetches what lies elsewhere."""
    source = node.op.window_source(node.inputs)
    return replace(node, op=Fetch(source), inputs=()) if source else node


def _joined(tall: Graph, front: Plan, rest: Plan, state: int) -> Plan:
    """Both as one plan, the stage's bytes from byte `state` on."""
    steps = len(front.steps)
    placements = {
        name: replace(one, base=state + one.base) for name, one in front.placements.items()
    }
    placements |= {
        name: replace(one, first=one.first + steps, last=one.last + steps)
        for name, one in rest.placements.items()
        if name != STATE
    }
    nodes = {node.outputs[0]: node for node in tall.nodes}
    behind = tuple(
        tuple(replace(step, node=nodes[step.node.outputs[0]]) for step in stage)
        for stage in rest.stages
    )
    end, last = state + front.pool_bytes, len(rest.steps) + steps - 1
    for name in tall.stored_states.values():
        last += 1
        behind = (*behind, (Step(nodes[name]),))
        size = tall.tensors[name].bytes
        placements[name] = Placement(name, end, size, last, last)
        end += size
    ahead = tuple(replace(s, scratch=s.scratch + state) for s in front.stages[0])
    ordered = (
        *tall.nodes[: tall.state.unbounded_nodes],
        *(step.node for stage in behind for step in stage),
    )
    return replace(
        rest,
        planner=front.planner,
        graph=replace(tall, nodes=ordered),
        stages=(ahead, *behind),
        placements=placements,
        input_streamed=True,
        taken=front.taken,
        progress=(front.progress[0] + state, *rest.progress, *(0,) * len(tall.stored_states)),
        kept=(*front.kept, *tall.stored_states.values()),
        saved=(state, end - state),
    )
