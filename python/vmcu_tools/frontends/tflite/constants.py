# SPDX-License-Identifier: Apache-2.0
"""Int8 operators on constants alone, computed once, here.

A recurrent layer that is unrolled begins with a state of zeros. Converted with its batch left open,
the zeros are a constant of the file, and the first step's results for them are computed while the
model runs. With a batch of one it is the same every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...graph import Graph
from ...ops import bind
from ..common import PARSE_ERRORS, GraphBuilder, UnsupportedError
from .file import FileModel, FileOp

Import = Callable[[FileModel], GraphBuilder]


def computed(model: FileModel, import_model: Import) -> FileModel:
    """The model without int8 operators all of whose inputs are constants: their outputs are
    constants too, by the arithmetic of the layers that import_model makes of them. Never raises:
    operators that cannot be computed stay, and their rules report the reason."""
    kept = []
    for op in model.ops:
        data = _value(model, op, import_model)
        if data is None:
            kept.append(op)
            continue
        tensors = list(model.tensors)
        tensors[op.outputs[0]] = replace(tensors[op.outputs[0]], data=data)
        model = replace(model, tensors=tuple(tensors))
    return replace(model, ops=tuple(kept))


def _value(model: FileModel, op: FileOp, import_model: Import) -> np.ndarray | None:
    given = [i for i in op.inputs if i >= 0]
    if not given or len(op.outputs) != 1 or op.outputs[0] in model.outputs:
        return None
    first, out = model.tensors[given[0]], model.tensors[op.outputs[0]]
    if any(model.tensors[i].data is None for i in given) or op.inputs[0] < 0:
        return None
    if not all(t.type == "INT8" and len(t.scales) == 1 and not t.dynamic for t in (first, out)):
        return None
    tensors = list(model.tensors)
    tensors[given[0]] = replace(first, data=None)
    alone = replace(
        model, tensors=tuple(tensors), ops=(op,), inputs=(given[0],), outputs=op.outputs
    )
    try:
        builder = import_model(alone)
        graph = None if builder.problems else builder.finish("")
        return None if graph is None else _run(graph, first.values).reshape(out.shape)
    except (UnsupportedError, *PARSE_ERRORS):
        return None


def _run(graph: Graph, data: np.ndarray) -> np.ndarray:
    """The only output for the only input: int8, any shape of as many elements."""
    port = graph.inputs[0]
    values = {port.tensor: data.astype(np.int8).reshape(graph.tensors[port.tensor].shape)}
    for node in graph.nodes:
        layer = bind(graph, node)
        values[layer.out.name] = layer.rows([values[x] for x in node.operands], 0, layer.height)
    return values[graph.outputs[0].tensor]
