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
    a constant is added to scores, such as one for the distance of tokens.
    `mask`: an input is added: a "row" for all heads, in "front" of the scores, a row for "each"
    head; or a state, "added" or, "valid", 1 for tokens that there are, with a "constant" 1 as the
    latest. `ids`: the token and its position are numbers. `packed`: one product makes queries, keys
    and values. `twice`: the query is an output, too. `lone`: the cache is first joined to
    nothing, as one that begins empty is. `whole`: the outputs have all tokens of the cache."""

    by_heads: bool = True
    same: bool = True
    sliced_first: bool = False
    heads: int = 2
    tokens: int = 7
    depth: int = 4
    sharing: int = 1
    bias: bool = False
    mask: str = ""
    ids: bool = False
    packed: bool = False
    twice: bool = False
    lone: bool = False
    whole: bool = False

    @property
    def width(self) -> int:
        return self.heads * self.depth

    @property
    def asked(self) -> int:
        """Channels of all queries."""
        return self.width * self.sharing

    def save(self, path: Path) -> Path:
        m = OnnxModel(4)
        kind = TensorProto.FLOAT
        inputs, outputs = {"x": (kind, (1, 1, self.width))}, ["y", "present_key", "present_value"]
        if self.ids:
            inputs = dict.fromkeys(("token", "pos"), (TensorProto.INT64, (1, 1)))
            x = m.qdq(m.node("Add", [self._rows(m, name) for name in inputs]), m.stated(0.05, 0))
        else:
            x = m.qdq("x", m.stated(0.05, 0))
        parts = [x] * 3
        if self.packed:
            whole = self._dense(m, x, self.width, 3 * self.width)
            parts = [self._cut(m, whole, n * self.width, (n + 1) * self.width, 2) for n in range(3)]
        keys, past_key, present_key = self._cache(m, parts[0], "key")
        values, past_value, present_value = self._cache(m, parts[1], "value")
        query = parts[2] if self.packed else self._dense(m, x, self.width, self.asked)
        if self.twice:
            self.named(m, query, "query")
            query, outputs = "query", [*outputs, "query"]
        shape = m.constant(np.array([1, self.heads, self.sharing, self.depth]))
        query = m.node("Reshape", [query, shape])
        y = m.node("MatMul", [query, m.node("Transpose", [keys], perm=[0, 1, 3, 2])])
        y = m.qdq(y, m.stated(0.06, 3))
        y = m.qdq(m.node("Mul", [y, m.constant(np.float32(0.7))]), m.stated(0.04, 3))
        if self.bias:
            far = -np.abs(m.rng.normal(0, 2, (self.heads, self.sharing, self.tokens)))
            far = m.qdq(m.constant(far[None].astype(np.float32)), m.stated(0.05, 100))
            y = m.qdq(m.node("Add", [y, far]), m.stated(0.06, 40))
        if self.mask:
            mask, more = self._mask(m)
            order = [mask, y] if self.mask == "front" else [y, mask]
            y, inputs = m.qdq(m.node("Add", order), m.stated(0.06, 40)), inputs | more
            outputs += ["mask_out"] * ("mask_in" in more)
        y = m.qdq(m.node("Softmax", [y], axis=-1), m.stated(1 / 256, -128))
        y = m.qdq(m.node("MatMul", [y, values]), m.stated(0.05, 1))
        y = m.node("Reshape", [y, m.constant(np.array([1, 1, self.asked]))])
        y = self._dense(m, y, self.asked, self.width)
        size = self.tokens if self.sliced_first else self.tokens - 1
        shape = (1, self.heads, size, self.depth) if self.by_heads else (1, size, self.width)
        past = kind, shape
        for made, name in (
            (y, "y"),
            (present_key, "present_key"),
            (present_value, "present_value"),
        ):
            self._rename(m, made, name)
        inputs |= {past_key: past, past_value: past}
        onnx.save(m.proto(inputs, dict.fromkeys(outputs, (kind, None))), path)
        return path

    def _dense(self, m: OnnxModel, x: str, depth: int, width: int) -> str:
        names, _ = m.weights((depth, width), None, 0.05, depth, "none")
        return m.qdq(m.node("MatMul", [x, names[0]]), m.stated(0.05, -2))

    def _split(self, m: OnnxModel, x: str, tokens: int) -> str:
        shape = m.constant(np.array([1, tokens, self.heads, self.depth]))
        return m.node("Transpose", [m.node("Reshape", [x, shape])], perm=[0, 2, 1, 3])

    def _cache(self, m: OnnxModel, x: str, what: str) -> tuple[str, str, str]:
        """By heads the keys or values of all tokens, and the input's and the output's names."""
        new = x if self.packed else self._dense(m, x, self.width, self.width)
        axis = 1
        if self.by_heads:
            new, axis = self._split(m, new, 1), 2
        past = m.qdq(f"past_{what}", m.stated(0.05, -2) if self.same else m.stated(0.06, 4))
        if self.lone:
            past = m.qdq(m.node("Concat", [past], axis=axis), m.stated(0.05, -2))
        if self.sliced_first:
            past = self._behind_the_first(m, past, axis)
        scale = m.stated(0.05, -2) if self.same else m.stated(0.055, -1)
        every = present = m.qdq(m.node("Concat", [past, new], axis=axis), scale)
        if not self.sliced_first and not self.whole:
            # With the scale of what it is a part of.
            present = m.qdq(self._behind_the_first(m, every, axis), scale)
        if not self.by_heads:
            every = self._split(m, every, self.tokens)
        return every, f"past_{what}", present

    def _behind_the_first(self, m: OnnxModel, x: str, axis: int) -> str:
        return self._cut(m, x, 1, 1000, axis)

    def _cut(self, m: OnnxModel, x: str, start: int, stop: int, axis: int) -> str:
        bounds = [m.constant(np.array([n])) for n in (start, stop, axis)]
        return m.node("Slice", [x, *bounds])

    def _rows(self, m: OnnxModel, numbers: str) -> str:
        ints = m.rng.integers(-128, 128, (30, self.width)).astype(np.int8)
        table = m.node("DequantizeLinear", [m.constant(ints), *m.stated(0.03, 0)])
        return m.qdq(m.node("Gather", [table, numbers]), m.stated(0.03, 0))

    def _mask(self, m: OnnxModel) -> tuple[str, dict[str, tuple[int, tuple[int, ...]]]]:
        """The addend of scores, and the inputs for it."""
        kind, told = TensorProto.FLOAT, m.stated(0.04, 120)
        if self.mask in ("row", "front", "each"):
            shape = (1, self.heads if self.mask == "each" else 1, self.sharing, self.tokens)
            return m.qdq("mask", told), {"mask": (kind, shape)}
        flat = self.mask != "added"
        shape = (1,) if flat else (1, 1, 1)
        told = m.stated(1 / 127, 0) if flat else told
        size = self.tokens if self.sliced_first else self.tokens - 1
        inputs = {"mask_in": (kind, (*shape, size)), "latest": (kind, (*shape, 1))}
        past, axis = m.qdq("mask_in", told), len(shape)
        if self.sliced_first:
            past = self._behind_the_first(m, past, axis)
        latest = "latest"
        if self.mask == "constant":
            latest = m.constant(np.ones((1, 1), np.float32))
            del inputs["latest"]
        mask = m.qdq(m.node("Concat", [past, m.qdq(latest, told)], axis=axis), told)
        kept = mask if self.sliced_first else m.qdq(self._behind_the_first(m, mask, axis), told)
        self.named(m, kept, "mask_out")
        if flat:
            mask = m.node("Sub", [m.qdq(m.constant(np.float32(1)), told), mask])
            mask = m.qdq(mask, told)
            mask = m.node("Mul", [mask, m.qdq(m.constant(np.float32(-10)), m.stated(0.1, 0))])
            mask = m.qdq(mask, m.stated(0.04, 120))
            mask = m.node("Unsqueeze", [mask, m.constant(np.array([1, 2]))])
        return mask, inputs

    def named(self, m: OnnxModel, made: str, name: str) -> None:
        m.nodes.append(onnx.helper.make_node("Identity", [made], [name]))

    def _rename(self, m: OnnxModel, made: str, name: str) -> None:
        for node in m.nodes:
            for names in (node.input, node.output):
                for place, one in enumerate(names):
                    if one == made:
                        names[place] = name
