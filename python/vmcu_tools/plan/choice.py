# SPDX-License-Identifier: Apache-2.0
"""What a planner can choose from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """What a model may cost: bytes of RAM, estimated before tensors are placed, or a limit that is
    met; cycles besides those of layers one by one (a part of theirs, by estimate), and how many
    stages have several layers. extra_macs: multiply-accumulates that are done twice."""

    pool_bytes: int
    extra_cycles: float
    extra_macs: int
    stages: int
