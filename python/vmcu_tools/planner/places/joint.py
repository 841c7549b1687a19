# SPDX-License-Identifier: Apache-2.0
"""Order and placement in one integer program: MODeL (section 4), with a third relation.

Creation and preservation variables C and P say when each tensor exists, above and below variables
a and b keep tensors apart that exist together, and the pool bounds them all. Added here: a layer's
output may instead overlap an input that dies in it, at a distance its order of access allows in
the direction it runs. Spans from ASAP and ALAP, the MUL and PRES ranges and the precedence test
of appendix A fix or drop what the structure of the graph already decides. Exactly one node runs
at each step, so that "dies in it" is well defined.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ... import progress
from ...graph import Graph
from ...ops import bind
from ...placement.highs import quieten
from ...plan.plan import SCRATCH_ALIGN, Plan, pool_scratch
from . import smallest_pool

# OR-tools and highspy, which pulp loads where it is installed, both bring HiGHS along: only in this
# order do their libraries get along.
from .constraints import cp_model  # noqa: F401
from .layout import Layout
from .order import Ordered, reordered, whole_cost
from .overlap import Clearance, clearance
from .pieces import pieces_of
from .sequential import SequentialPlacement, plan_of

import pulp as pulp  # isort: skip

Variable = Any
# The program of a larger graph takes longer to write down than a planner may take.
MOST_NODES = 24
# By how much a solver may miss an integer or a condition.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Edge:
    """A tensor: `source` node (-1: there from the start), `sinks` nodes, `kept` to the end, at a
    multiple of `align` bytes."""

    name: str
    size: int
    source: int
    sinks: tuple[int, ...]
    kept: bool
    align: int = 1


@dataclass(frozen=True)
class Overlap:
    """`source` may share bytes with `target`, which a node makes of it, in one direction."""

    source: str
    target: str
    descending: bool
    clearance: Clearance


@dataclass(frozen=True)
class Dataflow:
    """Nodes are numbered; edges by name."""

    nodes: int
    edges: dict[str, Edge]
    overlaps: tuple[Overlap, ...]


def problem_of(graph: Graph) -> Dataflow:
    """A graph's tensors, scratch tiles and safe overlaps."""
    producer = {name: n for n, node in enumerate(graph.nodes) for name in node.outputs}
    kept = {port.tensor for port in graph.outputs}
    edges: dict[str, Edge] = {}
    for name, tensor in graph.tensors.items():
        sinks = tuple(n for n, node in enumerate(graph.nodes) if name in node.inputs)
        edges[name] = Edge(name, tensor.bytes, producer.get(name, -1), sinks, name in kept)
    overlaps = []
    for number, node in enumerate(graph.nodes):
        for descending in (False, True):
            if descending and not bind(graph, node).can_descend:
                continue
            layer = bind(graph, node, descending)
            for name in dict.fromkeys(node.inputs):
                safe = [clearance(layer, i) for i, n in enumerate(node.inputs) if n == name]
                worst = Clearance(max(c.below for c in safe), min(c.above for c in safe))
                overlaps.append(Overlap(name, layer.out.name, descending, worst))
        scratch = pool_scratch(bind(graph, node))
        if scratch:
            label = scratch_name(node.outputs[0])
            edges[label] = Edge(label, scratch, number, (), False, SCRATCH_ALIGN)
    return Dataflow(len(graph.nodes), edges, tuple(overlaps))


def scratch_name(output: str) -> str:
    """The edge that stands for the scratch of the node with this output."""
    return f"scratch of {output}"


class Spans:
    """When nodes can run and tensors can, or must, exist."""

    def __init__(self, problem: Dataflow):
        self.problem = problem
        before: list[set[int]] = [set() for _ in range(problem.nodes)]
        for edge in problem.edges.values():
            for sink in edge.sinks:
                if edge.source >= 0:
                    before[sink].add(edge.source)
        self.ancestors = [self._closure(n, before) for n in range(problem.nodes)]
        after = [sum(n in a for a in self.ancestors) for n in range(problem.nodes)]
        self.asap = [len(a) for a in self.ancestors]
        self.alap = [problem.nodes - 1 - count for count in after]

    @staticmethod
    def _closure(node: int, before: list[set[int]]) -> set[int]:
        found: set[int] = set()
        todo = list(before[node])
        while todo:
            one = todo.pop()
            if one not in found:
                found.add(one)
                todo += before[one]
        return found

    def span(self, edge: Edge) -> range:
        """Steps in which the tensor can be created."""
        return range(self.asap[edge.source], self.alap[edge.source] + 1)

    def mul(self, edge: Edge) -> range:
        """Maximum useful lifetime (equation 11)."""
        start = 0 if edge.source < 0 else self.asap[edge.source]
        if edge.kept:
            return range(start, self.problem.nodes)
        ends = [self.alap[sink] for sink in edge.sinks] or [self.alap[edge.source]]
        return range(start, max(ends) + 1)

    def pres(self, edge: Edge) -> range:
        """Steps in which the tensor must be preserved (equation 12)."""
        start = 0 if edge.source < 0 else self.alap[edge.source] + 1
        stops = [self.asap[sink] + 1 for sink in edge.sinks]
        return range(start, self.problem.nodes if edge.kept else max(stops, default=start))

    def never_together(self, one: Edge, other: Edge) -> bool:
        """Precedence (appendix A.2), or lifetimes that cannot meet."""
        first, second = self.mul(one), self.mul(other)
        if first.stop <= second.start or second.stop <= first.start:
            return True
        return self._precedes(one, other) or self._precedes(other, one)

    def _precedes(self, one: Edge, other: Edge) -> bool:
        """All sinks of `one` run before the source of `other`."""
        if one.kept or not one.sinks or other.source < 0:
            return False
        return all(sink in self.ancestors[other.source] for sink in one.sinks)


