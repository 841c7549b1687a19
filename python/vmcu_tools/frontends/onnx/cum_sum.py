# SPDX-License-Identifier: Apache-2.0
"""Import rule for running sums along an axis, which becomes a pixel's channels."""

from __future__ import annotations

import numpy as np

from ...graph import Op, Tensor
from ...ops.cum_sum import CumSum
from ...quant import FloatScale
from ..common import axis_of, present, require
from ..movement import file_index
from .context import Context, rule
from .file import FileNode
from .values import Args, Value, matrices, result_of


@rule("CumSum", constraints="constant axis")
def _cum_sum(context: Context, node: FileNode, args: Args) -> Value:
    x = context.activation(args[0])
    axes = present(context.constant(args, 1, "axis"), "the axis is missing")
    require(axes.size == 1, f"the axis has {axes.size} elements")
    axis = axis_of(int(axes.ravel()[0]), len(x.shape))
    turned = np.moveaxis(file_index(x.shape), axis, -1)
    laid = turned.reshape(matrices(turned.shape))
    source = context.arranged(x, laid)

    def make(out: Tensor) -> Op:
        return CumSum(
            FloatScale(np.array([np.float32(x.tensor.scale) / np.float32(out.scale)])),
            bool(node.attributes.get("exclusive", 0)),
            bool(node.attributes.get("reverse", 0)),
        )

    natural = x.tensor.scale * x.shape[axis], x.tensor.zero_point
    return result_of(node, x, (source,), make, (x.shape, laid), natural=natural)
