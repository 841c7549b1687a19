# SPDX-License-Identifier: Apache-2.0
"""Sums of two tensors, in TensorFlow Lite's arithmetic or in ONNX Runtime's."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import REQUANTISERS, Op
from ..kernels.pack import FAST_ACCUMULATOR, FAST_SHIFTS
from ..kernels.programs import PROGRAMS
from ..kernels.targets.portable.sums import ADD_SHIFT, TERM, add_term
from ..quant import INT8_MAX, INT8_MIN, INT32_MAX, FixedSum, FloatSum
from .layer import Binding, ProgramLayer, Reach
from .values import CStruct, factor_of

BYTES = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.int64)
TERM_OF_SUM = CStruct("vmcu_add_term", "int32_t multiplier, half, offset, shift;")
PARAMS = CStruct("vmcu_add_params", "struct vmcu_add_term a, b; int32_t multiplier, bias, shift;")
EXACT_PARAMS = CStruct(
    "vmcu_add_exact_params",
    "struct vmcu_factor a, b, output;"
    "uint8_t left_shift; int8_t a_zero, b_zero, output_zero, act_min, act_max;",
)
FLOAT_SUM = CStruct(
    "vmcu_float_sum",
    "int64_t a, b, constant; int32_t a_scale, b_scale, bias, fraction; uint8_t shift, offset;",
)
FLOAT_PARAMS = CStruct(
    "vmcu_add_float_params", "struct vmcu_float_sum sum; bool narrow; int8_t act_min, act_max;"
)


@dataclass(frozen=True, eq=False)
class Add(Op):
    """Element-wise sum of two tensors of one shape."""

    clamps = elementwise = monotone = True
    always_has = frozenset(REQUANTISERS.values())

    sum: FixedSum | FloatSum


class AddLayer(ProgramLayer[Add], op=Add):
    @property
    def by_columns(self) -> bool:
        return True

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        if isinstance(self.op.sum, FloatSum):
            return self.clamp(self.op.sum.apply(data[0][y0:y1], data[1][y0:y1]))
        fixed = self.op.sum
        total = sum(self.term(fixed, index, values[y0:y1]) for index, values in enumerate(data))
        return self.clamp(fixed.out.apply(total) + self.out.zero_point)

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def reach(self, index: int) -> Reach:
        return Reach.shifted()

    def term(self, fixed: FixedSum, index: int, values: np.ndarray) -> np.ndarray:
        """What an input contributes to the sum."""
        centred = values.astype(np.int64) - self.ins[index].zero_point
        return (fixed.a, fixed.b)[index].apply(centred << fixed.left_shift)

    def fast_term(self, fixed: FixedSum, index: int) -> dict[str, int] | None:
        """Constants of targets/portable/sums.add_term that give the term of every byte, if any
        do."""
        multiplier, shift = factor_of((fixed.a, fixed.b)[index])
        if (multiplier, shift) == (1 << 30, 0):
            # Half, which the larger of two scales gets: a multiplier of one, almost, and a shift.
            multiplier, shift = INT32_MAX, -1
        if shift >= 0:
            return None
        offset = self.ins[index].zero_point << ADD_SHIFT
        constants = dict(zip(TERM, (multiplier, 1 << (-shift - 1), offset, -shift), strict=True))
        same = np.array_equal(add_term(BYTES, **constants), self.term(fixed, index, BYTES))
        return constants if same else None

    @functools.cached_property
    def binding(self) -> Binding:
        if isinstance(self.op.sum, FloatSum):
            fields = {f"sum.{name}": value for name, value in self.op.sum.fixed().items()}
            fields["narrow"] = int((self.op.act_min, self.op.act_max) != (INT8_MIN, INT8_MAX))
            return Binding(PROGRAMS["vmcu_add_float"], fields | self.bounds)
        return self._fast(self.op.sum) or self._exact(self.op.sum)

    def _fast(self, fixed: FixedSum) -> Binding | None:
        terms = [self.fast_term(fixed, index) for index in (0, 1)]
        multiplier, shift = factor_of(fixed.out)
        reach = sum(int(np.abs(self.term(fixed, index, BYTES)).max()) for index in (0, 1))
        fast = (
            None not in terms
            and reach < FAST_ACCUMULATOR
            and multiplier >= 0
            and -shift in FAST_SHIFTS
            and (self.op.act_min, self.op.act_max) == (INT8_MIN, INT8_MAX)
        )
        if not fast:
            return None
        fields = {}
        for name, term in zip("ab", terms, strict=True):
            fields |= {f"{name}.{key}": value for key, value in term.items()}
        bias = (1 << (-shift - 1)) + (self.out.zero_point << -shift)
        fields |= {"multiplier": multiplier, "bias": bias, "shift": -shift}
        return Binding(PROGRAMS["vmcu_add"], fields)

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
