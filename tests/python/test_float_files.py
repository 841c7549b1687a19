# SPDX-License-Identifier: Apache-2.0
"""Files that are float in part: what `vmcu quantize` makes of them is near what ONNX Runtime makes
of the files as they are."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import pytest
from builders.exported import Net, static
from builders.exported_more import MORE
from builders.exported_networks import IMAGES
from builders.exported_sequences import SEQUENCES
from builders.onnx_models import OnnxModel
from builders.tflite_float import dense
from builders.tflite_models import TfliteModel
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic
from tflite_micro.tensorflow.lite.micro.python.schema_py_generated import TensorType
from vmcu_tools.cli import main
from vmcu_tools.quantize import calibration
from vmcu_tools.quantize.calibration import read_float
from vmcu_tools.quantize.from_tflite import convert

NETWORKS = {**IMAGES, **SEQUENCES, **MORE}
FLOAT = TensorProto.FLOAT


def grn(n: Net) -> onnx.ModelProto:
    """Global response normalisation of ConvNeXt V2."""
    x = n.relu(n.conv(n.input(1, 3, 8, 8), 3, 8))
    length = n.op("Sqrt", n.reduce("ReduceSum", n.op("Mul", x, x), [2, 3]))
    share = n.op("Div", length, n.op("Add", n.mean(length, [1]), n.k(1e-6)))
    gain = n.weight(n.rng.uniform(0.5, 1.5, (1, 8, 1, 1)))
    y = n.op("Add", n.op("Mul", gain, n.op("Mul", x, share)), x)
    return n.model(n.linear(n.flatten(n.global_pool(y), 8), 8, 5))


def deviation_pool(n: Net) -> onnx.ModelProto:
    """Mean and standard deviation over time, as speaker networks pool."""
    x = n.relu(n.conv(n.input(1, 6, 20), 6, 8, (3,)))
    mean = n.mean(x, [2])
    spread = n.op("Sub", n.mean(n.op("Pow", x, n.k(2)), [2]), n.op("Pow", mean, n.k(2)))
    spread = n.op("Sqrt", n.op("Add", spread, n.k(1e-2)))
    return n.model(n.linear(n.flatten(n.cat(mean, spread), 16), 16, 5))


def rms_norm(n: Net) -> onnx.ModelProto:
    x = n.tokens(n.input(1, 6, 12), 12, 12)
    root = n.op("Sqrt", n.op("Add", n.mean(n.op("Pow", x, n.k(2)), [-1]), n.k(1e-5)))
    x = n.op("Mul", n.op("Div", x, root), n.weight(n.rng.uniform(0.5, 1.5, 12)))
    return n.model(n.tokens(x, 12, 5))


def recurrent(op: str, gates: int):
    def network(n: Net) -> onnx.ModelProto:
        x = n.relu(n.conv(n.input(1, 4, 10), 4, 6, (3,)))
        shapes = (1, gates * 8, 6), (1, gates * 8, 8), (1, gates * 16)
        arrays = [n.weight(n.rng.normal(size=shape) * 0.3) for shape in shapes]
        y = n.op(op, n.transpose(x, 2, 0, 1), *arrays, outputs=2, hidden_size=8)[1]
        return n.model(n.linear(n.reshape(y, 1, 8), 8, 5))

    return network


def relu6(n: Net) -> onnx.ModelProto:
    """Whose limits quantize_static leaves to the range of the integers, before a sum in float."""
    x = n.clip(n.conv(n.input(1, 3, 8, 8), 3, 8), 0, 0.6)
    y = n.relu(n.op("Sub", n.conv(x, 8, 8), x))
    return n.model(
        n.linear(n.flatten(n.op("ReduceLogSumExp", y, axes=[2, 3], keepdims=0), 8), 8, 5)
    )


STATIC = {
    **{(name, "int8"): NETWORKS[name] for name in ("generalised_mean", "kan", "kan_polynomial")},
    ("panns", "int8"): NETWORKS["panns"],
    ("kan", "raw"): NETWORKS["kan"],
    ("panns", "symmetric"): NETWORKS["panns"],
    ("transformer_decomposed", "raw"): NETWORKS["transformer_decomposed"],
    ("graph_convolution", "uint8"): NETWORKS["graph_convolution"],
    ("grn", "uint8"): grn,
    ("deviation_pool", "uint8"): deviation_pool,
    ("rms_norm", "raw"): rms_norm,
    ("lstm", "uint8"): recurrent("LSTM", 4),
    ("gru", "int8"): recurrent("GRU", 3),
    ("relu6", "uint8"): relu6,
}


def samples_for(path, tmp_path, count: int = 24):
    """A calibration file of normal numbers."""
    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    rng = np.random.default_rng(3)
    arrays = {
        v.name: rng.normal(size=(count, *[d.dim_value for d in v.type.tensor_type.shape.dim][1:]))
        for v in graph.input
        if v.name not in constants
    }
    np.savez(tmp_path / "data.npz", **{n: a.astype(np.float32) for n, a in arrays.items()})
    return tmp_path / "data.npz"


def ratio(before, after, samples) -> float:
    """Signal to noise in dB of a file's first output, against that of another file."""
    runtime = pytest.importorskip("onnxruntime")
    cpu, options = ["CPUExecutionProvider"], runtime.SessionOptions()
    # In float between QuantizeLinear: processors lacking VNNI saturate 16-bit sums of integers.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    sessions = [runtime.InferenceSession(str(one), options, cpu) for one in (before, after)]
    wanted, got = (np.array([s.run(None, one)[0] for one in samples]) for s in sessions)
    return 10 * np.log10(np.sum(wanted**2) / max(np.sum((wanted - got) ** 2), 1e-20))


