# SPDX-License-Identifier: Apache-2.0
"""The example of an architecture search: what it finds fits, in processes and on a Dask cluster."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import vmcu_tools

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "nas" / "search.py"


@pytest.fixture(scope="module")
def search() -> Iterable[ModuleType]:
    spec = importlib.util.spec_from_file_location("nas_search", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_best_gets_better_and_fits(search: ModuleType) -> None:
    """Of sizes that are soon known."""

    def bytes_of(candidates: Iterable) -> list[int]:
        return [sum(one.widths) * max(one.kernels) for one in candidates]

    steps = list(search.evolve(600, bytes_of, 12, 12))
    scores = [search.score(best) for _, best, _ in steps]
    assert scores == sorted(scores) and scores[-1] > scores[0]
    assert all(size <= 600 and bytes_of([best]) == [size] for _, best, size in steps)


def test_candidates_are_networks(search: ModuleType) -> None:
    rng = np.random.default_rng(1)
    one = search.drawn(rng)
    assert search.changed(one, rng) != search.changed(one, rng)
    graph = search.network(search.Candidate((8, 8, 8, 8), (3, 3, 3, 3)))
    assert search.needs(search.Candidate((8, 8, 8, 8), (3, 3, 3, 3))) == vmcu_tools.peak(graph)


@pytest.mark.parametrize("where", ((), ("--dask", "local")), ids=("processes", "dask"))
def test_it_runs(where: tuple) -> None:
    if where:
        pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")
    words = ["--ram", "8K", "--generations", "1", "--population", "3", *where]
    # As a program: who works for it finds its functions in there.
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    [line] = re.findall(r"generation 0: ([\d,]+) MACs in ([\d,]+) bytes", done.stdout)
    assert int(line[1].replace(",", "")) <= 8192
