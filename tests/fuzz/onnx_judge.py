# SPDX-License-Identifier: Apache-2.0
"""An .onnx file against ONNX Runtime on the file as it is, without any optimisation of its own.

Each node is computed from ONNX Runtime's own values of its inputs, as `vmcu verify` does with the
optimised model, and may be off by what the promise says.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx_operators import raw_session
from vmcu_tools.frontends.onnx.importer import load_with_views
from vmcu_tools.graph import Graph
from vmcu_tools.frontends.onnx.values import explicit
from vmcu_tools.oracle import node_differences
from vmcu_tools.runners.borders import to_file


class RawRuntime:
    def __init__(self, path: Path):
        self.graph, self.views = load_with_views(path)
        model = onnx.load(path)
        made = {name for node in model.graph.node for name in node.output}
        self.shown = [name for name in self.views if name in made]
        listed = {value.name for value in model.graph.output}
        model.graph.output.extend(
            onnx.ValueInfoProto(name=name) for name in self.shown if name not in listed
        )
        self.outputs = [port.name for port in self.graph.outputs]
        self.session = raw_session(model.SerializeToString())

    def run(self, feeds: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
        """Every tensor of the graph that the file has, int8 (H, W, C), and the file's outputs."""
        names = [*self.shown, *self.outputs]
        found = self.session.run(names, feeds)
        values = dict(zip(self.shown, found, strict=False))
        return (
            {name: self._in_memory(name, array) for name, array in values.items()},
            found[len(self.shown) :],
        )

    def _in_memory(self, name: str, values: np.ndarray) -> np.ndarray:
        view = self.views[name]
        q = values.astype(np.int16) - (128 if values.dtype == np.uint8 else 0)
        flat = q.astype(np.int8).ravel()[explicit(view.shape, view.order)]
        return flat.reshape(view.tensor.shape)


def feeds_of(graph: Graph, sample: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {
        port.name: to_file(values, graph, port)
        for port, values in zip(graph.inputs, sample, strict=True)
    }


def steps_apart(ours: np.ndarray, theirs: np.ndarray, graph: Graph, port) -> np.ndarray:
    """In steps of the output, of indices 1000 for any difference."""
    off = ours.astype(np.float64).ravel() - np.asarray(theirs, np.float64).ravel()
    if port.dtype in ("int32", "int64"):
        return np.where(off != 0, 1000.0, 0.0)
    scale = graph.tensors[port.tensor].scale if port.dtype == "float32" else 1.0
    return np.abs(off) / scale


__all__ = ["RawRuntime", "feeds_of", "node_differences", "steps_apart", "to_file"]
