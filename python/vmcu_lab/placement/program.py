# SPDX-License-Identifier: Apache-2.0
"""Order and offsets of a graph in one integer program: MODeL (arXiv:2210.12924, section 4).

Input: a Dataflow and a sufficient height. Output: Proof. Complexity: exponential; the program has
four conditions for each pair of tensors, and one for each step in which both may exist.

Variables C and P say in which step a tensor is made and in which it is kept; a and b which of two
that exist together is above the other. Of the paper's reductions all that change no optimum are
here: spans, useful and necessary lifetimes (appendix A.1), precedence (A.2), and the pyramid of
preplaced tensors as far as those at its bottom exist all the time. One node runs at each step, so
spans count all that come before and behind, not the longest path to them. It is an option because
the search for an order, and then for offsets, is faster; this proves their result on its own.

Needs pulp, and highspy for HiGHS; the rest of the package needs neither.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from vmcu_tools.child import end, start

from .complaints import InputError, refuse
from .dataflow import Dataflow, Spans, dataflow_of, pyramid
from .graph_files import NamedGraph
from .highs import quieten

SOLVERS = ("highs", "cbc")
# Conditions are written for each pair of tensors at each step: more of them take longer to write
# down than a search takes.
MOST_CONDITIONS = 400_000
# Of the time for a solver in a process of its own, the part that the solver is told.
HANDED_OVER = 0.8
# By how much a solver may miss an integer or a condition.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Proof:
    """The result of a solver: nodes in order, offsets by number of edge; None if nothing is lower
    than before; no order and offsets take fewer bytes than the bound."""

    order: tuple[int, ...] | None
    offsets: dict[int, int]
    bound: int


@dataclass(frozen=True)
class Job:
    """A program to solve: as Program has it, and the solver's name."""

    graph: NamedGraph
    most: int
    solver: str


