# SPDX-License-Identifier: Apache-2.0
"""Noisy pictures of four shapes, drawn: nothing to fetch."""

from __future__ import annotations

import numpy as np

NAMES = ("circle", "cross", "square", "bar")
SIZE = 16


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """float32 (count, 1, 16, 16) and which of NAMES each is."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(NAMES), count)
    drawn = np.stack([_drawn(NAMES[label], rng) for label in labels])
    return (drawn + rng.normal(0, 0.3, drawn.shape)).astype(np.float32)[:, None], labels


def _drawn(name: str, rng: np.random.Generator) -> np.ndarray:
    centre, radius = rng.uniform(6, 10, 2), rng.uniform(3.5, 5.5)
    y, x = np.abs(np.indices((SIZE, SIZE)) - centre[:, None, None])
    if name == "circle":
        return np.abs(np.hypot(y, x) - radius) < 1
    if name == "square":
        return np.abs(np.maximum(y, x) - radius) < 1
    within = np.maximum(y, x) < radius
    return within & ((y < 1) | (x < 1)) if name == "cross" else within & (y < 1.5)
