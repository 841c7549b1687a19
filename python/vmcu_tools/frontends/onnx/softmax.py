# SPDX-License-Identifier: Apache-2.0
"""Import rules for operators that compare the elements along an axis, which become a pixel's
channels."""

from __future__ import annotations

import math

import numpy as np

from ...graph import Op, Tensor
from ...ops.hardmax import Hardmax
from ...ops.softmax import Softmax
from ...quant import INT8_MIN
from ..common import KEEP_QUANTISATION, axis_of, quantised, require
from ..movement import file_index
from ..softmax import log_range, log_softmax, onnx_table
from .context import Context, rule
from .file import FileNode
from .values import Args, Value, laid_out, matrices, result_of

_MIN_SOFTMAX_SCALE = 2.0**-16
_CONSTRAINTS = {
    "Softmax": "any axis; output scale 1/65536 to 1",
    "LogSoftmax": "any axis",
    "Hardmax": "any axis",
}


@rule("Softmax", "LogSoftmax", "Hardmax", constraints=_CONSTRAINTS)
def _softmax(context: Context, node: FileNode, args: Args) -> Value:
    x = context.activation(args[0])
    opset = int(node.attributes.get("opset", context.model.opset))
    rank = len(x.shape)
    # QLinearSoftmax states an opset, and by default works on the last axis in all of them.
    usual = 1 if opset < 13 and "opset" not in node.attributes else -1
    axis = axis_of(int(node.attributes.get("axis", usual)), rank)
    if opset < 13 and math.prod(x.shape[axis:]) != x.shape[axis]:
        # Before opset 13 all axes from `axis` on count as one.
        laid = file_index(x.shape).reshape(-1, 1, math.prod(x.shape[axis:]))
    else:
        turned = np.moveaxis(file_index(x.shape), axis, -1)
        laid = turned.reshape(matrices(turned.shape))
    if _has_lines(laid_out(x), laid, in_order=node.op == "Hardmax"):
        laid = laid_out(x)
    source = context.arranged(x, laid)

    def make(out: Tensor) -> Op:
        if node.op == "LogSoftmax":
            return log_softmax(x.tensor.scale, out.scale)
        if node.op == "Hardmax":
            one, zero = (quantised(real, out) for real in (1.0, 0.0))
            return Hardmax(one, zero)
        fits = _MIN_SOFTMAX_SCALE <= out.scale <= 1
        require(fits, f"unsupported output scale {out.scale}", KEEP_QUANTISATION)
        # ONNX Runtime, contrib_ops/cpu/quantization/qlinear_softmax.cc, cuts 1 / scale to an
        # integer: 254 for the usual 1 / 255.
        gain = float(np.floor(np.float32(1) / np.float32(out.scale)))
        table = onnx_table(x.tensor.scale)
        return Softmax(table, True, 1 / gain)

    count = x.shape[axis]
    natural = log_range(x.tensor.scale, count) if node.op == "LogSoftmax" else (1 / 255, INT8_MIN)
    return result_of(node, x, (source,), make, (x.shape, laid), natural=natural)


def _has_lines(memory: np.ndarray, lines: np.ndarray, in_order: bool) -> bool:
    """Whether the pixels of `memory` are those of `lines`, in any order; both int64 (H, W, C) of
    row-major indices. in_order: of each pixel's channels, too, since the first of equals counts."""
    if memory.shape[2] != lines.shape[2]:
        return False
    line_of, place_in = np.empty((2, lines.size), np.int64)
    line_of[lines] = np.arange(lines.size // lines.shape[2]).reshape(*lines.shape[:2], 1)
    place_in[lines] = np.arange(lines.shape[2])
    whole = bool((line_of[memory] == line_of[memory[:, :, :1]]).all())
    return whole and not (in_order and bool((np.diff(place_in[memory], axis=2) < 0).any()))
