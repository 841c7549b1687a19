# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations on two operands, either of which may be repeated along any axis.

Order of access: output bytes in ascending order, each operand read just before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op, Scaled, Shape, Shapes
from ..kernels.integer_scale import integer_product
from ..quant import FixedPoint, FloatProduct, FloatSum, fixed_point_quotient
from .add import FLOAT_SUM
from .kernel_type import KernelType
from .layer import Layer
from .reach import Reach
from .values import Array, CStruct, Kernel, Struct, StructArray, Value, factor

PARAMS = CStruct(
    "vmcu_binary_params",
    """
	const struct vmcu_float_sum *sum; /**< for VMCU_BINARY_FLOAT_SUM */
	const int8_t *constant;           /**< second operand; NULL: input 1 */
	struct vmcu_factor a;
	struct vmcu_factor b;
	struct vmcu_factor output;
	uint16_t constant_height;
	uint16_t constant_width;
	uint16_t constant_channels;
	uint8_t kind; /**< enum vmcu_binary_kind */
	uint8_t left_shift;
	bool rescale;
	int8_t a_zero;
	int8_t b_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
	uint8_t offset; /**< file's bytes minus int8, for VMCU_BINARY_FLOAT_PRODUCT */
""",
    before="""
/**
 * Operations of vmcu_binary() on two values a and b without their zero points. A "term" is such a
 * value, shifted left and multiplied by the factor of its operand.
 */
enum vmcu_binary_kind {
	VMCU_BINARY_SUM,           /**< sum of the terms, times @a output */
	VMCU_BINARY_DIFFERENCE,    /**< first minus second term, times @a output */
	VMCU_BINARY_REVERSED,      /**< second minus first term, times @a output */
	VMCU_BINARY_SQUARED,       /**< squared difference of the terms, times @a output */
	VMCU_BINARY_PRODUCT,       /**< a times b, times @a output */
	VMCU_BINARY_MINIMUM,       /**< minimum of the terms; without @a rescale, of the bytes */
	VMCU_BINARY_MAXIMUM,       /**< maximum, see VMCU_BINARY_MINIMUM */
	VMCU_BINARY_PRELU,         /**< first term; if a is negative: a times b times @a output */
	VMCU_BINARY_FLOAT_SUM,     /**< ONNX Runtime's sum, with @a sum */
	VMCU_BINARY_FLOAT_PRODUCT, /**< ONNX Runtime's product, with @a output */
	VMCU_BINARY_QUOTIENT,      /**< a / b, times @a output; the largest value if b is zero */
};

/** Each size of an operand is the output's size, or 1: the kernel then repeats the operand. */
""",
    declares="""
/** @brief Combines two operands by element. For each byte, ascending: reads both, then writes. */
void vmcu_binary(const struct vmcu_call *call);
""",
)
KERNEL = KernelType("vmcu_binary", PARAMS, reads="PIXEL", check="vmcu_check_binary(c)")


@dataclass(frozen=True, eq=False)
class Binary(Op):
    """Element-wise on two operands, each repeated along the axes where its size is one.

    The second operand is input 1 or, if given, `constant`, int8 (H, W, C) with the zero point
    `constant_zero`. With da = qa - za and db = qb - zb, and before the output's zero point:

    "sum", "difference", "reversed": out.apply(ta + tb), (ta - tb) or (tb - ta), where
        ta = a.apply(da << left_shift), tb = b.apply(db << left_shift)
    "squared": out.apply((ta - tb) ** 2)
    "product": out.apply(da * db)
    "minimum", "maximum": of a.apply(da) and b.apply(db); both None: of qa and qb, which share
        the output's scale and zero point
    "prelu": a.apply(da) where da >= 0, else out.apply(da * db)
    "float_sum": sum.apply(qa, qb), which contains the output's zero point
    "float_product": product.apply(da * db, zo), the same
    "quotient": da / db times out, the largest value of da's sign where db is zero

    TensorFlow Lite, kernels/internal/reference: add.h, sub.h, mul.h, prelu.h, div.h and
    micro/kernels/squared_difference.cc.
    """

    data_dependent = (
        "PReLU and quotients: operands; float sums and products: rounding; up to 9 times as many"
    )
    clamps = by_channel = True
    # Float constants are int8, and halves of sums and extremes go another way.
    differing_share = 0.3
    always_has = frozenset({"FIXED"})

    kind: str
    a: FixedPoint | None = None
    b: FixedPoint | None = None
    out: FixedPoint | None = None
    left_shift: int = 0
    constant: np.ndarray | None = None
    constant_zero: int = 0
    sum: FloatSum | None = None
    product: FloatProduct | None = None

    def of_channels(self, picked: np.ndarray) -> Binary:
        if self.constant is None or self.constant.shape[2] == 1:
            return self
        return replace(self, constant=self.constant[:, :, picked])

    def scaled(self, ins: Shapes, was: Shapes, out: Shape, channels: int) -> Scaled | None:
        sizes = [max(shape[axis] for shape in ins) for axis in range(3)]
        if any(shape[axis] not in (1, sizes[axis]) for shape in ins for axis in range(3)):
            return None
        constant = self.constant
        if constant is not None:
            pairs = zip(constant.shape, sizes, strict=True)
            picks = (np.arange(1 if old == 1 else size) % old for old, size in pairs)
            constant = constant[np.ix_(*picks)]
        height, width, depth = sizes
        return replace(self, constant=constant), (height, width, depth)

    @property
    def is_data_dependent(self) -> bool:
        return self.kind in ("prelu", "quotient", "float_sum", "float_product")


