# SPDX-License-Identifier: Apache-2.0
"""The paper's integer program against brute force over the accesses of generated kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from random_graphs import LAYERS, overlapped, random_layers
from vmcu_lab.distances.program import (
    Link,
    chain_distance,
    layer_distance,
    pulp,
    smallest_distance,
    solver,
)
from vmcu_lab.distances.relation import Access
from vmcu_tools.errors import PlanError
from vmcu_tools.graph import Node
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops import ProgramLayer, bind
from vmcu_tools.planner.places.overlap import Clearance, clearance

GENERATED = [kind for kind in LAYERS if kind in ("conv2d", "fully_connected", "depthwise", "add")]
CASES = 100


def gemm(m: int, n: int, k: int) -> list[Access]:
    """The paper's example (figure 3) at the grain of segments: Out[m, n] += In[m, k] W[k, n], the
    output written when its sum is complete."""

    def box(*turns: int) -> tuple[np.ndarray, np.ndarray]:
        eye = np.eye(len(turns), dtype=int)
        bounds = [-np.ones(len(turns), int), -np.array(turns)]
        return np.concatenate([-eye, eye]), np.concatenate(bounds)

    read_h, read_b = box(m, n, k)
    write_h, write_b = box(m, n)
    read = Access(
        0,
        True,
        read_h,
        read_b,
        np.array([[1, 0, 0], [0, 0, 1]]),
        np.zeros(2, int),
        np.array([k, 1]),
        (0, ~0, 1, ~0, 2),
    )
    write = Access(
        "output",
        False,
        write_h,
        write_b,
        np.array([[1, 0], [0, 1]]),
        np.zeros(2, int),
        np.array([n, 1]),
        (0, ~0, 1, ~1),
    )
    return [read, write]


@pytest.mark.parametrize(("m", "n", "k"), [(2, 2, 3), (3, 5, 2), (4, 3, 3), (2, 7, 7), (5, 1, 4)])
def test_gemm_needs_min_n_k_less_one_empty_segments(m: int, n: int, k: int) -> None:
    distance = smallest_distance(gemm(m, n, k))
    assert distance is not None
    footprint = Clearance(distance, -(10**9)).footprint(m * k, m * n)
    assert footprint == max(m * n, m * k) + min(n, k) - 1


def layers(kind: str, seeds: range):
    for seed in seeds:
        graph = random_layers(kind, 1, seed=seed)
        node: Node = graph.nodes[0]
        layer = bind(graph, node)
        if isinstance(layer, ProgramLayer):
            for descending in (False, True):
                yield bind(graph, node, descending)


@pytest.mark.parametrize("kind", GENERATED)
def test_program_is_brute_force(kind: str) -> None:
    compared = 0
    for layer in layers(kind, range(CASES // 2)):
        for index in range(len(layer.ins)):
            found = layer_distance(layer, index)
            enumerated = clearance(layer, index).below
            if found is None:
                # Nothing is read after a write: any distance will do.
                assert enumerated == -layer.ins[index].bytes
            else:
                assert found == enumerated
            compared += 1
    assert compared >= 100 or compared == 0


def test_chain_is_the_sum_of_its_links() -> None:
    rng = np.random.default_rng(0)
    distances = rng.integers(-5, 30, 6).tolist()
    links = [Link(f"t{n}", f"t{n + 1}", d) for n, d in enumerate(distances)]
    assert chain_distance(links, "t0", "t6") == sum(distances)
    # A side branch that is longer decides.
    links += [Link("t0", "side", 100), Link("side", "t6", 100)]
    assert chain_distance(links, "t0", "t6") == max(200, sum(distances))


@pytest.mark.parametrize("highs", [True, False])
def test_either_solver_finds_it(monkeypatch: pytest.MonkeyPatch, highs: bool) -> None:
    if highs:
        pytest.importorskip("highspy", reason="HiGHS is not installed")
    else:
        monkeypatch.setattr(pulp.HiGHS, "available", lambda _: False)
    assert isinstance(solver(), pulp.HiGHS) == highs
    test_gemm_needs_min_n_k_less_one_empty_segments(3, 5, 2)
    test_chain_is_the_sum_of_its_links()


def test_the_solver_leaves_standard_output_alone() -> None:
    """In a process of its own: HiGHS says who it is in C, once."""
    script = "from test_offsets import *; print(smallest_distance(gemm(2, 2, 3)))"
    command, here = [sys.executable, "-c", script], Path(__file__).parent
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    assert done.stdout == f"{smallest_distance(gemm(2, 2, 3))}\n"


def test_one_byte_nearer_is_caught() -> None:
    caught = 0
    for kind in LAYERS:
        for seed in range(12):
            graph = random_layers(kind, 1, seed=500 + seed)
            VirtualMcu(overlapped(graph)).prove()
            first = bind(graph, graph.nodes[0])
            if clearance(first, 0).below == -first.ins[0].bytes:
                continue  # nothing is read after a write: no distance is too small
            with pytest.raises(PlanError):
                VirtualMcu(overlapped(graph, closer=1)).prove()
            caught += 1
    assert caught >= 200
