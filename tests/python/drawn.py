# SPDX-License-Identifier: Apache-2.0
"""Random layers that hypothesis draws, so that it can shrink what fails."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from random_graphs import LAYERS, Builder, random_inputs
from vmcu_tools.ops import LAYER_OF, Form, Layer, bind, serves

# Random cases per kernel; `VMCU_CASES=2000 pytest tests/python` is the thorough run.
CASES = int(os.environ.get("VMCU_CASES", "60"))


def case(*values: object, slow: bool) -> Any:
    """A case of these values, for `./test slow` if it is slow."""
    return pytest.param(*values, marks=[pytest.mark.slow] if slow else [])


def seeds(count: int, quick: int) -> list:
    """That many seeds. All but the first `quick` are for `./test slow`."""
    return [case(seed, slow=seed >= quick) for seed in range(count)]


def some(share: float = 0.3) -> settings:
    """How many cases hypothesis draws: a share of CASES, never fewer than 25."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(
        max_examples=max(25, int(CASES * share)), deadline=None, suppress_health_check=checks
    )


class Drawn:
    """Stands in for numpy.random.Generator. Single values are drawn; arrays come from a generator
    with a drawn seed, as nothing is learnt from shrinking them byte by byte."""

    def __init__(self, data: st.DataObject):
        self.data = data
        self.arrays = np.random.default_rng(data.draw(st.integers(0, 999), label="seed"))

    def integers(self, low: int, high: int, size: int | tuple[int, ...] | None = None):
        if isinstance(size, tuple) or (size is not None and size > 2):
            return self.arrays.integers(low, high, size)
        drawn = [self.data.draw(st.integers(int(low), int(high) - 1)) for _ in range(size or 1)]
        return drawn[0] if size is None else np.array(drawn)

    def random(self) -> float:
        return self.data.draw(st.integers(0, 99)) / 100

    def choice(self, choices: Sequence, size: int | None = None):
        if size is not None:
            return self.arrays.choice(choices, size)
        return self.data.draw(st.sampled_from(list(choices)))

    def permutation(self, values: Sequence) -> np.ndarray:
        return np.array(self.data.draw(st.permutations(list(values))))

    def uniform(self, low: float, high: float, size: int | None = None):
        return self.arrays.uniform(low, high, size)


def layer_and_data(kind: str, data: st.DataObject) -> tuple[Layer, list[np.ndarray]]:
    builder = Builder(Drawn(data))
    output = LAYERS[kind](builder)
    graph = builder.graph([output.name])
    (node,) = graph.nodes
    descending = LAYER_OF[type(node.op)].can_descend and data.draw(
        st.booleans(), label="descending"
    )
    forms = [Form.USUAL, *(f for f in (Form.DIRECT, Form.WIDE) if serves(graph, node, f))]
    form = Form.USUAL if descending else data.draw(st.sampled_from(forms), label="form")
    return bind(graph, node, descending, form=form), random_inputs(graph, 0)
