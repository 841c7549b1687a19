# SPDX-License-Identifier: Apache-2.0
"""Rows of a constant table by an int32 input of the model: GATHER and EMBEDDING_LOOKUP."""

from __future__ import annotations

import math

import tflite

from ...graph import Tensor
from ...ops.embedding import MOST_ROWS, Embedding
from ..common import KEEP_QUANTISATION, present, require
from .file import FileModel, FileOp
from .ops import Importer, rule
from .shapes import image_shape

NUMBER_BYTES = 4
# Where operators have their numbers, and where the table.
_PLACES = {"GATHER": (1, 0), "EMBEDDING_LOOKUP": (0, 1)}
_NUMBERS = "look rows up by an int32 input of the model"


def is_numbers(model: FileModel, index: int) -> bool:
    """True if an input of the file is int32 and nothing but numbers of rows."""
    readers = [op for op in model.ops if index in op.inputs]
    if model.tensors[index].type != "INT32" or not readers:
        return False
    return all(op.op in _PLACES and op.inputs.index(index) == _PLACES[op.op][0] for op in readers)


def numbers(importer: Importer, index: int) -> Tensor:
    """An input of numbers as a graph tensor, four bytes each."""
    file = importer.model.tensors[index]
    require(not file.dynamic, f"tensor '{file.name}' has a dynamic shape", "fix all sizes")
    height, width, _ = image_shape((*file.shape, 1))
    tensor = importer.builder.add_tensor(Tensor(file.name, (height, width, NUMBER_BYTES), 1.0, 0))
    importer.numbers[index] = tensor
    return tensor


@rule(
    "EMBEDDING_LOOKUP",
    constraints="an int32 model input, 1-D; a constant int8 table, 2-D; scale and zero point of "
    "the table for the output",
)
def _embedding_lookup(importer: Importer, op: FileOp) -> None:
    embedded(importer, op)


def embedded(importer: Importer, op: FileOp) -> None:
    """Copies the rows that an input of the model names."""
    place, at = _PLACES[op.op]
    given = importer.numbers.get(op.inputs[place])
    given = present(given, "the row numbers are neither a model input nor constant", _NUMBERS)
    table, file = importer.constant(op, at, ("INT8",), "table"), importer.shape(op.inputs[place])
    plain = len(table.shape) == 2 and 0 < table.shape[0] <= MOST_ROWS
    require(plain, f"the table has the shape {list(table.shape)}, not (rows, channels)", _NUMBERS)
    if op.op == "GATHER":
        options = op.options(tflite.GatherOptions)
        first = options.BatchDims() == 0 and options.Axis() in (0, -2)
        require(first, "the numbers pick from another axis than the first", _NUMBERS)
    else:
        require(len(file) == 1, f"row numbers of the shape {list(file)}, not 1-D", _NUMBERS)
    rows, channels = table.shape
    out = importer.activation(op.outputs[0])
    same = (list(table.scales), list(table.zero_points)) == ([out.scale], [out.zero_point])
    require(same, "the table and output have different scales or zero points", KEEP_QUANTISATION)
    fits = out.bytes == math.prod((*file, channels))
    require(fits, f"the output is {out.shape} in the file, not {[*file, channels]}")
    importer.builder.limit_numbers(given.name, rows)
    shape = (*given.shape[:2], channels)
    importer.emit_as(op, Embedding(table.values.reshape(table.shape)), [given], shape)
