# SPDX-License-Identifier: Apache-2.0
"""Graphs of named nodes and tensors as JSON.

    {"tensors": [{"name": "x", "size": 100}, ...],
     "nodes": [{"name": "a", "inputs": ["x"], "outputs": ["y"]}, ...]}

A tensor that no node makes is there from the start. It is alive until its last reader has run; with
"keep": true to the end. Optional: of a node "after", the names of nodes that must have run,
"scratch", bytes while it runs, "writes", the inputs that it changes, "cost" of running it, and
"repeatable", whether that gives the same again; of a tensor "alignment", a fixed "offset", and
"shares", another tensor whose offset it has, where both live until neither is needed; of the
whole "order", the names of all nodes. Input: JSON. Output: NamedGraph, or InputError with
everything that is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from vmcu_tools.ordering.tasks import CycleError, GraphTask, TaskGraph, usage

from .complaints import MOST_COMPLAINTS, Complaint, InputError, refuse

MOST_BYTES = 1 << 60
FIELDS = {
    "problem": {"tensors", "nodes", "order"},
    "tensor": {"name", "size", "alignment", "offset", "shares", "keep"},
    "node": {
        *("name", "inputs", "outputs", "after", "scratch"),
        *("writes", "cost", "repeatable"),
    },
}


@dataclass(frozen=True)
class NamedTensor:
    """`shares`: the tensor whose offset it has, by number; its own if none."""

    name: str
    size: int
    alignment: int
    offset: int | None
    shares: int


@dataclass(frozen=True)
class GraphBuffer:
    """A unit of memory: tensors with one offset, by the number of the first, or a node's scratch,
    by the complement of the node's number. `source`: the node that makes it, -1 if it is there from
    the start; `sinks`: its readers; `is_kept`: to the end."""

    number: int
    name: str
    size: int
    source: int
    sinks: tuple[int, ...] = ()
    is_kept: bool = False
    alignment: int = 1
    offset: int | None = None


@dataclass(frozen=True)
class NamedGraph:
    """A graph with names. `tasks`: its nodes as tasks, where tensors that share an offset are one,
    the first; `order`: the nodes' if that is given."""

    tensors: tuple[NamedTensor, ...]
    nodes: tuple[str, ...]
    tasks: TaskGraph
    order: tuple[int, ...] | None = None
    origin: str = ""

    @cached_property
    def roots(self) -> list[int]:
        """Maps each tensor to the one whose offset it has in the end."""
        return roots_of(self.tensors)

    @cached_property
    def buffers(self) -> list[GraphBuffer]:
        """Tensors that somebody makes or needs, and scratch. InputError if tensors of one offset
        have different ones."""
        buffers, tasks = [], self.tasks
        groups: dict[int, list[NamedTensor]] = {}
        for tensor, root in zip(self.tensors, self.roots, strict=True):
            groups.setdefault(root, []).append(tensor)
        for number, group in sorted(groups.items()):
            if not (number in tasks.maker or tasks.is_needed(number)):
                continue
            name = self.tensors[number].name
            offsets = {t.offset for t in group if t.offset is not None}
            if len(offsets) > 1:
                reason = f"tensors in the place of '{name}' have different offsets"
                raise refuse(self.origin, reason, "give one of them")
            buffers.append(
                GraphBuffer(
                    number,
                    name,
                    tasks.sizes[number],
                    tasks.maker.get(number, -1),
                    tuple(tasks.readers[number]),
                    number in tasks.kept,
                    max(t.alignment for t in group),
                    next(iter(offsets), None),
                )
            )
        known = {tensor.name for tensor in self.tensors}
        for node, task in enumerate(tasks.tasks):
            if task.scratch:
                name = f"scratch of {self.nodes[node]}"
                while name in known:
                    name += "'"
                buffers.append(GraphBuffer(~node, name, task.scratch, node))
        return buffers


def roots_of(tensors: Sequence[NamedTensor]) -> list[int]:
    """Maps each tensor to the one whose offset it has: itself, or the first of a circle."""
    roots = []
    for number in range(len(tensors)):
        steps = {number: 0}
        while (shared := tensors[number].shares) not in steps:
            number, steps[shared] = shared, len(steps)
        roots.append(min(tensor for tensor, step in steps.items() if step >= steps[shared]))
    return roots


