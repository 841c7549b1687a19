# SPDX-License-Identifier: Apache-2.0
"""A step of an LSTM."""

from __future__ import annotations

import numpy as np
from random_builder import Builder
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.lstm import COLUMNS, LstmStep
from vmcu_tools.quant import FixedPoint


def layer(b: Builder) -> Tensor:
    inputs, units = b.pick(1, 3, 8, 13), b.pick(1, 2, 7, 10)
    x, state = b.input((1, 1, inputs)), b.input((1, COLUMNS, units))

    def weights(count: int) -> np.ndarray:
        return b.rng.integers(-128, 128, (units, 4, count)).astype(np.int8)

    def factors(count: int, scale: float) -> FixedPoint:
        return FixedPoint.of(b.rng.uniform(0.3, 2, count) * scale)

    power = int(b.rng.integers(-15, -8))
    op = LstmStep(
        weights(inputs),
        weights(units),
        b.rng.integers(-20_000, 20_000, (units, 4)).astype(np.int32),
        factors(4, 1.0 / inputs**0.5),
        factors(4, 1.0 / units**0.5),
        FixedPoint.of([2.0**-15]),
        FixedPoint.of([2.0 ** (-30 - power)]),
        factors(1, 2.0**-23),
        b.pick(0, 500, 32767),
        (3, -12 - power) if power < -12 else (3 << 12 + power, 0),
        int(b.rng.integers(-128, 128)),
    )
    return b.node(op, [x, state], state.shape)
