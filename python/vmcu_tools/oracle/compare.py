# SPDX-License-Identifier: Apache-2.0
"""Node by node comparison: each node computed from an oracle's own values of its inputs.

A step of difference in one node then does not spread to those below it, so that every node is
judged by its own tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..graph import Graph, Node
from ..ops import bind

# Of a table, one for each value of a byte.
ENTRIES = 256


@dataclass(frozen=True)
class Difference:
    """How far a node's output is off: the largest difference in int8 steps, and how many bytes
    of how many differ, of how many different values. entries: for a table, how many of its inputs'
    values give another byte: one entry can be any share of the bytes."""

    node: Node
    largest: int
    count: int
    total: int
    values: int
    entries: int | None = None

    @property
    def share(self) -> tuple[int, int]:
        """How many of how many differ, of what a promise counts: bytes, or entries of a table."""
        return (self.count, self.total) if self.entries is None else (self.entries, ENTRIES)


def node_differences(graph: Graph, values: Mapping[str, np.ndarray]) -> list[Difference]:
    """One entry per node whose output `values` holds, equal ones included.

    values: int8 (H, W, C) by tensor name, as Oracle.run returns them. A tensor that it lacks, as
    the runtime keeps it in float or not at all, is computed.
    """
    known = {
        name: graph.part(name, found) for name, found in values.items() if name in graph.tensors
    }
    found = []
    for node in graph.nodes:
        layer = bind(graph, node)
        computed = layer.rows([known[name] for name in node.inputs], 0, layer.height)
        expected = known.setdefault(node.outputs[0], computed)
        if node.outputs[0] not in values:
            continue
        off = np.abs(computed.astype(np.int16) - expected.reshape(computed.shape))
        off[layer.rounding_noise([known[name] for name in node.inputs])] = 0
        largest, count = int(off.max()), int(np.count_nonzero(off))
        entries = None
        if node.op.tabulated:
            entries = len(np.unique(known[node.inputs[0]].reshape(off.shape)[off > 0]))
        distinct = len(np.unique(expected))
        found.append(Difference(node, largest, count, off.size, distinct, entries))
    return found
