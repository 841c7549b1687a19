# SPDX-License-Identifier: Apache-2.0
"""What a target is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..plan import Plan


class TargetError(Exception):
    """An image did not build or run as it should: a defect here, never of the user's model."""


class Target(Protocol):
    """Something that runs plans."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    def run(self, plan: Plan, samples: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """int8 (H, W, C) of every graph output for every sample, in port order.

        Each sample holds one int8 array per graph input.
        """
        ...
