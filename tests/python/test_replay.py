# SPDX-License-Identifier: Apache-2.0
"""Replays in the loader: they let every proven plan pass, and refuse no plan but wrong ones."""

from __future__ import annotations

import ctypes
import random
import shutil
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import online_device as device
import pytest
from builders.containers import of_table
from builders.networks import MODELS, network_file
from random_builder import Builder
from random_networks import AnyNetwork, EveryNetwork
from vmcu_bench.runners.samples import make_samples
from vmcu_tools import container, passes, paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.container import layout, seal
from vmcu_tools.emit import structs
from vmcu_tools.emit.model import write_tables
from vmcu_tools.emit.proof import prove_objects
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.graph import Graph, Window
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.move import Move
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.quant import FixedPoint

DIGITS = paths.runtime().parents[1] / "samples/digits/digits.onnx"
NETWORKS, DAMAGED, TRIES = 50, 24, 12
EBADMSG = 74


def network(number: int) -> Graph:
    kind = (AnyNetwork, EveryNetwork)[number % 2]
    return passes.optimize(kind(9000 + number, 1 + number % 7).made)


def planned(graph: Graph, streamed: bool) -> Plan:
    try:
        return make_plan(graph, CompileOptions(stream_input=streamed), prove=False)
    except UserError:
        # Too many layers need its input for it to be streamed.
        return make_plan(graph, prove=False)


def packed(plan: Plan) -> bytes:
    return container.of_tables(write_tables(plan, "m").files, "m")


def test_plans_that_are_right_pass(loader: ctypes.CDLL) -> None:
    for number in range(NETWORKS):
        graph = network(number)
        plan = planned(graph, number % 3 == 0 and len(graph.inputs) == 1)
        made = device.load(loader, packed(plan), device.BUILT, replay=True)
        assert made.result == 0, (number, made.refusal)


@pytest.mark.parametrize("name", MODELS)
def test_real_networks_pass_by_any_plan(loader: ctypes.CDLL, name: str) -> None:
    path = network_file(name)
    assert device.load(loader, packed(compile_model(path)), device.BUILT, replay=True).result == 0
    plan = compile_model(path, CompileOptions(online=True))
    image = container.of_tables(write_tables(plan, "m").files, "m", container.online_of(plan))
    for planner in (device.BUILT, device.GREEDY, device.SEGMENTS):
        assert device.load(loader, image, planner, replay=True).result == 0


def moved(image: bytes, drawn: random.Random, most: int = 0) -> bytes:
    """The container with a tensor at another place, `most` bytes away or, for 0, anywhere."""
    model = layout.MODEL.members
    (start,) = struct.unpack_from("<I", image, layout.MODEL_AT + model["tensors"].start)
    (count,) = struct.unpack_from("<H", image, layout.MODEL_AT + model["tensor_count"].start)
    (pool,) = struct.unpack_from("<I", image, layout.MODEL_AT + model["pool_bytes"].start)
    at = start + structs.TENSOR.size * drawn.randrange(count)
    data = bytearray(image)
    (base,) = struct.unpack_from("<I", data, at)
    by = drawn.choice((-1, 1)) * drawn.randint(1, most) if most else drawn.randrange(pool)
    struct.pack_into("<I", data, at, (base + by) % pool)
    return seal.sealed(bytes(data))


def is_right(image: bytes, plan: Plan) -> bool:
    try:
        prove_objects(container.unpack(image)[0], "m", plan)
    except PlanError:
        return False
    return True


def judged(loader: ctypes.CDLL, most: int, networks: int = DAMAGED) -> Counter[tuple[bool, bool]]:
    """How many moved tensors leave a plan right, and a replay passes. The judge is the virtual
    machine, which knows the order of access within calls, too."""
    found: Counter[tuple[bool, bool]] = Counter()
    drawn = random.Random(5)
    for number in range(networks):
        plan = planned(network(number), False)
        image = packed(plan)
        for _ in range(TRIES):
            other = moved(image, drawn, most)
            if device.load(loader, other, device.BUILT).result != 0:
                continue
            made = device.load(loader, other, device.BUILT, replay=True)
            right = is_right(other, plan)
            assert made.result == 0 or (made.result == -EBADMSG and "replay" in made.refusal[0])
            assert made.result == 0 or not right, (number, made.refusal)
            found[right, made.result == 0] += 1
    return found


def test_plans_that_are_refused_are_wrong_and_most_that_are_wrong_are(loader: ctypes.CDLL) -> None:
    found = judged(loader, 0)
    # What is overwritten within a call is not seen; in small tensors that is much.
    assert found[False, False] > 10 * found[False, True]


def test_the_share_of_small_overlaps_is_that_of_the_page(loader: ctypes.CDLL) -> None:
    found = judged(loader, 7, 200)
    refused, passed = found[False, False], found[False, True]
    said = f"{refused} of {refused + passed} overlaps of 1 to 7 bytes"
    assert said in " ".join((paths.root() / "doc" / "container.md").read_text().split())


