# SPDX-License-Identifier: Apache-2.0
"""Training of the last dense layers: the numbers of a regression in float64, the same bytes on all
targets, weights that stay where they are, and models that cannot be trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from vmcu_bench import runners
from vmcu_tools import paths
from vmcu_tools.cli import main
from vmcu_tools.emit import emit
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.graph import Graph, Node, Port, Shape, Tensor, Window
from vmcu_tools.machine import reference
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.trainable import MOST_BIAS, most_weight, unpacked
from vmcu_tools.passes.trained_head import trained_head
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner import registry
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.quant import FixedPoint
from vmcu_tools.training import Training
from vmcu_tools.training_compiler import compile_training

SAMPLES = paths.root() / "samples"
LEARN = SAMPLES / "learn" / "learn.onnx"
SCALE, ZERO, HIDDEN_SCALE = 0.02, -17, 0.03
HIDDEN, CLASSES, RATE = 9, 4, 0.05
STEPS = 300
# Of the largest change of a weight: how far float64 and integers may be apart.
TOLERANCE = 0.03
# A layer in real numbers: weights (outputs, taps), biases (outputs,).
Layer = tuple[np.ndarray, np.ndarray]
# Images and labels.
Data = Sequence[tuple[np.ndarray, int]]


def network(shape: Shape, hidden: bool, seed: int = 5) -> tuple[Graph, list[Layer]]:
    """A classifier of one or two dense layers over an image, and its layers in real numbers."""
    rng = np.random.default_rng(seed)
    tensors = {"x": Tensor("x", shape, SCALE, ZERO)}
    nodes, layers, name = [], [], "x"
    for out, count in [("h", HIDDEN)] * hidden + [("scores", CLASSES)]:
        x = tensors[name]
        relu = out == "h"
        tensors[out] = Tensor(
            out, (1, 1, count), HIDDEN_SCALE if relu else 0.08, -128 if relu else 3
        )
        scales = rng.uniform(0.002, 0.004, count)
        weights = rng.integers(-127, 128, (count, *x.shape)).astype(np.int8)
        bias = rng.integers(-2000, 2000, count).astype(np.int32)
        requant = FixedPoint.of(scales * x.scale / tensors[out].scale)
        if x.shape[:2] == (1, 1):
            op = FullyConnected(weights.reshape(count, -1), bias, requant)
        else:
            op = Conv2D(weights, bias, Window(x.shape[:2]), requant)
        nodes.append(Node(out, op, (name,), (out,)))
        flat = weights.reshape(count, -1) * scales[:, None]
        layers.append((flat, bias * scales * x.scale))
        name = out
    ports = [Port(n, n, (1, *tensors[n].shape), "int8") for n in ("x", "scores")]
    return Graph("net", "net", tensors, tuple(nodes), (ports[0],), (ports[1],)), layers


def examples(graph: Graph, classes: int) -> list[tuple[np.ndarray, int]]:
    rng = np.random.default_rng(6)
    shape = graph.tensors["x"].shape
    return [
        (rng.integers(-128, 128, shape).astype(np.int8), int(rng.integers(classes)))
        for _ in range(STEPS)
    ]


def descent(layers: Sequence[Layer], data: Data, rate: float, frozen: int = 0) -> list[Layer]:
    """Stochastic gradient descent in float64 on the cross-entropy of a softmax, from the formula:
    dL/dz = softmax(z) - onehot(label), dL/dW = dL/dz x^T, dL/dx = W^T dL/dz, ReLU in between."""
    layers = [(w.copy(), b.copy()) for w, b in layers]
    begin = list(layers)
    for image, label in data:
        values = [SCALE * (image.ravel().astype(np.float64) - ZERO)]
        for number, (w, b) in enumerate(layers):
            z = w @ values[-1] + b
            values.append(np.maximum(z, 0) if number + 1 < len(layers) else z)
        shares = np.exp(values[-1] - values[-1].max())
        error = shares / shares.sum()
        error[label] -= 1
        for number in reversed(range(len(layers))):
            w, b = layers[number]
            below = (w.T @ error) * (values[number] > 0)
            layers[number] = w - rate * np.outer(error, values[number]), b - rate * error
            for one, old in zip(layers[number], begin[number], strict=True):
                one[:frozen] = old[:frozen]
            error = below
    return layers


def added(layers: Sequence[Layer], classes: int) -> list[Layer]:
    """With further classes, whose weights are zero."""
    *front, (w, b) = layers
    more = classes - len(w)
    return [*front, (np.pad(w, ((0, more), (0, 0))), np.pad(b, (0, more)))]


def learned(graph: Graph, tensors: Sequence[np.ndarray], data: Data) -> list[np.ndarray]:
    """The weights after steps of the reference semantics."""
    tensors = list(tensors)
    for image, label in data:
        values = reference.run(graph, [image, np.array([label], np.int8), *tensors])
        tensors = [values[port.tensor] for port in graph.outputs[1:]]
    return tensors


def real(tensors: Sequence[np.ndarray], first: Sequence[Layer]) -> list[Layer]:
    """Weights in real numbers. first: those of the model, whose largest has a quarter of the range
    of integers."""
    found = []
    for tensor, (w, _), x_scale in zip(tensors, first, (SCALE, HIDDEN_SCALE), strict=False):
        scale = 4 * np.abs(w).max() / most_weight(w.shape[1])
        weights, biases = unpacked(tensor)
        found.append((weights * scale, biases * scale * x_scale))
    return found


def distance(found: Sequence[Layer], wanted: Sequence[Layer], first: Sequence[Layer]) -> float:
    """The largest difference of a weight or bias, as a part of the largest change."""
    triples = zip(found, wanted, first, strict=True)
    parts = [part for layers in triples for part in zip(*layers, strict=True)]
    return max(np.abs(one - w).max() / np.abs(w - before).max() for one, w, before in parts)


CASES = [((1, 1, 12), CLASSES), ((1, 1, 12), CLASSES + 2), ((2, 3, 4), CLASSES + 1)]


@pytest.mark.parametrize(("shape", "classes"), CASES)
def test_integers_learn_as_float64_does(shape: Shape, classes: int) -> None:
    graph, layers = network(shape, hidden=False)
    first = added(layers, classes)
    head = trained_head(graph, Training(classes, rate=RATE))
    data = examples(graph, classes)
    found = real(learned(head.graph, head.weights, data), first)
    assert distance(found, descent(first, data, RATE), first) < TOLERANCE
    # The tolerance shows a wrong sign, a wrong factor and a wrong row.
    swapped = [(image, (label + 1) % classes) for image, label in data]
    for wrong, rate in ((data, -RATE), (data, 1.25 * RATE), (swapped, RATE)):
        assert distance(found, descent(first, wrong, rate), first) > 2 * TOLERANCE


@pytest.mark.parametrize(("shape", "classes"), CASES[1:])
def test_new_classes_alone_learn(shape: Shape, classes: int) -> None:
    graph, layers = network(shape, hidden=False)
    first = added(layers, classes)
    head = trained_head(graph, Training(classes, rate=RATE, new_only=True))
    assert head.weights[0].shape[0] == classes - CLASSES
    data = examples(graph, classes)
    found = real(learned(head.graph, head.weights, data), first)

    def new(layers: Sequence[Layer]) -> list[Layer]:
        return [(w[CLASSES:], b[CLASSES:]) for w, b in layers]

    wanted = new(descent(first, data, RATE, frozen=CLASSES))
    assert distance(found, wanted, new(first)) < TOLERANCE
    everything = new(descent(first, data, RATE))
    assert distance(found, everything, new(first)) > 2 * TOLERANCE


@pytest.mark.parametrize("shape", [(1, 1, 12), (2, 3, 4)])
def test_errors_go_back_as_in_float64(shape: Shape) -> None:
    """Step by step: a unit whose ReLU is open in one arithmetic only would learn another way."""
    graph, first = network(shape, hidden=True)
    head = trained_head(graph, Training(layers=2, rate=RATE))
    tensors: Sequence[np.ndarray] = head.weights
    apart, changes, counted = np.zeros(2), np.zeros(2), 0
    for image, label in examples(graph, CLASSES)[:100]:
        before = real(tensors, first)
        tensors = learned(head.graph, tensors, [(image, label)])
        after, wanted = real(tensors, first), descent(before, [(image, label)], RATE)
        sums = before[0][0] @ (SCALE * (image.ravel().astype(float) - ZERO)) + before[0][1]
        clear = (np.abs(sums) > HIDDEN_SCALE) & (sums < 254 * HIDDEN_SCALE)
        counted += int(clear.sum())
        for number, rows in enumerate((clear, slice(None))):
            old, new, ideal = (one[number][0][rows] for one in (before, after, wanted))
            apart[number] = max(apart[number], np.abs(new - ideal).max())
            changes[number] = max(changes[number], np.abs(ideal - old).max())
    assert counted > 50 * HIDDEN
    assert (apart < TOLERANCE * changes).all(), apart / changes


@pytest.mark.parametrize("label", [-128, -1, CLASSES, 127])
def test_a_label_that_is_no_class_changes_nothing(label: int) -> None:
    graph, _ = network((1, 1, 12), hidden=True)
    head = trained_head(graph, Training(layers=2))
    data = [(image, label) for image, _ in examples(graph, CLASSES)[:5]]
    for one, other in zip(learned(head.graph, head.weights, data), head.weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_weights_saturate_before_sums_overflow() -> None:
    graph, _ = network((1, 1, 300), hidden=False)
    head = trained_head(graph, Training(rate=2.0))
    data = [(np.full((1, 1, 300), 127, np.int8), n % 2) for n in range(60)]
    weights, biases = unpacked(learned(head.graph, head.weights, data)[0])
    most = most_weight(300)
    assert np.abs(weights).max() == most
    assert 300 * 255 * most + MOST_BIAS < 2**31
    assert np.abs(biases).max() <= MOST_BIAS


@pytest.fixture(scope="module")
def trained() -> tuple[Plan, list[list[np.ndarray]], list[list[np.ndarray]]]:
    """A plan of two trained layers, the inputs of some calls and the outputs of the reference."""
    graph, _ = network((2, 3, 4), hidden=True)
    head = trained_head(graph, Training(CLASSES + 1, 2, RATE))
    calls, outputs, weights = [], [], list(head.weights)
    for number, (image, label) in enumerate(examples(graph, CLASSES + 1)[:20]):
        calls.append([image, np.array([label if number % 3 else -1], np.int8), *weights])
        values = reference.run(head.graph, calls[-1])
        outputs.append([values[port.tensor] for port in head.graph.outputs])
        weights = outputs[-1][1:]
    return make_plan(head.graph), calls, outputs


@pytest.mark.parametrize("target", ["virtual", "host", "host+container", "qemu:m3", "qemu:m0"])
def test_all_targets_learn_the_same(
    trained: tuple[Plan, list[list[np.ndarray]], list[list[np.ndarray]]], target: str
) -> None:
    plan, calls, outputs = trained
    found = runners.get(target).run(plan, calls)
    for one, other in zip(found, outputs, strict=True):
        for values, wanted in zip(one, other, strict=True):
            np.testing.assert_array_equal(values, wanted)


def test_weights_stay_at_one_address(
    trained: tuple[Plan, object, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = trained[0]
    assert len(plan.graph.state.updates) == 2
    for before, after in plan.graph.state.updates:
        assert plan.placements[before].base == plan.placements[after].base
    monkeypatch.setattr(registry, "at_one_address", lambda plan: plan)
    name = plan.graph.state.updates[0][1]
    moved = replace(plan.placements[name], base=plan.placements[name].base + 1)
    elsewhere = replace(plan, placements={**plan.placements, name: moved})
    with pytest.raises(PlanError, match="is not where input"):
        emit(elsewhere, "model")


def test_one_layer_needs_at_most_1_3_times_the_ram() -> None:
    found = compile_training(LEARN, Training(10))
    assert found.plan.pool_bytes <= 1.3 * found.inference.pool_bytes


def test_new_classes_alone_need_little_ram() -> None:
    found = compile_training(LEARN, Training(10, new_only=True))
    assert [one.size for one in found.weights] == [36]
    assert found.plan.pool_bytes <= 1.1 * found.inference.pool_bytes


def test_the_command_writes_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    words = [
        "train-head",
        str(LEARN),
        "--classes",
        "10",
        "-o",
        str(tmp_path),
        "--json",
        str(report),
    ]
    assert main(words) == 0
    assert "1.21 times the RAM of inference" in capsys.readouterr().out
    assert "learn_weights0[360]" in (tmp_path / "learn_weights.h").read_text()
    assert '"state_bytes": 360' in report.read_text()


REFUSED = {
    "is no dense layer": (["digits/digits.onnx", "--layers", "2"], "hint: train one layer"),
    "the model has 7 outputs": (["storyteller/storyteller.onnx"], "hint: end the model with"),
    "no new class": (["digits/digits.onnx", "--new-only"], "give --classes 11"),
    "not 4": (["digits/digits.onnx", "--classes", "4"], "hint: choose --classes from 10"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    (model, *options), hint = REFUSED[reason]
    assert main(["train-head", str(SAMPLES / model), *options]) == 1
    error = capsys.readouterr().err
    assert reason in error
    assert hint in error


def test_states_and_huge_steps_are_refused() -> None:
    graph, _ = network((1, 1, 12), hidden=False)
    with pytest.raises(UserError, match="the model keeps state"):
        trained_head(graph.with_state(names=("cache",)), Training())
    with pytest.raises(UserError, match="a smaller --learning-rate"):
        trained_head(graph, Training(rate=1e6))


def test_layers_that_are_missing_or_too_large_are_refused() -> None:
    graph, _ = network((1, 1, 12), hidden=False)
    with pytest.raises(UserError, match="it reads an input: there is no layer to train"):
        trained_head(graph, Training(layers=2))
    wide, _ = network((1, 1, 16_001), hidden=False)
    with pytest.raises(UserError, match="16001 inputs; training supports up to 16000"):
        trained_head(wide, Training())


def test_several_readers_are_refused() -> None:
    graph, _ = network((1, 1, 12), hidden=True)
    other = Node("again", graph.nodes[1].op, ("h",), ("more",))
    tensors = {**graph.tensors, "more": replace(graph.tensors["scores"], name="more")}
    both = replace(graph, nodes=(*graph.nodes, other), tensors=tensors)
    with pytest.raises(UserError, match="several layers read"):
        trained_head(both, Training(layers=2))
    trained_head(both, Training(layers=1))
