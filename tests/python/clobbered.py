# SPDX-License-Identifier: Apache-2.0
"""Plans in which a tensor is where another one is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from vmcu_tools.errors import PlanError
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.plan.plan import Plan


def expect_refused(plan: Plan, kept: str, others: Iterable[str]) -> None:
    """The proof refuses each of the other tensors where it meets the one that is kept by a byte, at
    either end."""
    there = plan.placements[kept]
    for name in others:
        one = plan.placements[name]
        for base in (there.base + there.ring - 1, there.base - one.ring + 1):
            if not 0 <= base <= plan.pool_bytes - one.ring:
                continue
            moved = {**plan.placements, name: replace(one, base=base)}
            with pytest.raises(PlanError):
                VirtualMcu(replace(plan, placements=moved)).prove()
