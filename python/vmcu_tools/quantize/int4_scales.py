# SPDX-License-Identifier: Apache-2.0
"""The scales of int4 weights that change the output of a layer the least, over the calibration set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

from .int4 import Int4Weights, WeightedLayer, candidates, int4_values
from .judge import showing
from .samples import Samples


@dataclass(frozen=True, eq=False)
class _Candidate:
    """output: of a node in the float model that computes what the weights change."""

    layer: WeightedLayer
    group: int
    weights: Int4Weights
    output: str


class Int4Scales:
    """Chooses the scales of each channel, by layer and inputs of a group.

    The float model gets a node for each candidate: the layer with the differences of the weights,
    without a bias. Its output is the error of the layer's output. The bias of a layer makes up for
    the mean of that; the energy of the rest decides.
    """

    def __init__(self, real: onnx.ModelProto, layers: Sequence[WeightedLayer], samples: Samples):
        self.real, self.samples = real, samples
        self.layers = {layer.weights: layer for layer in layers}
        self._known: dict[tuple[str, int], Int4Weights] = {}

    def chosen(self, groups: Mapping[str, int]) -> dict[str, Int4Weights]:
        """By weights; groups: as candidates() has them."""
        missing = [one for one in groups.items() if one not in self._known]
        if missing:
            self._choose(missing)
        return {one[0]: self._known[one] for one in groups.items()}

    def _choose(self, missing: Sequence[tuple[str, int]]) -> None:
        tried = [
            _Candidate(self.layers[name], group, weights, f"{name}/{group}/{number}")
            for name, group in missing
            for number, weights in enumerate(candidates(self.layers[name], group))
        ]
        means, energies = self._errors(tried)
        for name, group in missing:
            of_layer = [c for c in tried if (c.layer.weights, c.group) == (name, group)]
            shifts = np.array([means[c.output] for c in of_layer])
            errors = np.array([energies[c.output] for c in of_layer])
            if self.layers[name].bias:
                errors -= shifts**2
            best = errors.argmin(axis=0), np.arange(errors.shape[1])
            scales = np.array([c.weights.scales for c in of_layer])[best]
            units = np.array([c.weights.unit for c in of_layer])[best]
            self._known[name, group] = Int4Weights(scales, units, shifts[best])

    def _errors(
        self, tried: Sequence[_Candidate]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The mean of the error of each output channel, and of its square, by output."""
        model = onnx.ModelProto()
        model.CopyFrom(self.real)
        readers = {name: node for node in self.real.graph.node for name in node.input}
        for one in tried:
            _add_difference(model.graph, readers[one.layer.source], one)
        session = showing(model, [one.output for one in tried])
        means = {one.output: np.zeros(len(one.layer.real)) for one in tried}
        energies = {one.output: np.zeros(len(one.layer.real)) for one in tried}
        for sample in self.samples:
            for one, error in zip(tried, session.run(list(means), sample), strict=True):
                axis = 1 if one.layer.op == "Conv" else error.ndim - 1
                others = tuple(place for place in range(error.ndim) if place != axis)
                error = error.astype(np.float64)
                means[one.output] += error.mean(axis=others) / len(self.samples)
                energies[one.output] += (error**2).mean(axis=others) / len(self.samples)
        return means, energies


def _add_difference(graph: onnx.GraphProto, node: NodeProto, one: _Candidate) -> None:
    layer, scales = one.layer, one.weights.scales
    stated = np.repeat(scales, layer.real.shape[1] // scales.shape[1], axis=1)
    difference = int4_values(layer, scales) * stated - layer.real
    name = f"{one.output}/difference"
    array = np.ascontiguousarray(layer.laid(difference).astype(np.float32))
    graph.initializer.append(numpy_helper.from_array(array, name))
    twin = NodeProto()
    twin.CopyFrom(node)
    twin.name = one.output
    twin.input[:] = [node.input[0], name]
    twin.output[:] = [one.output]
    graph.node.append(twin)
