# SPDX-License-Identifier: Apache-2.0
"""The passes of a program between its text in Python and its text in C.

`tails` turns tiles into a loop of full tiles and, for the rest, loops of narrower ones; `unroll`
copies the bodies of loops that ask for it and adds the loop for the rest; `simplify` drops loops
that run exactly once. Expressions are simplified as they are built (expr.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vmcu_tools.kernels.language import ir
from vmcu_tools.kernels.language.expr import Expr, Int, Name, Term, evaluate, names_in, substitute

Body = tuple[ir.Stmt, ...]


def tails(body: Body) -> Body:
    """Tiles(x, W, ((2, a), (1, b))) becomes `for x += 2: a` then `for x += 1: b`."""
    result: list[ir.Stmt] = []
    for stmt in body:
        stmt = ir.map_bodies(stmt, tails)
        if not isinstance(stmt, ir.Tiles):
            result.append(stmt)
            continue
        for number, (width, inner) in enumerate(stmt.choices):
            start = Int(0) if number == 0 else None
            result.append(
                ir.Loop(ir.LoopKind.SPATIAL, stmt.var, stmt.extent, width, inner, start=start)
            )
    return tuple(result)


def unroll(body: Body) -> Body:
    """A loop that asks for n copies becomes one of n copies a turn and one for the rest.

    The body may use the loop variable: copy number i sees it i steps further.
    """
    result: list[ir.Stmt] = []
    for stmt in body:
        stmt = ir.map_bodies(stmt, unroll)
        if not isinstance(stmt, ir.Loop) or stmt.unroll == 1:
            result.append(stmt)
            continue
        copies = tuple(
            inner
            for number in range(stmt.unroll)
            for inner in shift(stmt.body, stmt.var, number * stmt.step)
        )
        wide = stmt.step * stmt.unroll
        result.append(replace(stmt, body=copies, step=wide, unroll=1))
        result.append(replace(stmt, start=None, unroll=1))
    return tuple(result)


def shift(body: Body, var: Name, distance: int) -> Body:
    """The body as it is when var stands `distance` further."""
    return rename(body, {var.text: var + distance}) if distance else body


def rename(body: Body, values: dict[str, Term]) -> Body:
    """The body with names replaced in all operands."""

    def operand(o: Any) -> Any:
        if isinstance(o, ir.Ram):
            axes = tuple(
                replace(a, count=substitute(a.count, values), step=substitute(a.step, values))
                for a in o.axes
            )
            row, pixel, channel = (substitute(e, values) for e in (o.row, o.pixel, o.channel))
            limit = None if o.limit is None else substitute(o.limit, values)
            return replace(o, row=row, pixel=pixel, channel=channel, axes=axes, limit=limit)
        return substitute(o, values) if isinstance(o, Expr) else o

    def statement(stmt: ir.Stmt) -> ir.Stmt:
        match stmt:
            case ir.Do():
                return replace(stmt, operands=tuple(operand(o) for o in stmt.operands))
            case ir.RamFree():
                return replace(stmt, ram=operand(stmt.ram))
            case ir.Point():
                return replace(stmt, ram=operand(stmt.ram))
            case ir.Loop():
                start = None if stmt.start is None else substitute(stmt.start, values)
                stmt = replace(stmt, stop=substitute(stmt.stop, values), start=start)
            case ir.Segments() | ir.Tiles() | ir.Spans():
                stmt = replace(stmt, extent=substitute(stmt.extent, values))
            case ir.Strips():
                extent, width = (substitute(e, values) for e in (stmt.extent, stmt.width))
                stmt = replace(stmt, extent=extent, width=width)
        if isinstance(stmt, ir.Loop | ir.Segments | ir.Spans | ir.Strips) and stmt.by is not None:
            by = replace(stmt.by, operands=tuple(operand(o) for o in stmt.by.operands))
            stmt = replace(stmt, by=by)
        return ir.map_bodies(stmt, lambda inner: rename(inner, values))

    return tuple(statement(stmt) for stmt in body)


def simplify(body: Body) -> Body:
    """A loop over a constant single step becomes its body, one over none goes; RAMFree has no
    code and goes."""
    result: list[ir.Stmt] = []
    # Where the variable of a loop that went stands, for the loop that goes on with it.
    after: dict[str, Expr] = {}
    for stmt in body:
        stmt = ir.map_bodies(stmt, simplify)
        if isinstance(stmt, ir.RamFree):
            continue
        if isinstance(stmt, ir.Loop):
            var = stmt.var.text
            known = after.pop(var, None)
            start = known if stmt.start is None else stmt.start
            stmt = replace(stmt, start=start)
            turns = constant_turns(stmt)
            if start is not None and turns in (0, 1):
                result += rename(stmt.body, {var: start}) if turns else ()
                after[var] = start + turns * stmt.step
                continue
        result.append(stmt)
    return tuple(result)


def constant_turns(loop: ir.Loop) -> int | None:
    """Counts the turns of a loop, if that does not depend on parameters."""
    if loop.start is None or names_in(loop.start) | names_in(loop.stop):
        return None
    return max(0, evaluate(loop.stop, {}) - evaluate(loop.start, {})) // loop.step


def lower(program: ir.Program) -> ir.Program:
    """Runs all passes, in the order that lets each see the result of the one before."""
    body = program.body
    for step in (tails, unroll, simplify):
        body = step(body)
    return replace(program, body=body)
