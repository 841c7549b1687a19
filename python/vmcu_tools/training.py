# SPDX-License-Identifier: Apache-2.0
"""The options of training on the device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Training:
    """The trained parts: so many last layers, and classes of the last one, None for those of the
    file; rate: of gradient descent; new_only: of the last layer the new classes alone."""

    classes: int | None = None
    layers: int = 1
    rate: float = 1 / 256
    new_only: bool = False
