# SPDX-License-Identifier: Apache-2.0
"""Instructions: their reference semantics, and their C.

An instruction is a static inline C function, `vmcu_<name>`. Its meaning is a Python function on a
`Machine`; beside it stands its portable C. A target (target.py) may have C of its own for it, so
that the loops around it are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .packing import Packing

# The paper's intrinsics, and calls of plain C that works on scratch alone.
FAMILIES = ("RegAlloc", "RAMLoad", "FlashLoad", "Dot", "RAMStore", "RAMFree", "Broadcast", "Call")

# Columns of generated C.
WIDTH = 100


@dataclass(frozen=True, eq=False)
class Instruction:
    """`parameters` is the C parameter list, in the order of the operands. `portable` is the body of
    the function in C99 that any core runs, by packing where it depends on that. `apart`: it may
    be a call, and there once: VMCU_ONCE, which targets define.

    Operands become arguments: a Ram operand the address of its first byte (guarded: the source,
    its row and its pixel), a Stream or Tile the address of its cursor, Registers the array.
    """

    name: str
    family: str
    parameters: str
    summary: str
    meaning: Callable[..., None]
    portable: str | Callable[[Packing], str]
    apart: bool = False

    @property
    def symbol(self) -> str:
        return f"vmcu_{self.name}"


def instruction(
    registry: dict[str, Instruction],
    family: str,
    parameters: str,
    portable: str | Callable[[Packing], str],
    member: int | str | None = None,
    what: str = "",
    apart: bool = False,
) -> Callable[[Callable[..., None]], Instruction]:
    """Decorates a meaning: meaning(machine, *operands). Its name is that of the instruction, its
    docstring the C comment. Of instructions that one function makes, `member` is behind the name
    and `what` stands for {what} in the docstring."""

    def define(meaning: Callable[..., None]) -> Instruction:
        assert family in FAMILIES
        name = meaning.__name__ if member is None else f"{meaning.__name__}_{member}"
        summary = (meaning.__doc__ or "").strip().replace("{what}", what)
        assert name not in registry, f"{name} is defined twice"
        registry[name] = Instruction(name, family, parameters, summary, meaning, portable, apart)
        return registry[name]

    return define
