# SPDX-License-Identifier: Apache-2.0
"""Families of cores, and in `portable` the reference semantics of every instruction."""

from __future__ import annotations

from ...errors import Problem, UserError
from ..language.packing import Packing
from ..language.target import Target
from .families import DSP, HELIUM, PORTABLE, RV32, V6M, V7M

# Of those that read one packing, the first whose guard holds is chosen.
TARGETS = {target.name: target for target in (HELIUM, DSP, V7M, V6M, RV32, PORTABLE)}
DEFAULT = DSP.name

__all__ = [
    "DEFAULT",
    "PORTABLE",
    "SUFFIXES",
    "TARGETS",
    "Target",
    "condition",
    "families",
    "named",
    "packings",
    "readers",
]


def families() -> list[Target]:
    """All targets, and their variants for weights of 4 bits."""
    small = (target.int4 for target in TARGETS.values())
    return [*TARGETS.values(), *dict.fromkeys(target for target in small if target)]


# How the C names of kernels of all but one packing end.
SUFFIXES = tuple(dict.fromkeys(t.packing.suffix for t in families() if t.packing.suffix))


def packings() -> tuple[Packing, ...]:
    """Those of all targets."""
    return tuple(dict.fromkeys(target.packing for target in families()))


def readers(packing: Packing) -> list[Target]:
    """The targets whose kernels read a packing."""
    return [target for target in families() if target.packing == packing]


def condition(packing: Packing) -> str:
    """The preprocessor condition for cores that have kernels of a packing; nothing where all have
    them."""
    targets = readers(packing)
    if any(target.is_portable for target in targets):
        return ""
    return " || \\\n\t".join(f"({target.guard})" for target in targets)


def named(name: str | None) -> Target:
    """A target, the default one if there is no name. Raises UserError if there is none such."""
    if name is not None and name not in TARGETS:
        known = ", ".join(TARGETS)
        raise UserError(Problem(f"there is no target '{name}'", f"choose one of: {known}"))
    return TARGETS[name or DEFAULT]
