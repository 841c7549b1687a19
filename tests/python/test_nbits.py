# SPDX-License-Identifier: Apache-2.0
"""int4 weights as ONNX Runtime's own quantiser writes them: scales of both signs, and a weight of
-8 in every block."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from drawn import case, seeds
from onnx import TensorProto, helper, numpy_helper
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.ops.grouped import GroupedDense

pytest.importorskip("onnx_ir")
from onnxruntime.quantization import QuantFormat
from onnxruntime.quantization import matmul_nbits_quantizer as nbits

BLOCKS = (16, 32, 64, 128)


def drawn(folder: Path, seed: int, form: QuantFormat, plain: bool = False) -> list[str]:
    """Saves a product with a drawn matrix, and calibration data; returns what `vmcu quantize` is
    given. plain: symmetric weights of 4 bits in whole blocks."""
    rng = np.random.default_rng(seed)
    block = int(rng.choice(BLOCKS))
    depth, count = int(rng.integers(1, 5)) * block, int(rng.integers(1, 70))
    if not plain and seed % 3:
        depth = int(rng.integers(1, 4 * block))
    rows = int(rng.choice([1, 1, 3]))
    weights = 0.2 * rng.standard_normal((depth, count)) * np.exp(rng.standard_normal((1, count)))
    arrays = {"w": weights, "b": rng.standard_normal(count)}
    steps = [("MatMul", ["w"]), *[("Add", ["b"])] * (seed % 2), *[("Relu", [])] * (seed % 3 == 0)]
    nodes, value = [], "x"
    for number, (op, others) in enumerate(steps):
        name = "y" if number == len(steps) - 1 else f"v{number}"
        nodes.append(helper.make_node(op, [value, *others], [name]))
        value = name
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size])
        for name, size in (("x", depth), ("y", count))
    )
    constants = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "product", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    kind = {"is_symmetric": True} if plain else {"is_symmetric": seed % 4 == 0}
    # The tool writes 8 bits in its own operator only.
    wide = not plain and seed % 5 > 2 and form == QuantFormat.QOperator
    kind |= {"bits": 8 if wide else 4, "block_size": block}
    quantizer = nbits.MatMulNBitsQuantizer(model, quant_format=form, **kind)
    quantizer.process()
    quantizer.model.save_model_to_file(str(folder / "blocks.onnx"))
    data = rng.standard_normal((16, rows, depth)).astype(np.float32)
    np.savez(folder / "data.npz", x=data)
    out = ["-o", str(folder / "int8.onnx")]
    return [str(folder / "blocks.onnx"), "--calibration", str(folder / "data.npz"), *out]


@pytest.mark.parametrize("form", [QuantFormat.QOperator, QuantFormat.QDQ])
@pytest.mark.parametrize("seed", seeds(200, 4))
def test_drawn_matrices(seed: int, form: QuantFormat, tmp_path: Path) -> None:
    logging.disable(logging.INFO)
    assert main(["quantize", *drawn(tmp_path, seed, form)]) == 0
    assert main(["verify", str(tmp_path / "int8.onnx"), "-n", "10"]) == 0


@pytest.mark.parametrize("target", ["host:sanitize", "qemu:m4", "qemu:m55"])
def test_on_cores(target: str, tmp_path: Path) -> None:
    """Signed multipliers in C, in assembly and with MVE."""
    assert main(["quantize", *drawn(tmp_path, 1, QuantFormat.QDQ, True)]) == 0
    path = tmp_path / "int8.onnx"
    (node,) = (n for n in compile_model(path).graph.nodes if isinstance(n.op, GroupedDense))
    assert node.op.multipliers.min() < 0 < node.op.multipliers.max()
    assert node.op.weights.min() == -8
    assert main(["verify", str(path), "-n", "3", "--on", target]) == 0


# Each matrix on this computer and on one board; the rest is slow.
@pytest.mark.parametrize(
    ("seed", "target"),
    [
        case(seed, target, slow=other not in (0, place % 3 + 1))
        for place, seed in enumerate((1, 3, 4, 9))
        for other, target in enumerate(("host:sanitize", "qemu:m4", "qemu:m55", "qemu:rv32"))
    ],
)
def test_zero_points_on_cores(seed: int, target: str, tmp_path: Path) -> None:
    """Of 4 and 8 bits, of whole blocks and others."""
    assert main(["quantize", *drawn(tmp_path, seed, QuantFormat.QOperator)]) == 0
    path = tmp_path / "int8.onnx"
    (node,) = (n for n in compile_model(path).graph.nodes if isinstance(n.op, GroupedDense))
    assert node.op.zeros is not None
    assert main(["verify", str(path), "-n", "3", "--on", target]) == 0


def test_a_fine_output_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sums of large units would miss a step of the output."""
    assert main(["quantize", *drawn(tmp_path, 4, QuantFormat.QDQ, True)]) == 0
    model = onnx.load(tmp_path / "int8.onnx")
    last = next(n for n in reversed(model.graph.node) if n.op_type == "QuantizeLinear")
    for tensor in model.graph.initializer:
        if tensor.name == last.input[1]:
            tensor.CopyFrom(numpy_helper.from_array(np.float32(1e-4), tensor.name))
    onnx.save(model, tmp_path / "fine.onnx")
    assert main(["build", str(tmp_path / "fine.onnx")]) == 1
    assert "refused: its integer sums miss the output by" in capsys.readouterr().err
