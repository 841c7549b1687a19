# SPDX-License-Identifier: Apache-2.0
"""Streaming wake words with random weights, shaped as microWakeWord's, and their manifests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from .tflite_states import StatefulModel

# A step of what the curve reads.
STEEP = 0.04
SEPARATE, MIXED = ((5,), (9,), (13,), (21,)), ((5,), (7, 11), (9, 15), (23,))
# Channels of the first layer and of the others, rows of the kernels of each depthwise layer, which
# share its channels, rows that the dense layer reads; then the manifest's cutoff and window.
# Cutoffs of two are their highest and their lowest probability: no mean is above, no row below.
SHAPES = (
    (32, 64, SEPARATE, 5, 0.6, 5),
    (30, 60, SEPARATE, 5, 0.9, 1),
    (32, 64, SEPARATE, 15, 0.63, 3),
    (32, 64, MIXED, 6, 0.55, 10),
    (32, 48, ((5,), (8,), (13,)), 1, 0.016, 5),
    (32, 64, MIXED, 17, 0.7, 2),
)


class WakeWordModel(StatefulModel):
    """SPLIT_V in front of the kernels of a mixed convolution, and an output of uint8."""

    def mixed(self, x: int, kernels: tuple[int, ...]) -> int:
        """Kernels of different lengths, each over a part of the channels."""
        joined = self.latest(x, max(kernels) - 1)
        if len(kernels) == 1:
            return self.each(joined, kernels[0])
        _, rows, _, channels = self.graph.tensors[joined].shape
        size = channels // len(kernels)
        parts = [self.like(joined, (1, rows, 1, size)) for _ in kernels]
        sizes = self.constant(np.full(len(kernels), size, np.int32))
        axis = self.constant(np.array(3, np.int32))
        self.op("SPLIT_V", [joined, sizes, axis], parts[0], "SplitV", numSplits=len(kernels))
        self.graph.operators[-1].outputs = parts
        ends: list[int] = []
        for part, kernel in zip(parts, kernels, strict=True):
            ends.append(self.each(self.tail(part, kernel, kernel), kernel, *ends[:1]))
        out = self.like(ends[0], (1, 1, 1, channels))
        return self.op("CONCATENATION", ends, out, "Concatenation", axis=3)

    def probability(self, x: int) -> int:
        """LOGISTIC and QUANTIZE. The dense layer gets scales at which probabilities vary."""
        dense = self.graph.operators[-1]
        factor = STEEP / self.scale(x)[0]
        for index in (*dense.inputs[1:], x):
            quantisation = self.graph.tensors[index].quantization
            quantisation.scale = quantisation.scale * np.float32(factor)
        curve = self.op("LOGISTIC", [x], self.activation((1, 1), 1 / 256, -128))
        return self.op("QUANTIZE", [curve], self.activation((1, 1), 1 / 256, 0, np.uint8), "")


def save(folder: Path) -> list[Path]:
    """Writes a model and a manifest for each of SHAPES. Returns the manifests' paths."""
    return [_save(folder, number) for number in range(len(SHAPES))]


def _save(folder: Path, number: int) -> Path:
    first, channels, blocks, last, cutoff, window = SHAPES[number]
    m = WakeWordModel(number)
    x = m.activation((1, 3, 40), 26 / 255, -128)
    y = m.convolved(m.latest(m.reshaped(x, (1, 3, 1, 40)), 2), first, 5, 3)
    for kernels in blocks:
        y = m.convolved(m.mixed(y, kernels), channels, 1)
    out = m.dense(m.latest(y, last - 1) if last > 1 else y, 1)
    m.save(folder / f"word{number}.tflite", [x], [m.probability(out)])
    micro = {"feature_step_size": 10, "tensor_arena_size": 30000}
    micro |= {"probability_cutoff": cutoff, "sliding_window_size": window}
    manifest = {"type": "micro", "wake_word": f"Word {number}", "version": 2, "micro": micro}
    manifest |= {"author": "vmcu", "trained_languages": ["en"], "model": f"word{number}.tflite"}
    path = folder / f"word{number}.json"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return path
