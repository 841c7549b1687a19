# SPDX-License-Identifier: Apache-2.0
""".onnx files that have the latest rows of tensors as inputs and outputs, as exporters of streaming
models write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from builders.onnx_models import OnnxModel, conv

FLOAT, INT8 = TensorProto.FLOAT, TensorProto.INT8


class Fed(OnnxModel):
    """Convolutions along H, or, `flat`, along the only axis; whole: ports are int8. Attributes that
    spoil a file: `back`, from where before the end the last rows are taken, and `other`, a scale of
    its own for what is put in front."""

    back: int | None = None
    other = behind = False

    def __init__(self, seed: int, rows: int, channels: int, flat: bool = False):
        super().__init__(seed)
        self.flat, self.states = flat, []
        self.shape = (1, channels, rows) if flat else (1, channels, rows, 1)
        self.stated_ = self.stated(0.05)
        self.x = self.qdq("x", self.stated_)

    def latest(self, x: str, channels: int, rows: int, new: int, names: tuple[str, str]) -> str:
        """So many rows of earlier calls and the new ones behind them."""
        ahead, behind = names
        stated = self.stated(0.11) if self.other else self.stated_
        before = self.qdq(ahead, stated)
        parts = [x, before] if self.behind else [before, x]
        joined = self.qdq(self.node("Concat", parts, axis=2), self.stated_)
        start = -(rows if self.back is None else self.back)
        ends = [rows + start + 0 if rows + start else 2**31]
        cut = [self.constant(np.array(v)) for v in ([start], ends, [2])]
        last = self.node("Slice", [joined, *cut])
        self.nodes.append(helper.make_node("Identity", [self.qdq(last, self.stated_)], [behind]))
        self.states.append((ahead, behind, (1, channels, rows, *self.shape[3:])))
        return joined

    def convolved(self, x: str, channels: int, count: int, kernel: int) -> str:
        size = (kernel,) if self.flat else (kernel, 1)
        y, scale = conv(channels, count, size)(self, x, self.scales[self.stated_[0]])
        self.stated_ = self.stated(scale)
        return self.qdq(y, self.stated_)

    def save(self, path: Path, out: str) -> Path:
        ins = {"x": (FLOAT, self.shape)} | {a: (FLOAT, shape) for a, _, shape in self.states}
        outs = {out: (FLOAT, None)} | {b: (FLOAT, shape) for _, b, shape in self.states}
        onnx.save(self.proto(ins, outs), path)
        return path


class Recurrent(OnnxModel):
    """Layers whose states are computed: `cells` of tanh(Wx + Uh), or, `gated`, with a second state
    c = 0.5 c + 0.5 tanh(Wx + Uh) and h = tanh(c). other: states come back in a scale of their own;
    image: they are images of three rows, that convolutions compute."""

    def __init__(self, seed: int, cells: int, **how: bool):
        super().__init__(seed)
        self.other, self.gated = how.get("other", False), how.get("gated", False)
        self.image = how.get("image", False)
        self.shape = (1, 6, 3, 2) if self.image else (1, 6)
        self.states: list[tuple[str, str]] = []
        stated = self.stated(0.05)
        y = self.qdq("x", stated)
        for number in range(cells):
            y, stated = self._cell(y, stated, number)
        self.out, _ = self._mixed(y, stated, True)

    def _mixed(self, x: str, stated: list[str], last: bool = False) -> tuple[str, list[str]]:
        scale = self.scales[stated[0]]
        if self.image and not last:
            y, made = conv(6, 6, (3, 1), pads=(1, 0, 1, 0))(self, x, scale)
        else:
            if self.image:
                x = self.node("Flatten", [x])
            depth = int(np.prod(self.shape))
            weights, made = self.weights((4 if last else depth, depth), 0, scale, depth)
            y = self.node("Gemm", [x, *weights], transB=1)
        told = self.stated(made)
        return self.qdq(y, told), told

    def _state(self, number: int, kind: str, told: list[str]) -> tuple[str, list[str]]:
        before = self.stated(1.25 * self.scales[told[0]], 5) if self.other else told
        return self.qdq(f"{kind}{number}", before), before

    def _kept(self, value: str, number: int, kind: str) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [f"{kind}n{number}"]))
        self.states.append((f"{kind}{number}", f"{kind}n{number}"))

    def _cell(self, x: str, stated: list[str], number: int) -> tuple[str, list[str]]:
        told = self.stated(1 / 128, 0)
        before = self._state(number, "h", told)
        parts = [self._mixed(x, stated)[0], self._mixed(*before)[0]]
        total = self.qdq(self.node("Add", parts), self.stated(0.03))
        new = self.qdq(self.node("Tanh", [total]), told)
        if self.gated:
            cell, _ = self._state(number, "c", told)
            both = [self._half(cell), self._half(new)]
            cell = self.qdq(self.node("Add", both), told)
            self._kept(cell, number, "c")
            new = self.qdq(self.node("Tanh", [cell]), told)
        self._kept(new, number, "h")
        return new, told

    def _half(self, x: str) -> str:
        half = self.node("DequantizeLinear", [self.constant(np.int8(64)), *self.stated(1 / 128, 0)])
        return self.qdq(self.node("Mul", [x, half]), self.stated(1 / 200, -3))

    def save(self, path: Path) -> Path:
        ins = {"x": (FLOAT, self.shape)} | {ahead: (FLOAT, self.shape) for ahead, _ in self.states}
        outs = {self.out: (FLOAT, (1, 4))}
        outs |= {behind: (FLOAT, self.shape) for _, behind in self.states}
        onnx.save(self.proto(ins, outs), path)
        return path


def listening(
    path: Path, kernels: Sequence[int], names: Sequence[tuple[str, str]], **more: object
) -> Path:
    """A convolution of each kernel behind a state of the rows that it needs."""
    rows, flat = int(more.pop("rows", 1)), bool(more.pop("flat", False))
    m = Fed(int(more.pop("seed", 1)), rows, 4, flat)
    vars(m).update(more)
    y = m.x
    for kernel, pair in zip(kernels, names, strict=True):
        y = m.convolved(m.latest(y, 4, kernel - 1, rows, pair), 4, 4, kernel)
    return m.save(path, m.convolved(y, 4, 3, rows))
