# SPDX-License-Identifier: Apache-2.0
"""Attention and RotaryEmbedding of opset 23: taken apart in float beside the operator itself, and
from the float file to the device."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.ops.attention import Attention
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.quantize.functions import take_apart

FLOAT = TensorProto.FLOAT
TOKENS, PAST, DEPTH = 5, 7, 8
Inputs = dict[str, tuple[int, ...]]
FOUR: Inputs = {"q": (1, 4, TOKENS, DEPTH), "k": (1, 4, TOKENS, DEPTH), "v": (1, 4, TOKENS, 6)}
SHARED: Inputs = FOUR | {"k": (1, 2, TOKENS, DEPTH), "v": (1, 2, TOKENS, 6)}
THREE: Inputs = {"q": (1, TOKENS, 32), "k": (1, TOKENS, 16), "v": (1, TOKENS, 12)}
COUNTS = {"q_num_heads": 4, "kv_num_heads": 2}
CACHE: Inputs = {"past_k": (1, 2, PAST, DEPTH), "past_v": (1, 2, PAST, 6)}
MASK: Inputs = {"mask": (TOKENS, TOKENS)}
# Inputs in the operator's order, "" for none; attributes.
ATTENTION: dict[str, tuple[Inputs, dict]] = {
    "plain": (FOUR, {}),
    "masked, scale": (FOUR | MASK, {"scale": 0.3}),
    "causal": (FOUR, {"is_causal": 1}),
    "softcap": (FOUR, {"softcap": 1.5}),
    "shared keys": (SHARED, {}),
    "three axes, shared keys": (THREE, COUNTS | {"is_causal": 1}),
    "flags": (FOUR | {"flags": (TOKENS, TOKENS)}, {}),
    "a causal cache": (SHARED | {"": ()} | CACHE, {"is_causal": 1}),
    "batch of two": ({n: (2, *s[1:]) for n, s in SHARED.items()}, {}),
    "batch of two, three axes": ({n: (2, *s[1:]) for n, s in THREE.items()}, COUNTS),
    "cache": (SHARED | {"": ()} | CACHE, {}),
    "cache, three axes": (THREE | {"": ()} | CACHE, COUNTS),
}
HALF: Inputs = {"cos": (1, TOKENS, DEPTH // 2), "sin": (1, TOKENS, DEPTH // 2)}
PLACES: Inputs = {"cos": (20, DEPTH // 2), "sin": (20, DEPTH // 2), "places": (1, TOKENS)}
QUARTER: Inputs = {"cos": (1, TOKENS, DEPTH // 4), "sin": (1, TOKENS, DEPTH // 4)}
X4: Inputs = {"x": (1, 3, TOKENS, DEPTH)}
X3: Inputs = {"x": (1, TOKENS, 3 * DEPTH)}
ROTARY: dict[str, tuple[Inputs, dict]] = {
    "halves": (X4 | HALF, {}),
    "pairs": (X4 | HALF, {"interleaved": 1}),
    "three axes": (X3 | HALF, {"num_heads": 3}),
    "positions": (X4 | PLACES, {}),
    "three axes, positions, pairs": (X3 | PLACES, {"num_heads": 3, "interleaved": 1}),
    "some channels": (X4 | QUARTER, {"rotary_embedding_dim": DEPTH // 2}),
}


def model_of(op: str, inputs: Inputs, attributes: dict, results: int) -> onnx.ModelProto:
    kinds = dict.fromkeys(inputs, FLOAT) | {"places": TensorProto.INT64, "flags": TensorProto.BOOL}
    names = [f"y{place}" for place in range(results)]
    node = onnx.helper.make_node(op, list(inputs), names, **attributes)
    make = onnx.helper.make_tensor_value_info
    ins = [make(name, kinds[name], inputs[name]) for name in inputs if name]
    graph = onnx.helper.make_graph([node], "g", ins, [make(n, FLOAT, None) for n in names])
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10
    )


def computed(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    runtime = pytest.importorskip("onnxruntime")
    providers = ["CPUExecutionProvider"]
    session = runtime.InferenceSession(model.SerializeToString(), providers=providers)
    return session.run(None, given)


@pytest.mark.parametrize("case", [*ATTENTION, *ROTARY])
def test_apart_it_computes_the_same(case: str) -> None:
    op = "Attention" if case in ATTENTION else "RotaryEmbedding"
    inputs, attributes = (ATTENTION | ROTARY)[case]
    results = 3 if "past_k" in inputs else 1
    model = model_of(op, inputs, attributes, results)
    rng = np.random.default_rng(4)
    given = {n: rng.normal(size=s).astype(np.float32) for n, s in inputs.items() if n}
    if "places" in given:
        given["places"] = rng.integers(0, 20, inputs["places"])
    if "flags" in given:
        given["flags"] = given["flags"] > -1
    wanted = computed(model, given)
    apart = take_apart(model, "").model
    assert op not in {node.op_type for node in apart.graph.node}
    for one, other in zip(computed(apart, given), wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


# Of forms that are left as they are: the operator, inputs, attributes, results.
LEFT: dict[str, tuple[str, Inputs, dict, int]] = {
    "three axes, no count": ("Attention", THREE, {}, 1),
    "a count that divides nothing": ("Attention", THREE, COUNTS | {"q_num_heads": 5}, 1),
    "scores as a result": ("Attention", FOUR, {}, 4),
    "rotary, no count": ("RotaryEmbedding", X3 | HALF, {}, 1),
    "rotary, two axes": ("RotaryEmbedding", {"x": (TOKENS, DEPTH)} | HALF, {"num_heads": 1}, 1),
    "rotary, unknown size": ("RotaryEmbedding", {"x": (1, 3, 0, DEPTH)} | HALF, {}, 1),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_left(case: str) -> None:
    """`vmcu quantize` names it."""
    op, inputs, attributes, results = LEFT[case]
    apart = take_apart(model_of(op, inputs, attributes, results), "").model
    assert [node.op_type for node in apart.graph.node] == [op]


def test_a_step_with_positions_and_a_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Grouped queries of one token, turned by its position, over keys and values that slide."""
    m = OnnxModel(opset=23)

    def real(*shape: int) -> str:
        return m.constant(m.rng.normal(size=shape).astype(np.float32))

    angles = np.arange(32)[:, None] * 100.0 ** (-np.arange(DEPTH // 2) / DEPTH)
    tables = [m.constant(f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
    word = m.node("Gather", [real(20, 16), "token"])
    q, k, v = (m.node("MatMul", [word, real(16, count)]) for count in (32, 16, 16))
    q, k = (
        m.node("RotaryEmbedding", [x, *tables, "position"], num_heads=count)
        for x, count in ((q, 4), (k, 2))
    )
    y = m.node("Attention", [q, k, v, "", "past_key", "past_value"], **COUNTS)
    m.nodes[-1].output.extend(["all_key", "all_value"])
    for name in ("key", "value"):
        bounds = [m.constant(np.array([n])) for n in (1, PAST + 1, 2)]
        m.node("Slice", [f"all_{name}", *bounds])
        m.nodes[-1].output[0] = f"present_{name}"
    y = m.node("MatMul", [y, real(32, 20)])
    ids, cache = (TensorProto.INT64, (1, 1)), (FLOAT, (1, 2, PAST, DEPTH))
    inputs = {"token": ids, "position": ids, "past_key": cache, "past_value": cache}
    outputs = dict.fromkeys((y, "present_key", "present_value"), (FLOAT, None))
    path, data, result = (tmp_path / name for name in ("f.onnx", "data.npz", "int8.onnx"))
    onnx.save(m.proto(inputs, outputs), path)
    past = m.rng.normal(size=(2, 20, *cache[1][1:])).astype(np.float32)
    count = np.arange(20).reshape(20, 1)
    np.savez(data, token=count, position=count, past_key=past[0], past_value=past[1])
    assert main(["quantize", str(path), "--calibration", str(data), "-o", str(result)]) == 0
    lost = re.search(r"ratio of \d+ tensors is ([\d.]+) dB", capsys.readouterr().out)
    assert lost is not None and float(lost[1]) > 20
    plan = compile_model(result, CompileOptions(state=None))
    assert sum(isinstance(node.op, Attention) for node in plan.graph.nodes) == 1
    assert main(["verify", str(result), "-n", "100"]) == 0
    assert "0 of 100 hops differ from the file's own runtime" in capsys.readouterr().out
