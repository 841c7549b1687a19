# SPDX-License-Identifier: Apache-2.0
"""Graphs of anybody as JSON: an order for their nodes, offsets for their tensors, or both.

    {"tensors": [{"name": "x", "size": 100}, ...],
     "nodes": [{"name": "a", "inputs": ["x"], "outputs": ["y"]}, ...]}

A tensor that no node makes is there from the start. It is alive until its last reader has run; with
"keep": true to the end. Nobody's input is alive while it is made. Optional: of a node "after", the
names of nodes that must have run, whatever they make, and "scratch", bytes while it runs; of a
tensor "alignment", "offset", where it has to lie, and "shares", another tensor in whose place it
lies, which then lives until neither is needed; of the whole "order", the names of all nodes.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import SECONDS, place, program
from .complaints import Complaint, InputError, refuse
from .named import NamedGraph, NamedTensor, roots_of
from .ordering import Ordering, best_order
from .problem import Allocation, Buffer, Instance, check
from .tasks import CycleError, GraphTask, TaskGraph, lifetimes, usage

MOST_COMPLAINTS = 10
MOST_BYTES = 1 << 60
FIELDS = {
    "problem": {"tensors", "nodes", "order"},
    "tensor": {"name", "size", "alignment", "offset", "shares", "keep"},
    "node": {"name", "inputs", "outputs", "after", "scratch"},
}
Told = Callable[[int, int], None]
Placed = tuple[Ordering, Allocation]
# Of the seconds that are given, parts for the order and for offsets in the file's own order; the
# rest is for offsets in the order that was found.
ORDER_SHARE, OWN_SHARE = 0.25, 0.1


@dataclass(frozen=True)
class GraphPlan:
    """Names of nodes in order, offsets by name of tensor, None where they were not asked for.

    `height`: bytes that the tensors take at their offsets, else those of the worst step; `peak`:
    those of the worst step; `bound`: those that no order, or none but the given one, does without;
    `proof`: what an integer program says, if one was asked for; `unproven`: it found neither a plan
    nor a bound.
    """

    order: tuple[str, ...]
    offsets: dict[str, int] | None
    height: int
    peak: int
    bound: int
    seconds: float
    interrupted: bool = False
    proof: str = ""
    unproven: bool = False

    @property
    def optimal(self) -> bool:
        """True if nothing can be lower."""
        return self.height <= self.bound


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
    """What is said about a graph, and what is wrong with it."""

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
        found: list[dict[str, Any]] = []
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
            found.append(entry)
        return found

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
        if not isinstance(entry.get("keep", False), bool):
            self.wrong(f"keep of '{entry['name']}' is no truth value", "write true or false")
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
        return GraphTask(
            tuple(self.listed(entry, "inputs", names, what, "tensor")),
            tuple(self.listed(entry, "outputs", names, what, "tensor")),
            tuple(self.listed(entry, "after", numbers, what, "node")),
            self.number(entry, "scratch", 0, 0),
        )

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
    """The nodes as tasks: whoever reads or makes a tensor in another one's place reads that too,
    and has it to itself but for its size."""
    roots = roots_of(tensors)
    sizes = [0] * len(tensors)
    for tensor, root in zip(tensors, roots, strict=True):
        sizes[root] = max(sizes[root], tensor.size)
    found = []
    for task in tasks:
        also = [roots[t] for t in (*task.inputs, *task.outputs) if roots[t] != t]
        inputs = dict.fromkeys((*task.inputs, *(t for t in also if t not in task.outputs)))
        found.append(GraphTask(tuple(inputs), task.outputs, task.after, task.scratch))
    keeps = {roots[t] for t in kept} | kept
    return TaskGraph(tuple(sizes), tuple(found), frozenset(keeps))


def instance_of(graph: NamedGraph, order: Sequence[int]) -> Instance:
    """The tensors of an order as buffers, those that share a place as one, and scratch."""
    tasks, roots = graph.tasks, roots_of(graph.tensors)
    at = {number: step for step, number in enumerate(order)}
    lives = lifetimes(tasks, order)
    buffers = []
    for number, root in enumerate(roots):
        if number != root or not (number in tasks.maker or tasks.wanted(number)):
            continue
        group = [t for t, other in zip(graph.tensors, roots, strict=True) if other == root]
        offsets = {t.offset for t in group if t.offset is not None}
        if len(offsets) > 1:
            raise refuse(
                graph.origin,
                f"tensors in the place of '{graph.tensors[root].name}' have different offsets",
                "give one of them",
            )
        alignment = max(t.alignment for t in group)
        name, size = graph.tensors[number].name, tasks.sizes[number]
        fixed = next(iter(offsets), None)
        buffers.append(Buffer(name, *lives[number], size, alignment, (), fixed))
    known = {tensor.name for tensor in graph.tensors}
    for number, task in enumerate(tasks.tasks):
        if task.scratch:
            name = f"scratch of {graph.nodes[number]}"
            while name in known:
                name += "'"
            buffers.append(Buffer(name, at[number], at[number] + 1, task.scratch))
    return Instance(tuple(buffers), graph.origin)


def solve(
    graph: NamedGraph,
    seconds: float | None = None,
    workers: int | None = None,
    told: Told = lambda bound, height: None,
    only: str = "",
    keep: bool = False,
    solver: str = "",
) -> GraphPlan:
    """The best order found, or the given one, and the lowest offsets found in it.

    only: "order", without offsets, or "placement", in the order of the list if none is given.
    seconds: for both searches, of which that for an order gets ORDER_SHARE at most; None: that for
    an order ends by itself, at the same point on every machine, then SECONDS for offsets. Where
    both are looked for, never higher than first fit in the file's own order. keep: an interruption
    (KeyboardInterrupt) ends either with the best so far. solver: "highs" or "cbc", which then
    solves MODeL's program of both, in as many seconds again; InputError if it is not installed.
    """
    start = time.monotonic()
    deadline = math.inf
    if seconds is not None:
        deadline = start + (1.0 if only == "order" else ORDER_SHARE) * seconds
    if solver:
        program.available(solver, graph)
    order = graph.order
    if order is None and only == "placement":
        order = tuple(graph.tasks.topological())
    if order is None:
        found = best_order(graph.tasks, told=told, keep=keep, deadline=deadline)
    else:
        used = usage(graph.tasks, order)
        found = Ordering(tuple(order), used.peak, used.peak)
    names = tuple(graph.nodes[number] for number in found.order)
    if only == "order":
        return GraphPlan(
            names, None, found.peak, found.peak, found.bound, time.monotonic() - start,
            found.interrupted,
        )  # fmt: skip
    end = time.monotonic() + SECONDS if seconds is None else start + seconds
    own_seconds = OWN_SHARE * (seconds or SECONDS) if order is None else 0.0
    problem = instance_of(graph, found.order)
    left = max(end - own_seconds - time.monotonic(), 0.0)
    placed = place(problem, found.bound or None, left, workers, told, keep)
    if order is None and placed.height > found.peak and not placed.interrupted:
        left = max(end - time.monotonic(), 0.0)
        found, placed = lower_of((found, placed), in_own_order(graph, found.bound, left))
        names = tuple(graph.nodes[number] for number in found.order)
    roots = roots_of(graph.tensors)
    offsets = {
        tensor.name: placed.offsets.get(graph.tensors[root].name, 0)
        for tensor, root in zip(graph.tensors, roots, strict=True)
    }
    bound = max(found.bound, placed.bound) if found.proven and order is not None else found.bound
    plan = GraphPlan(
        names,
        offsets,
        placed.height,
        found.peak,
        min(bound, placed.height),
        time.monotonic() - start,
        found.interrupted or placed.interrupted,
    )
    if solver and not plan.interrupted:
        plan = proven(
            graph, plan, None if order is None else found.order, solver, seconds or SECONDS
        )
        plan = replace(plan, seconds=time.monotonic() - start)
    return plan


def in_own_order(graph: NamedGraph, bound: int, seconds: float) -> Placed:
    """The file's own order and the lowest offsets found in it, by first fit at first. bound: of any
    order."""
    order = tuple(graph.tasks.topological())
    peak = usage(graph.tasks, order).peak
    return Ordering(order, peak, min(bound, peak)), place(instance_of(graph, order), None, seconds)


def lower_of(one: Placed, other: Placed) -> Placed:
    """Of two the one whose placement is lower, the first if they are as high."""
    return min(one, other, key=lambda placed: placed[1].height)


def proven(
    graph: NamedGraph, plan: GraphPlan, order: Sequence[int] | None, solver: str, seconds: float
) -> GraphPlan:
    """The plan, or a lower one, with what the integer program proves; `order`: the given one."""
    roots = roots_of(graph.tensors)
    job = program.Job(graph, roots, order, plan.height, solver)
    found = program.solve_within(job, seconds)
    if found is None:
        return replace(plan, proof=f"{solver}: found nothing in {seconds:g} seconds", unproven=True)
    bound = min(max(plan.bound, found.bound), plan.height)
    told = f"{solver}: none takes less than {min(found.bound, plan.height):,} bytes"
    if found.order is None:
        return replace(plan, bound=bound, proof=told)
    buffers = instance_of(graph, found.order)
    numbers = {tensor.name: number for number, tensor in enumerate(graph.tensors)}
    scratch = iter(offset for number, offset in found.offsets.items() if number < 0)
    by_id = {
        buffer.id: found.offsets.get(numbers[buffer.id], buffer.offset or 0)
        if buffer.id in numbers
        else next(scratch)
        for buffer in buffers.buffers
    }
    height = check(buffers, by_id)
    if height >= plan.height:
        return replace(plan, bound=bound, proof=told)
    offsets = {
        tensor.name: by_id.get(graph.tensors[root].name, 0)
        for tensor, root in zip(graph.tensors, roots, strict=True)
    }
    names, peak = tuple(graph.nodes[n] for n in found.order), usage(graph.tasks, found.order).peak
    return replace(
        plan, order=names, offsets=offsets, height=height, peak=peak,
        bound=min(bound, height), proof=told,
    )  # fmt: skip
