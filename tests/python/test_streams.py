# SPDX-License-Identifier: Apache-2.0
"""A window that moves along time: what is kept from hop to hop gives the bytes of whole windows."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from random_streams import Temporal
from vmcu_tools import runners
from vmcu_tools.emit import emit
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import Options
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.runners.stream import streamed
from vmcu_tools.verify.stream import stream_of, windows

NETWORKS = 24
SANITIZED = "host:sanitize"


@functools.cache
def drawn(seed: int) -> tuple[Graph, int]:
    found = Temporal(seed)
    return found.graph, found.hop


@functools.cache
def plan_of(seed: int) -> Plan:
    graph, hop = drawn(seed)
    return make_plan("vmcu", graph, Options(hop=hop))


def answers(graph: Graph, rows: np.ndarray, hop: int) -> np.ndarray:
    """What each whole window means, int8 (hops, W, C)."""
    name = graph.outputs[0].tensor
    found = [reference.run(graph, [window])[name] for window in windows(graph, rows, hop)]
    return np.concatenate(found)


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_hops_are_those_of_whole_windows(seed: int) -> None:
    (graph, hop), plan = drawn(seed), plan_of(seed)
    assert emit(plan, "model").files
    rows = stream_of(graph, hop, 150, seed)
    wanted = answers(graph, rows, hop)
    np.testing.assert_array_equal(streamed(runners.get("virtual"), plan, rows), wanted)
    np.testing.assert_array_equal(streamed(runners.get(SANITIZED), plan, rows), wanted)
