# SPDX-License-Identifier: Apache-2.0
"""An .onnx file against ONNX Runtime on the file as it is, without any optimisation of its own.

Each node is computed from ONNX Runtime's own values of its inputs, as `vmcu verify` does with the
optimised model, and may be off by what oracle/promise.py allows. The outputs of files of a single
operator are compared from the file's inputs on, too, where no order of axes of the importer's takes
part.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from vmcu_bench.oracle import exact_ort, node_differences
from vmcu_bench.oracle.promise import Promise, promise_of
from vmcu_bench.runners.borders import to_file
from vmcu_bench.runners.samples import Sample
from vmcu_tools import passes
from vmcu_tools.frontends.onnx.importer import load_with_views
from vmcu_tools.frontends.onnx.values import explicit
from vmcu_tools.graph import Graph, Node, Port
from vmcu_tools.machine import reference
from vmcu_tools.ops import bind

# Of float results that are whole steps.
ROUNDING = 0.01


def raw_session(data: bytes, level: str = "ORT_DISABLE_ALL") -> Any:
    return exact_ort.session(onnxruntime, onnx.load_from_string(data), level)


class RawRuntime:
    """A session on a file, of which every tensor is shown that the graph has, too."""

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

    def run(self, sample: Sample) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
        """Every tensor of the graph that the file has, int8 (H, W, C), and the file's outputs."""
        found = self.session.run([*self.shown, *self.outputs], self.feeds(sample))
        values = {n: self._in_memory(n, v) for n, v in zip(self.shown, found, strict=False)}
        for port, given in zip(self.graph.inputs, sample, strict=True):
            values.setdefault(port.tensor, given)
        return values, found[len(self.shown) :]

    def feeds(self, sample: Sample) -> dict[str, np.ndarray]:
        pairs = zip(self.graph.inputs, sample, strict=True)
        return {port.name: to_file(values, self.graph, port) for port, values in pairs}

    def _in_memory(self, name: str, values: np.ndarray) -> np.ndarray:
        view = self.views[name]
        q = values.astype(np.int16) - (128 if values.dtype == np.uint8 else 0)
        flat = q.astype(np.int8).ravel()[explicit(view.shape, view.order)]
        return flat.reshape(view.tensor.shape)

    def promise(self, node: Node, shown: dict[str, np.ndarray]) -> Promise:
        """Convolutions are computed in float here, and are as any other operator."""
        makers = [self.graph.producer(name) for name in node.inputs if name not in shown]
        return promise_of(node.op, [self.promise(maker, shown) for maker in makers if maker])

    def faults(self, samples: Sequence[Sample], single: bool) -> list[str]:
        """What is beyond the promise's steps; how many bytes may differ is said of the optimised
        model, whose halves go another way. single: the file has one operator that computes."""
        found: list[str] = []
        optimised, level = passes.optimize(self.graph), 0
        for sample in samples:
            values, outputs = self.run(sample)
            for off in node_differences(self.graph, values):
                promise = self.promise(off.node, values)
                level = max(level, promise.steps)
                if off.largest > promise.steps:
                    found.append(f"{off.node.name} ({off.node.kind}): {off.largest} steps")
            if single and not self._noisy(sample):
                found += self._ends(optimised, sample, outputs, level)
        return found

    def _noisy(self, sample: Sample) -> bool:
        """Whether a node's result is the rounding of ONNX Runtime's floats."""
        values = reference.run(self.graph, sample)
        layers = ((bind(self.graph, node), node.inputs) for node in self.graph.nodes)
        return any(one.rounding_noise([values[n] for n in ins]).any() for one, ins in layers)

    def _ends(
        self, graph: Graph, sample: Sample, outputs: Sequence[np.ndarray], steps: int
    ) -> list[str]:
        meaning, found = reference.run(graph, sample), []
        for port, theirs in zip(graph.outputs, outputs, strict=True):
            off = steps_apart(to_file(meaning[port.tensor], graph, port), theirs, graph, port)
            if float(off.max()) > steps + ROUNDING:
                found.append(f"output '{port.name}': {off.max():.3g} steps")
        return found


def steps_apart(ours: np.ndarray, theirs: np.ndarray, graph: Graph, port: Port) -> np.ndarray:
    """In steps of the output; of indices 1000 for any difference."""
    assert np.size(ours) == np.size(theirs), port
    off = ours.astype(np.float64).ravel() - np.asarray(theirs, np.float64).ravel()
    if port.dtype in ("int32", "int64"):
        return np.where(off != 0, 1000.0, 0.0)
    scale = graph.tensors[port.tensor].scale if port.dtype == "float32" else 1.0
    return np.abs(off) / scale
