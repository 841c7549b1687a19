# SPDX-License-Identifier: Apache-2.0
"""TinyEngine's arena: first fit by size, depthwise convolutions in place.

As its code generator does it (code_generator/GeneralMemoryScheduler.py, allocator/firstFit.py):
sizes rounded up to 4 bytes, the largest buffer first (among equals the earlier one), each in the
lowest gap between placed buffers alive at the same time. A depthwise convolution works channel by
channel through a buffer for one padded channel and leaves its output where its input was; the bytes
that a stride frees are free afterwards. Besides the arena there are two buffers for all layers, one
for im2col columns or the depthwise channel, one for widened weights, each as large as its largest
user needs. TinyEngine rejects many models; these are its rules all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vmcu_tools.graph import Graph, Node
from vmcu_tools.plan.plan import Plan

from .foreign import ChannelwiseLayer, ElementwiseLayer, ForeignLayer, foreign_plan
from .sharing import SharedBuffer, bases_of, buffers_of

TINYENGINE_ALIGN = 4


def aligned(size: int) -> int:
    """Bytes, rounded up to whole words."""
    return -(-size // TINYENGINE_ALIGN) * TINYENGINE_ALIGN


def heir(node: Node) -> str | None:
    """Depthwise convolutions work in place; reshapes are left out altogether."""
    op: Any = node.op
    channelwise = op.channelwise and op.multiplier == 1
    return node.inputs[0] if channelwise or node.op.relabels else None


def column_bytes(graph: Graph, node: Node) -> int:
    """The int16 buffer for two columns of a convolution or a padded channel of a depthwise one."""
    op: Any = node.op
    tensor, size = graph.tensors[node.inputs[0]], 0
    if op.channelwise:
        pad = op.window.kernel[0] // 2
        size = 2 * (tensor.shape[0] + 2 * pad) * (tensor.shape[1] + 2 * pad)
    elif op.columnwise:
        size = 4 * op.weights[0].size
    return size


def weight_bytes(node: Node) -> int:
    """The buffer for a convolution's weights as int16."""
    op: Any = node.op
    if op.columnwise and op.windowed and op.window.kernel[0] > 1:
        bytes_needed: int = 2 * op.weights.size
        return bytes_needed
    return 0


def first_fit(buffers: Sequence[SharedBuffer]) -> list[int]:
    """Offsets of buffers."""
    starts = [0] * len(buffers)
    placed: list[int] = []
    for number in sorted(range(len(buffers)), key=lambda n: -aligned(buffers[n].size)):
        buffer, taken = buffers[number], []
        for other in placed:
            if buffers[other].life.overlaps(buffer.life):
                stop = starts[other] + buffers[other].used(buffer.life)
                taken.append((starts[other], aligned(stop)))
        at = 0
        for start, stop in sorted(taken):
            if start - at >= aligned(buffer.size):
                break
            at = max(at, stop)
        starts[number] = at
        placed.append(number)
    return starts


def arena_bytes(buffers: Sequence[SharedBuffer], starts: Sequence[int]) -> int:
    """Bytes up to the end of the highest buffer."""
    return max(start + aligned(b.size) for b, start in zip(buffers, starts, strict=True))


def scratch_bytes(graph: Graph) -> int:
    """Both buffers."""
    columns = max((column_bytes(graph, node) for node in graph.nodes), default=0)
    return aligned(columns) + max((weight_bytes(node) for node in graph.nodes), default=0)


def plan(graph: Graph) -> Plan:
    """The plan in bytes as TinyEngine counts them: tensors, and the buffers of its kernels."""
    buffers = buffers_of(graph, heir)
    starts = first_fit(buffers)
    bases = bases_of(buffers, starts)

    def kernel_of(node: Node) -> type[ForeignLayer]:
        if heir(node) is None or bases[node.outputs[0]] != bases[node.inputs[0]]:
            return ForeignLayer
        return ElementwiseLayer if node.op.relabels else ChannelwiseLayer

    arena, scratch = arena_bytes(buffers, starts), scratch_bytes(graph)
    return foreign_plan("tinyengine", graph, bases, arena + scratch, kernel_of, (arena, scratch))
