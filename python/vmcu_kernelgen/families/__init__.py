# SPDX-License-Identifier: Apache-2.0
"""A folder for each family of cores; `portable` has only the instructions that others replace."""

from __future__ import annotations

from vmcu_tools.kernels import targets
from vmcu_tools.kernels.language.packing import Packing
from vmcu_tools.kernels.language.target import Target

from ..family import Family
from . import dsp, helium, portable, rv32, v6m, v7m

PORTABLE = portable.PORTABLE
_ALL = [
    *(helium.HELIUM, helium.INT4, dsp.DSP, dsp.INT4, v7m.V7M, v7m.INT4, v6m.V6M, v6m.INT4),
    *(rv32.RV32, rv32.INT4, portable.PORTABLE, portable.INT4),
]
FAMILIES = {family.target: family for family in _ALL}


def families() -> list[Family]:
    """Lists the families in the order in which a core takes the first whose guard holds."""
    return [*map(family_of, targets.families())]


def readers(packing: Packing) -> list[Family]:
    """Those whose kernels read a packing."""
    return [*map(family_of, targets.readers(packing))]


def family_of(target: Target) -> Family:
    """Returns a target's own code; a target without a folder has portable C alone."""
    return FAMILIES.get(target) or Family(target, {}, {})
