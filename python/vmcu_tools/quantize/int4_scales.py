# SPDX-License-Identifier: Apache-2.0
"""The scales of int4 weights that change a layer's output the least over the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto

from ..frontends.onnx.node_writer import NodeWriter
from .int4 import Int4Weights, WeightedLayer, candidates, int4_values
from .judge import showing
from .samples import Samples


@dataclass(frozen=True, eq=False)
class _Candidate:
    """output: of a node in the float model that computes the effect of the weights' change."""

    layer: WeightedLayer
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
        """Returns the choice for each weight; groups: of candidates()."""
        missing = [one for one in groups.items() if one not in self._known]
        if missing:
            self._choose(missing)
        return {one[0]: self._known[one] for one in groups.items()}

    def _choose(self, missing: Sequence[tuple[str, int]]) -> None:
        tried = {
            one: [
                _Candidate(self.layers[one[0]], weights, f"{one[0]}/{one[1]}/{number}")
                for number, weights in enumerate(candidates(self.layers[one[0]], one[1]))
            ]
            for one in missing
        }
        errors = self._errors([candidate for every in tried.values() for candidate in every])
        for one, every in tried.items():
            shifts, rests = np.array(
                [errors[c.output].split(c.layer.bias) for c in every]
            ).swapaxes(0, 1)
            best = rests.argmin(axis=0), np.arange(rests.shape[1])
            scales = np.array([c.weights.scales for c in every])[best]
            units = np.array([c.weights.unit for c in every])[best]
            self._known[one] = Int4Weights(scales, units, shifts[best])

    def _errors(self, tried: Sequence[_Candidate]) -> dict[str, _Error]:
        """Measures the error at the output of each candidate."""
        model = onnx.ModelProto()
        model.CopyFrom(self.real)
        readers = {name: node for node in self.real.graph.node for name in node.input}
        for one in tried:
            _add_difference(model.graph, readers[one.layer.source], one)
        errors = {one.output: _Error.none(len(one.layer.real)) for one in tried}
        session = showing(model, list(errors))
        for sample in self.samples:
            for one, error in zip(tried, session.run(list(errors), sample), strict=True):
                axis = 1 if one.layer.op == "Conv" else error.ndim - 1
                by_channel = np.moveaxis(error, axis, 0).reshape(len(one.layer.real), -1)
                errors[one.output].add(by_channel.astype(np.float64))
        return errors


@dataclass
class _Error:
    """Sums over samples, by channel: of the mean of the error, of the square of that, and of the
    mean of the error's square."""

    mean: np.ndarray
    mean_square: np.ndarray
    energy: np.ndarray
    samples: int = 0

    @classmethod
    def none(cls, channels: int) -> _Error:
        return cls(*np.zeros((3, channels)))

    def add(self, error: np.ndarray) -> None:
        """Adds a sample, (channels, values)."""
        mean = error.mean(axis=1)
        self.mean += mean
        self.mean_square += mean**2
        self.energy += (error**2).mean(axis=1)
        self.samples += 1

    def split(self, bias: str) -> tuple[np.ndarray, np.ndarray]:
        """Splits the error into the part that the bias corrects, and the energy of the rest, by
        channel. Of a mean that a few samples show it is only the part that exceeds the variance
        of such a mean."""
        mean, energy = self.mean / self.samples, self.energy / self.samples
        if not bias or self.samples < 2:
            return np.zeros_like(mean), energy
        variance = (self.mean_square / self.samples - mean**2) / (self.samples - 1)
        known = 1 - np.divide(variance, mean**2, where=mean != 0, out=np.ones_like(mean))
        shift = mean * np.clip(known, 0, 1)
        return shift, energy - 2 * shift * mean + shift**2


def _add_difference(graph: onnx.GraphProto, node: NodeProto, one: _Candidate) -> None:
    layer, scales = one.layer, one.weights.scales
    stated = np.repeat(scales, layer.real.shape[1] // scales.shape[1], axis=1)
    difference = int4_values(layer, scales) * stated - layer.real
    array = layer.laid(difference).astype(np.float32)
    name = NodeWriter(graph, one.output).constant("difference", array)
    twin = NodeProto()
    twin.CopyFrom(node)
    twin.name = one.output
    twin.input[:] = [node.input[0], name]
    twin.output[:] = [one.output]
    graph.node.append(twin)
