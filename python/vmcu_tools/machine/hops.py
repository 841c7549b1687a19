# SPDX-License-Identifier: Apache-2.0
"""Hops of a stream whose last layers see each window anew, one after the other.

Those layers write the same bytes of the pool in every hop. In a replay each hop has tensors of its
own for them, so that every byte is known to belong to its hop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..graph import Graph, Node
from ..plan.plan import Plan, Step
from .events import TICKS, Called, Event, events, events_of, planned_calls


@dataclass(frozen=True)
class Copy:
    """A tensor in a hop that is alive as long as `of`, in the first, is: so many ticks later."""

    of: str
    later: int


@dataclass(frozen=True)
class Played:
    """A plan as it is replayed, with the calls in order. answers: tensors that the caller reads
    when a hop is over. hops: by tensor that each hop has one of, their names; copies: those of
    them, by name, that live as others do."""

    plan: Plan
    events: tuple[Event, ...]
    answers: frozenset[str]
    hops: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    copies: Mapping[str, Copy] = field(default_factory=dict)


def played(plan: Plan, calls: Sequence[Sequence[Called]] | None = None) -> Played:
    """calls: by stage, those that emitted tables lead to, in place of those that the plan means."""
    if plan.graph.state.unbounded_nodes:
        return _Player(plan, calls).run()
    answers = frozenset({plan.graph.outputs[0].tensor} if plan.graph.state.step_rows else ())
    return Played(plan, tuple(events(plan, calls)), answers)


class _Player:
    def __init__(self, plan: Plan, calls: Sequence[Sequence[Called]] | None):
        self.plan, self.graph = plan, plan.graph
        numbers = range(len(plan.stages))
        self.calls = calls or [list(planned_calls(plan, number)) for number in numbers]
        self.behind = plan.stages[1:]
        self.hops = list(self._hops())
        nodes = self.graph.nodes[self.graph.state.unbounded_nodes :]
        own = [name for node in nodes for name in node.outputs]
        self.names = {
            name: tuple(f"{name} in hop {number}" for number in range(len(self.hops)))
            for name in own
        }

    def run(self) -> Played:
        numbers = range(len(self.hops))
        stages = [self.plan.stages[0]]
        stages += [self._steps(stage, number) for number in numbers for stage in self.behind]
        first, *others = self.plan.progress
        graph = self._graph(stages)
        plan = replace(
            self.plan,
            graph=graph,
            stages=tuple(stages),
            placements=dict(self._each(self.plan.placements, "tensor")),
            progress=(first, *(others * len(self.hops))),
        )
        outs = {port.tensor for port in self.graph.outputs}
        answers = frozenset(at for name in outs for at in self.names[name])
        starts: list[int] = []
        events = tuple(self._events(plan, starts))
        copies = {
            at: Copy(names[0], (starts[number] - starts[0]) * TICKS)
            for name, names in self.names.items()
            if name not in outs
            for number, at in enumerate(names[1:], 1)
        }
        return Played(plan, events, answers, self.names, copies)

    def _hops(self) -> Iterator[Sequence[Called]]:
        """The calls of the stage that never ends, up to where its last layer ends a row."""
        start, last = 0, self.plan.stages[0][-1]
        for number, (step, layer, call) in enumerate(self.calls[0], 1):
            if step is last and layer is not None and call.x + call.columns == layer.width:
                yield self.calls[0][start:number]
                start = number

    def _graph(self, stages: Sequence[Sequence[Step]]) -> Graph:
        nodes = tuple(step.node for stage in stages for step in stage)
        last = tuple(
            replace(port, tensor=self.names[port.tensor][-1]) for port in self.graph.outputs
        )
        tensors = dict(self._each(self.graph.tensors, "name"))
        return replace(self.graph, tensors=tensors, nodes=nodes, outputs=last)

    def _each(self, entries: Mapping[str, Any], label: str) -> Iterator[tuple[str, Any]]:
        """Yields each entry by tensor, with those of all hops; label: the field with a tensor's
        name."""
        for name, one in entries.items():
            for at in self.names.get(name, (name,)):
                yield at, one if at == name else replace(one, **{label: at})

    def _steps(self, stage: Sequence[Step], number: int) -> tuple[Step, ...]:
        return tuple(replace(step, node=self._node(step.node, number)) for step in stage)

    def _node(self, node: Node, number: int) -> Node:
        before = node.op.previous_step_input(node.inputs)
        ins = tuple(self._name(name, number - (name == before)) for name in node.inputs)
        outs = tuple(self._name(name, number) for name in node.outputs)
        return replace(node, op=node.op.at_step(number), inputs=ins, outputs=outs)

    def _name(self, name: str, number: int) -> str:
        """A tensor in a hop; nobody reads one of the hop before the first."""
        return self.names[name][max(number, 0)] if name in self.names else name

    def _events(self, plan: Plan, starts: list[int]) -> Iterator[Event]:
        """starts: gets, by hop, the first call behind the stage that never ends."""
        number, many = 0, len(self.behind)
        for hop, calls in enumerate(self.hops):
            for event in events_of(0, calls, number):
                # All hops are one run of the stage.
                begins, over = event.first and hop == 0, event.last and hop == len(self.hops) - 1
                yield replace(event, first=begins, last=over)
            number += len(calls)
            starts.append(number)
            for index in range(many):
                at = 1 + hop * many + index
                here = self._renewed(plan, index, at)
                yield from events_of(at, here, number)
                number += len(here)

    def _renewed(self, plan: Plan, index: int, at: int) -> list[Called]:
        """The calls of a stage behind, with the layers of stage `at`."""
        steps = plan.stages[at]
        layers = [step.bind(plan.graph) for step in steps]
        places = {id(step): place for place, step in enumerate(self.behind[index])}
        calls: list[Called] = []
        for step, _, call in self.calls[1 + index]:
            place = places[id(step)]
            calls.append((steps[place], layers[place], call))
        return calls
