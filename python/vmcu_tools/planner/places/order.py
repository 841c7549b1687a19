# SPDX-License-Identifier: Apache-2.0
"""The execution order whose worst step needs the fewest bytes.

The file's order and a beam search give an order to begin with, whatever the graph. A best-first
search over sets of executed nodes then looks for a better one: the path with the smallest peak so
far is extended first, and none that reaches the best known peak, so that where it ends by itself
nothing smaller exists. A chain has one order and is returned at once. What a step needs is the
bound that Piece.bound gives it, overlap with dying inputs included, so the order is chosen for
the memory model it is then placed in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...graph import Graph, Node
from ...ops import bind
from ...plan.plan import Plan, pool_scratch
from .overlap import clearance

# Rounds of the search: how many sets of one size the beam keeps, and how many steps, from one set
# of executed nodes to the next, the search for something better then may look at. About 400,000
# steps are looked at in a second.
ROUNDS = ((3, 0), (30, 500_000), (100, 0), (300, 1_000_000))
# The most steps that a beam is begun with after all before it; the widest looks at about as many.
MOST_STEPS = 3_000_000


@dataclass(frozen=True)
class Cost:
    """What a node adds to the pool while it runs: its output and scratch, and by input how many
    bytes the output can share with it if it dies here."""

    output: int
    scratch: int
    shared: dict[str, int]

    def bytes(self, alive: int, dying: list[str]) -> int:
        """Pool bytes of the step; alive: of everything alive before it."""
        saved = sum(self.shared[name] for name in dying)
        return self.scratch + max(alive, alive + self.output - saved)


CostOf = Callable[[Graph, Node], Cost]


def cost_of(graph: Graph, node: Node) -> Cost:
    """The cheaper of a node's directions."""
    layer = bind(graph, node)
    layers = [layer] + ([bind(graph, node, True)] if layer.can_descend else [])
    shared: dict[str, int] = {}
    for index, tensor in enumerate(layer.ins):
        best = min(clearance(one, index).footprint(tensor.bytes, layer.out.bytes) for one in layers)
        together = tensor.bytes + layer.out.bytes - best
        shared[tensor.name] = min(shared.get(tensor.name, together), together)
    return Cost(layer.out.bytes, pool_scratch(layer), shared)


def whole_cost(graph: Graph, node: Node) -> Cost:
    """Of whole tensors, as other tools have them: the bytes of the output, or none if the node is
    element-wise and the output can lie on a dying input."""
    size = graph.tensors[node.outputs[0]].bytes
    return Cost(size, 0, dict.fromkeys(node.inputs, size if node.op.elementwise else 0))


class State(NamedTuple):
    """What has been executed: nodes as bits, those that may run next, bytes alive, the most bytes
    that any step needed, and the last node with the state before it."""

    done: int
    ready: int
    alive: int
    peak: int
    last: tuple[State, int] | None = None

    def order(self) -> list[int]:
        """The nodes one after the other."""
        found, state = [], self
        while state.last is not None:
            state, number = state.last
            found.append(number)
        return found[::-1]


