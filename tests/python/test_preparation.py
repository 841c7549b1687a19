# SPDX-License-Identifier: Apache-2.0
"""Float models as exporters write them, through calibration: what becomes one operator, and how
little of the float network's output int8 loses. The judge is onnxruntime, on the float model for
the quality and on the int8 model for every node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from vmcu_bench import oracle
from vmcu_tools.frontends.onnx.patterns import fuse_normalisations
from vmcu_tools.quantize import calibration

FLOAT = onnx.TensorProto.FLOAT
IMAGE, SEQUENCE = (1, 6, 5, 4), (1, 7, 12)
Steps = Callable[[OnnxModel, str], str]


def mean(m: OnnxModel, x: str, axes: list[int]) -> str:
    return m.node("ReduceMean", [x], axes=axes, keepdims=1)


def scalar(m: OnnxModel, value: float) -> str:
    return m.constant(np.float32(value))


def layer_norm(axes: list[int], shape, square: str = "Pow", divide: str = "Div") -> Steps:
    """As PyTorch writes it before opset 17, and as people write it by hand."""

    def build(m: OnnxModel, x: str) -> str:
        centred = m.node("Sub", [x, mean(m, x, axes)])
        other = scalar(m, 2) if square == "Pow" else centred
        variance = mean(m, m.node(square, [centred, other]), axes)
        root = m.node("Sqrt", [m.node("Add", [variance, scalar(m, 1e-6)])])
        if divide == "Mul":
            root = m.node("Reciprocal", [root])
        y = m.node(divide, [centred, root])
        gain = m.constant(m.rng.uniform(0.5, 2, shape).astype(np.float32))
        offset = m.constant(m.rng.normal(size=shape).astype(np.float32))
        return m.node("Add", [m.node("Mul", [gain, y]), offset])

    return build


def bare_norm(follower: str) -> Steps:
    """A layer norm without factors of its own. follower: what works on it and another tensor."""

    def build(m: OnnxModel, x: str) -> str:
        centred = m.node("Sub", [x, mean(m, x, [-1])])
        variance = mean(m, m.node("Mul", [centred, centred]), [-1])
        root = m.node("Sqrt", [m.node("Add", [variance, scalar(m, 1e-6)])])
        y = m.node("Div", [centred, root])
        return m.node(follower, [y, m.node("Sigmoid", [x])]) if follower else y

    return build


def rms_norm(m: OnnxModel, x: str) -> str:
    power = mean(m, m.node("Pow", [x, scalar(m, 2)]), [-1])
    root = m.node("Sqrt", [m.node("Add", [scalar(m, 1e-6), power])])
    y = m.node("Mul", [x, m.node("Div", [scalar(m, 1), root])])
    return m.node("Mul", [y, m.constant(m.rng.uniform(0.5, 2, 12).astype(np.float32))])


def unit_length(m: OnnxModel, x: str) -> str:
    """torch.nn.functional.normalize()."""
    length = m.node("ReduceL2", [x], axes=[1], keepdims=1)
    length = m.node("Clip", [length, scalar(m, 1e-12)])
    return m.node("Div", [x, m.node("Expand", [length, m.constant(np.array(IMAGE))])])


def by_length(squares: str, guard: str, end: int = -1) -> Steps:
    """A vector by its Euclidean length, spelled out. squares: the operator that squares, or
    ReduceSumSquare, which does and adds up."""

    def build(m: OnnxModel, x: str) -> str:
        power = x
        if squares != "ReduceSumSquare":
            power = m.node(squares, [x, scalar(m, 2) if squares == "Pow" else x])
        op = "ReduceSum" if power != x else squares
        if op == "ReduceSum" and m.opset >= 13:
            total = m.node(op, [power, m.constant(np.array([end]))], keepdims=1)
        else:
            total = m.node(op, [power], axes=[end], keepdims=1)
        length = m.node(guard, [m.node("Sqrt", [total]), scalar(m, 1e-6)])
        return m.node("Div", [x, length])

    return build


def group_norm(m: OnnxModel, x: str) -> str:
    """As newer opsets have it."""
    factors = [m.rng.uniform(0.5, 2, 6), m.rng.normal(size=6)]
    names = [m.constant(array.astype(np.float32)) for array in factors]
    return m.node("GroupNormalization", [x, *names], num_groups=3)


def attention(causal: int) -> Steps:
    def build(m: OnnxModel, x: str) -> str:
        to = m.constant(np.array([1, 7, 3, 4]))
        heads = m.node("Transpose", [m.node("Reshape", [x, to])], perm=[0, 2, 1, 3])
        return m.node("Attention", [heads, heads, heads], is_causal=causal)

    return build


def gelu(m: OnnxModel, x: str) -> str:
    inner = m.node("Erf", [m.node("Div", [x, scalar(m, 2**0.5)])])
    inner = m.node("Add", [inner, scalar(m, 1)])
    return m.node("Mul", [m.node("Mul", [x, inner]), scalar(m, 0.5)])


def softplus(m: OnnxModel, x: str) -> str:
    """As torch.onnx's newer exporter writes it."""
    curved = m.node("Log", [m.node("Add", [m.node("Exp", [x]), scalar(m, 1)])])
    return m.node("Where", [m.node("Greater", [x, scalar(m, 20)]), x, curved])


