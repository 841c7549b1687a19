# SPDX-License-Identifier: Apache-2.0
"""The accesses of a program in the polyhedral form of the vMCU paper (section 4).

For every access an iteration domain {i : H i + B < 0}, an access function u = A i + V and a mapping
vector L, with the place of the access in the program's order as a schedule. Planners enumerate the
executions of one row (language/access.py); tests compare both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from vmcu_tools.kernels.language.access import Shape, bound_loops, is_store
from vmcu_tools.kernels.language.expr import Expr, Int, Name, affine, evaluate, substitute
from vmcu_tools.kernels.language.ir import Do, Program, Ram, Stmt


@dataclass(frozen=True)
class CountedLoop:
    """A loop in normal form: `counter` over 0 .. turns - 1; the program's variable `var` is
    start + step * counter."""

    counter: str
    var: str
    start: int
    step: int
    turns: int


@dataclass(frozen=True)
class Site:
    """A memory access in the program: the loops around it, and its place among the statements of
    each of them, outermost first. `reads` or writes. `names`: values of parameters and spans."""

    ram: Ram
    names: Mapping[str, int]
    reads: bool
    spans: tuple[CountedLoop, ...]
    places: tuple[int, ...]


def sites(program: Program, names: Mapping[str, int]) -> Iterator[Site]:
    """All accesses in program order; parameters from names."""
    yield from _sites(program.body, dict(names), (), ())


def _sites(
    body: tuple[Stmt, ...],
    names: dict[str, int],
    spans: tuple[CountedLoop, ...],
    places: tuple[int, ...],
) -> Iterator[Site]:
    place = 0
    for stmt in body:
        if isinstance(stmt, Do):
            for operand in stmt.operands:
                if isinstance(operand, Ram):
                    yield Site(operand, names, not is_store(stmt), spans, (*places, place))
        for var, start, step, turns, inner, widths in bound_loops(stmt, names):
            counter = f"{var}.{len(spans)}"
            span = CountedLoop(counter, var, start, step, turns)
            if turns > 0:
                values = {name: width for name, width in widths.items() if isinstance(width, int)}
                yield from _sites(inner, names | values, (*spans, span), (*places, place))
            place += 1
        place += 1


@dataclass(frozen=True)
class Access:
    """One access in polyhedral form.

    The iteration vector i holds a counter for every loop, then for every inner axis of the
    access. `domain_h` (m, n) and `domain_b` (m,): the iterations are the integer i with
    domain_h i + domain_b < 0. `access_a` (3, n) and `access_v` (3,): it touches element
    u = access_a i + access_v, (row, pixel, channel). `mapping` (3,): byte mapping . u of the
    tensor. `schedule`: the access's place in the program order, counters by their index in i and
    places among statements as ~place, compared lexicographically.
    """

    tensor: int | str
    reads: bool
    domain_h: np.ndarray
    domain_b: np.ndarray
    access_a: np.ndarray
    access_v: np.ndarray
    mapping: np.ndarray
    schedule: tuple[int, ...]


def relation(
    program: Program,
    names: Mapping[str, int],
    shapes: Mapping[int | str, Shape],
    rows: int,
    descending: bool = False,
) -> list[Access]:
    """All accesses of a whole layer of `rows` output rows: counter 0 counts the rows in the order
    in which they are computed.

    shapes: (H, W, C) of every input, by index, and of "output".
    """
    accesses = []
    for site in sites(program, names):
        height, width, channels = shapes[site.ram.tensor]
        mapping = np.array([width * channels, channels, 1])
        row = Int(rows - 1) - Name("y") if descending else Name("y")
        accesses.append(_access(site, (height, width, channels), mapping, rows, row))
    return accesses


def _access(
    site: Site,
    shape: Shape,
    mapping: np.ndarray,
    rows: int,
    row: Expr,
) -> Access:
    names = site.names
    counters = ["y", *(span.counter for span in site.spans)]
    turns = [rows, *(span.turns for span in site.spans)]
    values: dict[str, Expr] = {
        span.var: Name(span.counter) * span.step + span.start for span in site.spans
    }
    values["y"] = row
    index = [substitute(e, values) for e in (site.ram.row, site.ram.pixel, site.ram.channel)]
    for number, axis in enumerate(site.ram.axes):
        counter = f"axis{number}"
        counters.append(counter)
        turns.append(evaluate(axis.count, names))
        step = evaluate(axis.step, names)
        index[axis.dimension] = index[axis.dimension] + Name(counter) * Int(step)
    lines = [affine(e, tuple(counters), names) for e in index]
    access_a = np.array([coefficients for coefficients, _ in lines])
    access_v = np.array([constant for _, constant in lines])
    size = len(counters)
    # v >= 0 and v < n as strict inequalities: -v - 1 < 0 and v - n < 0.
    domain_h = [-np.eye(size, dtype=int), np.eye(size, dtype=int)]
    domain_b = [-np.ones(size, int), -np.array(turns)]
    if site.ram.guarded:
        domain_h += [-access_a, access_a]
        domain_b += [-access_v - 1, access_v - np.array(shape)]
        if site.ram.limit is not None:
            limit_a, limit_v = affine(substitute(site.ram.limit, values), tuple(counters), names)
            domain_h.append(access_a[2:] - np.array(limit_a))
            domain_b.append(access_v[2:] - limit_v)
    schedule: list[int] = [0]
    for depth, place in enumerate(site.places):
        schedule.append(~place)
        if depth < len(site.spans):
            schedule.append(1 + depth)
    return Access(
        site.ram.tensor,
        site.reads,
        np.concatenate(domain_h),
        np.concatenate(domain_b),
        access_a,
        access_v,
        mapping,
        tuple(schedule),
    )
