# SPDX-License-Identifier: Apache-2.0
"""Inputs to run models on: random ones and a few that drive the arithmetic to its edges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..graph import Graph, Tensor
from ..quant import INT8_MAX, INT8_MIN

Sample = list[np.ndarray]


def _ramp(tensor: Tensor) -> np.ndarray:
    return (np.arange(tensor.bytes) % 256 - 128).reshape(tensor.shape)


def _checkers(tensor: Tensor) -> np.ndarray:
    y, x, c = np.indices(tensor.shape)
    return np.where((y + x + c) % 2, INT8_MAX, INT8_MIN)


STRUCTURED: tuple[Callable[[Tensor], np.ndarray], ...] = (
    lambda tensor: np.full(tensor.shape, tensor.zero_point),
    lambda tensor: np.full(tensor.shape, INT8_MIN),
    lambda tensor: np.full(tensor.shape, INT8_MAX),
    _ramp,
    _checkers,
)


def make_samples(graph: Graph, random: int, structured: int, seed: int) -> list[Sample]:
    """`random` uniform inputs and the first `structured` (at most 5) constant and patterned ones.

    Each sample holds one int8 (H, W, C) array per graph input.
    """
    rng = np.random.default_rng(seed)
    tensors = [graph.tensors[port.tensor] for port in graph.inputs]
    samples = [
        [rng.integers(INT8_MIN, INT8_MAX + 1, t.shape).astype(np.int8) for t in tensors]
        for _ in range(random)
    ]
    samples += [[make(t).astype(np.int8) for t in tensors] for make in STRUCTURED[:structured]]
    return samples
