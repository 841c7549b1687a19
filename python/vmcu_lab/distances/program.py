# SPDX-License-Identifier: Apache-2.0
"""The smallest safe b_in - b_out by integer programming (vMCU paper, equations 1 and 2).

For every write iteration j that comes before a read iteration i in the program's order, the byte
written must lie below the byte read: the distance has to exceed

    max  L_out (A_out j + V_out) - L_in (A_in i + V_in)
    s.t. H_in i + B_in < 0,  H_out j + B_out < 0,  j before i.

"Before" is lexicographic, so it is a union of polyhedra, one for each depth at which j and i may
part; each is a small integer program. `planner/places/overlap.py` enumerates the same distances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pulp
from vmcu_tools.graph import Shape
from vmcu_tools.ops import ProgramLayer

from ..placement.highs import quieten
from .relation import Access, relation


@dataclass(frozen=True)
class Parting:
    """A way in which one access comes before another: their first `equal` common counters are
    equal, and then, if `less` is not None, that counter of the earlier one is smaller."""

    equal: tuple[int, ...]
    less: int | None


def partings(before: Access, after: Access) -> Iterator[Parting]:
    """All ways in which an iteration of `before` precedes one of `after`.

    Schedules are lists of counters (an index into the iteration vector) and of places among
    statements (~place). Accesses share loops as long as their places are equal.
    """
    equal: list[int] = []
    for mine, other in zip(before.schedule, after.schedule, strict=False):
        if mine < 0 or other < 0:
            if mine != other:
                if ~mine < ~other:
                    yield Parting(tuple(equal), None)
                return
            continue
        yield Parting(tuple(equal), mine)
        equal.append(mine)


def solver() -> pulp.LpSolver:
    """HiGHS where its Python package is installed, else the CBC that comes with pulp."""
    highs = pulp.HiGHS(msg=False, threads=1)
    if highs.available():
        quieten()
        return highs
    return pulp.PULP_CBC_CMD(msg=False, threads=1)


def _iteration(
    problem: pulp.LpProblem, access: Access, name: str
) -> tuple[list[pulp.LpVariable], pulp.LpAffineExpression]:
    """The counters of an access with its domain as constraints, and the byte it touches."""
    counters = [
        problem.add_variable(f"{name}{n}", cat=pulp.LpInteger)
        for n in range(access.domain_h.shape[1])
    ]
    for row, bound in zip(access.domain_h.tolist(), access.domain_b.tolist(), strict=True):
        # H i + B < 0 over the integers.
        problem += pulp.lpDot(row, counters) + bound <= -1
    weights = (access.mapping @ access.access_a).tolist()
    return counters, pulp.lpDot(weights, counters) + int(access.mapping @ access.access_v)


def farthest(write: Access, read: Access, parting: Parting) -> int | None:
    """The largest byte written minus byte read, None if no iterations part like this."""
    problem = pulp.LpProblem("distance", pulp.LpMaximize)
    earlier, written = _iteration(problem, write, "j")
    later, needed = _iteration(problem, read, "i")
    problem += written - needed
    for counter in parting.equal:
        problem += earlier[counter] == later[counter]
    if parting.less is not None:
        problem += earlier[parting.less] + 1 <= later[parting.less]
    status = problem.solve(solver())
    if status != pulp.LpStatusOptimal:
        return None
    distance: int | None = round(pulp.value(problem.objective))
    return distance


def smallest_distance(accesses: Sequence[Access], tensor: int = 0) -> int | None:
    """The smallest safe b_in - b_out for input `tensor` of one layer, in bytes.

    None if nothing that is read lies after a write, so that any distance is safe.
    """
    reads = [a for a in accesses if a.reads and a.tensor == tensor]
    writes = [a for a in accesses if not a.reads]
    distances = [
        distance
        for write in writes
        for read in reads
        for parting in partings(write, read)
        if (distance := farthest(write, read, parting)) is not None
    ]
    return max(distances) + 1 if distances else None


def layer_distance(layer: ProgramLayer[Any], index: int) -> int | None:
    """The smallest safe b_in - b_out for input `index` of a layer, in bytes; None: any is safe."""
    binding = layer.binding
    shapes: dict[int | str, Shape] = {n: binding.view(t) for n, t in enumerate(layer.ins)}
    shapes["output"] = layer.out.shape
    names = binding.names(layer.ins, layer.out, layer.descending)
    accesses = relation(binding.program, names, shapes, layer.height, layer.descending)
    return smallest_distance(accesses, index)


@dataclass(frozen=True)
class Link:
    """A producer and consumer in a chain: the tensors' names and the safe b_in - b_out."""

    source: str
    target: str
    distance: int


def chain_distance(links: Sequence[Link], first: str, last: str) -> int:
    """Equation 2: the smallest b_first - b_last of a graph in which every pair keeps its distance.

    A linear program whose constraints are differences; on a chain it is their sum.
    """
    problem = pulp.LpProblem("chain", pulp.LpMinimize)
    names = sorted({name for link in links for name in (link.source, link.target)})
    bases = {
        name: problem.add_variable(f"b{n}", cat=pulp.LpInteger) for n, name in enumerate(names)
    }
    problem += bases[first] - bases[last]
    problem += bases[last] == 0
    for link in links:
        problem += bases[link.source] - bases[link.target] >= link.distance
    if problem.solve(solver()) != pulp.LpStatusOptimal:
        raise ValueError(f"nothing bounds the distance from {first} to {last}")
    distance: int = round(pulp.value(problem.objective))
    return distance
