# SPDX-License-Identifier: Apache-2.0
"""What a target makes of a container, against its tables compiled in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import runners
from ..container import Opened
from ..graph import Graph
from ..runners.compiled import CompiledRunner
from ..runners.samples import Sample, make_samples
from ..runners.zephyr import ZephyrRunner
from .stream import stream_of

REFERENCE = "host"


@dataclass(frozen=True)
class Compared:
    """An output over all samples: its bytes, and how many of them differ."""

    name: str
    bytes: int
    differing: int


def expected(opened: Opened, samples: Sequence[Sample]) -> list[list[np.ndarray]]:
    """The outputs of a container's tables where they are compiled in, on this computer."""
    reference = runners.get(REFERENCE)
    assert isinstance(reference, CompiledRunner)
    return reference.run_container(opened, samples)


def answers(opened: Opened, rows: np.ndarray) -> np.ndarray:
    """expected() of a container that keeps rows: int8 (hops, bytes)."""
    reference = runners.get(REFERENCE)
    assert isinstance(reference, CompiledRunner)
    return reference.run_container_stream(opened, rows)


def verify(
    opened: Opened,
    target: CompiledRunner | ZephyrRunner,
    random: int,
    structured: int,
    seed: int,
) -> list[Compared]:
    """Each output of a container on a target that loads it, against expected()."""
    graph = opened.outline.graph
    samples = make_samples(graph, random, structured, seed)
    wanted, found = expected(opened, samples), target.run_container(opened, samples)
    return _compared(graph, wanted, found)


def verify_stream(
    opened: Opened, target: CompiledRunner | ZephyrRunner, hops: int, seed: int
) -> list[Compared]:
    """verify() of a container that keeps rows, over so many hops of a stream."""
    graph = opened.outline.graph
    rows = stream_of(graph, graph.hop, hops, seed)
    wanted, found = answers(opened, rows), target.run_container_stream(opened, rows)
    ends = list(itertools.accumulate(graph.tensors[p.tensor].bytes for p in graph.outputs))[:-1]
    pair = [np.split(each, ends, axis=1) for each in (wanted, found)]
    return _compared(graph, pair[:1], pair[1:])


def _compared(
    graph: Graph, wanted: Sequence[Sequence[np.ndarray]], found: Sequence[Sequence[np.ndarray]]
) -> list[Compared]:
    """By output, over all samples."""
    results = []
    for number, port in enumerate(graph.outputs):
        pairs = [(w[number], f[number]) for w, f in zip(wanted, found, strict=True)]
        differing = sum(int(np.count_nonzero(one != other)) for one, other in pairs)
        results.append(Compared(port.name, sum(one.size for one, _ in pairs), differing))
    return results