def quantised(path, tmp_path, real) -> list[float]:
    """Quantises a file by the command. Returns how near the file and the result are to the float
    model, in dB."""
    data, target = samples_for(path, tmp_path), tmp_path / "made.onnx"
    assert main(["quantize", str(path), "--calibration", str(data), "-o", str(target)]) == 0
    assert main(["verify", str(target), "-n", "2", "-q"]) == 0
    onnx.save(real, tmp_path / "real.onnx")
    samples = calibration.read_samples(read_float(path), data)
    return [ratio(tmp_path / "real.onnx", one, samples) for one in (path, target)]


@pytest.mark.parametrize(("name", "way"), STATIC)
def test_quantised_in_part(tmp_path, capsys, name, way):
    path, real = tmp_path / "static.onnx", STATIC[name, way](Net(False))
    static(real, path, way)
    assert main(["build", str(path)]) == 1
    assert "vmcu quantize" in capsys.readouterr().err
    before, after = quantised(path, tmp_path, real)
    assert after > min(before, 25), (before, after)


def padded(n: Net) -> onnx.ModelProto:
    """Numbers around an image, which are integers in a QOperator file."""
    x = n.relu(n.conv(n.input(1, 3, 8, 8), 3, 8))
    x = n.op("Pad", x, n.ints(0, 0, 1, 1, 0, 0, 0, 2), n.k(0.5))
    x = n.op("Pad", n.pool(x), n.ints(0, 0, 1, 0, 0, 0, 0, 2), n.k(0.25))
    y = n.reduce("ReduceL2", n.relu(n.conv(x, 8, 8)), [2, 3])
    return n.model(n.linear(n.flatten(y, 8), 8, 5))


QOPERATOR = {("padded", "uint8"): padded, **STATIC}
# Compiled as it is.
del QOPERATOR["generalised_mean", "int8"]


@pytest.mark.parametrize(("name", "way"), QOPERATOR)
def test_qoperators_in_part(tmp_path, capsys, name, way):
    path, real = tmp_path / "static.onnx", QOPERATOR[name, way](Net(False))
    static(real, path, way, QuantFormat.QOperator)
    assert any("QLinear" in n.op_type or n.op_type == "QGemm" for n in onnx.load(path).graph.node)
    assert main(["build", str(path)]) == 1
    capsys.readouterr()
    before, after = quantised(path, tmp_path, real)
    assert after > min(before, 25), (before, after)


