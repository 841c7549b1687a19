# SPDX-License-Identifier: Apache-2.0
"""LSTM layers whose steps are rows that go on from call to call, and those that cannot be."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
from builders.tflite_models import TfliteModel, weights
from clobbered import expect_refused
from drawn import seeds
from test_lstm import lstm
from test_streams import check_states
from test_svdf import svdf
from vmcu_bench.verify import stream
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit
from vmcu_tools.errors import PlanError
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops.layer import NEVER
from vmcu_tools.plan import trace
from vmcu_tools.plan.plan import Plan

pytest.importorskip("tflite_micro")
INPUTS, UNITS = 10, 7


def flat(m: TfliteModel, x: int, values: int, count: int) -> int:
    """A dense layer over all values of a tensor."""
    shape = m.constant(np.array([1, values], np.int32))
    row = m.op("RESHAPE", [x, shape], m.like(x, (1, values)), "Reshape", newShape=[1, values])
    by_channel = bool(m.rng.integers(2))
    constants, scale = weights(m, row, (count, values), count, 0, by_channel, True)
    out = m.activation((1, count), scale)
    return m.op("FULLY_CONNECTED", [row, *constants], out, "FullyConnected")


def classifier(path: Path, steps: int, seed: int = 0, layers: int = 1) -> Plan:
    """LSTM layers, and a dense one over all of their rows."""
    m = TfliteModel(seed)
    first = x = m.activation((1, steps, INPUTS))
    for width in (INPUTS, UNITS)[:layers]:
        x = lstm(m, x, width, steps, UNITS)
    return compile_model(m.save(path / "net.tflite", [first], [flat(m, x, steps * UNITS, 4)]))


@pytest.mark.parametrize("target", ["virtual", "host:sanitize", "host+container", "qemu:m4"])
@pytest.mark.parametrize("steps", [1, 6])
def test_a_row_is_a_step(steps: int, target: str, tmp_path: Path) -> None:
    for layers in (1, 2):
        plan = classifier(tmp_path, steps, layers, layers)
        assert not plan.graph.state.recurrent and len(plan.stages) == 1
        kinds = [step.node.kind for step in plan.steps]
        assert kinds.count("LstmStep") == layers and ("DenseByRows" in kinds) == (steps > 1)
        found = stream.verify(plan, target, 100, steps)
        assert found.passed and not any(one.differing for one in found.judged)


def all_rows(m: TfliteModel) -> tuple[int, int]:
    x = m.activation((1, 4, INPUTS))
    return x, lstm(m, x, INPUTS, 4, UNITS)


def last_row(m: TfliteModel) -> tuple[int, int]:
    x, rows = all_rows(m)
    places = [m.constant(np.array(at, np.int32)) for at in ([0, 3, 0], [1, 4, UNITS], [1, 1, 1])]
    out = m.like(rows, (1, UNITS))
    options = {"shrinkAxisMask": 2}
    return x, m.op("STRIDED_SLICE", [rows, *places], out, "StridedSlice", **options)


@pytest.mark.parametrize("target", ["host:sanitize", "host+container", "qemu:m0", "qemu:m55"])
def test_the_last_row(target: str, tmp_path: Path) -> None:
    """Of all steps; others are not kept."""
    m = TfliteModel(2)
    x, out = last_row(m)
    plan = compile_model(m.save(tmp_path / "net.tflite", [x], [out]))
    assert (
        not plan.graph.state.recurrent and plan.pool_bytes < INPUTS + 3 * UNITS + 2 * UNITS + 20 + 4
    )
    assert stream.verify(plan, target, 60, 1).passed


@pytest.mark.parametrize("seed", seeds(40, 6))
def test_random_classifiers(seed: int, tmp_path: Path) -> None:
    plan = classifier(tmp_path, 2 + seed % 7, seed, 1 + seed % 2)
    for target in ("host:sanitize", "virtual"):
        assert stream.verify(plan, target, 40, seed).passed


@pytest.mark.parametrize("loaded", [False, True])
def test_states_in_c(loaded: bool, tmp_path: Path) -> None:
    check_states(classifier(tmp_path, 1, 3, 2), tmp_path, loaded)


def test_bytes_do_not_depend_on_steps(tmp_path: Path) -> None:
    """A row of the input, of the state, of its output, of sums, and counts of calls."""
    plans = [classifier(tmp_path, steps) for steps in (6, 12)]
    for plan in plans:
        state, output, sums, *_ = (step.node.outputs[0] for step in plan.steps)
        rings = [plan.placements[name].ring for name in (state, output, sums)]
        assert rings == [3 * UNITS, UNITS, 6 * 4]
        assert plan.pool_bytes <= INPUTS + sum(rings) + 4 + 2 * 4
    assert plans[0].pool_bytes == plans[1].pool_bytes


def test_nothing_is_written_over_a_state(tmp_path: Path) -> None:
    plan = classifier(tmp_path, 6)
    (state, *others) = (step.node.outputs[0] for step in plan.steps)
    expect_refused(plan, state, (*others, plan.graph.inputs[0].tensor))


def test_the_row_before_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner to whom a state is dead once others have read it is found out."""

    def without_own(self: trace._Tracer, number: int) -> trace.Steps:
        others = [one for one in self.readers[number] if one[0] != number]
        return trace.needed_by(
            [(self.order.at[n], self.stage.grids[n], feed) for n, feed in others]
        )

    VirtualMcu(classifier(tmp_path, 1, layers=2)).prove()
    monkeypatch.setattr(trace._Tracer, "_needs", without_own)
    with pytest.raises(PlanError, match=r"is gone|destroys a live byte"):
        VirtualMcu(classifier(tmp_path, 1, layers=2)).prove()


