# SPDX-License-Identifier: Apache-2.0
"""Biases so large that sums lose something on the way to their bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import Problem
from ..graph import Graph, TransposeConv2D
from ..quant import INT32_MAX, INT32_MIN, FloatScale
from . import bind
from .layer import Layer
from .mac import MacLayer

# float32 holds every integer up to here.
MOST_FLOAT32 = 1 << 24
REMEDY = (
    "The product of the scales of its input and weights is the bias's step: quantise the model "
    "again, with samples that make it larger."
)


def bias_warnings(graph: Graph) -> list[Problem]:
    """Nodes whose biases leave int32, or whose sums float32 does not hold. All targets
    compute the same bytes all the same."""
    return [
        Problem(reason, REMEDY, graph.origin, node.name, node.kind)
        for node in graph.nodes
        for reason in _reasons(bind(graph, node))
    ]


def _reasons(layer: Layer) -> Iterator[str]:
    if isinstance(layer, MacLayer):
        weights = layer.whole_weights()
        folded = weights.exact_bias
        beyond = (folded < INT32_MIN) | (folded > INT32_MAX)
        if beyond.any():
            yield (
                f"{_share(beyond)} leave int32 once the input's zero point {weights.input_zero} is "
                "part of them: they wrap, and so do sums that do not come back"
            )
        large = np.maximum(np.abs(folded), np.abs(weights.bias.astype(np.int64))) > MOST_FLOAT32
        if large.any() and isinstance(weights.requant, FloatScale):
            # Integers stand for the factors of the others.
            large &= weights.integers.word == 0
            if large.any():
                yield _rounded(large)
    elif isinstance(layer.op, TransposeConv2D):
        large = np.abs(layer.op.bias.astype(np.int64)) > MOST_FLOAT32
        if large.any() and isinstance(layer.op.requant, FloatScale):
            yield _rounded(large)


def _rounded(large: np.ndarray) -> str:
    return (
        f"{_share(large)} are beyond 2^24, where float32 does not hold every sum: sums are rounded "
        "before they are scaled"
    )


def _share(which: np.ndarray) -> str:
    return f"the biases of {np.count_nonzero(which)} of {which.size} channels"
