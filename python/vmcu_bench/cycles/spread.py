# SPDX-License-Identifier: Apache-2.0
"""How much the executed instructions differ from input to input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vmcu_tools.graph import Graph
from vmcu_tools.plan.plan import Plan

from ..runners.counting import CountingRunner, calls_in, markers_of
from ..runners.qemu import QemuRunner
from ..runners.samples import STRUCTURED, Sample, make_samples


@dataclass(frozen=True)
class LayerSpread:
    """The least and most instructions of a layer in an inference."""

    name: str
    op: str
    least: int
    most: int


@dataclass(frozen=True)
class Spread:
    """The least and most instructions of an inference over so many inputs. percent: the spread, of
    the least; layers: those whose instructions differ, the largest difference first."""

    inputs: int
    least: int
    most: int
    spread: int
    percent: float
    layers: tuple[LayerSpread, ...]


def inputs_of(graph: Graph, count: int, seed: int = 0) -> list[Sample]:
    """Edge cases, such as all -128, and random inputs."""
    edges = min(count, len(STRUCTURED))
    return make_samples(graph, count - edges, edges, seed)


def instructions_of(
    machine: QemuRunner, image: Path, model: str, plan: Plan, samples: Sequence[Sample]
) -> np.ndarray:
    """Instructions of each inference, int64 (inputs, rows), in one run: of the executor and of each
    layer."""
    counting = CountingRunner.of(machine, markers_of(image, model))
    counting.count(image.parent, lambda runner: runner.execute(image, plan, samples))
    calls = calls_in(image.parent)
    # A model that is given rows is called for each of them.
    each: np.ndarray = calls.reshape(len(samples), -1, calls.shape[1]).sum(axis=1)
    return each


def spread_of(each: np.ndarray, rows: Sequence[tuple[str, str, int]]) -> Spread:
    """The spread of instructions_of(). rows: names and ops."""
    total, least, most = each.sum(axis=1), each.min(axis=0), each.max(axis=0)
    spread = int(np.ptp(total))
    layers = [
        LayerSpread(name, op, int(least[n]), int(most[n]))
        for n, (name, op, _) in sorted(
            enumerate(rows), key=lambda row: least[row[0]] - most[row[0]]
        )
        if least[n] < most[n]
    ]
    percent = round(100 * spread / int(total.min()), 4)
    return Spread(len(each), int(total.min()), int(total.max()), spread, percent, tuple(layers))
