# SPDX-License-Identifier: Apache-2.0
"""Attention of whole sequences as files write it: products, scale, mask and softmax become a layer
that has the scores of one query of one head at a time. The oracles are the files' runtimes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel
from onnx import TensorProto
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.ops.attention import Attention
from vmcu_tools.planner.options import CompileOptions


@dataclass(frozen=True)
class Sequence:
    """Self-attention of `tokens` tokens. `sharing`: heads that have the same keys and values;
    `masks`: so many are added, one behind the other, by which later tokens are not seen; `late`:
    another scale behind them; `cap`: the scores pass a quotient, Tanh and a product; `seen`: the
    scores are an output."""

    tokens: int = 9
    heads: int = 2
    depth: int = 4
    sharing: int = 1
    scale: bool = True
    masks: int = 0
    late: bool = False
    cap: float = 0.0
    seen: bool = False

    @property
    def width(self) -> int:
        return self.heads * self.depth

    def onnx(self, path: Path) -> Path:
        m = OnnxModel(7)
        x = m.qdq("x", m.stated(0.05, 3))
        query = self._heads(m, self._dense(m, x, self.heads), self.heads)
        kept = self.heads // self.sharing
        keys, values = (self._heads(m, self._dense(m, x, kept), kept) for _ in range(2))
        if self.sharing > 1:
            picked = m.constant(np.arange(self.heads) // self.sharing)
            keys, values = (m.node("Gather", [one, picked], axis=1) for one in (keys, values))
        keys = m.node("Transpose", [keys], perm=[0, 1, 3, 2])
        y = m.qdq(m.node("MatMul", [query, keys]), m.stated(0.0613, -5))
        if self.scale:
            y = m.qdq(m.node("Mul", [y, m.constant(np.float32(0.5))]), m.stated(0.0311, -5))
        if self.cap:
            y = m.qdq(m.node("Mul", [y, m.constant(np.float32(1 / self.cap))]), m.stated(0.02, -9))
            y = m.qdq(m.node("Tanh", [y]), m.stated(1 / 128, 0))
            y = m.qdq(m.node("Mul", [y, m.constant(np.float32(self.cap))]), m.stated(0.0151, 11))
        for _ in range(self.masks):
            ahead = np.triu(np.full((self.tokens, self.tokens), -6.0, np.float32), 1)
            far = m.qdq(m.constant(ahead[None, None]), m.stated(0.05, 120))
            y = m.qdq(m.node("Add", [y, far]), m.stated(0.0587, 40))
        if self.late:
            y = m.qdq(m.node("Mul", [y, m.constant(np.float32(0.7))]), m.stated(0.0397, 21))
        scores = y
        y = m.qdq(m.node("Softmax", [y], axis=-1), m.stated(1 / 256, -128))
        y = m.qdq(m.node("MatMul", [y, values]), m.stated(0.0297, 2))
        y = m.node("Transpose", [y], perm=[0, 2, 1, 3])
        y = m.node("Reshape", [y, m.constant(np.array([1, self.tokens, self.width]))])
        kind = (TensorProto.FLOAT, None)
        outputs = {y: kind, scores: kind} if self.seen else {y: kind}
        shape = (TensorProto.FLOAT, (1, self.tokens, self.width))
        onnx.save(m.proto({"x": shape}, outputs), path)
        return path

    def _dense(self, m: OnnxModel, x: str, heads: int) -> str:
        shape = (self.width, heads * self.depth)
        names, _ = m.weights(shape, None, 0.05, self.width, "none")
        return m.qdq(m.node("MatMul", [x, names[0]]), m.stated(0.05, -2))

    def _heads(self, m: OnnxModel, x: str, heads: int) -> str:
        shape = m.constant(np.array([1, self.tokens, heads, self.depth]))
        return m.node("Transpose", [m.node("Reshape", [x, shape])], perm=[0, 2, 1, 3])

    def tflite(self, path: Path) -> Path:
        m = TfliteModel(7)
        x = m.activation((1, self.tokens, self.width), 0.05, 3)
        query, keys, values = (self._tflite_heads(m, x) for _ in range(3))
        square = (1, self.heads, self.tokens, self.tokens)
        y = m.activation(square, 0.06, -5)
        m.op("BATCH_MATMUL", [query, keys], y, "BatchMatMul", adjX=False, adjY=True)
        if self.scale:
            half, wide = m.constant(np.array([127], np.int8), [0.004]), y
            y = m.activation(square, 0.03, -5)
            m.op("MUL", [wide, half], y, "Mul")
        weights = m.activation(square, 1 / 256, -128)
        m.op("SOFTMAX", [y], weights, "Softmax", beta=1.0)
        out = m.activation((1, self.heads, self.tokens, self.depth), 0.03, 2)
        m.op("BATCH_MATMUL", [weights, values], out, "BatchMatMul", adjX=False, adjY=False)
        return m.save(path, [x], [out])

    def _tflite_heads(self, m: TfliteModel, x: int) -> int:
        values = m.rng.integers(-127, 128, (self.width, self.width)).astype(np.int8)
        weights = m.constant(values, [0.01])
        shape = (1, self.tokens, self.width)
        made = m.activation(shape, 0.05, -2)
        m.op("FULLY_CONNECTED", [x, weights], made, "FullyConnected", keepNumDims=True)
        parts = m.like(made, (1, self.tokens, self.heads, self.depth))
        order = m.constant(np.array(m.graph.tensors[parts].shape, np.int32))
        m.op("RESHAPE", [made, order], parts, "Reshape")
        heads = m.like(made, (1, self.heads, self.tokens, self.depth))
        m.op("TRANSPOSE", [parts, m.constant(np.array([0, 2, 1, 3], np.int32))], heads)
        return heads


def fused(path: Path) -> list[Attention]:
    plan = compile_model(path, CompileOptions())
    return [node.op for node in plan.graph.nodes if isinstance(node.op, Attention)]


ONNX = {
    "plain": Sequence(),
    "scores as they are": Sequence(scale=False),
    "mask": Sequence(masks=1),
    "softcap": Sequence(cap=1.5),
    "softcap, mask": Sequence(cap=1.5, masks=1),
    "shared keys": Sequence(heads=4, sharing=2),
    "all heads share": Sequence(heads=3, sharing=3, masks=1),
    "one head": Sequence(heads=1, depth=7),
    "odd depth": Sequence(tokens=5, depth=5, heads=3),
    "many tokens": Sequence(tokens=70, depth=8),
}


@pytest.mark.parametrize("case", ONNX)
def test_onnx(case: str, tmp_path: Path) -> None:
    sequence = ONNX[case]
    path = sequence.onnx(tmp_path / "sequence.onnx")
    (op,) = fused(path)
    assert (op.heads, op.sharing) == (sequence.heads, sequence.sharing)
    assert (op.table is not None, op.score_bias is not None) == (sequence.scale, sequence.masks > 0)
    for target in ("virtual", "host", "qemu:m55"):
        assert main(["verify", str(path), "-n", "2", "--on", target]) == 0


@pytest.mark.parametrize("sequence", [Sequence(), Sequence(scale=False, tokens=6)], ids=str)
def test_tflite(sequence: Sequence, tmp_path: Path) -> None:
    path = sequence.tflite(tmp_path / "sequence.tflite")
    assert len(fused(path)) == 1
    for target in ("virtual", "host", "qemu:m55"):
        assert main(["verify", str(path), "-n", "20", "--on", target]) == 0


def test_scores_are_never_whole(tmp_path: Path) -> None:
    """Those of all heads would be more bytes than the pool has."""
    sequence = Sequence(tokens=64, heads=4)
    plan = compile_model(sequence.onnx(tmp_path / "sequence.onnx"), CompileOptions())
    assert plan.pool_bytes < 5 * sequence.tokens * sequence.width < sequence.tokens**2 * 4


def test_multiply_accumulates(tmp_path: Path) -> None:
    """Those of both products."""
    sequence = Sequence(tokens=7, heads=3, depth=5)
    plan = compile_model(sequence.onnx(tmp_path / "sequence.onnx"), CompileOptions())
    (macs,) = (
        step.bind(plan.graph).macs for step in plan.steps if isinstance(step.node.op, Attention)
    )
    assert macs == 2 * 7 * 7 * 3 * 5


@pytest.mark.parametrize("sequence", [Sequence(masks=2), Sequence(masks=1, late=True)], ids=str)
def test_more_than_the_kernel_does(sequence: Sequence, tmp_path: Path) -> None:
    """Between the products: they stay apart."""
    path = sequence.onnx(tmp_path / "sequence.onnx")
    assert fused(path) == []
    assert main(["verify", str(path), "-n", "5"]) == 0


def test_scores_that_others_see(tmp_path: Path) -> None:
    path = Sequence(seen=True).onnx(tmp_path / "seen.onnx")
    assert fused(path) == []
    assert main(["verify", str(path), "-n", "5"]) == 0
