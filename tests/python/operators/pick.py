# SPDX-License-Identifier: Apache-2.0
"""Some bytes of each row."""

from __future__ import annotations

import numpy as np
from random_builder import Builder
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.pick import Pick


def layer(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 4), b.pick(1, 6, 33)))
    width, channels = b.pick(1, 3), b.pick(1, 4, 9)
    places = b.rng.integers(0, x.row_bytes, width * channels)
    if b.rng.random() < 0.5:
        places = (places[0] + np.arange(len(places))) % x.row_bytes
    return b.node(Pick(places), [x], (x.shape[0], width, channels))
