# SPDX-License-Identifier: Apache-2.0
"""Families of cores, a folder each. `portable` defines what every instruction means."""

from __future__ import annotations

from ...errors import Problem, UserError
from ..language.target import Target
from .dsp import DSP
from .helium import HELIUM
from .portable import PORTABLE
from .rv32 import RV32
from .v6m import V6M
from .v7m import V7M

# Of those that read one packing, the first whose guard holds is chosen.
TARGETS = {target.name: target for target in (HELIUM, DSP, V7M, V6M, RV32, PORTABLE)}
DEFAULT = DSP.name

__all__ = ["DEFAULT", "PORTABLE", "SUFFIXES", "TARGETS", "Target", "named"]

# How the C names of kernels end that only cores of some targets have.
SUFFIXES = tuple(dict.fromkeys(t.packing.suffix for t in TARGETS.values() if t.packing.suffix))


def named(name: str | None) -> Target:
    """A target, the default one if there is no name. Raises UserError if there is none such."""
    if name is not None and name not in TARGETS:
        known = ", ".join(TARGETS)
        raise UserError(Problem(f"there is no target '{name}'", f"choose one of: {known}"))
    return TARGETS[name or DEFAULT]
