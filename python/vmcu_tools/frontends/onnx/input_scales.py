# SPDX-License-Identifier: Apache-2.0
"""The scale of a model's input, which the nodes that read it state."""

from __future__ import annotations

import contextlib
from collections import deque

import numpy as np

from ...quant import INT8_MAX, INT8_MIN
from ..common import UnsupportedError, require
from .curves import REQUANTISE
from .file import FileModel, FileNode
from .quantize import quantisation

# Operators that hand on their input's scale: an int8 input's own is that of the first consumer
# behind them.
KEEPS_SCALE: tuple[str, ...] = ("Identity", "Dropout", "Reshape", "Flatten", "Squeeze")
KEEPS_SCALE += ("Unsqueeze", "Transpose", "MaxPool", "GlobalMaxPool", "Pad", "Concat", "Slice")
KEEPS_SCALE += ("Split", "Gather", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Resize")
KEEPS_SCALE += ("ReduceMax", "ArgMax", "ArgMin", "Clip", "Cast", "GatherND")
# Operators between a float input and its QuantizeLinear that do not change values.
_BEFORE_SCALE: tuple[str, ...] = tuple(op for op in KEEPS_SCALE if not op.startswith("Arg"))
# A step of the input, in steps of a part that is quantised more finely: one step off at most.
_COARSEST = 2.0


def consumers(model: FileModel, name: str, through: tuple[str, ...]) -> list[FileNode]:
    """The nodes that read `name`, looking through the given operators."""
    nodes: list[FileNode] = []
    names, seen = deque([name]), {name}
    while names:
        current = names.popleft()
        for node in model.nodes:
            if current not in node.inputs:
                continue
            if node.op in through and node.inputs[0] == current:
                names.extend(out for out in node.outputs if out not in seen)
                seen.update(node.outputs)
            else:
                nodes.append(node)
    return nodes


def of_int8(model: FileModel, name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Scale and zero point of an int8 graph input, as its first consumer states them."""
    for node in consumers(model, name, KEEPS_SCALE):
        place = next((i for i, n in enumerate(node.inputs) if n == name), 0)
        stated = [model.constants.get(n) for n in node.inputs[place + 1 : place + 3]]
        if stated and stated[0] is not None and _states_scale(node):
            return stated[0], stated[1] if len(stated) > 1 else None
    raise UnsupportedError("the scale of this input is not known", "add a DequantizeLinear")


def _states_scale(node: FileNode) -> bool:
    return node.op != "QuantizeLinear" and ("Linear" in node.op or ".Q" in node.op)


def of_all(model: FileModel, name: str) -> tuple[float, int] | None:
    """One scale and zero point for a float input whose parts are quantised in different ways, such
    as slices of an image; None where there is one way. Raises UnsupportedError where one scale is
    too coarse for some of them."""
    stated = set()
    for node in consumers(model, name, _BEFORE_SCALE):
        arrays = [model.constants[n] for n in node.inputs[1:3] if n in model.constants]
        # Other faults of one are reported by its own rule.
        if node.op == "QuantizeLinear" and arrays and all(array.size == 1 for array in arrays):
            with contextlib.suppress(UnsupportedError):
                scale, zero, _ = quantisation(arrays[0], arrays[1] if len(arrays) > 1 else None)
                stated.add((scale, zero))
    if len(stated) < 2:
        return None
    low = min((INT8_MIN - zero) * scale for scale, zero in stated)
    high = max((INT8_MAX - zero) * scale for scale, zero in stated)
    scale = float(np.float32((high - low) / (INT8_MAX - INT8_MIN)))
    finest = min(scale for scale, _ in stated)
    require(
        scale <= _COARSEST * finest,
        f"the parts are quantised with scales from {finest:g} on, of which {scale:g} holds all",
        REQUANTISE,
    )
    return scale, round(INT8_MIN - low / scale)
