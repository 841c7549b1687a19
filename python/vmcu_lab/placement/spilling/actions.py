# SPDX-License-Identifier: Apache-2.0
"""The actions of a device that runs a graph in too little memory, and the contents of memory
meanwhile.

Tensors that share an offset are one place, known by its first tensor's number. A place is there
from the action that makes it, or from the start, to the last one that uses it before it is brought
back, or before the end; a kept one is there at the end. Only tensors in use hold bytes: to drop a
tensor is no action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from vmcu_tools.ordering.tasks import GraphTask, TaskGraph

from ..graph_files import GraphBuffer, NamedGraph
from ..problem import Buffer, Instance


class ActionKind(Enum):
    """RUN and REPEAT: a node, for the first time and again; STORE: copies a place to the slow
    memory; FETCH: copies it back."""

    RUN = "run"
    REPEAT = "repeat"
    STORE = "store"
    FETCH = "fetch"


@dataclass(frozen=True)
class Action:
    """`number`: of a node or of a place. `place`: that which a repeated node makes or changes."""

    kind: ActionKind
    number: int
    place: int = -1


@dataclass(frozen=True)
class Stay:
    """A place, or a node's scratch (`place` is the complement of its number), in memory from the
    action `first` until just before the action `until`."""

    place: int
    first: int
    until: int
    size: int


@dataclass(frozen=True)
class Prices:
    """`per_byte`: of a copy to or from the slow memory, in the unit of the nodes' cost; None if
    there is no such memory. `capacity`: its bytes."""

    per_byte: float | None = None
    capacity: int = 0

    def copy(self, size: int) -> float:
        """Returns the price of a copy of so many bytes; 0 without a slow memory."""
        return size * (self.per_byte or 0.0)


def outputs_of(graph: TaskGraph, node: int) -> list[int]:
    """The places that a node makes."""
    return [tensor for tensor in graph.tasks[node].outputs if graph.sizes[tensor]]


def changed_by(task: GraphTask) -> set[int]:
    """The places that a task makes or changes."""
    return {*task.outputs, *task.writes}


def writers(graph: TaskGraph) -> list[list[int]]:
    """Lists for each place the nodes that make or change it."""
    by_place: list[list[int]] = [[] for _ in graph.sizes]
    for number, task in enumerate(graph.tasks):
        for place in changed_by(task):
            by_place[place].append(number)
    return by_place


def _touched(graph: TaskGraph, action: Action) -> tuple[list[int], list[int], int]:
    """Returns the places that an action needs, those that it brings into memory, and its
    scratch, in bytes."""
    if action.kind is ActionKind.STORE:
        return [action.number], [], 0
    if action.kind is ActionKind.FETCH:
        return [], [action.number], 0
    task = graph.tasks[action.number]
    made = outputs_of(graph, action.number)
    needed = [place for place in dict.fromkeys(task.inputs) if graph.sizes[place]]
    if action.kind is ActionKind.RUN:
        return needed, made, task.scratch
    # The other outputs of a repeated node have no reader.
    beside = sum(graph.sizes[place] for place in made if place != action.place)
    return needed, [place for place in made if place == action.place], task.scratch + beside


def stays(graph: TaskGraph, actions: Sequence[Action]) -> list[Stay]:
    """Lists the contents of memory over time. ValueError if something is needed that is not
    there."""
    sizes, end = graph.sizes, max(len(actions), 1)
    stay_list: list[Stay] = []
    since = {
        place: 0
        for place, size in enumerate(sizes)
        if size and place not in graph.maker and graph.is_needed(place)
    }
    last = dict.fromkeys(since, 0)
    for at, action in enumerate(actions):
        needed, made, scratch = _touched(graph, action)
        for place in needed:
            if place not in since:
                raise ValueError(f"action {at} needs place {place}, which is not there")
            last[place] = at
        if scratch:
            stay_list.append(Stay(~action.number, at, at + 1, scratch))
        for place in made:
            if place in since:
                stay_list.append(Stay(place, since[place], last[place] + 1, sizes[place]))
            since[place] = last[place] = at
    for place, first in since.items():
        until = end if place in graph.kept else last[place] + 1
        stay_list.append(Stay(place, first, until, sizes[place]))
    return stay_list


def slow_stays(graph: TaskGraph, actions: Sequence[Action]) -> list[Stay]:
    """Lists the contents of the slow memory over time: from a copy there to the last copy back."""
    slow: list[Stay] = []
    since: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, action in enumerate(actions):
        if action.kind is ActionKind.FETCH:
            last[action.number] = at
        elif action.kind is ActionKind.STORE:
            if action.number in since:
                slow.append(_slow(graph, action.number, since, last))
            since[action.number] = last[action.number] = at
    return slow + [_slow(graph, place, since, last) for place in since]


def _slow(graph: TaskGraph, place: int, since: dict[int, int], last: dict[int, int]) -> Stay:
    return Stay(place, since[place], last[place] + 1, graph.sizes[place])


def peak(stay_list: Sequence[Stay], count: int) -> int:
    """The most bytes of stays during one of `count` actions."""
    change = [0] * (count + 2)
    for stay in stay_list:
        change[stay.first] += stay.size
        change[stay.until] -= stay.size
    most = now = 0
    for one in change:
        now += one
        most = max(most, now)
    return most


def instance_of(graph: NamedGraph, stay_list: Sequence[Stay], is_slow: bool = False) -> Instance:
    """Stays as buffers, `id`: the number in the list. Alignments and given offsets are those of the
    graph; in the slow memory nothing has a given offset."""
    buffers: dict[int, GraphBuffer] = {one.number: one for one in graph.buffers}
    made = []
    for number, stay in enumerate(stay_list):
        one = buffers.get(stay.place)
        alignment = one.alignment if one else 1
        offset = None if is_slow or one is None else one.offset
        made.append(Buffer(str(number), stay.first, stay.until, stay.size, alignment, (), offset))
    return Instance(tuple(made), graph.origin)


def price(graph: TaskGraph, actions: Sequence[Action], prices: Prices) -> float:
    """Returns the price of all copies and repeated nodes."""
    total = 0.0
    for action in actions:
        if action.kind is ActionKind.REPEAT:
            total += graph.tasks[action.number].cost
        elif action.kind is not ActionKind.RUN:
            total += prices.copy(graph.sizes[action.number])
    return total
