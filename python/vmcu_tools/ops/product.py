# SPDX-License-Identifier: Apache-2.0
"""What layers share that multiply activations with each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kernels.integer_scale import integer_scale
from ..quant import INT8_MAX, INT8_MIN, FloatScale, Requant, requantize, wrap_int32
from .layer import OpT, ProgramLayer
from .rates import Rates
from .values import CStruct, factor_of

PRODUCT = CStruct(
    "vmcu_product",
    "int32_t multiplier, shift; uint8_t is_float;"
    "int8_t x_zero, y_zero, output_zero, act_min, act_max;",
)


def scale_fields(requant: Requant, zero: int, depth: int) -> dict[str, int]:
    """The one factor of a product with sums of `depth` terms; of a float32 see integer_scale.py."""
    if isinstance(requant, FloatScale):
        reach = np.array([depth * (INT8_MAX - INT8_MIN) ** 2])
        found = integer_scale(np.ravel(requant.scale)[:1], zero, -reach, reach, False)
        return {"multiplier": int(found.multiplier[0]), "shift": int(found.word[0]), "is_float": 1}
    multiplier, shift = factor_of(requant)
    return {"multiplier": multiplier, "shift": shift, "is_float": 0}


class ProductLayer(ProgramLayer[OpT]):
    """Output row y depends on row y of every input: they are the matrices of a batch."""

    can_descend = False
    rates = Rates(call=900, mac=5.6, byte=65, floating=65)

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def centred(self, data: Sequence[np.ndarray], y0: int, y1: int) -> list[np.ndarray]:
        """q - zero_point of rows y0 .. y1-1 of every input, int64."""
        pairs = zip(self.ins, data, strict=True)
        return [values[y0:y1].astype(np.int64) - tensor.zero_point for tensor, values in pairs]

    def finish(self, acc: np.ndarray, requant: Requant) -> np.ndarray:
        """Accumulators to the output's int8."""
        zero = self.out.zero_point
        return requantize(wrap_int32(acc), requant, zero, self.op.act_min, self.op.act_max)

    def product(
        self, name: str, requant: Requant, zeros: tuple[int, int], output: int | None = None
    ) -> dict[str, int]:
        """struct vmcu_product; `output`: the zero point of a kept line, None for the output."""
        zero = self.out.zero_point if output is None else output
        values = {
            **scale_fields(requant, zero, self.ins[0].shape[2]),
            "x_zero": zeros[0],
            "y_zero": zeros[1],
            "output_zero": zero,
            "act_min": self.op.act_min if output is None else INT8_MIN,
            "act_max": self.op.act_max if output is None else INT8_MAX,
        }
        return {f"{name}.{key}": value for key, value in values.items()}

    @property
    def macs(self) -> int:
        """Of products by input 1 and, if there is one, input 2."""
        height, lines, depth = self.ins[0].shape
        return height * lines * (depth * self.between + self.between * self.last_columns)

    @property
    def between(self) -> int:
        """Columns of the first product."""
        return self.ins[1].shape[2]

    @property
    def last_columns(self) -> int:
        return self.ins[2].shape[2] if len(self.ins) > 2 else 0
