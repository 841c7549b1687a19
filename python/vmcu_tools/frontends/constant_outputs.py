# SPDX-License-Identifier: Apache-2.0
"""Outputs of a file that are constants: written to the pool like any other, where int8 can hold
them."""

from __future__ import annotations

import numpy as np

from ..graph import Notes, Port, Tensor
from ..ops.binary import Binary
from ..ops.move import Move
from ..ops.requantize import Requantize
from ..quant import INT8_MIN
from .common import GraphBuilder, require

_UNREAD = "let the model compute an output from its input"


def write(builder: GraphBuilder, tensor: Tensor, values: np.ndarray) -> None:
    """Adds a tensor whose bytes are `values`, int8 of its shape: the greater ones of these and of
    the least byte, to which a byte of the first input is bounded."""
    require(len(builder.inputs) > 0, "a constant output of a model without inputs", _UNREAD)
    source = builder.tensors[builder.inputs[0].tensor]
    steps = (("pick", _FIRST), ("least", _LEAST))
    for part, op in steps:
        out = builder.add_tensor(Tensor(f"{tensor.name}/{part}", (1, 1, 1), tensor.scale, INT8_MIN))
        builder.add_node(tensor.name, op, [source.name], out.name)
        source = out
    builder.add_tensor(tensor)
    greatest = Binary("maximum", constant=values.reshape(tensor.shape))
    builder.add_node(tensor.name, greatest, [source.name], tensor.name)


_FIRST = Move(*(np.zeros(1, np.int64) for _ in range(3)))
_LEAST = Requantize(None, act_min=INT8_MIN, act_max=INT8_MIN)


def write_integers(builder: GraphBuilder, name: str, values: np.ndarray) -> None:
    """Adds an output of int32 or int64 values, the bytes of int32 as everywhere."""
    small = values.astype(np.int32)
    require(np.array_equal(small, values), f"the output '{name}' does not fit int32")
    data = small.astype("<i4").reshape(-1, 1).view(np.int8)
    tensor = Tensor(f"{name}/constant", (len(data), 1, 4), 1.0, 0)
    write(builder, tensor, data)
    builder.outputs.append(Port(tensor.name, name, values.shape, str(values.dtype)))


def drop(builder: GraphBuilder, name: str) -> None:
    """Leaves out a float output that is a constant: no int8 tensor holds its values."""
    builder.notes = Notes((*builder.notes.dropped, name), builder.notes.is_random)
