# SPDX-License-Identifier: Apache-2.0
""".onnx files whose inputs are given what an output was in the call before, beside ONNX Runtime,
which is given them by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_states import Fed, listening
from drawn import case
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from test_streams import SANITIZED, check_states, vmcu
from vmcu_bench import runners
from vmcu_bench.oracle.ort import session_of
from vmcu_bench.runners.stream import streamed
from vmcu_bench.verify import stream
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.passes.state.connect import PAST_WORDS, PRESENT_WORDS, state_key
from vmcu_tools.planner.options import CompileOptions

NAMES = [("state", "state_out"), ("in_cache.1", "out_cache.1"), ("h0", "hn")]


def by_hand(path: Path, windows: list[np.ndarray], pairs: list[tuple[str, str]]) -> np.ndarray:
    """What ONNX Runtime makes of calls float32 (1, C, H, 1), with its own states."""
    session = session_of(path, "ORT_ENABLE_EXTENDED")
    shapes = {one.name: one.shape for one in session.get_inputs()}
    held = {ahead: np.zeros(shapes[ahead], np.float32) for ahead, _ in pairs}
    names = [one.name for one in session.get_outputs()]
    found = []
    for window in windows:
        values = dict(zip(names, session.run(names, {"x": window, **held}), strict=True))
        held = {ahead: values[behind] for ahead, behind in pairs}
        found.append(values[names[0]])
    return np.stack(found)


# Each number of rows one way; the other is slow.
@pytest.mark.parametrize(
    ("rows", "flat"),
    [case(rows, flat, slow=rows % 2 != flat) for rows in (1, 2, 3) for flat in (False, True)],
)
def test_calls_are_those_of_a_runtime_with_its_own_states(
    rows: int, flat: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = listening(tmp_path / "fed.onnx", (3, 5, 2), NAMES, rows=rows, flat=flat)
    plan = compile_model(path, CompileOptions(state=None))
    assert plan.model.state.pairs == tuple(NAMES) and plan.graph.state.step_rows == rows
    given_ = stream.stream_of(plan.model, rows, 300, 3)
    found = streamed(runners.get(SANITIZED), plan, given_)
    np.testing.assert_array_equal(found, streamed(runners.get("virtual"), plan, given_))
    source, answer = (
        plan.model.tensors[ports[0].tensor] for ports in (plan.model.inputs, plan.model.outputs)
    )
    real = (given_.astype(np.float32) - source.zero_point) * np.float32(source.scale)
    calls = real.reshape(-1, rows, 4).transpose(0, 2, 1).reshape(-1, 1, 4, rows)
    shape = (1, 4, rows) if flat else (1, 4, rows, 1)
    wanted = by_hand(path, [call.reshape(shape) for call in calls], NAMES)
    steps = np.rint(wanted.reshape(len(found), -1) / np.float32(answer.scale)) + answer.zero_point
    np.testing.assert_array_equal(found, steps)
    code, said, _ = vmcu(capsys, "verify", path, "-n", 200, "--on", "host")
    assert code == 0 and "0 of 200 hops differ from the file's own runtime" in said


@settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    st.lists(st.integers(2, 6), min_size=2, max_size=4),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 99),
)
def test_drawn_files(
    tmp_path_factory: pytest.TempPathFactory, kernels: list[int], rows: int, flat: bool, seed: int
) -> None:
    path = tmp_path_factory.mktemp("fed") / "drawn.onnx"
    names = [(f"in_{n}", f"out_{n}") for n in range(len(kernels))]
    listening(path, kernels, names, rows=rows, flat=flat, seed=seed)
    plan = compile_model(path, CompileOptions(state=[":".join(pair) for pair in names]))
    outcome = stream.verify(plan, "host", 200, seed)
    # ONNX Runtime may be a step off in a node, where float32 has a tie.
    assert outcome.passed
    assert all(one.largest <= 1 and 100 * one.differing <= one.bytes for one in outcome.judged)


def test_states_are_rings(tmp_path: Path) -> None:
    """Of the rows that a layer sees, those of a state among them, and nothing copies them."""
    plan = compile_model(
        listening(tmp_path / "fed.onnx", (3, 5), NAMES[:2], rows=2), CompileOptions(state=None)
    )
    assert [step.node.kind for step in plan.steps] == ["Conv2D"] * 3
    assert {plan.placements[name].ring for name in plan.kept} == {3 * 4, 5 * 4}


def test_states_in_c(tmp_path: Path) -> None:
    path = listening(tmp_path / "fed.onnx", (3, 5), NAMES[:2])
    check_states(compile_model(path, CompileOptions(state=None)), tmp_path)


def test_what_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = listening(tmp_path / "fed.onnx", (3, 4), [("state", "state_out"), ("a", "z")])
    code, said, _ = vmcu(capsys, "build", path, "-o", tmp_path)
    assert code == 0 and "of 'x', then" in " ".join(said.split())
    code, said, _ = vmcu(capsys, "verify", path, "-n", 50)
    assert code == 0 and "0 of 50 hops differ from the file's own runtime" in said
    both = ["--state", "state:state_out", "--state", "a:z"]
    code, said, _ = vmcu(capsys, "build", path, *both, "-o", tmp_path)
    assert code == 0 and "state: output 'z' is fed back as input 'a'" in said
    assert "--state state:state_out --state a:z" in (tmp_path / "fed.c").read_text()
    assert "paired by name" not in said
    code, said, _ = vmcu(capsys, "build", path, "--state", "none", "-o", tmp_path)
    assert code == 0 and "INPUT2_BYTES" in (tmp_path / "fed.h").read_text()
    code, said, _ = vmcu(capsys, "bench", path, *both, "--on", "qemu:m4")
    assert code == 0 and "instructions" in said


@pytest.mark.parametrize(
    "spoiled", [{"back": 4}, {"other": True}, {"behind": True}], ids=lambda one: next(iter(one))
)
def test_states_that_are_no_rings(spoiled: dict, tmp_path: Path) -> None:
    """Not the last rows, not in the same scale, or behind new ones: they are kept as a whole."""
    path = listening(tmp_path / "fed.onnx", (4,), NAMES[:1], rows=2, **spoiled)
    plan = compile_model(path, CompileOptions(state=["state:state_out"]))
    outcome = stream.verify(plan, "host", 200, 1)
    assert (
        plan.model.state.recurrent
        and outcome.passed
        and not any(o.differing for o in outcome.judged)
    )
    assert compile_model(path, CompileOptions(state=None)).model.state.recurrent


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (["state:nothing"], "the inputs are x, state, the outputs"),
        (["state:state_out", "state:state_out"], "'state' is named in two states"),
    ],
)
def test_names_of_states(pairs: list[str], reason: str, tmp_path: Path) -> None:
    path = listening(tmp_path / "fed.onnx", (4,), NAMES[:1])
    with pytest.raises(UserError, match=reason):
        compile_model(path, CompileOptions(state=pairs))


def test_a_file_without_states(tmp_path: Path) -> None:
    m = Fed(1, 2, 4)
    path = m.save(tmp_path / "plain.onnx", m.convolved(m.x, 4, 3, 2))
    with pytest.raises(UserError, match="no input can receive an output"):
        compile_model(path, CompileOptions(state=["x:y"]))


@pytest.mark.parametrize(
    ("ahead", "behind"),
    [
        ("state", "state_out"),
        ("h0", "hn"),
        ("c0", "cn"),
        ("encoder.h0", "encoder.hn"),
        ("cache_in", "cache_out"),
        ("in_cache.3", "out_cache.3"),
        ("past_key", "present_key"),
        ("past_k0", "present_k0"),
        ("past_key_values.0.key", "present.0.key"),
        ("prev_mem", "next_mem"),
        ("conv1/old", "conv1/new"),
        ("buffer", "new_buffer"),
    ],
)
def test_names_that_say_so(ahead: str, behind: str) -> None:
    assert state_key(ahead, PAST_WORDS) == state_key(behind, PRESENT_WORDS) != ()


def test_names_that_do_not() -> None:
    assert state_key("input", PAST_WORDS) == state_key("output", PRESENT_WORDS) == ()
    assert state_key("in_cache.1", PAST_WORDS) != state_key("out_cache.2", PRESENT_WORDS)
    assert state_key("h0", PAST_WORDS) != state_key("cn", PRESENT_WORDS)


def test_two_outputs_of_one_name(tmp_path: Path) -> None:
    """Neither is taken where both could be meant."""
    path = listening(tmp_path / "fed.onnx", (3,), NAMES[:1])
    model = onnx.load(path)
    model.graph.node.append(onnx.helper.make_node("Identity", ["state_out"], ["state_new"]))
    more = onnx.helper.make_tensor_value_info("state_new", onnx.TensorProto.FLOAT, (1, 4, 2, 1))
    model.graph.output.append(more)
    onnx.save(model, path)
    assert not compile_model(path, CompileOptions(state=None)).model.state.names
