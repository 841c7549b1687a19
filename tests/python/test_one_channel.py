# SPDX-License-Identifier: Apache-2.0
"""A depthwise layer of one input channel is computed as a convolution, with the runtime's bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders.tflite_models import TfliteModel, depthwise
from random_graphs import random_inputs
from vmcu_bench import oracle
from vmcu_bench.cycles.model import bench
from vmcu_tools.compiler import compile_model
from vmcu_tools.kernels.targets import TARGETS
from vmcu_tools.machine import reference
from vmcu_tools.planner.options import CompileOptions

# The first layer of micro_speech.
SPEECH = {"size": (49, 40), "multiplier": 8, "kernel": (10, 8), "stride": (2, 2), "activation": 1}
# Size, multiplier, kernel, stride, dilation.
LAYERS = (
    ((12, 11), 5, (3, 3), (1, 1), (1, 1)),
    ((9, 14), 2, (1, 1), (2, 2), (1, 1)),
    ((1, 30), 8, (1, 3), (1, 1), (1, 2)),
    ((20, 8), 3, (5, 8), (1, 1), (1, 1)),
    ((8, 1), 8, (3, 1), (1, 1), (1, 1)),
)


def layer_file(folder: Path, seed: int = 0, int4: bool = False, **layer) -> Path:
    model = TfliteModel(seed, int4)
    return model.save(folder / "layer.tflite", *depthwise(channels=1, **layer)(model))


@pytest.mark.parametrize("int4", [False, True], ids=["int8", "int4"])
@pytest.mark.parametrize("target", TARGETS)
def test_bytes_are_those_of_tflite_micro(target: str, int4: bool, tmp_path: Path) -> None:
    for seed, (size, multiplier, kernel, stride, dilation) in enumerate(LAYERS):
        layer = {"size": size, "multiplier": multiplier, "kernel": kernel, "stride": stride}
        layer |= {"same": seed != 3, "per_channel": seed != 1, "activation": seed % 4}
        path = layer_file(tmp_path, seed, int4, dilation=dilation, **layer)
        plan = compile_model(path, CompileOptions(target=target))
        [node] = plan.graph.nodes
        assert (node.kind, node.op.weight_bits) == ("Conv2D", 4 if int4 else 8)
        judge = oracle.open(path)
        inputs = random_inputs(judge.graph, seed)
        [output] = judge.graph.outputs
        wanted = judge.run(inputs)[output.tensor]
        # A plan may have time in columns.
        ports = zip(plan.graph.inputs, inputs, strict=True)
        inputs = [x.reshape(plan.graph.tensors[p.tensor].shape) for p, x in ports]
        found = reference.run(plan.graph, inputs)[output.tensor].reshape(wanted.shape)
        np.testing.assert_array_equal(found, wanted, err_msg=str(seed))


def test_a_layer_of_one_output_channel_stays(tmp_path: Path) -> None:
    plan = compile_model(layer_file(tmp_path, size=(16, 16), multiplier=1, kernel=(3, 3)))
    assert [node.kind for node in plan.graph.nodes] == ["DepthwiseConv2D"]


def test_layer_over_time_is_a_convolution(tmp_path: Path) -> None:
    """A plan with a hop has time in rows, so that the output has one column."""
    layer = {"size": (1, 30), "multiplier": 8, "kernel": (1, 3), "same": False}
    plan = compile_model(layer_file(tmp_path, **layer), CompileOptions(hop=2))
    assert "DepthwiseConv2D" not in {node.kind for node in plan.graph.nodes}


def test_cycles_of_a_speech_network(tmp_path: Path) -> None:
    """A sixth of the depthwise kernel's: 5.9 million."""
    counted = bench(compile_model(layer_file(tmp_path, **SPEECH)), "speech", "qemu:m4")
    assert counted.cycles is not None and counted.cycles < 1_500_000
