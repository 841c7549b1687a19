# SPDX-License-Identifier: Apache-2.0
"""Float .tflite files as ONNX models compute what TensorFlow Lite Micro's float kernels compute.

Those kernels read float32 weights only: a file with weights of another form is compared with a file
that has the same numbers in float32.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from builders.networks import random_inputs
from builders.tflite_float import Twin, dense, lstm, one, real, window
from builders.tflite_float_cases import BY_NUMPY, CASES
from builders.tflite_models import TfliteModel, conv
from drawn import CASES as CASE_COUNT
from tflite_micro.python.tflite_micro import runtime
from vmcu_bench import oracle
from vmcu_tools.errors import UserError
from vmcu_tools.machine import reference
from vmcu_tools.quantize.calibration import quantize, quantize_and_judge
from vmcu_tools.quantize.from_tflite import convert


def saved(folder: Path, build, seed: int = 0) -> Path:
    model = TfliteModel(seed)
    return model.save(folder / "net.tflite", *build(model))


def to_onnx(path: Path) -> onnx.ModelProto:
    return convert(path).model


def inputs_of(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        real_ = value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        drawn = rng.normal(size=shape).astype(np.float32)
        found[value.name] = drawn if real_ else rng.integers(0, 4, shape).astype(np.int32)
    return found


def ran(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)


def by_tflm(build, seed: int, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    twin = Twin(seed)
    ports = build(twin)
    interpreter = runtime.Interpreter.from_bytes(twin.to_bytes(*ports))
    for place, index in enumerate(ports[0]):
        interpreter.set_input(inputs[f"t{index}"], place)
    interpreter.invoke()
    return [interpreter.get_output(place) for place in range(len(ports[1]))]


def assert_close(computed, expected) -> None:
    for one_, other in zip(computed, expected, strict=True):
        assert one_.shape == other.shape
        np.testing.assert_allclose(one_, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_operator_equals_tflm(tmp_path, case):
    model = to_onnx(saved(tmp_path, CASES[case], 1))
    inputs = inputs_of(model, 2)
    assert_close(ran(model, inputs), by_tflm(CASES[case], 1, inputs))


@pytest.mark.parametrize("case", BY_NUMPY)
def test_operator_without_float_kernel(tmp_path, case):
    build, function = BY_NUMPY[case]
    model = to_onnx(saved(tmp_path, build))
    inputs = inputs_of(model, 2)
    assert_close(ran(model, inputs), [function(*inputs.values())])


def drawn_window(rng: np.random.Generator):
    name = ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D")[rng.integers(4)]
    size, channels = tuple(rng.integers(5, 12, 2).tolist()), int(rng.integers(1, 5))
    kernel, stride = (tuple(rng.integers(1, 4, 2).tolist()) for _ in range(2))
    more = {"activation": int(rng.choice([0, 1, 3]))}
    if name.endswith("CONV_2D"):
        times = int(rng.integers(1, 3))
        more["count"] = channels * times if name.startswith("DEPTH") else int(rng.integers(1, 6))
        if stride == (1, 1):
            more["dilation"] = tuple(rng.integers(1, 3, 2).tolist())
    return window(name, size, channels, kernel, stride, bool(rng.integers(2)), **more)


@pytest.mark.parametrize("seed", range(max(20, CASE_COUNT // 10)))
def test_drawn_windows_equal_tflm(tmp_path, seed):
    build = drawn_window(np.random.default_rng(seed))
    model = to_onnx(saved(tmp_path, build, seed))
    inputs = inputs_of(model, seed)
    assert_close(ran(model, inputs), by_tflm(build, seed, inputs))


def test_int8_weights_keep_their_values(tmp_path):
    """One scale for each channel, of a convolution, and one for all weights of a dense layer."""
    kept = {}
    for form, build in {
        "channels": window("CONV_2D", (5, 6), 3, (3, 3), count=4, form="int8"),
        "one": dense((1, 12), 5, (1, 5), form="int8 tensor"),
    }.items():
        whole = convert(saved(tmp_path, build))
        ((name, weights),) = whole.kept.items()
        (array,) = (
            onnx.numpy_helper.to_array(t) for t in whole.model.graph.initializer if t.name == name
        )
        sizes = [1] * array.ndim
        if weights.axis is not None:
            sizes[weights.axis] = -1
        steps = array / weights.scales.reshape(sizes)
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)
        assert abs(steps).max() <= 127
        kept[form] = weights
    assert (kept["channels"].axis, kept["channels"].scales.size) == (0, 4)
    assert (kept["one"].axis, kept["one"].scales.size) == (None, 1)


def test_layouts_and_names_are_the_file_s(tmp_path):
    model = to_onnx(saved(tmp_path, CASES["conv same"]))
    ((given,), (made,)) = model.graph.input, model.graph.output
    shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in (given, made)]
    assert (given.name, made.name, shapes) == ("t0", "t3", [[1, 7, 6, 3], [1, 4, 3, 4]])


def network(*layers):
    """A case of layers, each of which reads the result of the one before."""

    def build(m: TfliteModel):
        inputs, outputs = layers[0](m)
        for layer in layers[1:]:
            following, ends = layer(m)
            for op in m.graph.operators:
                op.inputs = [outputs[0] if i == following[0] else i for i in op.inputs]
            outputs = ends
        return inputs, outputs

    return build


NETWORKS = {
    "image": network(
        window("CONV_2D", (12, 10), 1, (3, 3), (2, 2), count=8, activation=1),
        window("DEPTHWISE_CONV_2D", (6, 5), 8, (3, 3), count=8, activation=1),
        window("CONV_2D", (6, 5), 8, (1, 1), count=6, form="int8", activation=3),
        window("AVERAGE_POOL_2D", (6, 5), 6, (6, 5), same=False),
        one("RESHAPE", (1, 1, 1, 6), "Reshape", (1, 6), [[1, 6]], newShape=[1, 6]),
        dense((1, 6), 4, (1, 4), form="float16"),
        one("SOFTMAX", (1, 4), "Softmax", beta=1.0),
    ),
    "dense": network(
        dense((1, 16), 12, (1, 12), form="int8 tensor", activation=1),
        dense((1, 12), 3, (1, 3), form="int8 tensor"),
    ),
    "lstm": network(
        lstm(6, 4, 5), one("MEAN", (1, 6, 5), "Reducer", (1, 5), [[1]]), dense((1, 5), 3, (1, 3))
    ),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_quantised_network_is_exact(tmp_path, case):
    model = to_onnx(saved(tmp_path, NETWORKS[case]))
    source, target = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(model, source)
    report = quantize_and_judge(source, target, [inputs_of(model, seed) for seed in range(8)])
    assert report.top1 >= 0.75
    judge = oracle.open(target)
    inputs = random_inputs(judge.graph, 0)
    expected, computed = judge.run(inputs), reference.run(judge.graph, inputs)
    for port in judge.graph.outputs:
        np.testing.assert_array_equal(computed[port.tensor], expected[port.tensor])


def test_no_transposition_between_layers(tmp_path):
    model = to_onnx(saved(tmp_path, NETWORKS["image"]))
    source, target = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(model, source)
    quantize(source, target, [inputs_of(model, seed) for seed in range(2)])
    kinds = [n.op_type for n in onnx.load(target).graph.node if "Linear" not in n.op_type]
    assert kinds[:5] == ["Transpose", "Conv", "Conv", "Conv", "AveragePool"], kinds


def shared_bias(m: TfliteModel):
    """A convolution and an addition that read the same constant."""
    inputs, (inner,) = window("CONV_2D", (6, 6), 3, (3, 3), count=4)(m)
    outputs = [real(m, 1, 6, 6, 4)]
    m.op("ADD", [inner, m.graph.operators[0].inputs[2]], outputs[0], "Add")
    return inputs, outputs


def test_bias_that_another_operator_reads(tmp_path):
    model = to_onnx(saved(tmp_path, shared_bias))
    source, target = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(model, source)
    quantize(source, target, [inputs_of(model, seed) for seed in range(2)])
    assert oracle.open(target).graph.nodes


def two_problems(m: TfliteModel):
    x, y, z = real(m, 1, 4), real(m, 1, 4), real(m, 1, 5)
    m.op("BUCKETIZE", [x], y)
    m.op("RESHAPE", [x], z)
    return [x], [y, z]


def wrong_shape(m: TfliteModel):
    x, y, z = real(m, 1, 3, 4), m.constant(np.array([0, 2, 1], np.int32)), real(m, 1, 3, 4)
    out = real(m, 1, 4, 3)
    m.op("TRANSPOSE", [x, y], z, "Transpose")
    m.op("EXP", [z], out, "Exp")
    return [x], [out]


REFUSED = {
    "unknown": (
        one("SEGMENT_SUM", (1, 4)),
        "FILE: t1 (SEGMENT_SUM): `vmcu quantize` cannot read this operation from a .tflite file. "
        "hint: replace it, or export the float model as .onnx",
    ),
    "several": (
        two_problems,
        "FILE: t1 (BUCKETIZE): `vmcu quantize` cannot read this operation from a .tflite file. "
        "hint: replace it, or export the float model as .onnx\n"
        "FILE: t2 (RESHAPE): cannot reshape [1, 4] to [1, 5]. "
        "hint: change this part of the model and export it again",
    ),
    "constant": (
        lambda m: ([real(m, 1, 4)], [m.constant(np.ones(4, np.float32))]),
        "FILE: t1: the output is a constant. hint: use it without a model",
    ),
    "int8": (
        conv((4, 4), 2, 2, (3, 3)),
        "FILE: the model is already quantised. "
        "hint: give it to `vmcu build` as it is, without calibration data",
    ),
    "wrong shape": (
        wrong_shape,
        "FILE: t2: the output is [1, 3, 4] in the file but computes [1, 4, 3]. "
        "hint: change this part of the model and export it again",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path, case):
    build, message = REFUSED[case]
    path = saved(tmp_path, build)
    with pytest.raises(UserError) as caught:
        to_onnx(path)
    assert str(caught.value) == message.replace("FILE", str(path))


@pytest.mark.parametrize("case", sorted(CASES))
def test_damaged_files_are_refused(tmp_path, case):
    """Any bytes of a file may be wrong: it is converted, or refused with a UserError."""
    rng = np.random.default_rng(len(case))
    model = TfliteModel(1)
    whole = model.to_bytes(*CASES[case](model))
    path = tmp_path / "net.tflite"
    for _ in range(12):
        damaged = bytearray(whole)
        for place in rng.integers(8, len(whole), 3):
            damaged[place] = rng.choice([0, 1, 2, 127, 128, 255])
        path.write_bytes(damaged)
        with contextlib.suppress(UserError):
            to_onnx(path)
