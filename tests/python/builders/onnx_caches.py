# SPDX-License-Identifier: Apache-2.0
"""One step of attention over a cache, as exporters write it: the keys and values of earlier tokens
are inputs, those and the new ones outputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from builders.onnx_models import OnnxModel


@dataclass(frozen=True)
class Step:
    """`by_heads`: the cache is (1, heads, tokens, depth), else (1, tokens, heads * depth).
    `same`: the cache and the new tokens have one scale. `sliced_first`: the oldest token goes
    before the new one comes, else behind it. `sharing`: queries that have one head's keys. `bias`:
    a constant is added to scores, such as one for the distance of tokens."""

    by_heads: bool = True
    same: bool = True
    sliced_first: bool = False
    heads: int = 2
    tokens: int = 7
    depth: int = 4
    sharing: int = 1
    bias: bool = False

    @property
    def width(self) -> int:
        return self.heads * self.depth

    @property
    def asked(self) -> int:
        """Channels of all queries."""
        return self.width * self.sharing

    def save(self, path: Path) -> Path:
        m = OnnxModel(4)
        x = m.qdq("x", m.stated(0.05, 0))
        keys, past_key, present_key = self._cache(m, x, "key")
        values, past_value, present_value = self._cache(m, x, "value")
        query = self._dense(m, x, self.width, self.asked)
        shape = m.constant(np.array([1, self.heads, self.sharing, self.depth]))
        query = m.node("Reshape", [query, shape])
        y = m.node("MatMul", [query, m.node("Transpose", [keys], perm=[0, 1, 3, 2])])
        y = m.qdq(y, m.stated(0.06, 3))
        y = m.qdq(m.node("Mul", [y, m.constant(np.float32(0.7))]), m.stated(0.04, 3))
        if self.bias:
            far = -np.abs(m.rng.normal(0, 2, (self.heads, self.sharing, self.tokens)))
            far = m.qdq(m.constant(far[None].astype(np.float32)), m.stated(0.05, 100))
            y = m.qdq(m.node("Add", [y, far]), m.stated(0.06, 40))
        y = m.qdq(m.node("Softmax", [y], axis=-1), m.stated(1 / 256, -128))
        y = m.qdq(m.node("MatMul", [y, values]), m.stated(0.05, 1))
        y = m.node("Reshape", [y, m.constant(np.array([1, 1, self.asked]))])
        y = self._dense(m, y, self.asked, self.width)
        size = self.tokens if self.sliced_first else self.tokens - 1
        shape = (1, self.heads, size, self.depth) if self.by_heads else (1, size, self.width)
        past, kind = (TensorProto.FLOAT, shape), TensorProto.FLOAT
        for made, name in (
            (y, "y"),
            (present_key, "present_key"),
            (present_value, "present_value"),
        ):
            self._rename(m, made, name)
        outputs = dict.fromkeys(("y", "present_key", "present_value"), (kind, None))
        inputs = {"x": (kind, (1, 1, self.width)), past_key: past, past_value: past}
        onnx.save(m.proto(inputs, outputs), path)
        return path

    def _dense(self, m: OnnxModel, x: str, depth: int, width: int) -> str:
        names, _ = m.weights((depth, width), None, 0.05, depth, "none")
        return m.qdq(m.node("MatMul", [x, names[0]]), m.stated(0.05, -2))

    def _split(self, m: OnnxModel, x: str, tokens: int) -> str:
        shape = m.constant(np.array([1, tokens, self.heads, self.depth]))
        return m.node("Transpose", [m.node("Reshape", [x, shape])], perm=[0, 2, 1, 3])

    def _cache(self, m: OnnxModel, x: str, what: str) -> tuple[str, str, str]:
        """By heads the keys or values of all tokens, and the input's and the output's names."""
        new, axis = self._dense(m, x, self.width, self.width), 1
        if self.by_heads:
            new, axis = self._split(m, new, 1), 2
        past = m.qdq(f"past_{what}", m.stated(0.05, -2) if self.same else m.stated(0.06, 4))
        if self.sliced_first:
            past = self._behind_the_first(m, past, axis)
        scale = m.stated(0.05, -2) if self.same else m.stated(0.055, -1)
        every = present = m.qdq(m.node("Concat", [past, new], axis=axis), scale)
        if not self.sliced_first:
            # With the scale of what it is a part of.
            present = m.qdq(self._behind_the_first(m, every, axis), scale)
        if not self.by_heads:
            every = self._split(m, every, self.tokens)
        return every, f"past_{what}", present

    def _behind_the_first(self, m: OnnxModel, x: str, axis: int) -> str:
        bounds = [m.constant(np.array([n])) for n in (1, 1000, axis)]
        return m.node("Slice", [x, *bounds])

    def _rename(self, m: OnnxModel, made: str, name: str) -> None:
        for node in m.nodes:
            for names in (node.input, node.output):
                for place, one in enumerate(names):
                    if one == made:
                        names[place] = name
