# SPDX-License-Identifier: Apache-2.0
"""int4 weights: random layers against TensorFlow Lite Micro, every byte of the output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import tflite_models
from builders.tflite_models import TfliteModel
from random_graphs import random_inputs
from vmcu_tools import oracle
from vmcu_tools.machine import reference

LAYERS = 200


def drawn(kind: str, rng: np.random.Generator) -> tflite_models.Case:
    """A layer of a kind; sizes are not those of whole steps or blocks."""
    size = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    channels, count = (int(n) for n in rng.integers(1, 40, 2))
    more = {"activation": int(rng.choice([0, 0, 1, 3])), "per_channel": bool(rng.random() < 0.7)}
    if kind == "fully connected":
        depth = int(rng.integers(1, 300))
        # TensorFlow Lite Micro has none with int4 weights and several scales.
        more["per_channel"] = False
        return tflite_models.dense((1, depth), count, **more)
    kernel = tuple(int(rng.integers(1, min(n, 5) + 1)) for n in size)
    stride = tuple(int(n) for n in rng.integers(1, 3, 2))
    more["same"] = bool(rng.random() < 0.5)
    if kind == "depthwise":
        times = int(rng.integers(1, 3))
        return tflite_models.depthwise(size, channels, times, kernel, stride, **more)
    if rng.random() < 0.5:
        kernel, stride = (1, 1), (1, 1)
    return tflite_models.conv(size, channels, count, kernel, stride, **more)


def layer_file(kind: str, seed: int, folder: Path) -> Path:
    model = TfliteModel(seed, int4=True)
    return model.save(folder / "layer.tflite", *drawn(kind, model.rng)(model))


@pytest.mark.parametrize("kind", ["fully connected", "conv", "depthwise"])
def test_layers_are_those_of_tflite_micro(kind: str, tmp_path: Path) -> None:
    for seed in range(LAYERS):
        judge = oracle.open(layer_file(kind, seed, tmp_path))
        assert {node.op.weight_bits for node in judge.graph.nodes} == {4}
        inputs = random_inputs(judge.graph, seed)
        found = reference.run(judge.graph, inputs)
        for name, values in judge.run(inputs).items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"{kind} {seed}")
