# SPDX-License-Identifier: Apache-2.0
"""The choices of a planner."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """The cost of a model: bytes of RAM, estimated before tensors are placed, or a limit that is
    met; cycles besides those of layers one by one (a part of theirs, by estimate), and how many
    stages have several layers. extra_macs: multiply-accumulates that are done twice."""

    pool_bytes: int
    extra_cycles: float
    extra_macs: int
    stages: int
