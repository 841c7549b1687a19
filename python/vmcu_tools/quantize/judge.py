# SPDX-License-Identifier: Apache-2.0
"""A quantised model against its float model, by ONNX Runtime, over the calibration set."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from ..frontends.onnx.loops import all_nodes, expose
from ..runtimes import required
from .samples import Samples

_CPU = ["CPUExecutionProvider"]


@dataclass(frozen=True)
class LayerQuality:
    """A float tensor against its int8 form over the calibration set; the ratio in dB."""

    tensor: str
    op: str
    shape: tuple[int, ...]
    signal_to_noise: float


def compare(
    real: onnx.ModelProto,
    int8: onnx.ModelProto,
    samples: Samples,
    only: Collection[str] | None = None,
) -> tuple[float, list[LayerQuality]]:
    """Top-1 agreement, and the tensors that both models have, the worst first. only: compare
    these, and the outputs."""
    kinds = {name: node.op_type for node in all_nodes(real.graph) for name in node.output}
    agreed, ratios = measured(real, int8, samples, only)
    layers = [
        LayerQuality(name, kinds[name], shape, ratios.of(name))
        for name, shape in ratios.shapes.items()
    ]
    return agreed, sorted(layers, key=lambda layer: layer.signal_to_noise)


def measured(
    real: onnx.ModelProto,
    int8: onnx.ModelProto,
    samples: Samples,
    only: Collection[str] | None = None,
) -> tuple[float, Ratios]:
    """Top-1 agreement, and the ratios of the tensors that both models have. only: as in
    compare()."""
    pairs = pairs_of(real, int8, only)
    outputs = [value.name for value in real.graph.output]
    sessions = [showing(real, list(pairs)), showing(int8, list(pairs.values()))]
    ratios, agreed = Ratios(), 0
    for sample in samples:
        wanted, got = (
            session.run([*outputs, *names], sample)
            for session, names in zip(sessions, (pairs, pairs.values()), strict=True)
        )
        agreed += int(np.argmax(wanted[0]) == np.argmax(got[0]))
        for name, x, y in zip(pairs, wanted[len(outputs) :], got[len(outputs) :], strict=True):
            ratios.add(name, x, y)
    return agreed / len(samples), ratios


def pairs_of(
    real: onnx.ModelProto, int8: onnx.ModelProto, only: Collection[str] | None
) -> dict[str, str]:
    """The tensors that both models have: the int8 model's name by the float model's. only: of
    these, and the outputs."""
    made = dict.fromkeys(name for node in all_nodes(real.graph) for name in node.output if name)
    inner = {name for node in all_nodes(int8.graph) for name in node.output}
    pairs = {name: f"{name}_DequantizeLinear_Output" for name in made}
    some = {
        name: other
        for name, other in pairs.items()
        if other in inner and (only is None or name in only)
    }
    outputs = (value.name for value in real.graph.output)
    return some | {name: name for name in outputs if name in inner and name in made}


class Ratios:
    """Signal-to-noise ratios of tensors over samples."""

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._signal, self._noise = defaultdict[str, float](float), defaultdict[str, float](float)

    def add(self, name: str, wanted: np.ndarray, got: np.ndarray) -> None:
        """Adds a tensor of a sample."""
        x, y = wanted.astype(np.float64), got.astype(np.float64)
        self._signal[name] += float((x * x).sum())
        self._noise[name] += float(((x - y) ** 2).sum())
        self.shapes[name] = x.shape

    def of(self, name: str) -> float:
        """The ratio of a tensor in dB."""
        return decibel(self._signal[name], self._noise[name])

    def known(self, name: str) -> float | None:
        """The ratio of a tensor in dB; None if there is none."""
        return self.of(name) if name in self.shapes else None

    def noise(self, names: Collection[str]) -> float:
        """The energy of noise of several tensors, as a part of the signal's of each."""
        return sum(10 ** (-self.of(name) / 10) for name in names if name in self.shapes)

    def together(self, names: Collection[str]) -> float:
        """The ratio of several tensors in dB, each of which counts as much as the others."""
        count = sum(name in self.shapes for name in names)
        return decibel(count, self.noise(names))


def accuracy(model: onnx.ModelProto, samples: Samples, labels: np.ndarray) -> float:
    """The share of samples whose largest value of the first output is at the label's place."""
    session = showing(model, [])
    name = model.graph.output[0].name
    predicted = [int(np.argmax(session.run([name], sample)[0])) for sample in samples]
    return float(np.mean(predicted == labels))


def decibel(signal: float, noise: float) -> float:
    """Infinite ratios are cut at 200 dB, which JSON can say."""
    if noise <= signal * 1e-20:
        return 200.0
    return max(10 * math.log10(signal / noise), -200.0) if signal > 0 else -200.0


def showing(model: onnx.ModelProto, names: list[str]) -> Any:
    """A session of a model, further tensors of which are outputs."""
    runtime = required("onnxruntime", "onnxruntime", "judge a quantised model", "quantize")
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    expose(shown, names)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    # As the file says: optimisation would take the tensors away that are to be seen.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(shown.SerializeToString(), options, providers=_CPU)
