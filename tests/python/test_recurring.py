# SPDX-License-Identifier: Apache-2.0
"""States that layers compute from what they were, beside ONNX Runtime, which is given them by
hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders.onnx_states import Recurrent
from clobbered import expect_refused
from drawn import case
from test_streams import check_states, vmcu
from vmcu_bench import runners
from vmcu_bench.runners.stream import streamed
from vmcu_bench.verify import stream
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops import bind
from vmcu_tools.ops.hop_count import HopCount
from vmcu_tools.ops.layer import NEVER
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions

FORMS = ({}, {"gated": True}, {"other": True}, {"image": True}, {"gated": True, "other": True})


def built(folder: Path, number: int = 1, cells: int = 2) -> tuple[Path, Plan]:
    model = Recurrent(number + 3, cells, **FORMS[number])
    path = model.save(folder / "cells.onnx")
    return path, compile_model(
        path, CompileOptions(state=[":".join(pair) for pair in model.states])
    )


# Each form with one cell or two by turns; the rest is slow.
ODD = [
    case(number, cells, slow=(number + cells) % 2 == 1)
    for number in range(len(FORMS))
    for cells in (1, 2)
]


@pytest.mark.parametrize(("number", "cells"), ODD)
def test_a_thousand_calls(number: int, cells: int, tmp_path: Path) -> None:
    """None of them makes another byte than the file's nodes mean, and answers differ from each
    other. The judge's session makes activations uint8, so that products with an int8 number are
    computed in float there: these may be a step off."""
    _, plan = built(tmp_path, number, cells)
    assert len(plan.model.state.recurrent) == cells * (2 if FORMS[number].get("gated") else 1)
    outcome = stream.verify(plan, "host:sanitize", 1000, number)
    assert outcome.hops == 1000 and outcome.passed
    assert not any(one.differing for one in outcome.judged if one.strict)
    products = FORMS[number].get("gated", False)
    assert products or not any(one.differing for one in outcome.judged)
    rows = stream.stream_of(plan.model, plan.graph.state.step_rows, 50, 9)
    found = streamed(runners.get("virtual"), plan, rows)
    np.testing.assert_array_equal(found, np.stack(list(stream.meaning(plan, rows))))
    assert len(np.unique(found, axis=0)) > 15


@pytest.mark.parametrize("target", ["qemu:m4", "qemu:m3+container"])
def test_boards(target: str, tmp_path: Path) -> None:
    _, plan = built(tmp_path, 3)
    assert stream.verify(plan, target, 300, 1).passed


@pytest.mark.parametrize("loaded", [False, True])
def test_states_in_c(loaded: bool, tmp_path: Path) -> None:
    _, plan = built(tmp_path)
    check_states(plan, tmp_path, loaded)


def test_a_state_is_what_it_was(tmp_path: Path) -> None:
    """Answers depend on calls long ago: the same input again and again moves them."""
    _, plan = built(tmp_path)
    rows = np.repeat(stream.stream_of(plan.model, 1, 1, 2), 12, axis=0)
    found = streamed(runners.get("virtual"), plan, rows)
    assert (found[0] != found[1]).any() and (found[1] != found[2]).any()


def test_bytes_of_state_are_counted_and_saved(tmp_path: Path) -> None:
    _, plan = built(tmp_path)
    states = [plan.placements[name] for name in plan.graph.stored_states.values()]
    assert [one.ring for one in states] == [6] * 4
    start, size = plan.state
    assert all(start <= one.base and one.base + one.ring <= start + size for one in states)
    assert size < plan.pool_bytes
    with pytest.raises(PlanError, match="is not saved with the state"):
        VirtualMcu(replace(plan, saved=(start, size - 1))).prove()


def test_nothing_is_written_over_a_state(tmp_path: Path) -> None:
    """By each other tensor of the pool that is alive meanwhile, be it by one byte."""
    _, plan = built(tmp_path)
    VirtualMcu(plan).prove()
    (state, *_) = plan.graph.stored_states.values()
    others = [step.node.outputs[0] for step in plan.steps if step.node.kind != "Remember"]
    expect_refused(plan, state, others)


def test_rows_of_the_inputs_are_those_that_are_read(tmp_path: Path) -> None:
    """In the first hop and in later ones. The number of a hop is counted, not read off."""
    _, plan = built(tmp_path)
    for number in range(3):
        for node in plan.graph.nodes:
            if isinstance(node.op, HopCount):
                continue
            layer = bind(plan.graph, replace(node, op=node.op.at_step(number)))
            for index, tensor in enumerate(layer.ins):
                named = {row for y in range(layer.height) for row in layer.input_rows(index, y)}
                read = (layer.last_reads(index) != NEVER).reshape(tensor.shape[0], -1).any(axis=1)
                assert named == set(np.flatnonzero(read).tolist()), (node.kind, index)


def test_the_first_call_never_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count of hops that starts over with 0 would have states begin anew."""
    from vmcu_tools.emit import emit
    from vmcu_tools.plan import turns

    _, plan = built(tmp_path)
    assert turns.turns_of(plan).starts == (2,)
    found = turns.turns_of(plan)
    monkeypatch.setattr("vmcu_tools.emit.stream.turns_of", lambda _: replace(found, starts=(0,)))
    with pytest.raises(PlanError, match="starts over in front of its first row"):
        emit(plan, "model")


def test_what_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = built(tmp_path, 0)
    both = ["--state", "h0:hn0", "--state", "h1:hn1"]
    code, said, _ = vmcu(capsys, "build", path, *both, "-o", tmp_path)
    assert code == 0 and "2 states, which each call recomputes" in said
    assert "The state has 12 bytes of the pool" in " ".join(said.split())
    code, said, _ = vmcu(capsys, "verify", path, *both, "-n", 1000)
    assert code == 0 and "0 of 1,000 hops differ from the file's own runtime call by call" in said
    code, said, _ = vmcu(capsys, "bench", path, *both)
    assert code == 0 and "instructions" in said
    code, _, said = vmcu(capsys, "build", path, *both, "--hop", 2)
    assert code == 1 and "needs 1 rows a call, not 2" in said
    code, said, _ = vmcu(capsys, "verify", path, "--state", "h0:hn0", "-n", 100)
    assert code == 0 and "0 of 100 hops differ from the file's own runtime call by call" in said


def test_names_that_say_so(tmp_path: Path) -> None:
    """One cell's states are called as exporters do."""
    model = Recurrent(2, 1)
    model.save(tmp_path / "one.onnx")
    plan = compile_model(tmp_path / "one.onnx", CompileOptions(state=["h0:hn0"]))
    assert plan.model.state.pairs == (("h0", "hn0"),)


def test_a_state_of_another_shape(tmp_path: Path) -> None:
    path = Recurrent(2, 1).save(tmp_path / "one.onnx")
    model = Recurrent(2, 1)
    with pytest.raises(UserError, match="cannot be fed back"):
        compile_model(path, CompileOptions(state=[f"h0:{model.out}"]))