class BinaryLayer(Layer[Binary], op=Binary):
    by_columns = True

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        a = self._cut(data[0], y0, y1)
        b = self._cut(data[1] if self.op.constant is None else self.op.constant, y0, y1)
        if self.op.kind in ("minimum", "maximum"):
            return self.clamp(self._extreme(a, b))
        if self.op.kind == "float_sum":
            assert self.op.sum is not None
            return self.clamp(self.op.sum.apply(a, b))
        da, db = a - self.ins[0].zero_point, b - self.second_zero
        if self.op.kind == "float_product":
            assert self.op.product is not None
            return self.clamp(self.op.product.apply(da * db, self.out.zero_point))
        values = self._prelu(da, db) if self.op.kind == "prelu" else self._scaled(da, db)
        return self.clamp(np.broadcast_to(values, self._rows_shape(y0, y1)) + self.out.zero_point)

    def _cut(self, values: np.ndarray, y0: int, y1: int) -> np.ndarray:
        """Rows of an operand, or its only one, repeated."""
        cut = values if values.shape[0] == 1 else values[y0:y1]
        return np.broadcast_to(cut.astype(np.int64), self._rows_shape(y0, y1))

    def _rows_shape(self, y0: int, y1: int) -> Shape:
        return y1 - y0, self.out.shape[1], self.out.shape[2]

    @property
    def second_zero(self) -> int:
        return self.op.constant_zero if self.op.constant is not None else self.ins[1].zero_point

    def _extreme(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if self.op.a is not None and self.op.b is not None:
            a = self.op.a.apply(a - self.ins[0].zero_point) + self.out.zero_point
            b = self.op.b.apply(b - self.second_zero) + self.out.zero_point
        values: np.ndarray = np.minimum(a, b) if self.op.kind == "minimum" else np.maximum(a, b)
        return values

    def _prelu(self, da: np.ndarray, db: np.ndarray) -> np.ndarray:
        assert self.op.a is not None and self.op.out is not None
        return np.where(da >= 0, self.op.a.apply(da), self.op.out.apply(da * db))

    def _scaled(self, da: np.ndarray, db: np.ndarray) -> np.ndarray:
        assert self.op.out is not None
        if self.op.kind == "product":
            return self.op.out.apply(da * db)
        if self.op.kind == "quotient":
            return fixed_point_quotient(da, db, self.op.out.multiplier, self.op.out.shift)
        assert self.op.a is not None and self.op.b is not None
        ta = self.op.a.apply(da << self.op.left_shift)
        tb = self.op.b.apply(db << self.op.left_shift)
        joined = {
            "sum": ta + tb,
            "difference": ta - tb,
            "reversed": tb - ta,
            "squared": (ta - tb) ** 2,
        }
        return self.op.out.apply(joined[self.op.kind])

    def input_rows(self, index: int, y: int) -> range:
        row = 0 if self._repeated(index, 0) else y
        return range(row, row + 1)

    def _repeated(self, index: int, axis: int) -> bool:
        return self.ins[index].shape[axis] < self.out.shape[axis]

    def reach(self, index: int) -> Reach:
        strides = tuple(0 if self._repeated(index, axis) else 1 for axis in (0, 1))
        return Reach((strides[0], strides[1]), (0, 0), (0, 0))

    @property
    def by_rows(self) -> bool:
        heights = [tensor.shape[0] for tensor in self.ins]
        heights += [] if self.op.constant is None else [self.op.constant.shape[0]]
        own = self.out.shape[0]
        varies = self.op.constant is not None and heights[-1] != 1
        return not varies and all(height == own for height in heights[: len(self.ins)])

    @property
    def transposed(self) -> Op | None:
        constant = self.op.constant
        return self.op if constant is None else replace(self.op, constant=constant.swapaxes(0, 1))

    def last_reads(self, index: int) -> np.ndarray:
        ticks = self.writes()
        for axis in range(3):
            if self._repeated(index, axis):
                ticks = ticks.max(axis=axis, keepdims=True)
        return ticks

    @property
    def weight_bytes(self) -> int:
        return 0 if self.op.constant is None else self.op.constant.size

    @property
    def kernel(self) -> Kernel:
        op = self.op
        factors = (("a", op.a), ("b", op.b), ("output", op.out))
        fields: dict[str, Value] = {name: factor(r) for name, r in factors if r is not None}
        if op.sum is not None:
            fields["sum"] = StructArray("sum", (FLOAT_SUM(**op.sum.fixed()),))
        if op.product is not None:
            multiplier, word = integer_product(op.product, self.out.zero_point)
            fields["output"] = Struct("", {"multiplier": multiplier, "shift": word})
            fields["offset"] = op.product.offset
        if op.constant is not None:
            fields["constant"] = Array("constant", op.constant.astype(np.int8))
            sizes = zip(("height", "width", "channels"), op.constant.shape, strict=True)
            fields |= {f"constant_{axis}": size for axis, size in sizes}
        rescale = op.a is not None and op.b is not None
        zeros = self.ins[0].zero_point, self.second_zero
        if op.kind in ("minimum", "maximum") and not rescale:
            zeros = self.out.zero_point, self.out.zero_point
        return KERNEL(
            **fields,
            kind=f"VMCU_BINARY_{op.kind.upper()}",
            left_shift=op.left_shift,
            rescale=rescale,
            a_zero=zeros[0],
            b_zero=zeros[1],
            output_zero=self.out.zero_point,
            **self.bounds,
        )
