# SPDX-License-Identifier: Apache-2.0
"""The parts of a kernel program; builder.py has the functions for writing them.

A program computes columns of one output row. Its loops are spatial (over output pixels and
channels) or reduce (over the taps of a sum); its statements are instructions on four kinds of
memory: RAM (rows of tensors in the pool), flash (a constant stream that is read front to back),
scratch (a tile), and registers. The seven intrinsics of the vMCU paper
(section 6) are the families of instructions: RegAlloc, RAMLoad, FlashLoad, Dot, RAMStore, RAMFree,
Broadcast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from .expr import Expr, Int, Name, names_in
from .instruction import Instruction
from .packing import Packing

ZERO = Int(0)


class LoopKind(Enum):
    SPATIAL = "spatial"
    REDUCE = "reduce"


@dataclass(frozen=True)
class Axis:
    """One inner dimension of an access: `count` elements, `step` apart along `dimension`
    (0 row, 1 pixel, 2 channel)."""

    dimension: int
    count: Expr
    step: Expr


@dataclass(frozen=True)
class Ram:
    """Bytes of a tensor in the pool: from (row, pixel, channel) on, over the inner axes.

    `tensor` is "output" or the index of an input. `guarded`: elements outside the image are skipped
    (they are padding), else all must lie inside; so are channels from `limit` on, where a group
    ends before the tensor does. `moving`: the C pointer, set by Builder.point, that the instruction
    moves past the bytes that it touched.
    """

    tensor: int | str
    row: Expr
    pixel: Expr
    channel: Expr
    axes: tuple[Axis, ...] = ()
    guarded: bool = False
    limit: Expr | None = None
    moving: str | None = None

    @functools.cached_property
    def moved_by(self) -> frozenset[str]:
        """Names the variables of its pixels and channels, the counts and steps of its axes
        aside."""
        terms = (self.pixel, self.channel, *(() if self.limit is None else (self.limit,)))
        return frozenset().union(*map(names_in, terms))


@dataclass(frozen=True)
class Stream:
    """The flash stream: an instruction that takes it moves it past the bytes that it read."""

    name: str = "w"


@dataclass(frozen=True)
class Tile:
    """The scratch tile."""


@dataclass(frozen=True)
class Params:
    """The struct of that name in the program's parameters; an instruction gets its address."""

    name: str


@dataclass(frozen=True)
class Registers:
    """`count` 32-bit accumulators."""

    name: str
    count: int


Operand = Expr | Ram | Stream | Tile | Params | Registers


@dataclass(frozen=True)
class Do:
    """An instruction with its operands."""

    instruction: Instruction
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class RegAlloc:
    registers: Registers


@dataclass(frozen=True)
class Point:
    """Sets a moving pointer to the first byte of an access."""

    name: str
    ram: Ram


@dataclass(frozen=True)
class RamFree:
    """Says that the bytes are not read any more. No code: the plan frees by overwriting."""

    ram: Ram


@dataclass(frozen=True)
class Rewind:
    """The flash stream starts over."""

    stream: Stream


@dataclass(frozen=True)
class Loop:
    """body for var = start, start + step, ... while var + step <= stop.

    `start` None goes on where the loop before left the variable. `unroll` asks for copies of the
    body; passes.unroll makes them. `by`: an instruction that is all of the loop in C.
    """

    kind: LoopKind
    var: Name
    stop: Expr
    step: int
    body: tuple[Stmt, ...]
    start: Expr | None = ZERO
    unroll: int = 1
    by: Do | None = None


@dataclass(frozen=True)
class Tiles:
    """var over 0 .. extent in tiles, the widest first: (width, body) each. passes.tails makes
    loops of it."""

    var: Name
    extent: Expr
    choices: tuple[tuple[int, tuple[Stmt, ...]], ...]


@dataclass(frozen=True)
class Spans:
    """var over 0 .. extent in steps of `widths`, the widest as often as it fits, then the next:
    the same body for all of them, to which `span` names the width. `by` as in Loop."""

    var: Name
    span: Name
    extent: Expr
    widths: tuple[int, ...]
    body: tuple[Stmt, ...]
    by: Do | None = None


@dataclass(frozen=True)
class Segments:
    """var over 0 .. extent in steps of `step`, in runs that the flash stream announces: each
    starts with a word that counts the steps of either body (pack.with_heads). The compiler puts
    the channels that the fast body cannot finish exactly into runs of the second, and the last
    step if it is not whole. There `left` names the rest of the extent, at most `step`. `runs`:
    the fast body takes all fast steps of a run at once, `taken` of the extent, and the last one
    may be a partial one; its accesses are those of the first. `by` as in Loop."""

    var: Name
    extent: Expr
    step: int
    stream: Stream
    fast: tuple[Stmt, ...]
    exact: tuple[Stmt, ...]
    runs: bool = False
    by: Do | None = None


@dataclass(frozen=True)
class Strips:
    """var over 0 .. extent in steps of `width`, which is known at run time; `span` is how much
    of the extent the strip covers: the last one may be narrower. `by` as in Loop."""

    var: Name
    span: Name
    extent: Expr
    width: Expr
    body: tuple[Stmt, ...]
    by: Do | None = None


# In the exact body of segments: how much of the extent there is from a step's start on, at most
# a step.
LEFT = Name("left")
# There, too: whether the channels of a block are apart, see kernels/pack.py.
APART = Name("apart")
# In the fast body of segments that takes runs: how much of the extent that is.
TAKEN = Name("taken")
# The first column of the output row that a call computes.
COLUMN = Name("column")
Stmt = Do | RegAlloc | Point | RamFree | Rewind | Loop | Tiles | Spans | Segments | Strips


@dataclass(frozen=True)
class Let:
    """A C constant. `value` is its term where that is not a shape or an address."""

    ctype: str
    name: str
    text: str
    value: Expr | None = None


# Equal if the same: facts about one are looked up by it all the time, and it is a deep tree.
@dataclass(frozen=True, eq=False)
class Program:
    """`symbol` is the C function; `params` the C struct that `p` points to; `lets` names values
    that are computed once per row. `small`: compiled for size. `packing`: of the flash stream and
    the tile that it reads."""

    symbol: str
    params: str
    summary: str
    lets: tuple[Let, ...]
    body: tuple[Stmt, ...]
    small: bool
    packing: Packing


def map_bodies(stmt: Stmt, change: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """The statement with its bodies changed; leaves stay as they are."""
    match stmt:
        case Loop() | Strips() | Spans():
            return replace(stmt, body=change(stmt.body))
        case Tiles():
            return replace(stmt, choices=tuple((w, change(body)) for w, body in stmt.choices))
        case Segments():
            return replace(stmt, fast=change(stmt.fast), exact=change(stmt.exact))
    return stmt
