# SPDX-License-Identifier: Apache-2.0
"""Rows of a table by numbers."""

from __future__ import annotations

import numpy as np
from random_builder import Builder
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.embedding import Embedding


def layer(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 4), 4))
    # Few bytes: containers of all layers have to fit into a board's flash.
    rows = b.pick(1, 2, 60, 300)
    channels = b.pick(1, 2) if rows > 9 else b.pick(1, 3, 8, 33)
    table = b.rng.integers(-128, 128, (rows, channels)).astype(np.int8)
    return b.node(Embedding(table), [x], (*x.shape[:2], channels))