def read(path: Path) -> NamedGraph:
    """Reads a graph; InputError with everything that is wrong."""
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise refuse(path, f"not JSON: {error}", "give a graph as JSON") from error
    except UnicodeDecodeError as error:
        raise refuse(path, "not JSON: it is no text in UTF-8", "give a graph as JSON") from error
    except (RecursionError, ValueError) as error:
        reason = "the lists are nested too deep, or a number has thousands of digits"
        raise refuse(path, reason, "give a graph as JSON") from error
    return parse(data, str(path))


def parse(data: Any, origin: str = "") -> NamedGraph:
    """The graph that JSON says; InputError as read()."""
    reader = Reader(origin)
    graph = reader.graph(data)
    if reader.complaints:
        raise InputError(*reader.complaints[:MOST_COMPLAINTS])
    assert graph is not None
    return graph


@dataclass
class Reader:
    """Collects the parts of a graph, and its faults."""

    origin: str
    complaints: list[Complaint] = field(default_factory=list)

    def wrong(self, reason: str, remedy: str) -> None:
        """Notes a complaint."""
        self.complaints.append(Complaint(reason, remedy, self.origin))

    def graph(self, data: Any) -> NamedGraph | None:
        """The graph, None if something is wrong."""
        if not isinstance(data, dict):
            self.wrong("not an object", 'write {"tensors": [...], "nodes": [...]}')
            return None
        self.known(data, "problem", "the problem")
        raw = self.entries(data, "tensors", "tensor")
        nodes = self.entries(data, "nodes", "node")
        names = {entry["name"]: number for number, entry in enumerate(raw)}
        numbers = {entry["name"]: number for number, entry in enumerate(nodes)}
        tensors = tuple(self.tensor(entry, n, names) for n, entry in enumerate(raw))
        tasks = [self.task(entry, names, numbers) for entry in nodes]
        order = None
        if data.get("order") is not None:
            order = tuple(self.listed(data, "order", numbers, "the problem", "node"))
        if self.complaints:
            return None
        kept = {n for n, entry in enumerate(raw) if entry.get("keep")}
        self.made_once(tasks, raw)
        if self.complaints:
            return None
        graph = merged(tensors, tasks, kept)
        self.ordered(graph, order, nodes)
        return NamedGraph(tensors, tuple(numbers), graph, order, self.origin)

    def known(self, entry: dict[str, Any], kind: str, what: str) -> None:
        """Fields that are none of the format's are refused: they may be typing errors."""
        for name in entry.keys() - FIELDS[kind]:
            some = ", ".join(sorted(FIELDS[kind]))
            self.wrong(f"{what} has a field '{name}'", f"leave it out, or write one of: {some}")

    def entries(self, data: dict[str, Any], key: str, kind: str) -> list[dict[str, Any]]:
        """The objects of a list, each with a name of its own."""
        objects: list[dict[str, Any]] = []
        seen: set[str] = set()
        entries = data.get(key)
        if not isinstance(entries, list):
            self.wrong(f"no list of {key}", f'write "{key}": [{{"name": ...}}, ...]')
            return []
        for number, entry in enumerate(entries):
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str) or name in seen:
                reason = "has no name" if not isinstance(name, str) else f"'{name}' is there twice"
                self.wrong(f"{kind} {number} {reason}", "give each a name of its own")
                continue
            seen.add(name)
            self.known(entry, kind, f"{kind} '{name}'")
            objects.append(entry)
        return objects

    def number(self, entry: dict[str, Any], key: str, least: int, default: int | None) -> int:
        """A field that is an integer."""
        value = entry.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < MOST_BYTES:
            what = f"{key} {value!r} of '{entry['name']}'"
            self.wrong(f"{what} is not an integer from {least} on", "give bytes")
            return least
        return value

    def listed(
        self, entry: dict[str, Any], key: str, names: Mapping[str, int], what: str, kind: str
    ) -> list[int]:
        """The numbers of names in a list, each once."""
        value = entry.get(key, [])
        if not isinstance(value, list):
            self.wrong(f"'{key}' of {what} is not a list", f"write the names of {kind}s")
            return []
        missing = [name for name in value if not isinstance(name, str) or name not in names]
        for name in missing:
            self.wrong(f"{what}: {key}: there is no {kind} {name!r}", f"name a {kind} of the list")
        return list(dict.fromkeys(names[name] for name in value if name not in missing))

    def tensor(self, entry: dict[str, Any], number: int, names: Mapping[str, int]) -> NamedTensor:
        """A tensor of the list."""
        shares = number
        if entry.get("shares") is not None:
            some = {"shares": [entry["shares"]]}
            shared = self.listed(some, "shares", names, f"tensor '{entry['name']}'", "tensor")
            shares = shared[0] if shared else number
        offset = None
        if entry.get("offset") is not None:
            offset = self.number(entry, "offset", 0, None)
        self.truth(entry, "keep")
        alignment = self.number(entry, "alignment", 1, 1)
        if offset is not None and offset % alignment:
            self.wrong(
                f"offset {offset} of '{entry['name']}' is not a multiple of {alignment}",
                "give another offset or alignment",
            )
        size = self.number(entry, "size", 0, None)
        return NamedTensor(entry["name"], size, alignment, offset, shares)

    def task(
        self, entry: dict[str, Any], names: Mapping[str, int], numbers: Mapping[str, int]
    ) -> GraphTask:
        """A node of the list, its tensors as they are there."""
        what = f"node '{entry['name']}'"
        inputs = tuple(self.listed(entry, "inputs", names, what, "tensor"))
        writes = tuple(self.listed(entry, "writes", names, what, "tensor"))
        if not set(writes) <= set(inputs):
            self.wrong(f"{what} writes what it does not read", "name it among the inputs")
        return GraphTask(
            inputs,
            tuple(self.listed(entry, "outputs", names, what, "tensor")),
            tuple(self.listed(entry, "after", numbers, what, "node")),
            self.number(entry, "scratch", 0, 0),
            writes=writes,
            cost=self.cost(entry),
            is_repeatable=self.truth(entry, "repeatable"),
        )

    def cost(self, entry: dict[str, Any]) -> float:
        """Returns the cost of running a node."""
        value = entry.get("cost", 0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < MOST_BYTES:
            self.wrong(f"cost {value!r} of '{entry['name']}' is no number from 0 on", "give one")
            return 0.0
        return float(value)

    def truth(self, entry: dict[str, Any], key: str) -> bool:
        """A field that is true or false."""
        value = entry.get(key, False)
        if not isinstance(value, bool):
            self.wrong(f"{key} of '{entry['name']}' is no truth value", "write true or false")
        return value is True

    def made_once(self, tasks: Sequence[GraphTask], tensors: Sequence[dict[str, Any]]) -> None:
        """Complains of tensors that several nodes make."""
        made: set[int] = set()
        for tensor in (t for task in tasks for t in task.outputs):
            if tensor in made:
                name = tensors[tensor]["name"]
                self.wrong(f"two nodes make tensor '{name}'", "give each a tensor of its own")
            made.add(tensor)

    def ordered(
        self, graph: TaskGraph, order: tuple[int, ...] | None, nodes: Sequence[dict[str, Any]]
    ) -> None:
        """Complains of cycles, and of a given order that is none."""
        try:
            graph.topological()
            if order is not None:
                usage(graph, order)
        except CycleError as error:
            names = " -> ".join(nodes[n]["name"] for n in (*error.tasks, error.tasks[0]))
            self.wrong(f"nodes wait for each other: {names}", "break the cycle")
        except ValueError:
            self.wrong(
                "'order' leaves nodes out or has one before what it waits for",
                "name all nodes, each after the makers of its inputs, or leave 'order' out",
            )


def merged(tensors: Sequence[NamedTensor], tasks: Sequence[GraphTask], kept: set[int]) -> TaskGraph:
    """The nodes as tasks: a node that reads or makes a tensor in another one's place reads that
    too, and has it to itself but for its size."""
    roots = roots_of(tensors)
    sizes = [0] * len(tensors)
    for tensor, root in zip(tensors, roots, strict=True):
        sizes[root] = max(sizes[root], tensor.size)
    merged_tasks = []
    for task in tasks:
        also = [roots[t] for t in (*task.inputs, *task.outputs) if roots[t] != t]
        inputs = dict.fromkeys((*task.inputs, *(t for t in also if t not in task.outputs)))
        changed = [roots[t] for t in task.writes]
        changed += [roots[t] for t in task.outputs if roots[t] != t]
        merged_tasks.append(
            replace(task, inputs=tuple(inputs), writes=tuple(dict.fromkeys(changed)))
        )
    keeps = {roots[t] for t in kept} | kept
    return TaskGraph(tuple(sizes), tuple(merged_tasks), frozenset(keeps))