def test_rows_of_tensors_do_not_pass_for_those_of_others(loader: ctypes.CDLL) -> None:
    """Whatever the distance of the rows: an output lies so many rows behind its input."""
    height, b = 240, Builder(np.random.default_rng(1))
    x = b.input((height, 1, 1))
    weights, bias = np.ones((1, 1, 1), np.int8), np.zeros(1, np.int32)
    op = DepthwiseConv2D(weights, bias, Window((1, 1)), FixedPoint.of(np.full(1, 0.1)))
    y = b.node(op, [x], (height, 1, 1))
    mean = b.node(AveragePool2D(Window((height, 1))), [x], (1, 1, 1))
    plan = make_plan(b.graph([y.name, mean.name]), CompileOptions(planner="single"))
    names, image = list(plan.placements), packed(plan)
    for name, base in ((x.name, 0), (mean.name, 2 * height - 1)):
        image = of_table(image, "tensors", names.index(name), "base", base)
    for rows in range(1, height):
        other = of_table(image, "tensors", names.index(y.name), "base", rows)
        found = device.load(loader, other, device.BUILT, replay=True)
        assert (found.result, found.refusal) == (-EBADMSG, ("replay of layer", 0)), rows


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="needs arm-none-eabi-gcc and qemu-system-arm",
)
def test_a_replay_costs_less_than_an_inference(tmp_path: Path) -> None:
    plan = compile_model(DIGITS, CompileOptions(online=True))
    sample = make_samples(plan.graph, 1, 0, 0)[0]
    spent = {}
    for counted in ("vmcu_replay", "vmcu_invoke"):
        words = "qemu:m4", plan, device.SEGMENTS, sample, tmp_path, 1 << 16, counted
        made, counts = device.on_board(*words, replay=True)
        assert made.result == 0 and counts.calls == 1
        spent[counted] = counts.instructions
    assert 0 < spent["vmcu_replay"] < spent["vmcu_invoke"]


# Of the columns; rows are seen one by one.
WINDOWS = {
    "dense": Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    "strides": Window((3, 3), (1, 2), (1, 1), (1, 0, 1, 0)),
    "gaps": Window((3, 2), (1, 3), (1, 1), (1, 0, 1, 0)),
    "dilated": Window((3, 3), (1, 1), (1, 2), (1, 0, 1, 0)),
    "dilated, strides": Window((3, 3), (1, 2), (1, 2), (1, 2, 1, 2)),
}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=list(WINDOWS))
def test_every_pixel_under_a_window_has_to_be_there(loader: ctypes.CDLL, window: Window) -> None:
    """Another layer's only pixel takes the place of one of the input's, each in turn."""
    shape, channels = (3, 9, 4), 4
    b = Builder(np.random.default_rng(1))
    x = b.input(shape)
    mean = b.node(AveragePool2D(Window(shape[:2])), [x], (1, 1, channels))
    size = window.out_size(0, shape[0]), window.out_size(1, shape[1])
    weights, bias = np.ones((*window.kernel, channels), np.int8), np.zeros(channels, np.int32)
    factors = FixedPoint.of(np.full(channels, 0.1))
    y = b.node(DepthwiseConv2D(weights, bias, window, factors), [x], (*size, channels))
    plan = make_plan(b.graph([mean.name, y.name]), CompileOptions(planner="single"))
    image, names = packed(plan), list(plan.placements)
    taps = np.arange(window.kernel[1]) * window.dilation[1]
    seen = {window.first(1, out) + tap for out in range(size[1]) for tap in taps}
    assert [plan.steps[n].node.outputs[0] for n in range(2)] == [mean.name, y.name]
    for pixel in range(shape[0] * shape[1]):
        base = plan.placements[x.name].base + pixel * channels
        other = of_table(image, "tensors", names.index(mean.name), "base", base)
        found = device.load(loader, other, device.BUILT, replay=True)
        # What the window passes over may lie where the output comes to be: the mean is gone then.
        is_missed = (found.result, found.refusal) == (-EBADMSG, ("replay of layer", 1))
        assert is_missed == (pixel % shape[1] in seen), pixel


def test_every_pixel_that_is_read_in_another_order_has_to_be_there(loader: ctypes.CDLL) -> None:
    """As above, of an input whose rows become columns."""
    shape = (3, 5, 4)
    b = Builder(np.random.default_rng(1))
    x = b.input(shape)
    mean = b.node(AveragePool2D(Window(shape[:2])), [x], (1, 1, shape[2]))
    index = np.arange(x.bytes).reshape(shape).transpose(1, 0, 2)
    y = b.node(Move(index[:, 0, 0], index[0, :, 0], index[0, 0, :]), [x], (5, 3, 4))
    plan = make_plan(b.graph([mean.name, y.name]), CompileOptions(planner="single"))
    image, names = packed(plan), list(plan.placements)
    assert plan.steps[1].node.outputs == (y.name,)
    for at in range(0, x.bytes, shape[2]):
        base = plan.placements[x.name].base + at
        other = of_table(image, "tensors", names.index(mean.name), "base", base)
        found = device.load(loader, other, device.BUILT, replay=True)
        assert (found.result, found.refusal) == (-EBADMSG, ("replay of layer", 1)), at


def test_the_layer_is_named(loader: ctypes.CDLL) -> None:
    plan = compile_model(DIGITS, CompileOptions(planner="single"))
    image = packed(plan)
    (start,) = struct.unpack_from(
        "<I", image, layout.MODEL_AT + layout.MODEL.members["tensors"].start
    )
    number = list(plan.placements).index(list(plan.steps)[2].node.outputs[0])
    data = bytearray(image)
    other = struct.unpack_from("<I", data, start + structs.TENSOR.size * (number - 1))
    struct.pack_into("<I", data, start + structs.TENSOR.size * number, *other)
    made = device.load(loader, seal.sealed(bytes(data)), device.BUILT, replay=True)
    assert (made.result, made.refusal) == (-EBADMSG, ("replay of layer", 2))