def conv_net(n: Net) -> onnx.ModelProto:
    x = n.relu(n.conv(n.input(1, 3, 8, 8), 3, 8))
    y = n.relu(n.conv(x, 8, 8, groups=8))
    return n.model(n.linear(n.flatten(n.global_pool(y), 8), 8, 5))


def embedded(n: Net) -> onnx.ModelProto:
    """Rows of a table by numbers, and a product."""
    n.inputs["ids"] = (1, 6)
    x = n.op("Gather", n.weight(n.drawn(20, 8)), "ids")
    model = n.model(n.tokens(n.layer_norm(n.op("Add", x, n.weight(n.drawn(6, 8))), 8), 8, 5))
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    return model


DYNAMIC = {
    "conv": (conv_net, {}),
    "conv uint8": (conv_net, {"weight_type": QuantType.QUInt8}),
    "mlp": (NETWORKS["mlp"], {}),
    "mlp per channel": (NETWORKS["mlp"], {"per_channel": True}),
    "lstm": (recurrent("LSTM", 4), {}),
    "transformer": (NETWORKS["transformer"], {}),
    "transformer per channel": (NETWORKS["transformer"], {"per_channel": True}),
    "resnet": (NETWORKS["resnet"], {}),
    "conformer": (NETWORKS["conformer_glu"], {"per_channel": True}),
}


def dynamic(model: onnx.ModelProto, tmp_path, **given):
    """The file that ONNX Runtime's quantize_dynamic makes of a network."""
    onnx.save(model, tmp_path / "float.onnx")
    logging.disable(logging.WARNING)
    try:
        quantize_dynamic(tmp_path / "float.onnx", tmp_path / "dynamic.onnx", **given)
    finally:
        logging.disable(logging.NOTSET)
    return tmp_path / "dynamic.onnx"


@pytest.mark.parametrize("name", DYNAMIC)
def test_quantised_at_run_time(tmp_path, capsys, name):
    network, given = DYNAMIC[name]
    real = network(Net(False))
    path = dynamic(real, tmp_path, **given)
    assert main(["build", str(path)]) == 1
    assert "--calibration" in capsys.readouterr().err
    before, after = quantised(path, tmp_path, real)
    assert after > min(before - 3, 25), (before, after)


def test_weights_keep_their_integers(tmp_path):
    """Where they have one scale."""
    path = dynamic(NETWORKS["mlp"](Net(False)), tmp_path)
    quantised(path, tmp_path, onnx.load(tmp_path / "float.onnx"))
    before, after = (
        [a for t in onnx.load(p).graph.initializer if (a := numpy_helper.to_array(t)).ndim == 2]
        for p in (path, tmp_path / "made.onnx")
    )
    integers = [array for array in before if array.dtype == np.int8]
    assert len(integers) > 1
    assert all(any(np.array_equal(array, one) for one in after) for array in integers)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_16_bits(tmp_path, capsys, kind):
    """Inputs, outputs, weights, constants and casts."""
    real = conv_net(Net(False))
    path = tmp_path / "half.onnx"
    half = onnx.ModelProto()
    half.CopyFrom(real)
    for tensor in half.graph.initializer:
        array = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(kind))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*half.graph.input, *half.graph.output):
        value.type.tensor_type.elem_type = kind
    del half.graph.value_info[:]
    cast = helper.make_node("Cast", [half.graph.node[-1].output[0]], ["y"], to=FLOAT)
    half.graph.node.append(cast)
    half.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, None))
    onnx.save(half, path)
    assert main(["build", str(path)]) == 1
    assert "a float model, not an int8 one" in capsys.readouterr().err
    data, target = samples_for(path, tmp_path), tmp_path / "made.onnx"
    assert main(["quantize", str(path), "--calibration", str(data), "-o", str(target)]) == 0
    onnx.save(real, tmp_path / "real.onnx")
    samples = calibration.read_samples(read_float(path), data)
    assert ratio(tmp_path / "real.onnx", target, samples) > 30
    assert main(["build", str(path), "--calibration", str(data)]) == 0


def integer_product(m: OnnxModel) -> str:
    """Of integers whose scale is not chosen at run time."""
    weights = m.constant(m.rng.integers(-9, 9, (6, 5)).astype(np.int8))
    values = m.node("QuantizeLinear", ["x", *m.stated()])
    total = m.node("Cast", [m.node("MatMulInteger", [values, weights])], to=FLOAT)
    return m.node("Mul", [total, m.constant(np.float32(0.01))])