def softsign(m: OnnxModel, x: str) -> str:
    return m.node("Div", [x, m.node("Add", [m.node("Abs", [x]), scalar(m, 1)])])


def masked_softmax(op: str, never: float = -np.inf, times: int = 1, late: float = 1) -> Steps:
    """Causal attention's weights. times: so many masks are added; late: the scores' scale behind
    them."""

    def build(m: OnnxModel, x: str) -> str:
        scores = m.node("MatMul", [x, m.node("Transpose", [x], perm=[0, 2, 1])])
        later = np.triu(np.ones((7, 7), np.bool_), 1)
        for _ in range(times):
            if op == "Add":
                mask = m.constant(np.where(later, never, 0).astype(np.float32))
                scores = m.node("Add", [scores, mask])
            else:
                scores = m.node("Where", [m.constant(later), scalar(m, never), scores])
        if late != 1:
            scores = m.node("Div", [scores, scalar(m, late)])
        return m.node("Softmax", [scores], axis=-1)

    return build


def several(op: str) -> Steps:
    def build(m: OnnxModel, x: str) -> str:
        flipped = m.node("Transpose", [x], perm=[0, 1, 3, 2])
        flipped = m.node("Transpose", [m.node("Relu", [flipped])], perm=[0, 1, 3, 2])
        return m.node(op, [x, flipped, m.node("MaxPool", [x], kernel_shape=[1, 1])])

    return build


def norm(op: str) -> Steps:
    return lambda m, x: m.node(op, [x], axes=[1], keepdims=1)


