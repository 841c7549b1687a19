# SPDX-License-Identifier: Apache-2.0
"""Rows of a table whose indices are an input of the model, or the output of ArgMax."""

from __future__ import annotations

import numpy as np

from ...graph import Op, Tensor
from ...ops.embedding import MOST_ROWS, Embedding
from ...quant import INT8_MAX, INT8_MIN
from ..common import MAX_TENSOR_BYTES, UnsupportedError, require
from ..movement import file_index
from . import values
from .context import Context
from .file import FileNode, FileValue

DTYPES = ("int32", "int64")
NUMBER_BYTES = 4


def numbers(context: Context, value: FileValue, shape: values.FileShape) -> values.Indices:
    """A model input of integers."""
    memory = (*values.tensor_shape((*shape, 1), np.zeros(0))[:2], NUMBER_BYTES)
    tensor = context.builder.add_tensor(Tensor(value.name, memory, 1.0, 0))
    return values.Indices(tensor, shape, value.dtype)


def embedded(
    context: Context, node: FileNode, args: values.Args, numbers: values.Indices
) -> values.Value:
    """The rows of a constant table that `numbers` names."""
    table = args[0]
    if not isinstance(table, (values.Constant, values.QuantConstant, values.BlockedConstant)):
        reason = "the indices are computed, and so is what they pick from"
        raise UnsupportedError(reason, "look rows up in a constant table")
    real = table.real()
    rows, *rest = real.shape or (0,)
    first = int(node.attributes.get("axis", 0)) in (0, -real.ndim)
    require(first and len(rest) == 1, "indices pick from another axis than the first of two")
    require(0 < rows <= MOST_ROWS, f"the table has {rows} rows, at most {MOST_ROWS} are possible")
    shape = (*numbers.shape, rest[0])
    memory = (*numbers.tensor.shape[:2], rest[0])
    require(np.prod(shape) <= MAX_TENSOR_BYTES, f"the output has {np.prod(shape)} elements")
    context.builder.limit_numbers(numbers.tensor.name, rows)

    def make(out: Tensor) -> Op:
        steps = np.rint(real / np.float32(out.scale)) + out.zero_point
        return Embedding(np.clip(steps, INT8_MIN, INT8_MAX).astype(np.int8))

    order, laid = values.arrangement(shape, file_index(shape).reshape(memory))
    keeps = _kept(table)
    return values.Pending(
        node.outputs[0],
        node.name,
        shape,
        order,
        (numbers.tensor,),
        make,
        memory=laid,
        keeps=keeps,
        natural=keeps,
    )


def _kept(
    table: values.Constant | values.QuantConstant | values.BlockedConstant,
) -> tuple[float, int] | None:
    """The quantisation of a table that has one of int8."""
    if not isinstance(table, values.QuantConstant) or not table.is_int8:
        return None
    shift = INT8_MAX + 1 if table.ints.dtype == np.uint8 else 0
    return float(table.scale.ravel()[0]), int(table.zero_point.ravel()[0]) - shift
