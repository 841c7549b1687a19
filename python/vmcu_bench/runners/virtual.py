# SPDX-License-Identifier: Apache-2.0
"""The virtual MCU as a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from vmcu_tools.machine.rotation import machines_of
from vmcu_tools.plan.plan import Plan

from .base import refuse_stream


@dataclass(frozen=True)
class VirtualRunner:
    """The virtual MCU, whose pool knows whose byte is whose."""

    name: str = "virtual"
    summary: str = "the planner's own machine, in numpy"

    def programs(self) -> dict[str, str]:
        return {}

    def run(self, plan: Plan, samples: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        refuse_stream(plan)
        results = [
            machine.run(sample) for machine, sample in zip(machines_of(plan), samples, strict=False)
        ]
        return [[tensors[port.tensor] for port in plan.graph.outputs] for tensors in results]
