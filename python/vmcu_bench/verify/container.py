# SPDX-License-Identifier: Apache-2.0
"""Compares a target's results for a container with its tables compiled in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from vmcu_tools.container import Opened
from vmcu_tools.container.kernels import targets_of
from vmcu_tools.graph import Graph
from vmcu_tools.kernels.targets import named

from .. import runners
from ..runners.compiled import LOADING, CompiledRunner
from ..runners.samples import Sample, make_samples
from ..runners.zephyr import ZephyrRunner
from .stream import stream_of

REFERENCE = "host"
Machine: TypeAlias = CompiledRunner | ZephyrRunner


@dataclass(frozen=True)
class Compared:
    """An output over all samples: its bytes, and how many of them differ."""

    name: str
    bytes: int
    differing: int


def reference(opened: Opened, target: Machine) -> Machine:
    """Returns the machine that runs a container's tables compiled in: this computer, or the target
    itself where this computer does not have the kernels."""
    reference_machine = runners.get(REFERENCE)
    assert isinstance(reference_machine, CompiledRunner)
    if named(reference_machine.family) not in targets_of(opened.kernels):
        other = runners.get(target.name.removesuffix(LOADING))
        assert isinstance(other, (CompiledRunner, ZephyrRunner))
        return other
    return reference_machine


def expected(opened: Opened, target: Machine, samples: Sequence[Sample]) -> list[list[np.ndarray]]:
    """The outputs of a container's tables where they are compiled in."""
    return reference(opened, target).run_container(opened, samples)


def answers(opened: Opened, target: Machine, rows: np.ndarray) -> np.ndarray:
    """expected() of a container that keeps rows: int8 (hops, bytes)."""
    return reference(opened, target).run_container_stream(opened, rows)


def verify(
    opened: Opened,
    target: Machine,
    random: int,
    structured: int,
    seed: int,
) -> list[Compared]:
    """Each output of a container on a target that loads it, against expected()."""
    graph = opened.outline.graph
    samples = make_samples(graph, random, structured, seed)
    wanted = expected(opened, target, samples)
    outputs = target.run_container(opened, samples)
    return _compared(graph, wanted, outputs)


def verify_stream(opened: Opened, target: Machine, hops: int, seed: int) -> list[Compared]:
    """verify() of a container that keeps rows, over so many hops of a stream."""
    graph = opened.outline.graph
    rows = stream_of(graph, graph.state.step_rows, hops, seed)
    wanted = answers(opened, target, rows)
    loaded_answers = target.run_container_stream(opened, rows)
    ends = list(itertools.accumulate(graph.tensors[p.tensor].bytes for p in graph.outputs))[:-1]
    pair = [np.split(each, ends, axis=1) for each in (wanted, loaded_answers)]
    return _compared(graph, pair[:1], pair[1:])


def _compared(
    graph: Graph, wanted: Sequence[Sequence[np.ndarray]], outputs: Sequence[Sequence[np.ndarray]]
) -> list[Compared]:
    """Compares the outputs one by one, over all samples."""
    results = []
    for number, port in enumerate(graph.outputs):
        pairs = [(w[number], f[number]) for w, f in zip(wanted, outputs, strict=True)]
        differing = sum(int(np.count_nonzero(one != other)) for one, other in pairs)
        results.append(Compared(port.name, sum(one.size for one, _ in pairs), differing))
    return results
