# SPDX-License-Identifier: Apache-2.0
"""When a program touches which byte: its accesses in one output row, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .expr import Term, evaluate
from .ir import ZERO, Do, Loop, Program, Ram, Segments, Spans, Stmt, Strips, Tiles

Shape = tuple[int, int, int]
# (variable, start, step, turns, body), and the terms of names in the body.
BoundLoop = tuple[str, int, int, int, tuple[Stmt, ...], dict[str, Term]]


def bound_loops(stmt: Stmt, names: Mapping[str, int]) -> list[BoundLoop]:
    """The loops a statement amounts to."""
    match stmt:
        case Loop(_, var, stop, step, body, start):
            assert start == ZERO, "only lowered programs have loops that go on"
            return [(var.text, 0, step, evaluate(stop, names) // step, body, {})]
        case Segments(var=var, extent=extent, step=step, exact=exact):
            # Both bodies touch the same bytes in the same order; the last step may be a partial
            # one, which only the exact body's guards express.
            return [(var.text, 0, step, -(-evaluate(extent, names) // step), exact, {})]
        case Tiles(var, extent, choices):
            loops: list[BoundLoop] = []
            begin, left = 0, evaluate(extent, names)
            for width, body in choices:
                turns = left // width
                loops.append((var.text, begin, width, turns, body, {}))
                begin, left = begin + turns * width, left - turns * width
            return loops
        case Spans(var, span, extent, widths, body):
            loops = []
            begin, left = 0, evaluate(extent, names)
            for width in widths:
                turns = left // width
                loops.append((var.text, begin, width, turns, body, {span.text: width}))
                begin, left = begin + turns * width, left - turns * width
            return loops
        case Strips(var, span, extent, width, body):
            whole, wide = evaluate(extent, names), evaluate(width, names)
            full, left = divmod(whole, wide)
            loops = [(var.text, 0, wide, full, body, {span.text: wide})]
            if left:
                loops.append((var.text, full * wide, wide, 1, body, {span.text: left}))
            return loops
    return []


def executions(
    program: Program, names: Mapping[str, int]
) -> Iterator[tuple[Ram, bool, Mapping[str, int]]]:
    """Every execution of every access in order, with the loop variables bound."""
    bound: dict[str, Any] = {**names, "y": 0}
    idle: dict[int, bool] = {}

    def walk(body: tuple[Stmt, ...]) -> Iterator[tuple[Ram, bool, Mapping[str, int]]]:
        for stmt in body:
            if id(stmt) not in idle:
                idle[id(stmt)] = not touches((stmt,))
            if idle[id(stmt)]:
                continue
            if isinstance(stmt, Do):
                for operand in stmt.operands:
                    if isinstance(operand, Ram):
                        yield operand, not is_store(stmt), bound
            # Here a span has the value that its body has, so that no body needs to be renamed.
            for var, start, step, turns, inner, span in bound_loops(stmt, bound):
                for turn in range(turns):
                    bound.update(span)
                    bound[var] = start + turn * step
                    yield from walk(inner)

    yield from walk(program.body)


def is_store(do: Do) -> bool:
    """True if an instruction writes to the pool, else it reads its operands from there."""
    return do.instruction.family == "RAMStore"


def touches(body: tuple[Stmt, ...]) -> bool:
    """True if a statement of the body accesses the pool."""
    for stmt in body:
        match stmt:
            case Do(_, operands) if any(isinstance(o, Ram) for o in operands):
                return True
            case Loop() | Strips() | Spans() if touches(stmt.body):
                return True
            case Segments() if touches(stmt.exact):
                return True
            case Tiles() if any(touches(body) for _, body in stmt.choices):
                return True
    return False