class IntegerProgram:
    """The integer program of a problem; no pool is smaller than `least`, and `most` suffices."""

    def __init__(self, problem: Dataflow, least: int, most: int):
        self.problem, self.spans, self.least, self.most = problem, Spans(problem), least, most
        self.ilp = pulp.LpProblem("joint", pulp.LpMinimize)
        self.pool = self.integer("pool", least, most)
        self.ilp += self.pool
        self.runs: dict[int, list[Variable]] = {}
        self.created = {name: self._created(edge) for name, edge in problem.edges.items()}
        self.kept = {name: self._preserved(edge) for name, edge in problem.edges.items()}
        self.base: dict[str, pulp.LpVariable] = {}
        self.turned = {n: self.binary(f"d{n}") for n in range(problem.nodes)}
        self._schedule()
        self._place()

    def binary(self, name: str) -> pulp.LpVariable:
        """A new variable of 0 or 1."""
        return self.ilp.add_variable(name, cat=pulp.LpBinary)

    def integer(self, name: str, low: int, high: int) -> pulp.LpVariable:
        """A new variable from `low` to `high`."""
        return self.ilp.add_variable(name, low, high, pulp.LpInteger)

    def _created(self, edge: Edge) -> list[Variable]:
        """C, zero outside the source's span; siblings of a node share its variables."""
        if edge.source < 0:
            return [0] * self.problem.nodes
        span = self.spans.span(edge)
        if edge.source not in self.runs:
            self.runs[edge.source] = [
                self.binary(f"C{edge.source}_{s}") if s in span else 0
                for s in range(self.problem.nodes)
            ]
        return self.runs[edge.source]

    def _preserved(self, edge: Edge) -> list[Variable]:
        """P, zero outside MUL and one inside PRES."""
        mul, pres = self.spans.mul(edge), self.spans.pres(edge)
        number = list(self.problem.edges).index(edge.name)
        return [
            1 if s in pres else self.binary(f"P{number}_{s}") if s in mul else 0
            for s in range(self.problem.nodes)
        ]

    def live(self, name: str, step: int) -> Any:
        """1 where an edge exists at a step, else 0: MODeL's C + P."""
        return self.created[name][step] + self.kept[name][step]

    def _schedule(self) -> None:
        """Equations 1 to 4, and one node a step."""
        steps = range(self.problem.nodes)
        for node in steps:
            self.ilp += pulp.lpSum(self.runs.get(node, [1])) == 1
        for step in steps:
            self.ilp += pulp.lpSum(runs[step] for runs in self.runs.values()) == 1
        for name, edge in self.problem.edges.items():
            made, kept = self.created[name], self.kept[name]
            for step in steps:
                self.ilp += made[step] + kept[step] <= 1
                if step:
                    self.ilp += kept[step] <= kept[step - 1] + made[step - 1]
                    if edge.kept:
                        self.ilp += kept[step] >= kept[step - 1] + made[step - 1]
                elif edge.source >= 0:
                    self.ilp += kept[step] <= 0
                for sink in edge.sinks:
                    self.ilp += self.runs[sink][step] <= kept[step]

    def _place(self) -> None:
        """Equations 6 to 8 with the third relation."""
        edges = list(self.problem.edges.values())
        for number, edge in enumerate(edges):
            self.base[edge.name] = self.integer(f"A{number}", 0, self.most - edge.size)
            self.ilp += self.base[edge.name] + edge.size <= self.pool
            if edge.align > 1:
                units = self.integer(f"U{number}", 0, self.most // edge.align)
                self.ilp += self.base[edge.name] == edge.align * units
        together: dict[tuple[str, str], list[Overlap]] = {}
        for overlap in self.problem.overlaps:
            together.setdefault((overlap.source, overlap.target), []).append(overlap)
        for i, one in enumerate(edges):
            for j, other in enumerate(edges[i + 1 :], i + 1):
                if self.spans.never_together(one, other):
                    continue
                pair = (one.name, other.name)
                overlaps = together.get(pair, []) + together.get(pair[::-1], [])
                self._apart(f"{i}_{j}", one, other, overlaps)

    def _apart(self, label: str, one: Edge, other: Edge, overlaps: list[Overlap]) -> None:
        below, above = self.binary(f"a{label}"), self.binary(f"b{label}")
        first, second = self.base[one.name], self.base[other.name]
        slack = 2 * self.most
        self.ilp += first + one.size - second <= slack * (1 - below)
        self.ilp += first - second - other.size >= -slack * (1 - above)
        ways = [below, above]
        for number, overlap in enumerate(overlaps):
            ways += self._overlapped(f"{label}_{number}", overlap)
        for step in range(self.problem.nodes):
            both = self.live(one.name, step) + self.live(other.name, step)
            self.ilp += pulp.lpSum(ways) >= both - 1
        self.ilp += pulp.lpSum(ways) <= 1

    def _overlapped(self, label: str, overlap: Overlap) -> list[pulp.LpVariable]:
        """Two variables: the output trails below the input, or lies above it."""
        source = self.problem.edges[overlap.source]
        if source.kept:
            return []
        node = self.problem.edges[overlap.target].source
        distance = self.base[overlap.source] - self.base[overlap.target]
        slack = 2 * self.most
        trails, leads = self.binary(f"o{label}b"), self.binary(f"o{label}a")
        self.ilp += distance >= overlap.clearance.below - slack * (1 - trails)
        self.ilp += distance <= overlap.clearance.above + slack * (1 - leads)
        turned = self.turned[node]
        for way in (trails, leads):
            self.ilp += way <= (turned if overlap.descending else 1 - turned)
            for step in range(self.problem.nodes - 1):
                # Only if the input is not preserved after the step that reads it.
                made = self.created[overlap.target][step]
                self.ilp += way <= 2 - made - self.kept[overlap.source][step + 1]
        return [trails, leads]

    def solve(self, seconds: float) -> bool:
        """True if there is a solution, perhaps not the best."""
        with progress.clock("integer program", seconds) as watch:
            watch(self.least, self.most)
            self.ilp.solve(solver(seconds))
        solved = self.ilp.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
        # pulp also calls the relaxation feasible with which a solver ends that is out of time.
        return solved and bool(self.ilp.valid(TOLERANCE))

    def order(self) -> list[int]:
        """Nodes by step."""

        def step(node: int) -> int:
            return next(s for s, v in enumerate(self.runs[node]) if round(pulp.value(v)) == 1)

        return sorted(range(self.problem.nodes), key=step)


def solver(seconds: float | None = None) -> pulp.LpSolver:
    """HiGHS where its Python package is installed, else the CBC that comes with pulp."""
    highs = pulp.HiGHS(msg=False, threads=1, timeLimit=seconds)
    if highs.available():
        quieten()
        return highs
    return pulp.PULP_CBC_CMD(msg=False, threads=1, timeLimit=seconds)


def plan(graph: Graph, seconds: float) -> Plan:
    """The best of three: placed in the order with the smallest bound, placed in the order that is
    best for whole tensors, whose overlap may be easier to have, and the integer program's."""
    order = reordered(graph)
    known = placed(order, seconds)
    if known.pool_bytes > smallest_pool.least(known):
        whole = reordered(graph, whole_cost)
        if whole.graph.nodes != order.graph.nodes:
            other = placed(whole, seconds, known.pool_bytes)
            known = min(known, other, key=lambda plan: plan.pool_bytes)
    most = known.pool_bytes
    if most <= smallest_pool.least(known) or len(graph.nodes) > MOST_NODES:
        return known
    problem = problem_of(graph)
    program = IntegerProgram(problem, 0, most)
    if not program.solve(seconds) or round(pulp.value(program.pool)) >= most:
        return known
    return plan_from(graph, program)


def placed(order: Ordered, seconds: float, below: int | None = None) -> Plan:
    """The plan of an order, its places found by the walk and its solvers in `seconds`. below: as
    smallest_pool.packed() has it."""
    layout = Layout.singles(order.graph)
    return order.noted(smallest_pool.place("model", layout, seconds, below))


def plan_from(graph: Graph, program: IntegerProgram) -> Plan:
    """The plan of a solved program."""
    ordered = replace(graph, nodes=tuple(graph.nodes[n] for n in program.order()))
    search = SequentialPlacement(
        pieces_of(ordered, both_ways=True), round(pulp.value(program.pool)), False
    )
    for piece in search.pieces:
        name = piece.name
        search.bases[name] = round(pulp.value(program.base[name]))
        source = program.problem.edges[name].source
        # Of a direction that nothing depends on there is no value.
        down = source >= 0 and pulp.value(program.turned[source])
        search.descending[name] = bool(down) and round(down) == 1
        if piece.scratch:
            search.scratch[name] = round(pulp.value(program.base[scratch_name(name)]))
    bound = max(piece.bound() for piece in search.pieces)
    return plan_of("model", ordered, search, bound)
