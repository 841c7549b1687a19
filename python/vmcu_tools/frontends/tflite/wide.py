# SPDX-License-Identifier: Apache-2.0
"""int16 and int32 elements at both ends of an int8 network: a QUANTIZE from an int16 input, one to
an int16 or int32 output, and an int16 SOFTMAX."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...graph import Op, Tensor
from ...ops.softmax import Softmax
from ...ops.wide import RequantizeWide, SoftmaxInt16
from ...quant import INT8_MIN
from ..common import KEEP_QUANTISATION, fixed_point, require
from .file import FileModel, FileOp
from .ops import Importer, quantisation_of
from .shapes import image_shape

# Bytes of an element, by its type in the file.
BYTES = {"INT16": 2, "INT32": 4}
_INT16_MIN = -(1 << 15)


def is_wide(model: FileModel, indices: Iterable[int]) -> bool:
    """True if a tensor has int16 or int32 elements."""
    return any(index >= 0 and model.tensors[index].type in BYTES for index in indices)


def element_bytes(importer: Importer, index: int) -> int:
    """Bytes of an element of a file's tensor."""
    return BYTES.get(importer.model.tensors[index].type, 1)


def activation(importer: Importer, index: int) -> Tensor:
    """An activation of int8, int16 or int32 elements; of the latter two as their bytes."""
    file = importer.model.tensors[index]
    if file.type not in BYTES:
        return importer.activation(index)
    what = f"tensor '{file.name}'"
    scale, zero = quantisation_of(file)
    usual = zero == 0 or (file.type == "INT16" and zero == _INT16_MIN)
    require(usual, f"{what} is {file.type.lower()} with the zero point {zero}", KEEP_QUANTISATION)
    height, width, channels = image_shape(file.shape)
    shape = height, width, channels * BYTES[file.type]
    tensor = importer.builder.add_tensor(Tensor(file.name, shape, scale, zero))
    importer.wide[index] = tensor
    return tensor


def _emit(importer: Importer, op: FileOp, kind: Op, x: Tensor) -> None:
    """Adds a node whose output has as many elements as its input, of the same shape."""
    out, ends = activation(importer, op.outputs[0]), (op.inputs[0], op.outputs[0])
    shape, stated = (image_shape(importer.shape(index)) for index in ends)
    require(stated == shape, f"the output is {stated} in the file but computes {shape}")
    importer.builder.add_node(out.name, kind, [x.name], out.name)


def requantised(importer: Importer, op: FileOp) -> None:
    """QUANTIZE of or to wider elements. TensorFlow Lite, micro/kernels/quantize_common.cc."""
    x, out = (activation(importer, index) for index in (op.inputs[0], op.outputs[0]))
    widths = [element_bytes(importer, index) for index in (op.inputs[0], op.outputs[0])]
    require(widths[0] < BYTES["INT32"], f"tensor '{x.name}' is int32, not int8 or int16")
    # Beyond such shifts TensorFlow Lite leaves int32.
    factor = fixed_point(np.float64(x.scale) / np.float64(out.scale), 31 - 8 * widths[0])
    _emit(importer, op, RequantizeWide(factor, *widths), x)


def softmax(importer: Importer, op: FileOp, x: Tensor, exp: np.ndarray) -> None:
    """SOFTMAX of int8 to int8 or int16, whose scale and zero point say that all of the type is 0
    to 1. TensorFlow Lite Micro, micro/kernels/softmax_common.cc, which allows an int16 scale to be
    off by a thousandth."""
    out = activation(importer, op.outputs[0])
    wide = element_bytes(importer, op.outputs[0]) == BYTES["INT16"]
    scale, zero = (2.0**-16, _INT16_MIN) if wide else (2.0**-8, INT8_MIN)
    near = abs(out.scale - scale) <= (scale / 1000 if wide else 0)
    require(
        near and out.zero_point == zero,
        f"the output is not quantised with scale 1/{round(1 / scale)} and zero point {zero}",
        KEEP_QUANTISATION,
    )
    _emit(importer, op, SoftmaxInt16(exp) if wide else Softmax(exp, False), x)
