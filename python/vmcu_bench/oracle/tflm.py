# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite Micro with its reference kernels (PyPI tflite-micro)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from vmcu_tools import frontends
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends import file_nodes
from vmcu_tools.frontends.tflite.file import tensor_names
from vmcu_tools.graph import Graph, Node
from vmcu_tools.runtimes import required

from ..runners.borders import to_file
from .base import Oracle
from .promise import EXACT, Promise, promise_of
from .tflite_rewrite import runnable

# TensorFlow Lite has kernels of these, and Micro has none.
_LITERT_ONLY = ("POW", "SIGN", "TILE")
# RAM of the interpreter besides tensors; generous, it is the host's memory.
_OVERHEAD_BYTES = 1 << 20


def arena_bytes(graph: Graph, model: bytes) -> int:
    """Memory in which the interpreter has room for all tensors of a model file at once."""
    tensors = sum(tensor.bytes + 64 for tensor in graph.tensors.values())
    return 4 * tensors + 10 * len(model) + _OVERHEAD_BYTES


class TflmOracle(Oracle):
    """Keeps all tensors alive, so that each can be read after a run."""

    def __init__(self, path: Path):
        runtime = required("tflite_micro", "tflite-micro", "verify .tflite models").runtime
        self.graph = frontends.load(path)
        self._index = {name: index for index, name in enumerate(tensor_names(path))}
        model = runnable(path, self.graph)
        self._path = path
        try:
            self._interpreter = runtime.Interpreter.from_bytes(
                model,
                arena_size=arena_bytes(self.graph, model),
                intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,
            )
        except RuntimeError as error:
            raise self._refusal("rejects the model", error) from error

    def _refusal(self, what: str, error: Exception) -> UserError:
        names = sorted({op for _, op in file_nodes(self._path) if op in _LITERT_ONLY})
        known = f"there is no kernel for {', '.join(names)}" if names else str(error)
        return UserError(
            Problem(
                f"TensorFlow Lite Micro {what}: {known}",
                "see its message above; the model can be built, but not verified",
                str(self._path),
            )
        )

    def run(self, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        try:
            for index, (port, values) in enumerate(zip(self.graph.inputs, inputs, strict=True)):
                self._interpreter.set_input(to_file(values, self.graph, port), index)
            self._interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise self._refusal("fails to run the model", error) from error
        return {name: self._tensor(name) for name in self.graph.tensors if name in self._index}

    def _tensor(self, name: str) -> np.ndarray:
        # A copy: the array is a view of the interpreter's arena.
        values = np.array(self._interpreter.GetTensor(self._index[name], 0)["tensor_data"])
        if values.dtype == np.uint8:
            values = (values.astype(np.int16) - 128).astype(np.int8)
        if values.dtype in (np.int16, np.int32):
            values = np.ascontiguousarray(values).view(np.int8)
        return values.reshape(self.graph.tensors[name].shape)

    def promise(self, graph: Graph, node: Node) -> Promise:
        """A float output of the file that has a scale here may be a step off."""
        own = {p.tensor for p in graph.outputs if p.dtype == "float32"} - self._index.keys()
        return promise_of(node.op, ()) if node.outputs[0] in own else EXACT