class Program:
    """The program of a dataflow: nothing takes more than `most` bytes. A class with another
    relation of edges, see ways(), says that they may share bytes."""

    may_share = False

    def __init__(self, flow: Dataflow, most: int):
        import pulp

        self.pulp = pulp
        self.flow, self.most = flow, most
        self.edges, self.spans = flow.edges, Spans(flow)
        pairs = combinations(range(len(self.edges)), 2)
        self.pairs = [pair for pair in pairs if not self.spans.are_disjoint(*pair)]
        conditions = sum(len(self.common_steps(*pair)) for pair in self.pairs)
        if conditions > MOST_CONDITIONS:
            raise refuse(
                flow.origin,
                f"the integer program has {conditions:,} conditions for pairs of tensors, more "
                f"than {MOST_CONDITIONS:,}",
                "leave out --solver",
            )
        self.ilp = self.pulp.LpProblem("joint", self.pulp.LpMinimize)
        self.pool = self.ilp.add_variable("pool", 0, most, self.pulp.LpInteger)
        self.ilp += self.pool
        self.runs = [self._runs(node) for node in range(self.spans.nodes)]
        self.kept = [self._kept(number) for number in range(len(self.edges))]
        self._schedule()
        self.bottom = {} if self.may_share else pyramid(flow, self.spans)
        self.base = [self._base(number) for number in range(len(self.edges))]
        for pair in self.pairs:
            self._separate(*pair)

    def common_steps(self, one: int, other: int) -> range:
        """The steps in which two edges may exist together."""
        a, b = self.spans.useful[one], self.spans.useful[other]
        return range(max(a.start, b.start), min(a.stop, b.stop))

    def binary(self, name: str) -> Any:
        """A new variable of 0 or 1."""
        return self.ilp.add_variable(name, cat=self.pulp.LpBinary)

    def _runs(self, node: int) -> list[Any]:
        """C by step, zero outside the node's span (equation 10); all outputs share it."""
        first, last = self.spans.first[node], self.spans.last[node]
        if first == last:
            return [int(step == first) for step in range(self.spans.nodes)]
        return [
            self.binary(f"C{node}_{step}") if first <= step <= last else 0
            for step in range(self.spans.nodes)
        ]

    def _kept(self, number: int) -> list[Any]:
        """P by step: zero where the edge is of no use, one where it is needed."""
        useful, needed = self.spans.useful[number], self.spans.needed[number]
        start = useful.start if self.edges[number].source < 0 else useful.start + 1
        return [
            1 if step in needed
            else self.binary(f"P{number}_{step}") if step in useful and step >= start
            else 0
            for step in range(self.spans.nodes)
        ]  # fmt: skip

    def live(self, number: int, step: int) -> Any:
        """One where an edge exists at a step."""
        source = self.edges[number].source
        return self.kept[number][step] + (self.runs[source][step] if source >= 0 else 0)

    def _schedule(self) -> None:
        """Equations 1 to 5, one node a step, and the order of nodes."""
        total, steps = self.pulp.lpSum, range(self.spans.nodes)
        for runs in self.runs:
            self.add(total(runs) == 1)
        for step in steps:
            self.add(total(runs[step] for runs in self.runs) == 1)
        for node, others in enumerate(self.flow.tasks.predecessors):
            for other in others:
                for step in range(self.spans.first[node], self.spans.last[node] + 1):
                    done = total(self.runs[other][:step])
                    self.add(total(self.runs[node][: step + 1]) <= done)
        for number, edge in enumerate(self.edges):
            kept = self.kept[number]
            for step in steps:
                self.add(self.live(number, step) <= 1)
                if step:
                    self.add(kept[step] <= self.live(number, step - 1))
                    if edge.is_kept:
                        self.add(kept[step] >= self.live(number, step - 1))
                for sink in edge.sinks:
                    self.add(self.runs[sink][step] <= kept[step])
        for step in () if self.may_share else steps:
            alive = (edge.size * self.live(n, step) for n, edge in enumerate(self.edges))
            self.add(total(alive) <= self.pool)

    def add(self, condition: Any) -> None:
        """Adds a condition, unless it has no variable and holds."""
        if condition is not True:
            self.ilp += condition

    def _base(self, number: int) -> Any:
        """Equation 8, and the known bounds of an edge's address."""
        edge = self.edges[number]
        at = self.bottom.get(number, edge.offset)
        if at is not None:
            self.add(at + edge.size <= self.pool)
            return at
        units = (self.most - edge.size) // edge.alignment
        base = edge.alignment * self.ilp.add_variable(
            f"A{number}", 0, max(units, 0), self.pulp.LpInteger
        )
        self.add(base + edge.size <= self.pool)
        return base

    def ways(self, one: int, other: int) -> list[Any]:
        """Variables, of which one of 1 has two edges share no bytes that both need: here none
        beside the paper's, above and below."""
        return []

    def _separate(self, one: int, other: int) -> None:
        """Equations 6 and 7."""
        below, above = self.binary(f"a{one}_{other}"), self.binary(f"b{one}_{other}")
        first, second, most = self.base[one], self.base[other], self.most
        ways = [below, above, *self.ways(one, other)]
        self.add(self.pulp.lpSum(ways) <= 1)
        self.add(first + self.edges[one].size - second <= most * (1 - below))
        self.add(second + self.edges[other].size - first <= most * (1 - above))
        for step in self.common_steps(one, other):
            both = self.live(one, step) + self.live(other, step)
            self.add(self.pulp.lpSum(ways) >= both - 1)

    def solve(self, solver: str, seconds: float) -> Proof:
        """Solves the program in so many seconds."""
        pulp = self.pulp
        if solver == "highs":
            quieten()
        self.ilp.solve(engine(pulp, solver)(msg=False, threads=1, timeLimit=seconds))
        if self.ilp.sol_status == pulp.LpSolutionInfeasible:
            # Nothing takes `most` bytes or fewer.
            return Proof(None, {}, self.most + 1)
        bound = self.least(solver)
        solved = self.ilp.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
        # pulp also calls the relaxation feasible with which a solver ends that is out of time.
        if not solved or not self.ilp.valid(TOLERANCE):
            return Proof(None, {}, bound)

        def value(what: Any) -> int:
            rounded: int = round(pulp.value(what))
            return rounded

        steps = [
            next(step for step, run in enumerate(runs) if value(run) == 1) for runs in self.runs
        ]
        order = tuple(sorted(range(len(steps)), key=steps.__getitem__))
        offsets = {
            edge.number: value(base) for edge, base in zip(self.edges, self.base, strict=True)
        }
        return Proof(order, offsets, bound)

    def least(self, solver: str) -> int:
        """The bound that the solver has proven, in bytes."""
        if self.ilp.sol_status == self.pulp.LpSolutionOptimal:
            bytes_proven: int = round(self.pulp.value(self.pool))
            return bytes_proven
        if solver != "highs":
            return 0
        proven = self.ilp.solverModel.getInfo().mip_dual_bound
        # A little below: it is a sum of floating point numbers.
        return max(int(-(-(proven - 1e-4) // 1)), 0) if abs(proven) < 1e18 else 0


def solve_within(job: Job, seconds: float) -> Proof | None:
    """Runs a solver for so many seconds; None if it finds nothing. It runs in a process of its own,
    which is ended then: CBC may look at its own time limit only after minutes.

    Raises InputError as Program does.
    """
    process = start(__name__)
    answer = b""
    try:
        answer, _ = process.communicate(pickle.dumps((job, seconds)), seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        end(process)
        process.communicate()
    outcome: Proof | InputError | None = pickle.loads(answer) if answer else None
    if isinstance(outcome, InputError):
        raise outcome
    nothing = outcome is not None and outcome.order is None and outcome.bound <= 0
    return None if nothing else outcome


def serve() -> None:
    """Runs the process of a solver: a pickle comes in, one goes out."""
    begun = time.monotonic()
    job, seconds = pickle.load(sys.stdin.buffer)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answer:
        # The solver's output is no answer.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        outcome: Proof | InputError
        try:
            program = Program(dataflow_of(job.graph), job.most)
            # A part of the time is for handing over the result.
            left = max(HANDED_OVER * seconds - (time.monotonic() - begun), 1.0)
            outcome = program.solve(job.solver, left)
        except InputError as error:
            outcome = error
        pickle.dump(outcome, answer)


def engine(pulp: Any, solver: str) -> Any:
    """pulp's class of a solver."""
    return pulp.HiGHS if solver == "highs" else pulp.PULP_CBC_CMD


def require(solver: str, graph: NamedGraph) -> None:
    """InputError unless a solver can be called."""
    import pulp

    if not engine(pulp, solver)(msg=False).available():
        raise refuse(graph.origin, f"{solver} cannot be called", "pip install pulp[cbc] highspy")
