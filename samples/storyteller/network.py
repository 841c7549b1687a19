# SPDX-License-Identifier: Apache-2.0
"""The network of the storyteller in numpy: its shape, its weights and their training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

Weights = dict[str, np.ndarray]
EPSILON = 1e-5
# The least that distance adds to a score: int8 has one scale for all scores.
FAR = -8.0


@dataclass(frozen=True)
class Shape:
    """`words`: size of the vocabulary; `tokens`: how many a step attends to, the new one among
    them; each of `key_heads` serves heads / key_heads query heads; `position`: a learned vector for
    each place of a story is added to its word, as in GPT-2, else distance to scores (ALiBi)."""

    words: int
    tokens: int
    layers: int
    heads: int
    key_heads: int
    depth: int
    feed: int
    position: bool = False

    @property
    def width(self) -> int:
        return self.heads * self.depth


def initial(shape: Shape, rng: np.random.Generator) -> Weights:
    """Random float32 weights, (inputs, outputs)."""

    def dense(inputs: int, outputs: int, gain: float = 1.0) -> np.ndarray:
        return rng.normal(0, gain * inputs**-0.5, (inputs, outputs)).astype(np.float32)

    width, keys = shape.width, shape.key_heads * shape.depth
    last = (2 * shape.layers) ** -0.5
    found = {"embedding": dense(shape.words, width, shape.words**0.5 * 0.2)}
    found |= {"logits": dense(width, shape.words), "norm": np.ones(width, np.float32)}
    if shape.position:
        found["position"] = dense(shape.tokens, width, shape.tokens**0.5 * 0.2)
    for layer in range(shape.layers):
        found |= {
            f"{layer}.attention_norm": np.ones(width, np.float32),
            f"{layer}.query": dense(width, width),
            f"{layer}.key": dense(width, keys),
            f"{layer}.value": dense(width, keys),
            f"{layer}.output": dense(width, width, last),
            f"{layer}.feed_norm": np.ones(width, np.float32),
            f"{layer}.gate": dense(width, shape.feed),
            f"{layer}.up": dense(width, shape.feed),
            f"{layer}.down": dense(shape.feed, width, last),
        }
    return found


def bias(shape: Shape) -> np.ndarray:
    """What distance adds to a score, float32 (heads, tokens), by how many tokens a key is back:
    a slope of its own for each head (ALiBi)."""
    slopes = 2.0 ** -(8.0 / shape.heads * np.arange(1, shape.heads + 1))
    return np.maximum(-slopes[:, None] * np.arange(shape.tokens), FAR).astype(np.float32)


class _Mask:
    """Attention of `count` tokens, the first of which has a cache of zeros in front of it, which
    learned positions hide."""

    def __init__(self, shape: Shape, count: int):
        steps = np.arange(count)
        back = steps[:, None] - steps
        near = (back >= 0) & (back < shape.tokens)
        slots = np.zeros((shape.heads, shape.tokens)) if shape.position else bias(shape)
        self.bias = np.where(near, slots[:, np.clip(back, 0, shape.tokens - 1)], -np.inf)
        # The slots of zeros have the score zero and the value zero: they only add to the divisor.
        ends = np.append(
            np.cumsum(np.exp(slots[:, ::-1]), axis=1)[:, ::-1], np.zeros((len(slots), 1)), 1
        )
        self.zeros = ends[:, np.minimum(steps + 1, shape.tokens)].astype(np.float32)
        self.zeros *= not shape.position


class Network:
    """Forward and backward over (batch, tokens) word numbers. Keeps what backward() needs."""

    def __init__(self, shape: Shape, weights: Weights, count: int):
        self.shape, self.weights, self.mask = shape, weights, _Mask(shape, count)
        self.kept: dict[str, tuple[np.ndarray, ...]] = {}
        self.slopes: Weights = {}

    def loss(self, words: np.ndarray, following: np.ndarray) -> float:
        """Mean cross entropy; `slopes` has its gradient by weight."""
        self.slopes = {}
        x = self.weights["embedding"][words]
        if self.shape.position:
            x = x + self.weights["position"][: words.shape[1]]
        for layer in range(self.shape.layers):
            x = x + self._attend(layer, self._norm(f"{layer}.attention_norm", x))
            x = x + self._feed(layer, self._norm(f"{layer}.feed_norm", x))
        logits = self._dense("logits", self._norm("norm", x))
        shares = np.exp(logits - logits.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        found = np.take_along_axis(shares, following[..., None], -1)
        self._backward(words, shares, following)
        return float(-np.log(found + 1e-9).mean())

    def _backward(self, words: np.ndarray, shares: np.ndarray, following: np.ndarray) -> None:
        np.put_along_axis(
            shares,
            following[..., None],
            np.take_along_axis(shares, following[..., None], -1) - 1,
            -1,
        )
        slope = self._norm_back("norm", self._dense_back("logits", shares / words.size))
        for layer in reversed(range(self.shape.layers)):
            slope = slope + self._norm_back(f"{layer}.feed_norm", self._feed_back(layer, slope))
            inner = self._attend_back(layer, slope)
            slope = slope + self._norm_back(f"{layer}.attention_norm", inner)
        table = np.zeros_like(self.weights["embedding"])
        np.add.at(table, words, slope)
        self.slopes["embedding"] = table
        if self.shape.position:
            self.slopes["position"] = np.zeros_like(self.weights["position"])
            self.slopes["position"][: slope.shape[1]] = slope.sum(0)

    def _dense(self, name: str, x: np.ndarray) -> np.ndarray:
        self.kept[name] = (x,)
        return x @ self.weights[name]

    def _dense_back(self, name: str, slope: np.ndarray) -> np.ndarray:
        (x,) = self.kept[name]
        self.slopes[name] = x.reshape(-1, x.shape[-1]).T @ slope.reshape(-1, slope.shape[-1])
        return slope @ self.weights[name].T

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        inverse = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPSILON))
        self.kept[name] = (x * inverse, inverse)
        return x * inverse * self.weights[name]

    def _norm_back(self, name: str, slope: np.ndarray) -> np.ndarray:
        normal, inverse = self.kept[name]
        self.slopes[name] = (slope * normal).sum((0, 1))
        slope = slope * self.weights[name]
        return inverse * (slope - normal * (slope * normal).mean(-1, keepdims=True))

    def _heads(self, x: np.ndarray, heads: int) -> np.ndarray:
        """(batch, key heads, heads of each, tokens, depth)"""
        batch, count, _ = x.shape
        x = x.reshape(batch, count, self.shape.key_heads, heads, self.shape.depth)
        return x.transpose(0, 2, 3, 1, 4)

    def _joined(self, x: np.ndarray) -> np.ndarray:
        return x.transpose(0, 3, 1, 2, 4).reshape(x.shape[0], x.shape[3], -1)

    def _attend(self, layer: int, x: np.ndarray) -> np.ndarray:
        of_key = self.shape.heads // self.shape.key_heads
        query = self._heads(self._dense(f"{layer}.query", x), of_key)
        key, value = (self._heads(self._dense(f"{layer}.{w}", x), 1) for w in ("key", "value"))
        scale = np.float32(self.shape.depth**-0.5)
        count = x.shape[1]
        fixed = self.mask.bias.reshape(1, self.shape.key_heads, of_key, count, count)
        scores = query @ key.swapaxes(-1, -2) * scale + fixed
        most = np.maximum(scores.max(-1, keepdims=True), 0)
        shares = np.exp(scores - most)
        zeros = self.mask.zeros.reshape(1, self.shape.key_heads, of_key, count, 1)
        shares /= shares.sum(-1, keepdims=True) + zeros * np.exp(-most)
        self.kept[f"{layer}.attention"] = (query, key, value, shares)
        return self._dense(f"{layer}.output", self._joined(shares @ value))

    def _attend_back(self, layer: int, slope: np.ndarray) -> np.ndarray:
        query, key, value, shares = self.kept[f"{layer}.attention"]
        of_key = self.shape.heads // self.shape.key_heads
        seen = self._heads(self._dense_back(f"{layer}.output", slope), of_key)
        by_share = seen @ value.swapaxes(-1, -2)
        by_score = shares * (by_share - (shares * by_share).sum(-1, keepdims=True))
        by_score *= np.float32(self.shape.depth**-0.5)
        parts = {
            "query": by_score @ key,
            "key": (by_score.swapaxes(-1, -2) @ query).sum(2, keepdims=True),
            "value": (shares.swapaxes(-1, -2) @ seen).sum(2, keepdims=True),
        }
        return sum(self._dense_back(f"{layer}.{n}", self._joined(p)) for n, p in parts.items())

    def _feed(self, layer: int, x: np.ndarray) -> np.ndarray:
        gate, up = self._dense(f"{layer}.gate", x), self._dense(f"{layer}.up", x)
        sigmoid = 1 / (1 + np.exp(-gate))
        self.kept[f"{layer}.feed"] = (gate, up, sigmoid)
        return self._dense(f"{layer}.down", gate * sigmoid * up)

    def _feed_back(self, layer: int, slope: np.ndarray) -> np.ndarray:
        gate, up, sigmoid = self.kept[f"{layer}.feed"]
        slope = self._dense_back(f"{layer}.down", slope)
        by_gate = slope * up * sigmoid * (1 + gate * (1 - sigmoid))
        x = self._dense_back(f"{layer}.gate", by_gate)
        return x + self._dense_back(f"{layer}.up", slope * gate * sigmoid)


def train(
    shape: Shape, weights: Weights, stories: list[np.ndarray], steps: int, rng: np.random.Generator
) -> Iterator[float]:
    """Adam: changes the weights in place and yields the loss of each step."""
    batch, most = 16, np.float32(3e-3)
    # Without positions, a cache also forgets its oldest token.
    count = shape.tokens if shape.position else shape.tokens + shape.tokens // 2
    network = Network(shape, weights, count)
    means = {name: np.zeros_like(array) for name, array in weights.items()}
    squares = {name: np.zeros_like(array) for name, array in weights.items()}
    for step in range(1, steps + 1):
        lines = []
        for _ in range(batch):
            # A cache begins with a story, and other stories follow.
            chosen = rng.integers(len(stories), size=count // 16)
            lines.append(np.concatenate([stories[n] for n in chosen])[: count + 1])
        words = np.stack(lines)
        found = network.loss(words[:, :-1], words[:, 1:])
        rate = most * min(step / 100, 0.02 + 0.98 * (1 - step / steps))
        for name, slope in network.slopes.items():
            means[name] += np.float32(0.1) * (slope - means[name])
            squares[name] += np.float32(0.02) * (slope * slope - squares[name])
            unbiased = np.float32(1 - 0.9**step), np.float32(1 - 0.98**step)
            root = np.sqrt(squares[name] / unbiased[1]) + np.float32(1e-8)
            weights[name] -= np.float32(rate) * means[name] / unbiased[0] / root
        yield found
