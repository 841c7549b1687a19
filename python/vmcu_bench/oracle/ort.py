# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the CPU (PyPI onnxruntime)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends.onnx.file import load_proto
from vmcu_tools.frontends.onnx.importer import load_with_views
from vmcu_tools.frontends.onnx.loops import all_nodes, expose
from vmcu_tools.frontends.onnx.values import Activation, explicit
from vmcu_tools.graph import Graph, Node
from vmcu_tools.runtimes import one_line, required

from ..runners.borders import to_file
from . import exact_ort
from .base import Oracle
from .promise import EXACT, Promise, promise_of

# The integer kernels: their results are exact, unlike those of float ones on dequantised values.
_INTEGER = ("QLinearConv", "QLinearMatMul", "QGemm")


class OrtOracle(Oracle):
    """Shows every tensor of the graph that is int8 or uint8 in the optimised model.

    ONNX Runtime turns DequantizeLinear, Conv, QuantizeLinear into one integer kernel only if no
    other node reads the tensors between them. So the model is optimised as it is first, and its
    tensors become outputs of the result, which then runs without further optimisation. On x86 it
    also turns int8 activations into uint8 ones and renames them; that is done here beforehand, so
    that they keep their names.
    """

    def __init__(self, path: Path):
        runtime = required("onnxruntime", "onnxruntime", "verify .onnx models")
        self._path = path
        self.graph, self._views = load_with_views(path)
        try:
            model = load_proto(path)
            _make_constant(model)
            _make_scalar(model)
            for name, view in self._views.items():
                if view.dtype == "int8":
                    _make_unsigned(model, name)
            # The file's types of its tensors may differ now.
            del model.graph.value_info[:]
            model = exact_ort.optimised(runtime, model, "ORT_ENABLE_EXTENDED")
            self._integer = {
                name
                for node in model.graph.node
                if node.op_type in _INTEGER
                for name in node.output
            }
            self._shown = self._expose(model)
            self._session = exact_ort.session(runtime, model, "ORT_DISABLE_ALL")
        except Exception as error:  # onnxruntime's exceptions have no base of their own
            raise self._refusal("rejects the model", error) from error

    def _refusal(self, what: str, error: Exception) -> UserError:
        reason = f"ONNX Runtime {what}: {one_line(error)}"
        remedy = "check the model with onnx.checker; it can be built, but not verified"
        return UserError(Problem(reason, remedy, str(self._path)))

    def _expose(self, model: onnx.ModelProto) -> list[str]:
        """Makes the tensors that the model still has its outputs; returns their names."""
        present = {name for node in all_nodes(model.graph) for name in node.output}
        shown = [name for name in self._views if name in present]
        expose(model, shown)
        return shown

    def run(self, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        feeds = {
            port.name: to_file(values, self.graph, port)
            for port, values in zip(self.graph.inputs, inputs, strict=True)
        }
        try:
            results = self._session.run(self._shown, feeds)
        except Exception as error:  # onnxruntime's exceptions have no base of their own
            raise self._refusal("fails to run the model", error) from error
        values = dict(zip(self._shown, results, strict=True))
        values |= {name: feed for name, feed in feeds.items() if name in self._views}
        shown = {name: _in_memory(self._views[name], array) for name, array in values.items()}
        for port, given in zip(self.graph.inputs, inputs, strict=True):
            shape = self.graph.tensors[port.tensor].shape
            shown.setdefault(port.tensor, np.asarray(given, np.int8).reshape(shape))
        return shown

    def promise(self, graph: Graph, node: Node) -> Promise:
        # Tensors that the runtime does not show are computed from those that it shows; a step of a
        # loop has the rows of the one before.
        shown = {*self._shown, *(port.tensor for port in self.graph.inputs), *graph.carried}
        makers = [graph.producer(name) for name in node.inputs if name not in shown]
        hidden = [self.promise(graph, maker) for maker in makers if maker]
        if self._integer.intersection(node.outputs) and not any(one.steps for one in hidden):
            return EXACT
        return promise_of(node.op, hidden)


def session_of(path: Path, level: str) -> Any:
    """A session on the file, with the fusions of `level`. Raises the errors of onnxruntime."""
    runtime = required("onnxruntime", "onnxruntime", "verify .onnx models")
    return exact_ort.session(runtime, onnx.load(path), level)


def _make_constant(model: onnx.ModelProto) -> None:
    """Takes initialisers from the inputs, where old exporters list them with shapes."""
    constants = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def _make_scalar(model: onnx.ModelProto) -> None:
    """Gives scales and zero points of one element no axis: PyTorch writes one, which ONNX Runtime
    rejects in the operators that it makes of QuantizeLinear and its neighbours."""
    stated = {
        name
        for node in model.graph.node
        if node.op_type in ("QuantizeLinear", "DequantizeLinear")
        for name in node.input[1:]
    }
    tensors = [(tensor.name, tensor) for tensor in model.graph.initializer]
    for node in model.graph.node:
        if node.op_type == "Constant":
            tensors += [(node.output[0], a.t) for a in node.attribute if a.HasField("t")]
    for name, tensor in tensors:
        if name in stated and list(tensor.dims) == [1]:
            del tensor.dims[:]


def _make_unsigned(model: onnx.ModelProto, name: str) -> None:
    """Adds 128 to an int8 tensor that only leads from QuantizeLinear to DequantizeLinear."""
    ends = [node for node in model.graph.node if name in (*node.input[:1], *node.output)]
    operators = sorted({node.op_type for node in ends})
    readers = [node for node in model.graph.node if name in node.input[1:]]
    outputs = [value.name for value in model.graph.output]
    if operators != ["DequantizeLinear", "QuantizeLinear"] or readers or name in outputs:
        return
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    if not all(len(node.input) > 2 and node.input[2] in constants for node in ends):
        return
    for node in ends:
        zero = onnx.numpy_helper.to_array(constants[node.input[2]])
        unsigned = f"{node.input[2]}/uint8"
        if unsigned not in constants:
            shifted = (zero.astype(np.int16) + 128).astype(np.uint8)
            constants[unsigned] = onnx.numpy_helper.from_array(shifted, unsigned)
            model.graph.initializer.append(constants[unsigned])
        node.input[2] = unsigned


def _in_memory(view: Activation, values: np.ndarray) -> np.ndarray:
    """A file's values as int8 in the order that the graph keeps them in."""
    q = values.astype(np.int16) - (128 if values.dtype == np.uint8 else 0)
    flat = q.astype(np.int8).ravel()[explicit(view.shape, view.order)]
    arranged: np.ndarray = flat.reshape(view.tensor.shape)
    return arranged
