# SPDX-License-Identifier: Apache-2.0
"""What the constants of a channel take of the flash, and for which factors they are the fast
requantiser's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders.networks import SHARED, present
from pool_log import interpret
from vmcu_bench.cycles.kernels import Case, case_graph
from vmcu_tools.frontends import load
from vmcu_tools.kernels.pack import FAST_SHIFTS
from vmcu_tools.ops import bind
from vmcu_tools.ops.mac import MacLayer
from vmcu_tools.passes import optimize
from vmcu_tools.quant import INT8_MIN, FixedPoint

NETWORKS = ("ad", "kws", "resnet8", "vww", "sww")
FILES = [*(f"mlperf-tiny-{name}" for name in NETWORKS), "mcunet-vww-5fps", "mcunet-imagenet-320kb"]


# As large as the fast requantiser takes; a depthwise channel's word has 24 bits for one.
BIASES = {"conv": (1 << 30) - (1 << 20), "depthwise": (1 << 23) - (1 << 20)}


def layer_of(case: Case, shift: int = 8, zero: int = 5, bias: int = 2000) -> MacLayer:
    """The layer of a case, with factors of that shift to the right, an output with that zero point,
    and biases of that size."""
    graph = case_graph(case, seed=3)
    (node,) = graph.nodes
    channels = len(node.op.bias)
    factors = FixedPoint(np.full(channels, 0x50000001, np.int32), np.full(channels, -shift))
    signs = np.where(np.arange(channels) % 2, -bias, bias).astype(np.int32)
    out = replace(graph.tensors["out"], zero_point=zero)
    graph = replace(graph, tensors={**graph.tensors, "out": out})
    layer = bind(graph, replace(node, op=replace(node.op, requant=factors, bias=signs)))
    assert isinstance(layer, MacLayer)
    return layer


# Channels and taps fill blocks and words, so that what is not a weight is a constant.
@pytest.mark.parametrize(
    ("case", "most"),
    [
        pytest.param(Case("1x1", "conv", 8, 16, 16), 10, id="two channels a block"),
        pytest.param(Case("1x1", "conv", 8, 48, 16), 9, id="four channels a block"),
        pytest.param(Case("fc", "dense", 1, 32, 16), 9, id="fully connected"),
        pytest.param(Case("dw", "depthwise", 8, 16, 16, 3), 8, id="depthwise"),
        pytest.param(Case("dw", "depthwise", 8, 16, 16, 4), 9, id="depthwise, any window"),
    ],
)
def test_bytes_of_a_channel(case: Case, most: int) -> None:
    layer = layer_of(case)
    taps = layer.op.weights.size
    if case.kernel == 3:
        # Pairs of two rows, and of the last one.
        taps = 12 * case.outputs
    head = 0 if case.kind == "depthwise" else 4
    assert len(layer.binding.stream) == taps + most * case.outputs + head


@pytest.mark.parametrize("kind", ["conv", "depthwise"])
@pytest.mark.parametrize("shift", [FAST_SHIFTS[0], 2, 22, FAST_SHIFTS[-1]])
def test_the_fast_requantiser_is_for_all_shifts(kind: str, shift: int) -> None:
    """At either end of the range, with the lowest zero point and accumulators as large as it may
    have, the programs give what the layer means in 32 bits."""
    layer = layer_of(Case("case", kind, 6, 4, 4, 3), shift, INT8_MIN, BIASES[kind])
    assert layer.whole_weights().is_fast.all()
    data = [np.random.default_rng(shift).integers(-128, 128, layer.ins[0].shape).astype(np.int8)]
    found = interpret(layer, data).output
    np.testing.assert_array_equal(found, layer.rows(data, 0, layer.height))


@pytest.mark.parametrize("name", FILES)
def test_real_networks(name: str) -> None:
    """Weights as emitted against int8 weights, int32 biases, and factors of five bytes."""
    graph = optimize(load(present(SHARED / f"{name}.tflite")))
    bound = (bind(graph, node) for node in graph.nodes)
    layers = [layer for layer in bound if isinstance(layer, MacLayer)]
    emitted = sum(len(layer.binding.stream) for layer in layers)
    assert 0 < emitted <= 1.08 * sum(layer.weight_bytes for layer in layers)
