# SPDX-License-Identifier: Apache-2.0
"""Sessions of ONNX Runtime whose integer kernels are exact on every x86 processor.

Without VNNI, the kernels for uint8 activations and int8 weights add pairs of products in int16,
with saturation; those for uint8 weights do not. The option session.x64quantprecision is no remedy:
it has no effect without optimisations, fails for the weights of a layer normalisation (1.31), and
keeps constants beside activations from being fused. So weights become uint8 here, after the
optimisations.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx

# Inputs of integer operators: zero point of the activations, weights, zero point of the weights.
_WEIGHTS = {
    "QLinearConv": (2, 3, 5),
    "QLinearMatMul": (2, 3, 5),
    "QGemm": (2, 3, 5),
    "ConvInteger": (2, 1, 3),
    "MatMulInteger": (2, 1, 3),
}
# From an int8 value to the uint8 value of the same distance from its zero point.
_SHIFT = 128


def session(runtime: ModuleType, model: onnx.ModelProto, level: str) -> Any:
    """A session with the fusions of `level`, such as ORT_ENABLE_EXTENDED. Raises the errors of
    onnxruntime."""
    if level != "ORT_DISABLE_ALL":
        model = optimised(runtime, model, level)
    exact = onnx.ModelProto()
    exact.CopyFrom(model)
    _make_weights_unsigned(exact)
    _keep_activations(exact)
    return runtime.InferenceSession(
        exact.SerializeToString(), _options(runtime, "ORT_DISABLE_ALL"), providers=_CPU
    )


def optimised(runtime: ModuleType, model: onnx.ModelProto, level: str) -> onnx.ModelProto:
    """The model after ONNX Runtime's fusions, which do not depend on the machine."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "optimised.onnx"
        options = _options(runtime, level)
        options.optimized_model_filepath = str(target)
        runtime.InferenceSession(model.SerializeToString(), options, providers=_CPU)
        return onnx.load(target)


_CPU = ["CPUExecutionProvider"]


def _options(runtime: ModuleType, level: str) -> Any:
    options = runtime.SessionOptions()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # It would leave out the first of two quantisations in a row, whose tensor is to be shown.
    options.add_session_config_entry("session.disable_double_qdq_remover", "1")
    return options


def _make_weights_unsigned(model: onnx.ModelProto) -> None:
    """Adds 128 to constant int8 weights beside uint8 activations, and to their zero points."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            constants.update((node.output[0], a.t) for a in node.attribute if a.HasField("t"))
    for node in model.graph.node:
        places = _WEIGHTS.get(node.op_type)
        if places is None:
            continue
        activation, weights, zero = (node.input[i] if i < len(node.input) else "" for i in places)
        if not _is(constants, activation, np.uint8) or not _is(constants, weights, np.int8):
            continue
        if zero and not _is(constants, zero, np.int8):
            continue
        node.input.extend([""] * (places[2] + 1 - len(node.input)))
        node.input[places[1]] = _shifted(model, constants, weights)
        node.input[places[2]] = _shifted(model, constants, zero)


def _keep_activations(model: onnx.ModelProto) -> None:
    """Takes from MatMulNBits the permission to round its input to int8 once more, block by block,
    which its attribute accuracy_level gives."""
    for node in model.graph.node:
        for attribute in [a for a in node.attribute if a.name == "accuracy_level"]:
            if node.op_type == "MatMulNBits":
                node.attribute.remove(attribute)


def _is(constants: dict[str, onnx.TensorProto], name: str, dtype: type) -> bool:
    known = constants.get(name)
    wanted = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return known is not None and known.data_type == wanted


def _shifted(model: onnx.ModelProto, constants: dict[str, onnx.TensorProto], name: str) -> str:
    """The name of a constant of which each value is 128 more; "" stands for zero."""
    made = f"{name}/uint8"
    if made not in constants:
        known = constants.get(name)
        values = np.zeros((), np.int8) if known is None else onnx.numpy_helper.to_array(known)
        unsigned = (values.astype(np.int16) + _SHIFT).astype(np.uint8)
        constants[made] = onnx.numpy_helper.from_array(unsigned, made)
        model.graph.initializer.append(constants[made])
    return made
