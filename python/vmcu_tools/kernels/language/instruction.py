# SPDX-License-Identifier: Apache-2.0
"""Instructions: what they mean, and where their C is.

An instruction is a static inline C function, `vmcu_<name>`. Its meaning is a Python function on a
`Machine`; its C is looked up in a target (kernels/isa), one file per instruction set, so that the
loops around it are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .evaluate import Machine

# The paper's intrinsics, and calls of plain C that works on scratch alone.
FAMILIES = ("RegAlloc", "RAMLoad", "FlashLoad", "Dot", "RAMStore", "RAMFree", "Broadcast", "Call")


@dataclass(frozen=True)
class Instruction:
    """`parameters` is the C parameter list, in the order of the operands.

    Operands become arguments: a Ram operand the address of its first byte (guarded: the source,
    its row and its pixel), a Stream or Tile the address of its cursor, Registers the array.
    """

    name: str
    family: str
    parameters: str
    summary: str
    meaning: Callable[..., None]

    @property
    def symbol(self) -> str:
        return f"vmcu_{self.name}"


def instruction(
    registry: dict[str, Instruction], family: str, parameters: str, name: str | None = None
) -> Callable[[Callable[..., None]], Instruction]:
    """Decorates a meaning: meaning(machine, *operands). Its docstring becomes the C comment."""

    def define(meaning: Callable[..., None]) -> Instruction:
        assert family in FAMILIES
        made = Instruction(
            name or meaning.__name__, family, parameters, (meaning.__doc__ or "").strip(), meaning
        )
        registry[made.name] = made
        return made

    return define


@dataclass(frozen=True)
class Target:
    """An instruction set. `guard` is the preprocessor condition under which it is chosen, `prelude`
    C helpers, `bodies` the C body of each instruction by name."""

    name: str
    title: str
    guard: str
    prelude: str
    bodies: Mapping[str, str]


if TYPE_CHECKING:
    Meaning = Callable[[Machine], None]
