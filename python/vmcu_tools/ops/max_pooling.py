# SPDX-License-Identifier: Apache-2.0
"""Maximum over windows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op, Window
from ..quant import INT8_MIN
from .binding import Binding
from .kernel_type import BYTEWISE, ONE_INPUT, SAME_CHANNELS, KernelType
from .rates import Rates
from .values import CStruct
from .window import Pooling, WindowLayer, gather, window_fields

PARAMS = CStruct("vmcu_max_pool_params", "struct vmcu_window window; int8_t act_min, act_max;")
for _packing in BYTEWISE:
    KernelType(
        f"vmcu_max_pool{_packing.suffix}",
        PARAMS,
        ONE_INPUT,
        SAME_CHANNELS,
        reads="WINDOW",
        packing=_packing,
    )


@dataclass(frozen=True, eq=False)
class MaxPool2D(Pooling, Op):
    """Maximum over the window's taps inside the image; scale and zero point are kept."""

    clamps = windowed = exact = monotone = True

    window: Window


class MaxPool2DLayer(WindowLayer[MaxPool2D], op=MaxPool2D):
    @property
    def rates(self) -> Rates:  # type: ignore[override]
        down, across = self.op.window.kernel
        channels = self.out.shape[2]
        pixel = 256 if channels % 4 else 36
        return Rates(byte=5 + 2.5 * down * across + pixel / channels)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        taps, _ = gather(data[0], self.op.window, self.out.shape[1], y0, y1, INT8_MIN)
        return self.clamp(taps.max(axis=(2, 3)))

    @functools.cached_property
    def binding(self) -> Binding:
        return Binding(self.program("max_pool"), {**window_fields(self.window), **self.bounds})
