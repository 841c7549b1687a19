# SPDX-License-Identifier: Apache-2.0
"""Einsum, and products with a matrix for each head: in float beside ONNX Runtime, and as int8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from test_attention_operators import computed
from vmcu_tools.cli import main
from vmcu_tools.quantize.functions import take_apart

FLOAT = TensorProto.FLOAT
SIZES = {"a": 2, "b": 1, "h": 3, "i": 4, "j": 5, "k": 6, "l": 7, "m": 2}
# Equations, with the shapes of operands that have an ellipsis.
EQUATIONS: dict[str, tuple[tuple[int, ...], ...]] = dict.fromkeys(
    [
        "bihk,bjhk->bhij",
        "bhij,bjhk->bihk",
        "ij,jk->ik",
        "ij,jk",
        "kj,ik->ij",
        "bhik,hkl->bil",
        "abhij,abhjk->kabhi",
        "ij,j->i",
        "i,i->",
        "i,j->ij",
        "bij,bij->bji",
        "bijl,bk->bk",
        "ij->ji",
        "bij->b",
        "ij,jk,kl->il",
        "ij , jk -> i k",
    ],
    (),
) | {
    "...ij,...jk->...ik": ((2, 3, 4, 5), (2, 3, 5, 6)),
    "b...k,kl->b...l": ((1, 2, 3, 6), (6, 7)),
    "...ij,jk": ((2, 3, 4, 5), (5, 6)),
}


def shapes_of(equation: str) -> list[tuple[int, ...]]:
    terms = equation.replace(" ", "").split("->")[0].split(",")
    return [*EQUATIONS.get(equation, ())] or [tuple(SIZES[c] for c in term) for term in terms]


def model_of(equation: str, shapes: list[tuple[int, ...]]) -> onnx.ModelProto:
    m = OnnxModel(opset=17)
    inputs = {f"x{place}": (FLOAT, shape) for place, shape in enumerate(shapes)}
    y = m.node("Einsum", inputs, equation=equation)
    return m.proto(inputs, {y: (FLOAT, None)})


@pytest.mark.parametrize("equation", EQUATIONS)
def test_apart_it_computes_the_same(equation: str) -> None:
    shapes = shapes_of(equation)
    model, rng = model_of(equation, shapes), np.random.default_rng(2)
    given = {f"x{n}": rng.normal(size=shape).astype(np.float32) for n, shape in enumerate(shapes)}
    wanted = computed(model, given)[0]
    apart = take_apart(model, "").model
    assert "Einsum" not in {node.op_type for node in apart.graph.node}
    np.testing.assert_allclose(computed(apart, given)[0], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ii->i", [(4, 4)]), ("ij,jk->ik", [(4, 1), (5, 6)]), ("ij,jk->ik", [(4, 0), (0, 6)])],
)
def test_what_is_left(equation: str, shapes: list[tuple[int, ...]]) -> None:
    apart = take_apart(model_of(equation, shapes), "").model
    assert [node.op_type for node in apart.graph.node] == ["Einsum"]


@pytest.mark.parametrize("op", ["Einsum", "MatMul"])
def test_a_matrix_for_each_head_on_the_device(tmp_path: Path, op: str) -> None:
    m = OnnxModel(opset=17)
    weights = m.constant(m.rng.normal(size=(3, 8, 5)).astype(np.float32))
    more = {"equation": "bhik,hkl->bhil"} if op == "Einsum" else {}
    y = m.node(op, ["x", weights], **more)
    path, data = tmp_path / "float.onnx", tmp_path / "data.npz"
    onnx.save(m.proto({"x": (FLOAT, (1, 3, 6, 8))}, {y: (FLOAT, None)}), path)
    np.savez(data, x=m.rng.normal(size=(16, 3, 6, 8)).astype(np.float32))
    target = str(tmp_path / "int8.onnx")
    assert main(["quantize", str(path), "--calibration", str(data), "-o", target]) == 0
    assert main(["verify", target, "-n", "5"]) == 0
