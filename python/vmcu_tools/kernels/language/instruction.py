# SPDX-License-Identifier: Apache-2.0
"""Instructions: what they mean, and their C.

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


@dataclass(frozen=True, eq=False)
class Instruction:
    """`parameters` is the C parameter list, in the order of the operands. `portable` is the body of
    the function in C99 that any core runs, by packing where it depends on that.

    Operands become arguments: a Ram operand the address of its first byte (guarded: the source,
    its row and its pixel), a Stream or Tile the address of its cursor, Registers the array.
    """

    name: str
    family: str
    parameters: str
    summary: str
    meaning: Callable[..., None]
    portable: str | Callable[[Packing], str]

    @property
    def symbol(self) -> str:
        return f"vmcu_{self.name}"


def instruction(
    registry: dict[str, Instruction],
    family: str,
    parameters: str,
    portable: str | Callable[[Packing], str],
    name: str | None = None,
    summary: str | None = None,
) -> Callable[[Callable[..., None]], Instruction]:
    """Decorates a meaning: meaning(machine, *operands). Its name and its docstring are those of the
    C function, unless they are given: a family's members need theirs made."""

    def define(meaning: Callable[..., None]) -> Instruction:
        assert family in FAMILIES
        about = summary or (meaning.__doc__ or "").strip()
        made = Instruction(name or meaning.__name__, family, parameters, about, meaning, portable)
        assert made.name not in registry, f"{made.name} is defined twice"
        registry[made.name] = made
        return made

    return define
