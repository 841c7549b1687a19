# SPDX-License-Identifier: Apache-2.0
"""Plans of other tools as those tools run them: with their kernels, which have other scratch and
other orders of access than this library's. They can be replayed, and so be proven, but not emitted.

To these tools a tensor is one array, never a ring. In their plans it is one row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from vmcu_tools.graph import Graph, Node, Op, Tensor
from vmcu_tools.ops import Layer, bind
from vmcu_tools.plan.plan import Placement, Plan, Step
from vmcu_tools.planner.places.lifetimes import lifetimes


class ForeignLayer(Layer[Op]):
    """A kernel of which nothing is known: it may write its output before it reads its input."""

    def __init__(self, flat: Graph, own: Layer[Any]):
        super().__init__(flat, own.node)
        self.own = own

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        shaped = [array.reshape(t.shape) for array, t in zip(data, self.own.ins, strict=True)]
        return self.own.rows(shaped, 0, self.own.out.shape[0]).reshape(self.out.shape)

    def input_rows(self, index: int, y: int) -> range:
        return range(1)

    @property
    def ticks_per_row(self) -> int:
        return 2

    def writes(self) -> np.ndarray:
        return np.zeros(self.out.shape, np.int64)

    def last_reads(self, index: int) -> np.ndarray:
        return np.ones(self.ins[index].shape, np.int64)


class ElementwiseLayer(ForeignLayer):
    """Byte by byte: each is written when those at its place have been read."""

    @property
    def ticks_per_row(self) -> int:
        return self.out.row_bytes

    def writes(self) -> np.ndarray:
        return np.arange(self.out.bytes, dtype=np.int64).reshape(self.out.shape)

    def last_reads(self, index: int) -> np.ndarray:
        return self.writes()


class ChannelwiseLayer(ForeignLayer):
    """Channel by channel: a whole channel is read into scratch, then its outputs are written to
    that channel's places, so that they may lie exactly on the input."""

    @property
    def channels(self) -> int:
        return self.own.out.shape[2]

    @property
    def ticks_per_row(self) -> int:
        return self.channels

    def writes(self) -> np.ndarray:
        return self._channel_of(self.out)

    def last_reads(self, index: int) -> np.ndarray:
        return self._channel_of(self.ins[index])

    def _channel_of(self, tensor: Tensor) -> np.ndarray:
        return (np.arange(tensor.bytes, dtype=np.int64) % self.channels).reshape(tensor.shape)


def flattened(graph: Graph) -> Graph:
    tensors = {
        name: replace(tensor, shape=(1, 1, tensor.bytes)) for name, tensor in graph.tensors.items()
    }
    return replace(graph, tensors=tensors)


def foreign_plan(
    planner: str,
    graph: Graph,
    bases: Mapping[str, int],
    pool_bytes: int,
    kernel_of: Callable[[Node], type[ForeignLayer]] = lambda node: ForeignLayer,
    scratch: tuple[int, int] = (0, 0),
) -> Plan:
    """A plan in the graph's order from base addresses in bytes.

    `scratch`: offset and bytes of the area that is reserved for kernels throughout.
    """
    flat, lives = flattened(graph), lifetimes(graph)
    steps = []
    for node in graph.nodes:
        layer = kernel_of(node)(flat, bind(graph, node))
        steps.append(Step(node, *scratch, foreign=layer))
    placements = {
        name: Placement(name, base, flat.tensors[name].bytes, lives[name].first, lives[name].last)
        for name, base in bases.items()
    }
    return Plan(planner, flat, tuple((step,) for step in steps), placements, pool_bytes)
