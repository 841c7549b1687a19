# SPDX-License-Identifier: Apache-2.0
"""Import rules for pooling."""

from __future__ import annotations

import tflite

from ...graph import Tensor, Window
from ...ops.average_pooling import AveragePool2D
from ...ops.max_pooling import MaxPool2D
from ..common import (
    KEEP_QUANTISATION,
    require,
)
from .file import FileOp
from .ops import SAME_SCALE, Importer, image_of, layer_window, limits_of, rule, windowed


def _pool(importer: Importer, op: FileOp) -> tuple[Tensor, Window, dict[str, int]]:
    options = op.options(tflite.Pool2DOptions)
    x, out = image_of(importer, op.inputs[0]), importer.activation(op.outputs[0])
    # The tolerance is TensorFlow Lite Micro's own, micro/kernels/pooling_common.cc.
    require(
        abs(x.scale - out.scale) <= 1e-6 and x.zero_point == out.zero_point,
        "the input and output have different scales or zero points",
        KEEP_QUANTISATION,
    )
    window = layer_window(options, (options.FilterHeight(), options.FilterWidth()), (1, 1), x)
    return x, window, limits_of(options.FusedActivationFunction(), out)


@rule("AVERAGE_POOL_2D", constraints=f"4-D, batch 1; {SAME_SCALE}")
def _average_pool(importer: Importer, op: FileOp) -> None:
    x, window, limits = _pool(importer, op)
    low, high = limits["act_min"], limits["act_max"]
    kind = AveragePool2D(window, act_min=low, act_max=high)
    importer.emit(op, kind, [x], windowed(window, x, x.shape[2]))


@rule("MAX_POOL_2D", constraints=f"4-D, batch 1; {SAME_SCALE}")
def _max_pool(importer: Importer, op: FileOp) -> None:
    x, window, limits = _pool(importer, op)
    importer.emit(op, MaxPool2D(window, **limits), [x], windowed(window, x, x.shape[2]))
