# SPDX-License-Identifier: Apache-2.0
"""The C and the assembly that one family of cores has of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vmcu_tools.kernels.language.instruction import Instruction
from vmcu_tools.kernels.language.packing import Packing
from vmcu_tools.kernels.language.target import Target

from .assembly import Function


@dataclass(frozen=True, eq=False)
class Family:
    """Whatever a target does not have of its own is portable C.

    own: the C body of those instructions that it has a better one for. helpers: C that bodies use,
    by name; one that the portable target has as well takes the place of that. assembly: functions
    by the file that has them. dual: the condition for cores of the family that issue two
    instructions in a cycle, which get assembly in another order (order.py). later: helpers that use
    portable ones, and replace none of them.
    """

    target: Target
    own: Mapping[Instruction, str]
    helpers: Mapping[str, str]
    assembly: Mapping[str, Sequence[Function]] = field(default_factory=dict)
    dual: str = ""
    later: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Returns the folder of its source."""
        shared = "kernels/targets", "vmcu_kernelgen/families"
        return f"{shared[not self.target.is_portable]}/{self.target.name.removesuffix('_int4')}"

    def body(self, made: Instruction) -> str:
        """The C of an instruction."""
        return self.own.get(made) or portable_body(made, self.target.packing)


def int4_of(target: Target) -> Target:
    """The same cores for weights of 4 bits, for which each family has code."""
    assert target.int4 is not None
    return target.int4


def portable_body(made: Instruction, packing: Packing) -> str:
    """The C of an instruction that any core runs."""
    return made.portable if isinstance(made.portable, str) else made.portable(packing)
