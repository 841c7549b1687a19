# SPDX-License-Identifier: Apache-2.0
"""What was found out of a stage, for all that are alike: of this graph or any other that the
program plans, as architecture searches plan thousands.

Stages are alike whose layers do the same in the same order to tensors of the same shapes. Names,
weights, and what else is alive are no part of that: what outlives a stage untouched is added.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...graph import Graph, Node
from ...ops import Layer
from ...ops.likeness import likeness
from ...plan.schedule import kept_outputs
from .peaks import StagePeak

# Stages of which something is kept, some hundred bytes each.
STAGES_KEPT = 1 << 17
# By layer whose its inputs are and whether its output is kept; by tensor from outside whether it
# dies, and is streamed.
Wiring = tuple[tuple[tuple[int, ...], ...], tuple[bool, ...], tuple[tuple[bool, bool], ...]]


@dataclass(eq=False)
class StageFacts:
    """Of stages that are alike, in bytes without those of tensors that they do not touch; as far as
    somebody wanted to know.

    alive: by layer, at least while it works; sure: by layer, whether it makes all of its calls;
    floor: at least; peak: exactly.
    """

    alive: list[int] = field(default_factory=list)
    sure: dict[int, bool] = field(default_factory=dict)
    floor: int | None = None
    peak: StagePeak | None = None


@functools.lru_cache(maxsize=STAGES_KEPT)
def facts_of(wiring: Wiring, taken: int, endless: bool, layers: tuple[bytes, ...]) -> StageFacts:
    """Those of all stages that are so. taken: columns of a streamed input at a time; layers: see
    Tokens."""
    return StageFacts()


class Tokens:
    """What a graph's layers have in common with any that are alike."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.ops: dict[int, bytes] = {}
        # The layers are kept, so that no two of them have one address.
        self.known: dict[Layer[Any], bytes] = {}

    def of(self, layer: Layer[Any]) -> bytes:
        """The same for layers that are alike."""
        found = self.known.get(layer)
        if found is None:
            found = self.known[layer] = self._of(layer)
        return found

    def _of(self, layer: Layer[Any]) -> bytes:
        node = layer.node
        if id(node) not in self.ops:
            self.ops[id(node)] = likeness(node.op)
        outside = None if layer.outside is None else layer.outside.shape
        shapes = (*(tensor.shape for tensor in layer.ins), layer.out.shape, outside)
        how = layer.columns, layer.form, layer.descending, layer.target.name
        return hashlib.sha256(self.ops[id(node)] + repr((shapes, how)).encode()).digest()


def wiring_of(
    graph: Graph, nodes: tuple[Node, ...], last: Mapping[str, int], stop: int, source: str | None
) -> Wiring:
    """How the nodes of a stage that ends in front of node `stop` hang together. last: by tensor,
    who reads it last; source: the streamed input."""
    numbers = {node.outputs[0]: number for number, node in enumerate(nodes)}
    outside: dict[str, int] = {}
    for node in nodes:
        for name in node.inputs:
            if name not in numbers:
                outside.setdefault(name, -1 - len(outside))
    ins = tuple(
        tuple(numbers.get(name, outside.get(name, 0)) for name in node.inputs) for node in nodes
    )
    ends = tuple((last[name] < stop, name == source) for name in outside)
    return ins, tuple(kept_outputs(graph, nodes)), ends