def test_the_first_step_never_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vmcu_tools.plan import turns

    plan = classifier(tmp_path, 6)
    found = turns.turns_of(plan)
    assert found.starts[0] == 1
    early = dataclasses.replace(found, starts=(0, *found.starts[1:]))
    monkeypatch.setattr("vmcu_tools.emit.stream.turns_of", lambda _: early)
    with pytest.raises(PlanError, match="starts over in front of its first row"):
        emit(plan, "model")


def test_rows_that_are_read_are_named(tmp_path: Path) -> None:
    plan = classifier(tmp_path, 6)
    layers = [step.bind(plan.graph) for step in plan.steps if step.node.is_recurrent]
    assert len(layers) == 2
    for layer, index in itertools.product(layers, (0, 1)):
        tensor = layer.ins[index]
        named = {row for y in range(layer.height) for row in layer.input_rows(index, y)}
        read = (layer.last_reads(index) != NEVER).reshape(tensor.shape[0], -1).any(axis=1)
        assert named == set(np.flatnonzero(read).tolist()), index


def beside_svdf(m: TfliteModel) -> tuple[int, int]:
    x = m.activation((1, INPUTS))
    shape = m.constant(np.array([1, 1, 5], np.int32))
    row = svdf(m, x, INPUTS, 5, 1, 4)
    row = m.op("RESHAPE", [row, shape], m.like(row, (1, 1, 5)), "Reshape", newShape=[1, 1, 5])
    return x, lstm(m, row, 5, 1, UNITS)


def padded_rows(m: TfliteModel) -> tuple[int, int]:
    """A causal convolution, whose padding is zeros in each call."""
    x = m.activation((1, 4, 1, INPUTS))
    amounts = m.constant(np.array([[0, 0], [2, 0], [0, 0], [0, 0]], np.int32))
    padded = m.op("PAD", [x, amounts], m.like(x, (1, 6, 1, INPUTS)), "Pad")
    constants, scale = weights(m, padded, (5, 3, 1, INPUTS), 5, 0, False, True)
    rows = m.activation((1, 4, 1, 5), scale)
    options = {"padding": 1, "strideH": 1, "strideW": 1}
    m.op("CONV_2D", [padded, *constants], rows, "Conv2D", **options)
    shape = m.constant(np.array([1, 4, 5], np.int32))
    rows = m.op("RESHAPE", [rows, shape], m.like(rows, (1, 4, 5)), "Reshape", newShape=[1, 4, 5])
    return x, flat(m, lstm(m, rows, 5, 4, UNITS), 4 * UNITS, 3)


@pytest.mark.parametrize("network", [all_rows, beside_svdf, padded_rows])
def test_steps_that_are_nodes(network, tmp_path: Path) -> None:
    """Where the rows of a model cannot go on, and where padding would be that of a first call."""
    m = TfliteModel(2)
    x, out = network(m)
    plan = compile_model(m.save(tmp_path / "net.tflite", [x], [out]))
    assert plan.graph.state.recurrent
    for target in ("host", "virtual"):
        assert stream.verify(plan, target, 20, 1).passed