@dataclass(frozen=True, eq=False)
class Ordered:
    """A graph with its nodes in the best order found. peak: bytes of the worst step, 0 where there
    is one order only; proven: no order has a smaller one."""

    graph: Graph
    peak: int
    proven: bool

    def noted(self, plan: Plan) -> Plan:
        """A plan in this order, with what a person should know of the search."""
        return replace(plan, notes=(*plan.notes, *self.notes))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the search."""
        if self.proven:
            return ()
        return (
            "The search for an order of execution was cut short: the worst step of the best one "
            f"found needs {self.peak:,} bytes, that of another may need fewer.",
        )


class Searcher:
    """The search over one graph's orders: nodes as bits, tensors' consumers as masks."""

    def __init__(self, graph: Graph, cost: CostOf):
        self.count = len(graph.nodes)
        self.costs = [cost(graph, node) for node in graph.nodes]
        self.kept = {port.tensor for port in graph.outputs}
        sizes = {name: tensor.bytes for name, tensor in graph.tensors.items()}
        producer = {name: n for n, node in enumerate(graph.nodes) for name in node.outputs}
        self.inputs = [tuple(dict.fromkeys(node.inputs)) for node in graph.nodes]
        self.needs = [
            sum({1 << producer[name] for name in names if name in producer})
            for names in self.inputs
        ]
        self.users = dict.fromkeys(graph.tensors, 0)
        for number, names in enumerate(self.inputs):
            for name in names:
                self.users[name] |= 1 << number
        self.sizes = sizes
        # By node what it leaves behind, if anybody wants it, and who waits for it.
        self.left = [
            sum(sizes[name] for name in node.outputs if name in self.kept or self.users[name])
            for node in graph.nodes
        ]
        self.followers = [
            list(_bits(_union(self.users[name] for name in node.outputs))) for node in graph.nodes
        ]
        ports = dict.fromkeys(port.tensor for port in graph.inputs)
        alive = sum(sizes[name] for name in ports if name in self.kept or self.users[name])
        ready = sum(1 << number for number, needs in enumerate(self.needs) if not needs)
        self.start = State(0, ready, alive, 0)
        self.looked_at = 0

    def effect(self, state: State, number: int) -> tuple[int, int]:
        """Peak and bytes alive once a node has run."""
        self.looked_at += 1
        done = state.done | 1 << number
        dying = [
            name
            for name in self.inputs[number]
            if name not in self.kept and not self.users[name] & ~done
        ]
        peak = max(state.peak, self.costs[number].bytes(state.alive, dying))
        return peak, state.alive + self.left[number] - sum(self.sizes[name] for name in dying)

    def after(self, state: State, number: int, effect: tuple[int, int]) -> State:
        """The state once a node has run, to this effect."""
        done = state.done | 1 << number
        ready = state.ready & ~(1 << number)
        for other in self.followers[number]:
            if not self.needs[other] & ~done:
                ready |= 1 << other
        return State(done, ready, effect[1], effect[0], (state, number))

    def settled(self, state: State) -> State:
        """The state once every node has run that raises neither the peak nor what is alive: no
        order is worse for running it now, since whatever runs first instead, later steps find no
        less alive and no more of their inputs dying."""
        again = True
        while again:
            again = False
            for number in _bits(state.ready):
                peak, alive = self.effect(state, number)
                if peak <= state.peak and alive <= state.alive:
                    state, again = self.after(state, number, (peak, alive)), True
        return state

    def steps(self, state: State, below: int) -> Iterator[State]:
        """What may come next, with a peak below `below`."""
        for number in _bits(state.ready):
            effect = self.effect(state, number)
            if effect[0] < below:
                yield self.settled(self.after(state, number, effect))

    def in_order(self, order: Sequence[int]) -> State:
        """The state after all nodes in a given order."""
        state = self.start
        for number in order:
            state = self.after(state, number, self.effect(state, number))
        return state

    def run(self) -> tuple[State, bool]:
        """The best state with all nodes done, and whether nothing smaller exists."""
        best = self.in_order(range(self.count))
        for width, steps in ROUNDS:
            if self.looked_at > MOST_STEPS:
                break
            best = self.beam(width, best)
            best, proven = self.exact(steps, best)
            if proven:
                return best, True
        return best, False

    def beam(self, width: int, best: State) -> State:
        """The best complete order that a beam search finds, if better than `best`, else that: step
        by step the sets with the smallest peak, among those the ones with the fewest bytes
        alive."""
        states = [self.start]
        while any(state.ready for state in states):
            found: dict[int, State] = {}
            for state in states:
                for after in self.steps(state, best.peak) if state.ready else (state,):
                    known = found.get(after.done)
                    if known is None or after.peak < known.peak:
                        found[after.done] = after
            ranked = sorted(found.values(), key=lambda state: (state.peak, state.alive))
            states = ranked[:width]
        return min([*states, best], key=lambda state: state.peak)

    def exact(self, steps: int, best: State) -> tuple[State, bool]:
        """The best complete order, and whether nothing smaller exists; `best` if so many steps do
        not show it."""
        last = self.looked_at + steps
        # Among equal peaks what has fewer nodes left first, then what was found first.
        queue: list[tuple[int, int, int, State]] = [(0, self.count, 0, self.start)]
        seen, pushed = {self.start.done: 0}, 0
        while queue:
            peak, _, _, state = heapq.heappop(queue)
            if not state.ready:
                return state, True
            if self.looked_at > last:
                return best, False
            if seen[state.done] < peak:
                continue
            for after in self.steps(state, best.peak):
                if after.peak < seen.get(after.done, best.peak):
                    seen[after.done] = after.peak
                    pushed += 1
                    left = self.count - after.done.bit_count()
                    heapq.heappush(queue, (after.peak, left, pushed, after))
        return best, True


def _bits(mask: int) -> Iterator[int]:
    """The numbers of a mask's bits, the low before the high."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _union(masks: Iterator[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def reordered(graph: Graph, cost: CostOf = cost_of) -> Ordered:
    """The graph with its nodes in the best order found, the file's where no better one is.

    `cost`: what a step needs, by default with this library's kernels and all their overlap.
    """
    if is_chain(graph):
        return Ordered(graph, 0, True)
    searcher = Searcher(graph, cost)
    best, proven = searcher.run()
    nodes = tuple(graph.nodes[number] for number in best.order())
    return Ordered(replace(graph, nodes=nodes), best.peak, proven)


def is_chain(graph: Graph) -> bool:
    """True if every node needs the one before it, so that there is one order only."""
    pairs = zip(graph.nodes, graph.nodes[1:], strict=False)
    return all(set(before.outputs) & set(after.inputs) for before, after in pairs)
