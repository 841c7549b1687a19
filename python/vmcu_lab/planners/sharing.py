# SPDX-License-Identifier: Apache-2.0
"""Buffers that tensors take over from one another, for planners that compute some ops in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vmcu_tools.graph import Graph, Node
from vmcu_tools.planner.places.lifetimes import Lifetime, lifetimes


@dataclass(frozen=True)
class Member:
    """A tensor at the start of its buffer."""

    name: str
    bytes: int
    life: Lifetime


@dataclass(frozen=True)
class SharedBuffer:
    """Tensors of which each takes over the place of the one before."""

    members: tuple[Member, ...]

    @property
    def life(self) -> Lifetime:
        """Returns the time from its first tensor's first step to its last one's last."""
        return Lifetime(self.members[0].life.first, self.members[-1].life.last)

    @property
    def size(self) -> int:
        """Returns its bytes."""
        return max(member.bytes for member in self.members)

    def used(self, life: Lifetime) -> int:
        """Its bytes that are in use at some step of a lifetime."""
        return max(member.bytes for member in self.members if member.life.overlaps(life))


def buffers_of(graph: Graph, heir: Callable[[Node], str | None]) -> list[SharedBuffer]:
    """The graph's tensors in buffers, in the order in which those come to life.

    heir: the input whose place a node's output takes over, if it dies there; None if it is to have
    its own.
    """
    lives = lifetimes(graph)
    kept = {port.tensor for port in graph.outputs}
    chains: dict[str, list[str]] = {name: [name] for name in lives}
    for step, node in enumerate(graph.nodes):
        source, target = heir(node), node.outputs[0]
        if source is None or source in kept or lives[source].last != step:
            continue
        chains[target] = chains[source]
        chains[target].append(target)
    buffers = (
        SharedBuffer(tuple(Member(n, graph.tensors[n].bytes, lives[n]) for n in chain))
        for name, chain in chains.items()
        if chain[0] == name
    )
    return sorted(buffers, key=lambda buffer: buffer.life.first)


def bases_of(buffers: Sequence[SharedBuffer], starts: Sequence[int]) -> dict[str, int]:
    """Maps the tensors to their offsets once the buffers have been placed."""
    return {
        member.name: start
        for buffer, start in zip(buffers, starts, strict=True)
        for member in buffer.members
    }
