# SPDX-License-Identifier: Apache-2.0
"""Inputs to run models on: random ones and a few that drive the arithmetic to its edges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from vmcu_tools.graph import Graph, Port, Tensor
from vmcu_tools.quant import INT8_MAX, INT8_MIN

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
    shapes = [(port, graph.tensors[port.tensor].shape) for port in graph.inputs]
    samples = [[random_values(rng, port, shape) for port, shape in shapes] for _ in range(random)]
    for make in STRUCTURED[:structured]:
        samples.append([_patterned(make, graph.tensors[port.tensor], port) for port, _ in shapes])
    return samples


def random_values(rng: np.random.Generator, port: Port, shape: tuple[int, ...]) -> np.ndarray:
    """int8 of a shape (..., C): any bytes, or those of any numbers that an input takes."""
    if port.below:
        return bytes_of(rng.integers(0, port.below, shape[:-1])).reshape(shape)
    return rng.integers(INT8_MIN, INT8_MAX + 1, shape).astype(np.int8)


def bytes_of(numbers: np.ndarray) -> np.ndarray:
    """Numbers as an input of them has them: the bytes of int32, int8 (..., 4)."""
    words = np.ascontiguousarray(numbers.astype("<i4"))
    return words.view(np.int8).reshape(*numbers.shape, words.itemsize)


def _patterned(make: Callable[[Tensor], np.ndarray], tensor: Tensor, port: Port) -> np.ndarray:
    values = make(tensor)
    if port.below:
        # Of each number one byte.
        values = bytes_of((values[..., 0] - INT8_MIN) % port.below)
    return values.reshape(tensor.shape).astype(np.int8)
