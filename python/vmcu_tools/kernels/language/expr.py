# SPDX-License-Identifier: Apache-2.0
"""Integer expressions over loop variables and kernel parameters.

A `Name` prints as C and is looked up by that text when a program is evaluated; everything else is
built from names and integers with Python's operators. `simplify` keeps its output short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


class Expr:
    """Base of all expressions. Operators build larger ones, simplified."""

    def __add__(self, other: Term) -> Expr:
        return simplify("+", self, as_expr(other))

    def __radd__(self, other: Term) -> Expr:
        return simplify("+", as_expr(other), self)

    def __sub__(self, other: Term) -> Expr:
        return simplify("-", self, as_expr(other))

    def __rsub__(self, other: Term) -> Expr:
        return simplify("-", as_expr(other), self)

    def __mul__(self, other: Term) -> Expr:
        return simplify("*", self, as_expr(other))

    def __rmul__(self, other: Term) -> Expr:
        return simplify("*", as_expr(other), self)

    def __floordiv__(self, other: Term) -> Expr:
        return simplify("/", self, as_expr(other))

    def __mod__(self, other: Term) -> Expr:
        return simplify("%", self, as_expr(other))

    def value_in(self, names: Mapping[str, int]) -> int:
        """See evaluate()."""
        raise NotImplementedError


Term = Expr | int


@dataclass(frozen=True)
class Int(Expr):
    value: int

    def value_in(self, names: Mapping[str, int]) -> int:
        return self.value


@dataclass(frozen=True)
class Name(Expr):
    """A loop variable, or a parameter by its C spelling such as `p->depth`."""

    text: str

    def value_in(self, names: Mapping[str, int]) -> int:
        return names[self.text]


@dataclass(frozen=True)
class Binary(Expr):
    operator: str
    left: Expr
    right: Expr

    def value_in(self, names: Mapping[str, int]) -> int:
        left, right = self.left.value_in(names), self.right.value_in(names)
        return MEANING[self.operator](left, right)


# C binds these alike; a higher number binds tighter.
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}

MEANING: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


def as_expr(term: Term) -> Expr:
    return Int(term) if isinstance(term, int) else term


def simplify(operator: str, left: Expr, right: Expr) -> Expr:
    """left operator right, with constants folded and neutral elements dropped."""
    if isinstance(left, Int) and isinstance(right, Int):
        return Int(MEANING[operator](left.value, right.value))
    if operator in "+-" and right == Int(0):
        return left
    if operator == "+" and left == Int(0):
        return right
    if operator == "*" and Int(0) in (left, right):
        return Int(0)
    if operator in "*/" and right == Int(1):
        return left
    if operator == "*" and left == Int(1):
        return right
    match operator, left, right:
        case "+", Binary("+" | "-" as inner, rest, Int(first)), Int(second):
            # (a + 2) + 3: the constants are one.
            return rest + ((first if inner == "+" else -first) + second)
    return Binary(operator, left, right)


def evaluate(term: Term, names: Mapping[str, int]) -> int:
    """The value of an expression. C's division and this one agree: nothing here is negative."""
    if isinstance(term, Expr):
        return term.value_in(names)
    return term


def substitute(term: Term, values: Mapping[str, Term]) -> Expr:
    """The expression with names replaced, simplified again."""
    match as_expr(term):
        case Name(text) if text in values:
            return as_expr(values[text])
        case Binary(operator, left, right):
            return simplify(operator, substitute(left, values), substitute(right, values))
        case other:
            return other


def names_in(term: Term) -> frozenset[str]:
    match as_expr(term):
        case Name(text):
            return frozenset((text,))
        case Binary(_, left, right):
            return names_in(left) | names_in(right)
    return frozenset()


def c_text(term: Term, outer: int = 0) -> str:
    """C source, with the parentheses it needs inside an operator of precedence `outer`."""
    match as_expr(term):
        case Int(value):
            return str(value)
        case Name(text):
            return text
        case Binary(operator, left, right):
            inner = PRECEDENCE[operator]
            # An equal precedence on the right needs parentheses but in a sum and in a pure product.
            plain = operator == "+" or (
                operator == "*" and isinstance(right, Binary) and right.operator == "*"
            )
            tight = inner if plain else inner + 1
            text = f"{c_text(left, inner)} {operator} {c_text(right, tight)}"
            return f"({text})" if inner < outer else text
    raise TypeError(term)


def affine(
    term: Term, variables: tuple[str, ...], names: Mapping[str, int]
) -> tuple[list[int], int]:
    """The expression as coefficients of `variables` and a constant, parameters from `names`.

    Raises ValueError if it is not affine in them: access relations must be (vMCU paper, 4).
    """
    line = _affine(as_expr(term), variables, names)
    if line is None:
        raise ValueError(f"{c_text(term)} is not affine in {', '.join(variables)}")
    return line[:-1], line[-1]


def _affine(term: Expr, variables: tuple[str, ...], names: Mapping[str, int]) -> list[int] | None:
    """Coefficients and, last, the constant; None if it is not affine."""
    size = len(variables)
    match term:
        case Name(text) if text in variables:
            return [int(v == text) for v in variables] + [0]
        case Int() | Name():
            return [0] * size + [evaluate(term, names)]
    assert isinstance(term, Binary)
    left, right = (_affine(side, variables, names) for side in (term.left, term.right))
    if left is None or right is None:
        return None
    if term.operator in "+-":
        return [MEANING[term.operator](a, b) for a, b in zip(left, right, strict=True)]
    if term.operator == "*" and not any(left[:-1]):
        left, right = right, left
    if any(right[:-1]):
        return None
    factor = right[-1]
    if term.operator == "*":
        return [a * factor for a in left]
    if not any(left[:-1]):
        return [0] * size + [MEANING[term.operator](left[-1], factor)]
    # A quotient is affine where nothing is rounded, a remainder only where there is none.
    if any(a % factor for a in left):
        return None
    return [a // factor if term.operator == "/" else 0 for a in left]
