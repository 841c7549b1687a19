# SPDX-License-Identifier: Apache-2.0
"""Mutants of Python: constants, comparisons, arithmetic, statements, conditions, results."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import accumulate

from mutant import Mutant, replaced

COMPARISONS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq},
    **{ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot},
    ast.IsNot: ast.Is,
}
ARITHMETIC = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.FloorDiv, ast.Div: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
# Inside these nothing is computed, or nothing that a test should pin down.
SKIPPED = (ast.JoinedStr, ast.ImportFrom, ast.Import)


def mutants(file: str, data: bytes) -> list[Mutant]:
    return list(_Drawer(file, data).of(ast.parse(data)))


class _Drawer:
    def __init__(self, file: str, data: bytes):
        self.file, self.data = file, data
        lengths = (len(line) for line in data.splitlines(keepends=True))
        self.starts = [0, *accumulate(lengths)]

    def of(self, node: ast.AST) -> Iterator[Mutant]:
        """Of a node and of all that it holds, annotations and decorators left out."""
        if isinstance(node, SKIPPED) or _is_docstring(node) or _only_for_types(node):
            return
        # That zip() says so is an assertion: as little as one that is missing does it harm.
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return
        yield from self.here(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "op", "ops", "ctx"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.of(child)

    def here(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Constant(value=bool()):
                yield self.put(node, str(not node.value))
            case ast.Constant(value=int()):
                yield self.put(node, str(node.value + 1))
                if node.value == 1:
                    yield self.put(node, "0")
            case ast.Constant(value=float()):
                yield self.put(node, repr(node.value * 2 + 1))
            case ast.Compare(ops=[op, *_]) if type(op) in COMPARISONS:
                ops = [COMPARISONS[type(op)](), *node.ops[1:]]
                yield self.put(node, _text(ast.Compare(node.left, ops, node.comparators)))
            case ast.BinOp(op=op) if type(op) in ARITHMETIC and not _is_type(node):
                other = ast.BinOp(node.left, ARITHMETIC[type(op)](), node.right)
                yield self.put(node, _text(other))
            case ast.BoolOp(op=op):
                other = ast.Or() if isinstance(op, ast.And) else ast.And()
                yield self.put(node, _text(ast.BoolOp(other, node.values)))
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                yield self.put(node, _text(node.operand))
            case ast.If() | ast.While():
                # Without the statements that depend on it, or the other arm's.
                yield self.put(node.test, f"not ({_text(node.test)})")
            case ast.IfExp():
                yield self.put(node, _text(ast.IfExp(node.test, node.orelse, node.body)))
            # None says no, like False; a missing assertion harms nothing that is right.
            case ast.Return(value=ast.expr() as value) if _text(value) not in ("None", "False"):
                yield self.put(node, "return None")
            case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
                yield self.put(node, "pass")
            case ast.AugAssign() | ast.Raise() | ast.Break() | ast.Continue():
                yield self.put(node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
                yield self.put(node, "pass")

    def put(self, node: ast.AST, text: str) -> Mutant:
        begin = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        if isinstance(node, ast.expr) and not text.isidentifier() and not text.isdigit():
            text = f"({text})"
        return replaced(self.file, self.data, begin, end, text)


def _text(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node))


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _only_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and _text(node.test) == "TYPE_CHECKING"


def _is_type(node: ast.BinOp) -> bool:
    """Such as `int | None` in an alias."""
    parts = {_text(node.left), _text(node.right)}
    return isinstance(node.op, ast.BitOr) and bool(parts & {"None", "int", "str", "float"})
