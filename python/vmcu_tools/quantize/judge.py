# SPDX-License-Identifier: Apache-2.0
"""A quantised model against its float model, by ONNX Runtime, over the calibration set."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

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
    made = {name: node.op_type for node in real.graph.node for name in node.output if name}
    inner = {name for node in int8.graph.node for name in node.output}
    pairs = {name: f"{name}_DequantizeLinear_Output" for name in made}
    pairs = {name: other for name, other in pairs.items() if other in inner}
    outputs = [value.name for value in real.graph.output]
    if only is not None:
        pairs = {name: other for name, other in pairs.items() if name in only}
    pairs |= {name: name for name in outputs if name in inner and name in made}
    sessions = [showing(real, list(pairs)), showing(int8, list(pairs.values()))]
    signal, noise, shapes = dict.fromkeys(pairs, 0.0), dict.fromkeys(pairs, 0.0), {}
    agreed = 0
    for sample in samples:
        wanted, got = (
            session.run([*outputs, *names], sample)
            for session, names in zip(sessions, (pairs, pairs.values()), strict=True)
        )
        agreed += int(np.argmax(wanted[0]) == np.argmax(got[0]))
        tensors = zip(pairs, wanted[len(outputs) :], got[len(outputs) :], strict=True)
        for name, x, y in tensors:
            x, y = x.astype(np.float64), y.astype(np.float64)
            signal[name] += float((x * x).sum())
            noise[name] += float(((x - y) ** 2).sum())
            shapes[name] = x.shape
    layers = [
        LayerQuality(name, made[name], shapes[name], decibel(signal[name], noise[name]))
        for name in pairs
    ]
    return agreed / len(samples), sorted(layers, key=lambda layer: layer.signal_to_noise)


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
    outputs = {value.name for value in model.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in outputs)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    # As the file says: optimisation would take the tensors away that are to be seen.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(shown.SerializeToString(), options, providers=_CPU)
