# SPDX-License-Identifier: Apache-2.0
"""The builder that kernel programs are written with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import ir
from .expr import Expr, Int, Name, Term, as_expr, c_text
from .instruction import Instruction
from .packing import WORDS, Packing


def do(instruction: Instruction, *operands: ir.Operand | int) -> ir.Do:
    """An instruction with its operands."""
    return ir.Do(instruction, tuple(as_expr(o) if isinstance(o, int) else o for o in operands))


@dataclass
class Builder:
    """Collects the statements of a program. Loops are context managers; where a body has to exist
    more than once (tiles and their tails, segments) it is a decorated function, called once per
    copy."""

    symbol: str
    params: str
    summary: str
    small: bool = False
    packing: Packing = WORDS
    _lets: list[ir.Let] = field(default_factory=list)
    _stack: list[list[ir.Stmt]] = field(default_factory=lambda: [[]])

    def let(self, ctype: str, name: str, text: str) -> Name:
        """A shape or an address, by its C text."""
        self._lets.append(ir.Let(ctype, name, text))
        return Name(name)

    def define(self, name: str, value: Expr) -> Name:
        """An integer computed once per row."""
        self._lets.append(ir.Let("const int32_t", name, c_text(value), value))
        return Name(name)

    def columns(self) -> Name:
        """Returns the number of columns of the output row that the call asks for, from COLUMN
        on."""
        self.let("const int32_t", ir.COLUMN.text, "call->x")
        return self.let("const int32_t", "columns", "call->columns")

    def along(self, var: Expr, width: Term, extent: Expr) -> Expr:
        """The column of the tile at `var` in the layer's direction: descending, the first is the
        last.

        `descending` is a field of every layer, so that a plan may run it either way.
        """
        if not any(let.name == "turn" for let in self._lets):
            self.let("const int32_t", "turn", "call->layer->descending")
            self.define("sign", Int(1) - Name("turn") * 2)
        return ir.COLUMN + (var * Name("sign") + Name("turn") * (extent - width))

    def do(self, instruction: Instruction, *operands: ir.Operand | int) -> None:
        self._stack[-1].append(do(instruction, *operands))

    def reg_alloc(self, name: str, count: int) -> ir.Registers:
        registers = ir.Registers(name, count)
        self._stack[-1].append(ir.RegAlloc(registers))
        return registers

    def point(self, name: str, ram: ir.Ram) -> str:
        """A pointer that instructions move; accesses through it name it as `moving`."""
        self._stack[-1].append(ir.Point(name, ram))
        return name

    def ram_free(self, ram: ir.Ram) -> None:
        self._stack[-1].append(ir.RamFree(ram))

    def rewind(self, stream: ir.Stream) -> None:
        self._stack[-1].append(ir.Rewind(stream))

    @contextmanager
    def loop(
        self,
        kind: ir.LoopKind,
        name: str,
        stop: Term,
        step: int,
        unroll: int,
        by: ir.Do | None = None,
    ) -> Iterator[Name]:
        self._stack.append([])
        yield Name(name)
        body = tuple(self._stack.pop())
        made = ir.Loop(kind, Name(name), as_expr(stop), step, body, unroll=unroll, by=by)
        self._stack[-1].append(made)

    def spatial(
        self, name: str, stop: Term, step: int = 1, unroll: int = 1, by: ir.Do | None = None
    ) -> Any:
        """`by`: the loop's instruction in C, see `do`."""
        return self.loop(ir.LoopKind.SPATIAL, name, stop, step, unroll, by)

    def reduce(self, name: str, stop: Term, step: int = 1, unroll: int = 1) -> Any:
        return self.loop(ir.LoopKind.REDUCE, name, stop, step, unroll)

    @contextmanager
    def strips(
        self, name: str, span: str, extent: Term, width: Term, by: ir.Do | None = None
    ) -> Iterator[tuple[Name, Name]]:
        """Yields the start of a strip and its width. `by`: the loop's instruction in C, see
        `do`."""
        self._stack.append([])
        var, wide = Name(name), Name(span)
        yield var, wide
        body = tuple(self._stack.pop())
        self._stack[-1].append(ir.Strips(var, wide, as_expr(extent), as_expr(width), body, by))

    def _body(self, function: Callable[..., None], *arguments: Any) -> tuple[ir.Stmt, ...]:
        self._stack.append([])
        function(*arguments)
        return tuple(self._stack.pop())

    def tiles(
        self, name: str, extent: Term, widths: tuple[int, ...]
    ) -> Callable[[Callable[[Name, int], None]], None]:
        """Decorates body(var, width)."""

        def build(function: Callable[[Name, int], None]) -> None:
            var = Name(name)
            choices = tuple((width, self._body(function, var, width)) for width in widths)
            self._stack[-1].append(ir.Tiles(var, as_expr(extent), choices))

        return build

    @contextmanager
    def spans(
        self, name: str, span: str, extent: Term, widths: tuple[int, ...], by: ir.Do | None = None
    ) -> Iterator[tuple[Name, Name]]:
        """Yields the start of a span and its width. `by`: the loop's instruction in C, see `do`."""
        self._stack.append([])
        var, wide = Name(name), Name(span)
        yield var, wide
        body = tuple(self._stack.pop())
        self._stack[-1].append(ir.Spans(var, wide, as_expr(extent), widths, body, by))

    def segments(
        self,
        name: str,
        extent: Term,
        step: int,
        stream: ir.Stream,
        runs: bool = False,
        by: ir.Do | None = None,
    ) -> Callable[[Callable[[Name, bool], None]], None]:
        """Decorates body(var, exact). `by`: the instruction for all of them in C, see `do`."""

        def build(function: Callable[[Name, bool], None]) -> None:
            var = Name(name)
            fast, exact = (self._body(function, var, flag) for flag in (False, True))
            made = ir.Segments(var, as_expr(extent), step, stream, fast, exact, runs, by)
            self._stack[-1].append(made)

        return build

    def program(self) -> ir.Program:
        (body,) = self._stack
        return ir.Program(
            self.symbol,
            self.params,
            self.summary,
            tuple(self._lets),
            tuple(body),
            self.small,
            self.packing,
        )
