# SPDX-License-Identifier: Apache-2.0
"""Import rules for activations that are operators of their own."""

from __future__ import annotations

import numpy as np
import tflite

from ...ops.requantize import Requantize
from ..common import fixed_point, require
from ..softmax import tflite_table
from . import wide
from .file import FileOp
from .ops import SAME_SCALE, Importer, limits_of, rule


@rule(
    "SOFTMAX",
    constraints="last axis; output int8 of scale 1/256 and zero point -128, or int16 of 1/65536 "
    "and -32768; beta above 0",
)
def _softmax(importer: Importer, op: FileOp) -> None:
    options = op.options(tflite.SoftmaxOptions)
    x = importer.activation(op.inputs[0])
    step = options.Beta() * x.scale
    require(step * (1 << 26) > 1, f"beta times input scale is {step}")
    wide.softmax(importer, op, x, tflite_table(x.scale, options.Beta()))


@rule("RELU", "RELU_N1_TO_1")
def _relu(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, micro/kernels/activations_common.cc, and kernels/activations.cc for
    functions that Micro lacks: there the ratio of the scales is a float32."""
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    kind = getattr(tflite.ActivationFunctionType, op.op)
    same = x.scale == out.scale and x.zero_point == out.zero_point
    ratio = np.float64(x.scale) / np.float64(out.scale)
    if op.op == "RELU_N1_TO_1":
        ratio = np.float64(np.float32(ratio))
    requant = None if same else fixed_point(ratio)
    importer.emit(op, Requantize(requant, **limits_of(kind, out)), [x], x.shape)


@rule("RELU6", constraints=SAME_SCALE)
def _relu6(importer: Importer, op: FileOp) -> None:
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    # TensorFlow Lite Micro ignores the output's quantisation here and LiteRT does not.
    require(
        x.scale == out.scale and x.zero_point == out.zero_point,
        "the input and output have different scales or zero points",
        "let it follow a convolution or a dense layer, which the converter joins it with",
    )
    limits = limits_of(tflite.ActivationFunctionType.RELU6, out)
    importer.emit(op, Requantize(None, **limits), [x], x.shape)
