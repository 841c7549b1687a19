# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite Micro's memory plan as part of a .tflite file: its OfflineMemoryAllocation.

A metadata buffer of int32: version 1, the subgraph 0, the number of tensors, and for each of these
its offset in the arena's head, or -1 where the interpreter is to find one
(tensorflow/lite/micro/docs/memory_management.md). Tensors lie whole and at multiples of 16 bytes,
none shares a byte with another one alive at the same operator: the optimum is the best order of
operators and the lowest placement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tflite
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends.tflite.file import FileModel, FileTensor
from vmcu_tools.frontends.tflite.offline import KEY, UNPLANNED, VERSION
from vmcu_tools.frontends.tflite.states import read
from vmcu_tools.ordering import best_order
from vmcu_tools.ordering.tasks import GraphTask, TaskGraph, lifetimes, usage
from vmcu_tools.runtimes import required

from .placement import Buffer, Instance, place

ALIGN = 16
ITEM_BYTES = {
    **dict.fromkeys(("INT8", "UINT8", "BOOL"), 1),
    **dict.fromkeys(("INT16", "FLOAT16"), 2),
    **dict.fromkeys(("INT32", "FLOAT32", "UINT32"), 4),
    **dict.fromkeys(("INT64", "FLOAT64", "UINT64", "COMPLEX64"), 8),
}
# With these, operators have an effect beside their outputs, whose order is to stay.
_STATEFUL = ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")


@dataclass(frozen=True)
class OfflinePlan:
    """`order` of the operators, `offsets` by tensor, UNPLANNED for those without any, and the bytes
    that the head of the arena needs for tensors: now, in the file's order at its best (`height`)
    and as bound for any order."""

    order: tuple[int, ...]
    offsets: tuple[int, ...]
    height: int
    bound: int


def tensor_bytes(path: Path, tensor: FileTensor) -> int:
    """Bytes of an activation in the arena, rounded up as the interpreter does it."""
    if tensor.dynamic or tensor.type not in ITEM_BYTES:
        raise UserError(
            Problem(
                f"tensor '{tensor.name}' has no fixed size ({tensor.type} {tensor.shape})",
                "convert the model with fixed shapes",
                str(path),
            )
        )
    size = math.prod(tensor.shape) * ITEM_BYTES[tensor.type]
    return -(-size // ALIGN) * ALIGN


def task_graph(path: Path, model: FileModel, planned: frozenset[int]) -> TaskGraph:
    """The operators as tasks on the tensors that are planned, the others without bytes."""
    sizes = [tensor_bytes(path, t) if n in planned else 0 for n, t in enumerate(model.tensors)]
    stateful = any(op.op in _STATEFUL or not op.outputs for op in model.ops)
    tasks = tuple(
        GraphTask(
            tuple(dict.fromkeys(t for t in op.inputs if t >= 0)),
            op.outputs,
            (number - 1,) if stateful and number else (),
        )
        for number, op in enumerate(model.ops)
    )
    return TaskGraph(tuple(sizes), tasks, frozenset(t for t in model.outputs if t >= 0))


def activations(path: Path, model: FileModel) -> frozenset[int]:
    """Tensors that have no constant and keep nothing from one inference to the next."""
    graph = tflite.Model.GetRootAsModel(path.read_bytes(), 0).Subgraphs(0)
    used = {*model.inputs, *model.outputs}
    used |= {t for op in model.ops for t in (*op.inputs, *op.outputs)}
    return frozenset(
        n
        for n, tensor in enumerate(model.tensors)
        if n in used and tensor.data is None and not graph.Tensors(n).IsVariable()
    )


def plan(path: Path, seconds: float) -> OfflinePlan:
    """The best order and placement found; seconds: for the placement. Raises UserError."""
    model = read(path)
    planned = activations(path, model)
    graph = task_graph(path, model, planned)
    ordering = best_order(graph)
    own = range(len(graph.tasks))
    order = ordering.order if ordering.peak < usage(graph, own).peak else tuple(own)
    lives = lifetimes(graph, order)
    buffers = tuple(Buffer(str(t), *lives[t], graph.sizes[t], ALIGN) for t in sorted(planned))
    placed = place(Instance(buffers, str(path)), seconds=seconds)
    offsets = tuple(placed.offsets.get(str(t), UNPLANNED) for t in range(len(model.tensors)))
    return OfflinePlan(tuple(order), offsets, placed.height, min(ordering.bound, placed.height))


def written(path: Path, plan: OfflinePlan) -> bytes:
    """The file with a plan in it and its operators in the plan's order; an older plan is gone."""
    schema: Any = required(
        "tflite_micro.tensorflow.lite.micro.python.schema_py_generated",
        "tflite-micro",
        "write .tflite files",
    )
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    operators = model.subgraphs[0].operators or []
    model.subgraphs[0].operators = [operators[number] for number in plan.order]
    buffer = schema.BufferT()
    header = (VERSION, 0, len(plan.offsets))
    buffer.data = np.array((*header, *plan.offsets), "<i4").view(np.uint8)
    metadata = schema.MetadataT()
    metadata.name, metadata.buffer = KEY, len(model.buffers)
    model.buffers = [*model.buffers, buffer]
    others = [entry for entry in model.metadata or [] if entry.name not in (KEY, KEY.encode())]
    model.metadata = [*others, metadata]
    builder = required("flatbuffers", "flatbuffers", "write .tflite files").Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
