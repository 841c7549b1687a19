# SPDX-License-Identifier: Apache-2.0
"""Norms whose results are near halves, as integers divided by a whole root are, and others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from random_builder import Builder
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.rms_norm import RmsNorm


def layer(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 4), b.pick(1, 2, 9, 64, 256)))
    channels, scale = x.shape[2], float(b.rng.choice([0.0625, 0.05, 3.0]))
    gain = b.rng.uniform(-2, 2, channels) * b.rng.choice([0.01, 1, 1000])
    some = b.rng.uniform(0, 1, channels) < 0.3
    gain = np.where(some, scale * b.rng.choice([0, 0.5, 3.5]), gain)
    epsilon = float(b.rng.choice([2.0**-30, 0.125, 1, 2.0**20]))
    op = RmsNorm(gain.astype(np.float32), epsilon, **b.limits())
    out = b.node(op, [x], x.shape)
    b.tensors[out.name] = replace(out, scale=scale)
    return b.tensors[out.name]