def quotient(m: OnnxModel, x: str) -> str:
    other = m.node("MaxPool", [m.node("Abs", [x])], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return m.node("Div", [x, m.node("Add", [other, scalar(m, 1)])])


def factors(m: OnnxModel, x: str) -> str:
    pooled = m.node("Flatten", [m.node("GlobalMaxPool", [x])])
    weights, bias = (m.constant(m.rng.normal(size=s).astype(np.float32)) for s in ((6, 5), 5))
    return m.node("Gemm", [pooled, weights, bias], alpha=0.3, beta=2.0)


# Input shape, steps, kinds that the graph has, kinds that it has not.
CASES: dict[str, tuple[tuple[int, ...], Steps, set[str], set[str]]] = {
    "layer norm": (SEQUENCE, layer_norm([-1], 12), {"LayerNorm"}, {"Binary", "Lookup"}),
    "layer norm, multiplied": (
        SEQUENCE,
        layer_norm([2], 12, "Mul", "Mul"),
        {"LayerNorm"},
        {"Binary", "Lookup"},
    ),
    "layer norm of channels": (
        IMAGE,
        layer_norm([1], (6, 1, 1)),
        {"LayerNorm"},
        {"Binary", "Lookup"},
    ),
    "layer norm of image": (
        IMAGE,
        layer_norm([-3, -2, -1], IMAGE[1:]),
        {"LayerNorm"},
        {"Binary", "Lookup"},
    ),
    "bare layer norm": (SEQUENCE, bare_norm(""), {"LayerNorm"}, {"Binary", "Lookup"}),
    "layer norm times a tensor": (SEQUENCE, bare_norm("Mul"), {"LayerNorm", "Binary"}, set()),
    "layer norm and a tensor": (SEQUENCE, bare_norm("Add"), {"LayerNorm", "Add"}, set()),
    "rms norm": (SEQUENCE, rms_norm, {"RmsNorm"}, {"Binary", "Lookup"}),
    "unit length": (IMAGE, unit_length, {"LayerNorm"}, {"Binary", "Lookup"}),
    **{
        f"unit length by {squares}, {guard}": (
            SEQUENCE,
            by_length(squares, guard),
            {"LayerNorm"},
            {"Binary", "Lookup"},
        )
        for squares, guard in (("Mul", "Max"), ("Pow", "Clip"), ("ReduceSumSquare", "Max"))
    },
    "group norm": (IMAGE, group_norm, {"LayerNorm"}, {"AveragePool2D"}),
    "attention": (SEQUENCE, attention(0), {"MatMul", "Softmax"}, set()),
    "causal attention": (SEQUENCE, attention(1), {"MatMul", "Softmax"}, set()),
    "gelu": (SEQUENCE, gelu, {"Lookup"}, {"Binary", "Add"}),
    "softplus": (SEQUENCE, softplus, {"Lookup"}, {"Binary", "Add"}),
    "softsign": (SEQUENCE, softsign, {"Lookup"}, {"Binary", "Add"}),
    "mask added": (SEQUENCE, masked_softmax("Add"), {"MatMul", "Softmax"}, set()),
    "mask chosen": (SEQUENCE, masked_softmax("Where", -1e9), {"MatMul", "Softmax"}, set()),
    "mask of -1e4": (SEQUENCE, masked_softmax("Add", -1e4), {"MatMul", "Softmax"}, set()),
    "mask of -100": (SEQUENCE, masked_softmax("Add", -100), {"MatMul", "Softmax"}, set()),
    "two masks": (SEQUENCE, masked_softmax("Add", -1e4, 2), {"MatMul", "Softmax"}, set()),
    "mask, then scale": (SEQUENCE, masked_softmax("Add", -1e4, 1, 8), {"MatMul", "Softmax"}, set()),
    "sum": (IMAGE, several("Sum"), set(), set()),
    "mean": (IMAGE, several("Mean"), set(), set()),
    "max": (IMAGE, several("Max"), {"Binary"}, set()),
    "norm of two": (IMAGE, norm("ReduceL2"), set(), set()),
    "norm of one": (IMAGE, norm("ReduceL1"), set(), set()),
    "quotient": (IMAGE, quotient, {"MaxPool2D"}, set()),
    "factors": (IMAGE, factors, {"FullyConnected"}, set()),
}
NEWER = {"group norm": 21, "attention": 23, "causal attention": 23}
# The least signal-to-noise ratio of the model's output, in dB.
LEAST = 20.0


def exported(path: Path, case: str, opset: int) -> tuple[Path, list[dict[str, np.ndarray]]]:
    """A layer with float weights, the steps, and a layer again, as a file with samples for it."""
    shape, steps, _, _ = CASES[case]
    m = OnnxModel(3, opset=NEWER.get(case, opset))
    x = m.node("MaxPool" if len(shape) == 4 else "Identity", ["x"])
    if len(shape) == 4:
        m.nodes[-1].attribute.append(onnx.helper.make_attribute("kernel_shape", [1, 1]))
        w = m.constant(m.rng.normal(size=(6, 6, 1, 1)).astype(np.float32))
        x = m.node("Conv", [x, w])
    else:
        w = m.constant((m.rng.normal(size=(12, 12)) * 0.3).astype(np.float32))
        x = m.node("MatMul", [x, w])
    y = steps(m, x)
    model = m.proto({"x": (FLOAT, shape)}, {y: (FLOAT, None)})
    model.ir_version = 11 if case in NEWER else 8
    onnx.save(model, path)
    rng = np.random.default_rng(1)
    return path, [{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(8)]


def signal_to_noise(source: Path, target: Path, samples: list[dict[str, np.ndarray]]) -> float:
    """In dB, of the int8 file's output beside that of the float file as it was exported."""
    ort = pytest.importorskip("onnxruntime")
    # As the file says: optimised, sums of two products saturate on processors without VNNI.
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    real, coarse = (
        ort.InferenceSession(p, options, providers=["CPUExecutionProvider"])
        for p in (source, target)
    )
    pairs = [(real.run(None, one)[0], coarse.run(None, one)[0]) for one in samples]
    signal = sum(float((wanted.astype(np.float64) ** 2).sum()) for wanted, _ in pairs)
    noise = sum(float(((wanted.astype(np.float64) - found) ** 2).sum()) for wanted, found in pairs)
    return 10 * np.log10(signal / max(noise, 1e-30))


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("case", CASES)
def test_little_is_lost(tmp_path, case, opset):
    _, _, wanted, unwanted = CASES[case]
    source, samples = exported(tmp_path / "float.onnx", case, opset)
    target = tmp_path / "int8.onnx"
    report = calibration.quantize_and_judge(source, target, samples)
    ratio = {layer.tensor: layer.signal_to_noise for layer in report.layers}
    last = onnx.load(source).graph.output[0].name
    assert ratio[last] > LEAST, ratio
    # The operators that stand for others were there in the judge's float network, too.
    assert signal_to_noise(source, target, samples) > LEAST
    judge = oracle.open(target)
    kinds = {node.kind for node in judge.graph.nodes}
    assert wanted <= kinds and not unwanted & kinds, kinds
    rng = np.random.default_rng(2)
    shape = judge.graph.tensors[judge.graph.inputs[0].tensor].shape
    found = oracle.node_differences(
        judge.graph, judge.run([rng.integers(-128, 128, shape).astype(np.int8)])
    )
    assert found
    for difference in found:
        assert difference.largest <= judge.promise(judge.graph, difference.node).steps, difference


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 7, 12), None),
        ((1, 7, "N"), [-1]),
        ((1, "N", 12), [-2]),
        (None, [-1]),
        (None, [-2]),
        (None, [1]),
    ],
)
def test_of_what_the_axes_or_their_sizes_are_not_known_nothing_is_fused(shape, axes) -> None:
    m = OnnxModel(opset=13)
    given = {"keepdims": 1} | ({} if axes is None else {"axes": axes})
    centred = m.node("Sub", ["x", m.node("ReduceMean", ["x"], **given)])
    variance = m.node("ReduceMean", [m.node("Mul", [centred, centred])], **given)
    root = m.node("Sqrt", [m.node("Add", [variance, scalar(m, 1e-6)])])
    y = m.node("Div", [centred, root])
    graph = m.proto({"x": (FLOAT, shape)}, {y: (FLOAT, None)}).graph
    before = [node.op_type for node in graph.node]
    fuse_normalisations(graph)
    assert [node.op_type for node in graph.node] == before