def qlinear(m: OnnxModel) -> str:
    values = m.node("QuantizeLinear", ["x", *m.stated()])
    y = m.node("QLinearWhere", [values, *m.stated(), *m.stated()], "com.microsoft")
    return m.node("Einsum", [m.node("DequantizeLinear", [y, *m.stated()])], equation="ij->ji")


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (integer_product, "(MatMulInteger): vmcu cannot take this operator back to float"),
        (qlinear, "(QLinearWhere): vmcu cannot take this operator back to float"),
        (lambda m: m.node("Det", [m.node("Cast", [m.qdq("x", m.stated())], to=FLOAT)]), "(Det)"),
    ],
)
def test_no_float_form(tmp_path, capsys, build, said):
    m = OnnxModel(opset=17)
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (6, 6))}, {build(m): (FLOAT, None)}), path)
    data, target = samples_for(path, tmp_path), tmp_path / "made.onnx"
    assert main(["quantize", str(path), "--calibration", str(data), "-o", str(target)]) == 1
    assert said in capsys.readouterr().err
    assert not target.exists()


def test_scales_that_do_not_fit_their_weights(tmp_path, capsys):
    """They would make a matrix of 160 GB."""
    m = OnnxModel(opset=17)
    arrays = np.ones((200_000, 1), np.int8), np.ones((1, 200_000), np.float32)
    weights = m.node("DequantizeLinear", [m.constant(array) for array in arrays])
    path = tmp_path / "m.onnx"
    y = m.node("MatMul", [m.qdq("x", m.stated()), weights])
    onnx.save(m.proto({"x": (FLOAT, (1, 200_000))}, {y: (FLOAT, None)}), path)
    np.savez(tmp_path / "data.npz", x=np.zeros((1, 200_000), np.float32))
    words = ["--calibration", str(tmp_path / "data.npz"), "-o", str(tmp_path / "made.onnx")]
    assert main(["quantize", str(path), *words]) == 1
    assert "the file is damaged or truncated" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["quantize", "build"])
def test_compiled_as_it_is(tmp_path, capsys, command):
    path = tmp_path / "int8.onnx"
    static(conv_net(Net(False)), path)
    words = ["--calibration", str(samples_for(path, tmp_path)), "-o", str(tmp_path / "made")]
    assert main([command, str(path), *words]) == 1
    said = capsys.readouterr().err
    assert "already quantised" in said and "leave out the calibration data" in said


@pytest.mark.parametrize("form", ["float32", "float16", "int8", "int8 tensor"])
def test_a_tflite_file(tmp_path, form):
    """With weights of each form: int8 ones with one scale keep their values."""
    m = TfliteModel(3)
    path = m.save(tmp_path / "net.tflite", *dense((1, 12), 5, (1, 5), form=form)(m))
    np.savez(tmp_path / "data.npz", np.random.default_rng(0).normal(size=(40, 12)))
    words = ["--calibration", str(tmp_path / "data.npz"), "-o", str(tmp_path / "made.onnx")]
    assert main(["quantize", str(path), *words]) == 0
    assert main(["verify", str(tmp_path / "made.onnx"), "-n", "2", "-q"]) == 0
    assert main(["build", str(path), *words[:2]]) == 0
    real = tmp_path / "real.onnx"
    onnx.save(convert(path).model, real)
    samples = calibration.read_samples(read_float(path), tmp_path / "data.npz")
    assert ratio(real, tmp_path / "made.onnx", samples) > 30
    made = [numpy_helper.to_array(t) for t in onnx.load(tmp_path / "made.onnx").graph.initializer]
    if form == "int8 tensor":
        tensors = (t for t in m.graph.tensors if t.type == TensorType.INT8)
        (before,) = (np.array(m.model.buffers[t.buffer].data, np.uint8) for t in tensors)
        before = before.view(np.int8)
        assert any(sorted(one.ravel()) == sorted(before.ravel()) for one in made if one.ndim == 2)
