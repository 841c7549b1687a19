# SPDX-License-Identifier: Apache-2.0
"""A graph of somebody's nodes and tensors, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .tasks import TaskGraph


@dataclass(frozen=True)
class NamedTensor:
    """`shares`: the tensor in whose place it lies, by number; its own if none."""

    name: str
    size: int
    alignment: int
    offset: int | None
    shares: int


@dataclass(frozen=True)
class NamedGraph:
    """A graph with names. `tasks`: its nodes as tasks, where tensors that share a place are one,
    the first; `order`: the nodes' if that is given."""

    tensors: tuple[NamedTensor, ...]
    nodes: tuple[str, ...]
    tasks: TaskGraph
    order: tuple[int, ...] | None = None
    origin: str = ""


def roots_of(tensors: Sequence[NamedTensor]) -> list[int]:
    """By tensor the one whose place it has in the end: itself, or the first of a circle."""
    roots = []
    for number in range(len(tensors)):
        place = {number: 0}
        while (shared := tensors[number].shares) not in place:
            number, place[shared] = shared, len(place)
        # In a circle of tensors that share with each other the first one stands for all.
        roots.append(min(t for t, at in place.items() if at >= place[shared]))
    return roots
