# SPDX-License-Identifier: Apache-2.0
"""Buffers that tensors take over from one another, for planners that compute some ops in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...graph import Graph, Node
from ..places.lifetimes import Lifetime, lifetimes


@dataclass(frozen=True)
class Member:
    """A tensor and where it lies in its buffer, in bytes."""

    name: str
    offset: int
    bytes: int
    life: Lifetime


@dataclass(frozen=True)
class SharedBuffer:
    """Tensors of which each takes over the place of the one before; the lowest is at 0."""

    members: tuple[Member, ...]

    @property
    def life(self) -> Lifetime:
        """From its first tensor's first step to its last one's last."""
        return Lifetime(self.members[0].life.first, self.members[-1].life.last)

    @property
    def size(self) -> int:
        """In bytes."""
        return max(member.offset + member.bytes for member in self.members)

    def span(self, life: Lifetime) -> tuple[int, int]:
        """The bytes [start, stop) in use at some step of a lifetime."""
        alive = [member for member in self.members if member.life.overlaps(life)]
        return min(m.offset for m in alive), max(m.offset + m.bytes for m in alive)


def buffers_of(
    graph: Graph,
    heir: Callable[[Node], str | None],
    distance: Callable[[Node], int] = lambda node: 0,
) -> list[SharedBuffer]:
    """The graph's tensors in buffers, in the order in which those come to life.

    heir: the input whose place a node's output takes over, if it dies there; None if it is to have
    its own. distance: by how many bytes the output then has to trail below.
    """
    lives = lifetimes(graph)
    kept = {port.tensor for port in graph.outputs}
    chains: dict[str, list[tuple[str, int]]] = {name: [(name, 0)] for name in lives}
    for step, node in enumerate(graph.nodes):
        source, target = heir(node), node.outputs[0]
        if source is None or source in kept or lives[source].last != step:
            continue
        chain = chains[source]
        chain.append((target, chain[-1][1] - distance(node)))
        chains[target] = chain
    found = []
    for name, chain in chains.items():
        if chain[0][0] != name:
            continue
        lowest = min(offset for _, offset in chain)
        members = (
            Member(n, offset - lowest, graph.tensors[n].bytes, lives[n]) for n, offset in chain
        )
        found.append(SharedBuffer(tuple(members)))
    return sorted(found, key=lambda buffer: buffer.life.first)


def bases_of(buffers: Sequence[SharedBuffer], starts: Sequence[int]) -> dict[str, int]:
    """Where the tensors lie once the buffers have been placed."""
    return {
        member.name: start + member.offset
        for buffer, start in zip(buffers, starts, strict=True)
        for member in buffer.members
    }
