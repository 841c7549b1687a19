# SPDX-License-Identifier: Apache-2.0
"""Checks of a packing's kernels, and layers for them."""

from __future__ import annotations

import ctypes

from layer_checks import Checks, Fields, One, whole
from vmcu_tools.kernels.language.packing import Packing
from vmcu_tools.kernels.pack import fast_shifts
from vmcu_tools.kernels.targets.portable.shapes import NARROW, WIDE


class Takes(Checks):
    """The checks of kernels of a packing, by their names without its suffix."""

    def __init__(self, loader: ctypes.CDLL, packing: Packing):
        super().__init__(loader)
        self.packing = packing
        self.shift = fast_shifts(packing)[-1] - 1

    def __call__(self, kernel: str, one: One, params: str, fields: Fields) -> bool:
        return super().__call__(f"{kernel}{self.packing.suffix}", one, params, fields)

    def size(self, kernel: str) -> int:
        """Channels of a block."""
        shapes = NARROW if kernel.endswith("narrow") else WIDE
        return self.packing.dense if kernel == "dense" else shapes[1].channels(self.packing)

    def params(self, cin: int, **changes: int) -> dict:
        """Those of a window of one tap."""
        window = {f"{name}_{axis}": 1 for name in ("kernel", "stride", "dilation") for axis in "hw"}
        usual = {"stream": 8, "window": window, "groups": 1, "depth": cin, "run": cin}
        return usual | {"steps": self.packing.steps(cin)} | changes


def given(kernel: str, cin: int, cout: int, constants: bytes, width: int = 2, **layer: int) -> One:
    out, source = whole(2, width, cout), whole(2, width, cin)
    usual = {"rows": 2, "width": width, "columns": width, "scratch": 0}
    return One([out, source], constants=constants, **(usual | layer))
