# SPDX-License-Identifier: Apache-2.0
"""Mean over windows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..graph import Graph, Node, Op, Window
from ..kernels.targets.portable.pooling import (
    MEAN_KEPT,
    MEAN_OF_256,
    MEAN_OF_SUM,
    MEAN_OF_SUM_FLOAT,
)
from ..quant import FloatScale, Requant, divide_away, float_bits
from .binding import Binding
from .kernel_type import BYTEWISE, KernelType
from .layer import Form, Layer
from .rates import Rates
from .reach import Reach
from .values import CStruct, factor
from .window import Pooling, WindowLayer, gather, window_fields

PARAMS = CStruct(
    "vmcu_average_pool_params",
    "struct vmcu_window window; struct vmcu_factor factor; uint8_t rescale; bool count_padding;"
    "int8_t input_zero, output_zero, act_min, act_max;",
)
for _packing in BYTEWISE:
    KernelType(
        f"vmcu_average_pool{_packing.suffix}",
        PARAMS,
        reads="WINDOW",
        check="vmcu_check_average_pool(c)",
        packing=_packing,
    )
# The most that the kernel looks up once for all channels.
LISTED_TAPS = 64
KernelType("vmcu_average_pool_sum", PARAMS, reads="PIXEL", check="vmcu_check_average_pool_sum(c)")


@dataclass(frozen=True, eq=False)
class AveragePool2D(Pooling, Op):
    """Mean over the window's taps inside the image (or all taps if `count_padding`).

    `requant` None: TensorFlow Lite semantics, input and output share scale and zero point, the
    sum of the q is divided by the count with rounding half away from zero. Otherwise
    requant.apply(round((sum of (q - zi)) * 256 / count)) + zo, the division again half away from
    zero, with the one factor in_scale / out_scale / 256; or, `of_sum`, requant.apply(sum of
    (q - zi)) + zo, where the factor holds the count: TensorFlow Lite's MEAN and ONNX Runtime's
    global mean.
    """

    clamps = windowed = monotone = True
    # An average in units of 1/256; every second one of two taps may be half way between two bytes.
    differing_share = 0.3

    window: Window
    requant: Requant | None = None
    count_padding: bool = False
    of_sum: bool = False


class AveragePool2DLayer(WindowLayer[AveragePool2D], op=AveragePool2D):
    @property
    def rates(self) -> Rates:  # type: ignore[override]
        taps = self.op.window.kernel[0] * self.op.window.kernel[1]
        return Rates(byte=54 + (3 if taps <= LISTED_TAPS else 11) * taps)

    @classmethod
    def working(cls, graph: Graph, node: Node, form: Form) -> type[Layer[Any]] | None:
        if form is not Form.SUMMING:
            return super().working(graph, node, form)
        height, width, _ = graph.tensors[node.inputs[0]].shape
        assert isinstance(node.op, AveragePool2D)
        whole = replace(node.op.window, stride=(1, 1)) == Window((height, width))
        return AveragePool2DSumLayer if whole else None

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        zero = self.ins[0].zero_point
        taps, inside = gather(data[0], self.op.window, self.out.shape[1], y0, y1, zero)
        count = inside.sum(axis=(2, 3))[..., None]
        if self.op.count_padding:
            count = np.full_like(count, self.op.window.kernel[0] * self.op.window.kernel[1])
        # Padding was filled with the zero point, so it adds nothing to this sum.
        total = (taps - zero).sum(axis=(2, 3))
        if self.op.requant is None:
            values = divide_away(total + zero * count, count)
        else:
            scaled = total if self.op.of_sum else divide_away(total << 8, count)
            values = self.op.requant.apply(scaled) + self.out.zero_point
        return self.clamp(values)

    @functools.cached_property
    def binding(self) -> Binding:
        requant = self.op.requant
        counts = {"rescale": self.mode, "count_padding": int(self.op.count_padding)}
        fields: dict[str, Any] = {**window_fields(self.window), **counts, **self.zeros}
        if isinstance(requant, FloatScale):
            fields |= {"factor.multiplier": float_bits(requant.scale), "factor.shift": 0}
        elif requant is not None:
            fields |= {f"factor.{name}": value for name, value in factor(requant).fields.items()}
        return Binding(self.program("average_pool"), fields | self.bounds)

    @property
    def mode(self) -> int:
        """Returns the mode of enum vmcu_mean."""
        if self.op.requant is None:
            return MEAN_KEPT
        if not self.op.of_sum:
            return MEAN_OF_256
        return MEAN_OF_SUM_FLOAT if isinstance(self.op.requant, FloatScale) else MEAN_OF_SUM


class AveragePool2DSumLayer(AveragePool2DLayer):
    """A mean over the whole image, which is added up pixel by pixel as it comes: call (y, x) reads
    input columns from x on of row y. Its sums, an int16 for each channel of up to 256 pixels, an
    int32 of more, last from the first call to the last, which writes the output."""

    can_descend = False
    symbol = "vmcu_average_pool_sum"

    @property
    def rates(self) -> Rates:  # type: ignore[override]
        return Rates(call=390, byte=110 + 2.4 * self.ins[0].bytes / self.out.bytes)

    @property
    def height(self) -> int:
        return self.ins[0].shape[0]

    @property
    def width(self) -> int:
        return self.ins[0].shape[1]

    @property
    def scratch_bytes(self) -> int:
        # 256 times -128 is the least that 16 bits hold.
        return (2 if self.height * self.width <= 256 else 4) * self.out.shape[2]

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def reach(self, index: int) -> Reach:
        return Reach.shifted()
