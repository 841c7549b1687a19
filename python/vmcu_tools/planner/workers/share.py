# SPDX-License-Identifier: Apache-2.0
"""A plan for two workers, from one for one."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import Problem, UserError
from ...graph import Graph, Node
from ...ops import bind
from ...ops.concat import ConcatLayer
from ...passes.split_channels import divisible, halved
from ...plan.plan import Plan
from ...plan.workers import OWN_SCRATCH, Team
from ..options import CompileOptions
from ..registry import make_plan
from .assign import assigned
from .conflicts import dependencies
from .pieces import TASK_CYCLES, CallCut, CallPiece, cycles_alone, pieces_of
from .slack import is_sound, slackened

# The most bytes of the second worker's scratch and of longer ring buffers, of the pool's.
MORE_RAM = 0.1
# The least gain that is worth bytes, or layers in two parts, of one worker's cycles.
LEAST_GAIN = 0.02
CUT = CallCut(2, 1.1)
# Pieces of all plans that are tried, after which the search ends: some seconds.
MOST_PIECES = 12_000
MOST_TASKS = 2**16 - 1


def plan_shared(graph: Graph, options: CompileOptions) -> Plan:
    """A plan with each worker's tasks, in which workers share layers of one pixel by channels if
    that is faster. options.ram: bytes for pool and scratch.

    Raises UserError for a graph that workers cannot share, or that needs more bytes."""
    alone = make_plan(graph, options, prove=False)
    best = share(alone, options.ram)
    assert best.team is not None
    cycles = {node: bind(graph, node).cycles(0) for node in divisible(graph)}
    cycles = {node: its for node, its in cycles.items() if its > 2 * _joining(graph, node)}
    gain = LEAST_GAIN * best.team.alone
    if sum(cycles.values()) < 2 * gain:
        return best
    halves = halved(graph, cycles)
    with contextlib.suppress(UserError):
        other = share(make_plan(halves, options, prove=False), options.ram, alone)
        assert other.team is not None
        if other.team.cycles < best.team.cycles - gain:
            more = len(halves.nodes) - len(graph.nodes)
            note = f"Split layers by output channels for both workers: {more:,} more layers."
            return replace(other, notes=(*other.notes, note))
    return best


def _joining(graph: Graph, node: Node) -> float:
    """Cycles that the Concat behind two parts of a node adds."""
    rates = ConcatLayer.rates
    return rates.call + rates.byte * graph.tensors[node.outputs[0]].bytes + 2 * TASK_CYCLES


def share(plan: Plan, ram: int | None = None, alone: Plan | None = None) -> Plan:
    """Adds each worker's tasks to a plan. ram: bytes for pool and scratch; alone: the plan for one
    worker, if it is another.

    Raises UserError for a plan that workers cannot share, or that needs too many bytes."""
    _check(plan)
    alone = alone or plan
    most = alone.pool_bytes + int(MORE_RAM * alone.pool_bytes)
    if ram is not None:
        most = min(most, ram)
    if most < plan.pool_bytes:
        reason = f"does not fit: {plan.pool_bytes:,} bytes for workers; {most:,} are allowed"
        raise UserError(Problem(reason, "leave out --workers", plan.graph.origin))
    search = _Search(plan, cycles_alone(alone), most - plan.pool_bytes)
    search.run()
    if search.best is None:
        reason = f"an inference has more than {MOST_TASKS:,} calls"
        raise UserError(Problem(reason, "leave out --workers", plan.graph.origin))
    notes = [_note(search.best.team, search.best.ram_bytes - alone.pool_bytes)]
    if search.gave_up:
        notes.append(f"The search of a share ended after {search.tried:,} pieces of calls.")
    return replace(search.best, notes=(*search.best.notes, *notes))


def _note(team: Team | None, more: int) -> str:
    """more: bytes of RAM beyond one worker's."""
    assert team is not None
    if not team.count(1):
        return "Worker 0 computes all layers: no other share is faster."
    share = team.cycles / team.alone
    return (
        f"Two workers need {share:.0%} of the cycles of one (estimate) and {more:,} more bytes of "
        f"RAM, {team.scratch_bytes:,} of them as scratch of worker 1."
    )


@dataclass
class _Search:
    """alone: cycles of one worker; most: bytes of RAM beyond the plan's pool; tried: pieces of all
    plans; gave_up: whether they were too many to go on."""

    plan: Plan
    alone: float
    most: int
    best: Plan | None = None
    tried: int = 0
    gave_up: bool = False

    def run(self) -> None:
        """Tries the plan, then longer ring buffers."""
        self._try((self.plan,))
        while self.best is not None:
            left = self.plan.pool_bytes + self.most - self.best.ram_bytes
            if not any(self._try(longer) for longer in slackened(self.best, left)):
                break

    @staticmethod
    def _cycles(plan: Plan) -> float:
        assert plan.team is not None
        return plan.team.cycles

    def _scratch(self, all_pieces: Sequence[CallPiece]) -> list[int]:
        """Bytes of the second worker's scratch: none, and as many as there is room for."""
        team = None if self.best is None else self.best.team
        if team is not None and team.scratch_bytes:
            return [team.scratch_bytes]
        sizes = {piece.scratch_bytes for piece in all_pieces}
        return sorted({0, max((size for size in sizes if size <= self.most), default=0)})

    def _try(self, plans: Sequence[Plan]) -> bool:
        """Keeps the first of some plans that loses no byte, if it is the best so far. The plans
        differ in addresses alone."""
        for plan in plans:
            faster = self._faster(plan)
            if faster is None:
                return False
            if plan is self.plan or is_sound(plan):
                self.best = faster
                return True
        return False

    def _faster(self, plan: Plan) -> Plan | None:
        """The plan with its team, if that is the fastest so far and worth its bytes."""
        if self.tried > MOST_PIECES:
            self.gave_up = True
            return None
        all_pieces = pieces_of(plan, CUT)
        self.tried += len(all_pieces)
        if len(all_pieces) > MOST_TASKS:
            return None
        behind, best = dependencies(all_pieces), self.best
        for scratch in self._scratch(all_pieces):
            team = assigned(all_pieces, behind, scratch)
            shared = replace(plan, team=replace(team, alone=self.alone))
            limit = math.inf if best is None else self._cycles(best)
            if best is not None and shared.ram_bytes > best.ram_bytes:
                limit -= LEAST_GAIN * self.alone
            if team.cycles < limit:
                best = shared
        return None if best is self.best else best


def _check(plan: Plan) -> None:
    reason = ""
    if plan.graph.state.names or plan.kept or plan.graph.state.step_rows:
        reason = "a model that keeps state"
    elif len(plan.steps) >= OWN_SCRATCH - 1:
        reason = f"a model of more than {OWN_SCRATCH:,} layers"
    if reason:
        hint = "leave out --workers"
        raise UserError(Problem(f"two workers cannot share {reason}", hint, plan.graph.origin))
