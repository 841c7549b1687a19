# SPDX-License-Identifier: Apache-2.0
"""What pooling layers share: a window without weights."""

from __future__ import annotations

from ..kernels.programs import PROGRAMS
from .layer import Binding, OpT, ProgramLayer, Reach
from .window import window_fields, window_rows


class PoolingLayer(ProgramLayer[OpT]):
    @property
    def by_columns(self) -> bool:
        return True

    def input_rows(self, index: int, y: int) -> range:
        return window_rows(self.op.window, self.ins[0].shape[0], y)

    def reach(self, index: int) -> Reach:
        return Reach.window(self.op.window)

    def bind_pool(self, name: str, fields: dict[str, int]) -> Binding:
        everything = {**window_fields(self.op.window), **fields, **self.bounds}
        return Binding(PROGRAMS[f"vmcu_{name}_pool"], everything)
