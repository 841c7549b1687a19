# SPDX-License-Identifier: Apache-2.0
"""What a target makes of a container, against its tables compiled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import runners
from ..container import Opened
from ..runners.compiled import CompiledRunner
from ..runners.samples import Sample, make_samples
from ..runners.zephyr import ZephyrRunner

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
    results = []
    for number, port in enumerate(graph.outputs):
        pairs = [(w[number], f[number]) for w, f in zip(wanted, found, strict=True)]
        differing = sum(int(np.count_nonzero(one != other)) for one, other in pairs)
        results.append(Compared(port.name, sum(one.size for one, _ in pairs), differing))
    return results
