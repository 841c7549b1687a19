# SPDX-License-Identifier: Apache-2.0
"""Node by node comparison: each node computed from an oracle's own values of its inputs.

A step of difference in one node then does not spread to those below it, so that every node is
judged by its own tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from vmcu_tools.graph import Graph, Node
from vmcu_tools.machine.reference import run_loop
from vmcu_tools.ops import bind

# Of a table, one for each value of a byte.
ENTRIES = 256


@dataclass(frozen=True, eq=False)
class Difference:
    """Steps by which a node's output is off, int16, and the bytes that the runtime expects, over
    one run or several. `table_inputs`: of a table, the bytes that it looked up, else None."""

    node: Node
    off: np.ndarray
    expected: np.ndarray
    table_inputs: np.ndarray | None = None

    @property
    def largest(self) -> int:
        return int(self.off.max())

    @property
    def count(self) -> int:
        """Bytes that differ."""
        return int(np.count_nonzero(self.off))

    @property
    def total(self) -> int:
        return self.off.size

    @property
    def values(self) -> int:
        """Different values among the expected bytes."""
        return len(np.unique(self.expected))

    @property
    def entries(self) -> int | None:
        """Counts the differing entries of a table: one entry can be any share of the bytes."""
        if self.table_inputs is None:
            return None
        return len(np.unique(self.table_inputs[self.off > 0]))

    @property
    def share(self) -> tuple[int, int]:
        """Counts the differing units and all units of a promise: bytes, or entries of a table."""
        entries = self.entries
        return (self.count, self.total) if entries is None else (entries, ENTRIES)


def pooled(runs: Sequence[Sequence[Difference]]) -> list[Difference]:
    """Differences of several runs of one graph, at least one, by node over all runs."""
    differences = []
    for same in zip(*runs, strict=True):
        read = [one.table_inputs for one in same if one.table_inputs is not None]
        off, expected = (
            np.concatenate(each) for each in ([d.off for d in same], [d.expected for d in same])
        )
        differences.append(
            Difference(same[0].node, off, expected, np.concatenate(read) if read else None)
        )
    return differences


def parts_of(graph: Graph, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a graph has of a file's values, by tensor, in its shapes (H, W, C)."""
    parts = {}
    for name, value in values.items():
        if name not in graph.tensors:
            continue
        height, width, _ = shape = graph.tensors[name].shape
        if name in graph.channels:
            value = value.reshape(height, width, -1)[:, :, graph.channels[name]]
        # A pass may have left out a Reshape, and with it the file's shape.
        parts[name] = value.reshape(shape)
    return parts


def node_differences(graph: Graph, values: Mapping[str, np.ndarray]) -> list[Difference]:
    """One entry per node whose output `values` holds, equal ones included.

    values: int8 (H, W, C) by tensor name, as Oracle.run returns them. A tensor that it lacks, as
    the runtime keeps it in float or not at all, is computed.
    """
    known = parts_of(graph, values)
    differences = []
    starts = {loop.start: loop for loop in graph.loops if not graph.carried <= known.keys()}
    for number, node in enumerate(graph.nodes):
        if number in starts:
            known = run_loop(graph, starts[number], known) | known
        layer = bind(graph, node)
        computed = layer.rows([known[name] for name in node.inputs], 0, layer.height)
        expected = known.setdefault(node.outputs[0], computed)
        if node.outputs[0] not in values:
            continue
        off = np.abs(computed.astype(np.int16) - expected.reshape(computed.shape))
        off[layer.rounding_noise([known[name] for name in node.inputs])] = 0
        read = known[node.inputs[0]].ravel() if node.op.tabulated else None
        differences.append(Difference(node, off.ravel(), expected.ravel(), read))
    return differences
