# SPDX-License-Identifier: Apache-2.0
"""Model files in their own runtimes, for the checker of images, which knows no graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import tflite
from vmcu_check.images.run import Reference
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.runtimes import one_line, required

from ..oracle import exact_ort

# Of an interpreter of TensorFlow Lite Micro.
ARENA_BYTES = 64 << 20
# Operators of ONNX Runtime that compute int8 in integers, or only move it.
IN_INTEGERS = (
    "QLinearConv QLinearMatMul QGemm QuantizeLinear DequantizeLinear MaxPool Reshape Transpose"
    " Flatten Squeeze Unsqueeze Slice Constant Identity"
)


def reference_of(path: Path) -> Reference:
    """Returns a model file in its own runtime: an exact session of ONNX Runtime, or an interpreter
    of TensorFlow Lite Micro."""
    try:
        return (_micro if path.read_bytes()[4:8] == b"TFL3" else _onnx)(path)
    except UserError:
        raise
    except Exception as error:  # onnxruntime's exceptions have no base of their own
        reason = f"its runtime rejects the model: {one_line(error)}"
        raise UserError(Problem(reason, "use --inputs 0", str(path))) from error


def _micro(path: Path) -> Reference:
    micro = required("tflite_micro", "tflite-micro", "run .tflite models").runtime
    interpreter = micro.Interpreter.from_file(str(path), arena_size=ARENA_BYTES)
    graph = tflite.Model.GetRootAs(path.read_bytes()).Subgraphs(0)
    details = [interpreter.get_input_details(i) for i in range(graph.InputsLength())]

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        for index, values in enumerate(inputs):
            interpreter.set_input(values, index)
        interpreter.invoke()
        return [np.array(interpreter.get_output(i)) for i in range(graph.OutputsLength())]

    return Reference([(np.dtype(one["dtype"]), [*one["shape"]]) for one in details], run, True)


def _onnx(path: Path) -> Reference:
    runtime = required("onnxruntime", "onnxruntime", "run .onnx models")
    fused = exact_ort.optimised(runtime, onnx.load(path), "ORT_ENABLE_EXTENDED")
    session = exact_ort.session(runtime, fused, "ORT_DISABLE_ALL")
    ports, types = session.get_inputs(), {"float": "f4", "uint8": "u1", "int8": "i1"}

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        feeds = zip(ports, inputs, strict=True)
        return [np.asarray(o) for o in session.run(None, {p.name: values for p, values in feeds})]

    shapes = [[size if isinstance(size, int) else 1 for size in port.shape] for port in ports]
    dtypes = [np.dtype(types.get(port.type[len("tensor(") : -1], "O")) for port in ports]
    is_exact = all(node.op_type in IN_INTEGERS.split() for node in fused.graph.node)
    return Reference([*zip(dtypes, shapes, strict=True)], run, is_exact)
