# SPDX-License-Identifier: Apache-2.0
"""Sums of two tensors, in TensorFlow Lite's arithmetic or in ONNX Runtime's."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..graph import REQUANTISERS, Op
from ..kernels.integer_sum import BYTES, IntegerSum, integer_sum
from ..kernels.programs import PROGRAMS
from ..quant import INT8_MAX, INT8_MIN, FixedPoint, FixedSum, FloatSum
from .binding import Binding
from .kernel_type import BYTEWISE, KernelType
from .layer import ProgramLayer
from .pixelwise import OwnPixelLayer
from .rates import Rates
from .values import CStruct, factor_of

PARAMS = CStruct("vmcu_add_params", "int32_t a_scale, b_scale, bias, shift;")
EXACT_PARAMS = CStruct(
    "vmcu_add_exact_params",
    "struct vmcu_factor a, b, output;"
    "uint8_t left_shift; int8_t a_zero, b_zero, output_zero, act_min, act_max;",
)
FLOAT_SUM = CStruct(
    "vmcu_float_sum",
    "vmcu_long_t a, b, constant; int32_t a_scale, b_scale, bias, fraction; uint8_t shift, offset;",
)
FLOAT_PARAMS = CStruct(
    "vmcu_add_float_params", "struct vmcu_float_sum sum; bool narrow; int8_t act_min, act_max;"
)
for _packing in BYTEWISE:
    KernelType(
        f"vmcu_add{_packing.suffix}",
        PARAMS,
        reads="PIXEL",
        check="vmcu_check_add(c)",
        packing=_packing,
    )
KernelType(
    "vmcu_add_exact",
    EXACT_PARAMS,
    "vmcu_check_alike(c, 2U)",
    reads="PIXEL",
    limits={"left_shift": (None, 31)},
)
KernelType("vmcu_add_float", FLOAT_PARAMS, "vmcu_check_alike(c, 2U)", reads="PIXEL")


@dataclass(frozen=True, eq=False)
class Add(Op):
    """Element-wise sum of two tensors of one shape."""

    data_dependent = "float scales: sums next to a rounding border; up to 9 times as many"
    clamps = elementwise = monotone = True
    always_has = frozenset(REQUANTISERS.values())

    sum: FixedSum | FloatSum

    @property
    def is_data_dependent(self) -> bool:
        return isinstance(self.sum, FloatSum)


class AddLayer(OwnPixelLayer[Add], ProgramLayer[Add], op=Add):
    @property
    def rates(self) -> Rates:  # type: ignore[override]
        return Rates(byte=110 if self.symbol == "vmcu_add_exact" else 12)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        return self._sums(data[0][y0:y1], data[1][y0:y1])

    def _sums(self, qa: np.ndarray, qb: np.ndarray) -> np.ndarray:
        """int8 sums of int8 bytes."""
        summed = self.op.sum
        if isinstance(summed, FloatSum):
            return self.clamp(summed.apply(qa, qb))
        total = self._term(summed, summed.a, 0, qa) + self._term(summed, summed.b, 1, qb)
        return self.clamp(summed.out.apply(total) + self.out.zero_point)

    def _term(
        self, summed: FixedSum, factor: FixedPoint, index: int, values: np.ndarray
    ) -> np.ndarray:
        """Computes an input's term of the sum."""
        centred = values.astype(np.int64) - self.ins[index].zero_point
        return factor.apply(centred << summed.left_shift)

    @functools.cached_property
    def binding(self) -> Binding:
        summed = self.op.sum
        narrow = (self.op.act_min, self.op.act_max) != (INT8_MIN, INT8_MAX)
        if not narrow:
            zeros = tuple(tensor.zero_point for tensor in (*self.ins, self.out))
            line = _line_once(Summed(self.op, zeros, self))
            if line is not None:
                fields = {"a_scale": line.a, "b_scale": line.b, "bias": line.constant}
                return Binding(self.program("add"), fields | {"shift": line.shift})
        if isinstance(summed, FloatSum):
            fields = {f"sum.{name}": value for name, value in summed.fixed().items()}
            fields["narrow"] = int(narrow)
            return Binding(PROGRAMS["vmcu_add_float"], fields | self.bounds)
        return self._exact(summed)

    def line(self) -> IntegerSum | None:
        """The sum as a line, if it is one; of no activation."""
        results = self._sums(BYTES[:, None], BYTES[None, :]).astype(np.int64)
        return integer_sum(*_factors(self.op.sum), results)

    def _exact(self, fixed: FixedSum) -> Binding:
        fields = {}
        for name, requant in (("a", fixed.a), ("b", fixed.b), ("output", fixed.out)):
            fields[f"{name}.multiplier"], fields[f"{name}.shift"] = factor_of(requant)
        fields |= {
            "left_shift": fixed.left_shift,
            "a_zero": self.ins[0].zero_point,
            "b_zero": self.ins[1].zero_point,
            "output_zero": self.out.zero_point,
            **self.bounds,
        }
        return Binding(PROGRAMS["vmcu_add_exact"], fields)


@dataclass(frozen=True)
class Summed:
    """The parameters of a line; `layer` is one that has them: all bands of one layer do."""

    op: Add
    zero_points: tuple[int, ...]
    layer: AddLayer = field(compare=False, repr=False)


@functools.lru_cache(maxsize=1 << 8)
def _line_once(summed: Summed) -> IntegerSum | None:
    return summed.layer.line()


def _factors(summed: FixedSum | FloatSum) -> tuple[float, float]:
    """Estimates the steps of the output for a step of either input."""
    if isinstance(summed, FloatSum):
        return summed.a, summed.b
    out = _real(summed.out) * 2.0**summed.left_shift
    return _real(summed.a) * out, _real(summed.b) * out


def _real(factor: FixedPoint) -> float:
    multiplier, shift = factor_of(factor)
    return multiplier * 2.0 ** (shift - 31)
