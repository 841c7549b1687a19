# SPDX-License-Identifier: Apache-2.0
"""Damages emitted tables: one number, name or entry at a time, in any field of any object."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from random_graphs import random_inputs
from vmcu_bench.runners import get
from vmcu_bench.runners.base import RunnerError
from vmcu_bench.runners.compiled import MODEL_NAME, CompiledRunner
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.plan.plan import Plan

Files = Mapping[str, str]
_NUMBER = re.compile(r"(?<![\w.\"])-?(?:0x[0-9a-f]+|\d+)(?=U?[,\]})\s])")
_MEMBER = re.compile(r"\n\t+\.\w+ = [^{}\n]+,(?=\n)|(?<=\{)\.\w+ = [^{},]+, ")
_NAME = re.compile(r"(?<== )&?[A-Za-z_]\w+(?=[,\[])|(?<=\| )\w+(?=,)")
_ENTRY = re.compile(r"\n\t\{(?:\n\t\t[^\n]*)+\n\t\},|\n\t\{[^\n]*\},")
_ADDRESS = re.compile(r"\.(base|scratch|progress|phase) = (\d+)")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def damage(rng: np.random.Generator, files: Files) -> Files:
    """The files with one thing changed in the tables, or in the bytes that the pool must have."""
    source, header = f"{MODEL_NAME}.c", f"{MODEL_NAME}.h"
    kind = rng.random()
    if kind < 0.03:
        return {**files, header: _another_pool(rng, files[header])}
    changed = next(way for below, way in _WAYS if kind < below)
    return {**files, source: changed(rng, files[source])}


def _another_pool(rng: np.random.Generator, text: str) -> str:
    def less(match: re.Match[str]) -> str:
        return f"{match[1]}{max(int(match[2]) + int(rng.integers(-8, 2)), 1)}"

    return re.sub(r"(POOL_BYTES )(\d+)", less, text, count=1)


def _places(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """What a pattern finds outside comments, of every object alike however long it is."""
    comments = [match.span() for match in _COMMENT.finditer(text)]
    found = []
    for match in pattern.finditer(text, text.index("static const")):
        if not any(start <= match.start() < stop for start, stop in comments):
            found.append(match)
    return found


def _evenly(rng: np.random.Generator, text: str, found: list[re.Match[str]]) -> re.Match[str]:
    """One of them: an object at random, then a place in it; weights are the most by far."""
    starts = [match.start() for match in re.finditer(r"^(static )?const ", text, re.MULTILINE)]
    groups: dict[int, list[re.Match[str]]] = {}
    for match in found:
        groups.setdefault(int(np.searchsorted(starts, match.start())), []).append(match)
    group = list(groups.values())[int(rng.integers(len(groups)))]
    return group[int(rng.integers(len(group)))]


def _another_number(rng: np.random.Generator, text: str) -> str:
    match = _evenly(rng, text, _places(_NUMBER, text))
    value = int(match[0], 0)
    others = (value + 1, value - 1, value + 4, value - 4, value * 2, value // 2, 0, value ^ 128)
    others += (value + int(rng.integers(1, 50)), value - int(rng.integers(1, 50)))
    changed = [other for other in others if other != value]
    other = changed[int(rng.integers(len(changed)))]
    return f"{text[: match.start()]}{other}{text[match.end() :]}"


def _without_member(rng: np.random.Generator, text: str) -> str:
    match = _evenly(rng, text, _places(_MEMBER, text))
    return text[: match.start()] + text[match.end() :]


def _swapped(rng: np.random.Generator, text: str) -> str:
    """Two numbers of one object in each other's place."""
    found = _places(_NUMBER, text)
    number = found.index(_evenly(rng, text, found))
    near = [m for m in found[max(number - 12, 0) : number + 13] if m[0] != found[number][0]]
    if not near:
        return _another_number(rng, text)
    pair = sorted((found[number], near[int(rng.integers(len(near)))]), key=lambda m: m.start())
    one, two = pair
    between = text[one.end() : two.start()]
    return f"{text[: one.start()]}{two[0]}{between}{one[0]}{text[two.end() :]}"


def _another_name(rng: np.random.Generator, text: str) -> str:
    """A name in place of another: of a kernel, an object, a flag."""
    found = _places(_NAME, text)
    match = _evenly(rng, text, found)
    names = sorted({other[0] for other in found if other[0] != match[0]})
    name = names[int(rng.integers(len(names)))]
    return f"{text[: match.start()]}{name}{text[match.end() :]}"


def _another_entry(rng: np.random.Generator, text: str) -> str:
    """An entry of a table left out, or there twice."""
    match = _evenly(rng, text, _places(_ENTRY, text))
    times = 0 if rng.random() < 0.6 else 2
    return f"{text[: match.start()]}{match[0] * times}{text[match.end() :]}"


def _another_address(rng: np.random.Generator, text: str) -> str:
    """Where something lies in the pool, somewhere else."""
    match = _evenly(rng, text, _places(_ADDRESS, text))
    size = int(re.search(r"\.ring = (\d+)", text)[1]) * 3
    return f"{text[: match.start(2)]}{int(rng.integers(0, size))}{text[match.end(2) :]}"


_WAYS = (
    (0.10, _without_member),
    (0.18, _swapped),
    (0.26, _another_name),
    (0.34, _another_entry),
    (0.50, _another_address),
    (1.01, _another_number),
)


# Of a pool that stays; one that rotates runs at so many origins, of which the last have any run of
# a small pool reach around.
SAMPLES, ORIGINS = 3, 40


def right_in_c(files: Files, plan: Plan, graph: Graph) -> bool:
    """True if C compiled from the files, under sanitizers, gives the graph's bytes in several
    inferences in a row, or a compiler refuses them."""
    target = get("host:sanitize")
    assert isinstance(target, CompiledRunner)
    target = target.suited(plan)
    count = SAMPLES if plan.rotation is None else ORIGINS
    inputs = [random_inputs(graph, seed) for seed in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            image = target.build(files, MODEL_NAME, Path(folder))
        except RunnerError:
            return True
        try:
            results = target.execute(image, plan, inputs)
        except RunnerError:
            return False
    for sample, outputs in zip(inputs, results, strict=True):
        meaning = reference.run(graph, sample)
        for port, values in zip(graph.outputs, outputs, strict=True):
            if not np.array_equal(values, meaning[port.tensor]):
                return False
    return True
