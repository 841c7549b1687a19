# SPDX-License-Identifier: Apache-2.0
"""When tensors live, in steps of a graph's own order."""

from __future__ import annotations

from dataclasses import dataclass

from ...graph import Graph


@dataclass(frozen=True)
class Lifetime:
    """Steps from the one that writes the tensor (-1: graph input) to the last that reads it (the
    number of steps: graph output), both included."""

    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """True if there is a step at which both are alive."""
        return self.first <= other.last and other.first <= self.last


def lifetimes(graph: Graph) -> dict[str, Lifetime]:
    """The live range of every tensor. A tensor that no node reads lives for the step that writes
    it."""
    first = {port.tensor: -1 for port in graph.held}
    last = dict(first)
    for step, node in enumerate(graph.nodes):
        for name in node.outputs:
            first[name] = last[name] = step
        for name in node.inputs:
            last[name] = step
    for port in graph.outputs:
        last[port.tensor] = len(graph.nodes)
    return {name: Lifetime(first[name], last[name]) for name in graph.tensors if name in first}
