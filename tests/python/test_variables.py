# SPDX-License-Identifier: Apache-2.0
"""Files that keep the latest rows of tensors in variables: as TensorFlow Lite Micro keeps them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from builders.tflite_states import StatefulModel
from vmcu_bench import runners
from vmcu_bench.runners.borders import to_file
from vmcu_bench.runners.stream import streamed
from vmcu_bench.verify import stream
from vmcu_bench.verify.file_runtime import FileRuntime
from vmcu_tools import cli
from vmcu_tools.compiler import compile_model
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.plan.plan import Plan

KINDS = ("strided", "mixed", "flat", "deep")


def listening(kind: str, folder: Path, **faults: int) -> Path:
    """A file in the manner of one kind of streaming model. faults: members of StatefulModel."""
    m = StatefulModel(KINDS.index(kind) + 3)
    m.__dict__ |= faults
    strided = kind in ("strided", "mixed")
    x = m.activation((1, 3 if strided else 1, 1, 8), 0.05)
    y = m.convolved(m.latest(x, 2), 8, 5, 3) if strided else m.convolved(m.latest(x, 2), 8, 3)
    if kind == "mixed":
        one, two = m.halves(m.latest(y, 6))
        first = m.each(m.tail(one, 4, 4), 4)
        second = m.each(two, 7, like=first)
        joined = m.like(first, (1, 1, 1, 8))
        m.op("CONCATENATION", [first, second], joined, "Concatenation", axis=3)
        y = m.convolved(joined, 6, 1)
    if kind == "deep":
        for kernel in (4, 2, 9):
            y = m.convolved(m.each(m.latest(y, kernel - 1), kernel), 8, 1)
    out = m.dense(m.latest(y, 4) if kind == "flat" else y, 5)
    return m.save(folder / f"{kind}.tflite", [x], [out])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("variables")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["virtual", "host:sanitize", "qemu:m4"])
def test_calls_are_those_of_a_runtime_that_keeps_variables(
    kind: str, target: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = listening(kind, folder)
    plan = compile_model(path)
    rows = stream.stream_of(plan.model, plan.graph.state.step_rows, 120, 1)
    found = streamed(runners.get(target), plan, rows)
    runtime = FileRuntime(plan.model)
    windows = stream.windows(plan.model, rows, plan.graph.state.step_rows)
    wanted = np.stack([runtime.answer(runtime.call(window).outputs) for window in windows])
    np.testing.assert_array_equal(found, wanted)
    assert runtime.exact and len(np.unique(found)) > 50
    assert cli.main(["verify", str(path), "-n", "40", "--on", target]) == 0
    said = capsys.readouterr().out
    assert "0 of 40 hops differ from the file's own runtime call by call" in said
    assert f"{plan.graph.state.step_rows} rows a call, with the file's own state: PASSED" in said


@pytest.mark.parametrize("target", ["virtual", "host"])
def test_vmcu_run_takes_the_rows_of_several_calls(target: str, folder: Path) -> None:
    path = listening("strided", folder)
    plan = compile_model(path)
    rows = stream.stream_of(plan.model, plan.graph.state.step_rows, 20, 1)
    np.save(folder / "x.npy", rows[None])
    words = ["run", path, "--input", folder / "x.npy", "--output", folder / "y.npy", "--on", target]
    assert cli.main([str(word) for word in words]) == 0
    wanted = streamed(runners.get("host"), plan, rows)
    port = plan.model.outputs[0]
    shown = np.stack([to_file(answer, plan.model, port) for answer in wanted])
    np.testing.assert_array_equal(np.load(folder / "y.npy"), shown)


def test_branches_of_a_mixed_convolution_are_one_layer(folder: Path) -> None:
    plan = compile_model(listening("mixed", folder))
    (joined,) = [n.op for n in plan.model.nodes if isinstance(n.op, DepthwiseConv2D)]
    assert joined.weights.shape == (7, 1, 8) and joined.window.kernel == (7, 1)
    assert not joined.weights[:3, :, :4].any() and joined.weights[:3, :, 4:].any()


def test_bytes_of_state(folder: Path) -> None:
    plan: Plan = compile_model(listening("deep", folder))
    rings = {plan.placements[name].ring for name in plan.kept}
    assert rings == {3 * 8, 4 * 8, 2 * 8, 9 * 8}


@pytest.mark.parametrize("other", [{"begin": 77}, {"kept": 3}])
def test_variables_that_are_no_rings_are_computed(other: dict[str, int], folder: Path) -> None:
    """One that begins with others than zeros, and one that does not get the last rows."""
    plan = compile_model(listening("strided", folder, **other))
    assert len(plan.model.state.recurrent) == 1
    outcome = stream.verify(plan, "host", 300, 1)
    assert outcome.passed and not outcome.judged[0].differing


def test_what_such_files_are_not_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = listening("strided", folder)
    for words, said in (
        (["build", path, "--hop", 2], "the model keeps state and needs 3 rows a call, not 2"),
        (
            ["build", path, "--rotate"],
            "a model that keeps state cannot be combined with --rotate",
        ),
        (["compare", path], "the model keeps state, which planner"),
    ):
        assert cli.main([str(word) for word in words]) == 1
        assert said in capsys.readouterr().err
    assert cli.main(["build", str(path)]) == 0
    said = "A call needs 3 rows. The file has 1 state, which vmcu keeps in ring buffers"
    assert said in capsys.readouterr().out


WAKE_WORDS = Path(os.environ.get("VMCU_WAKE_WORDS", "/nowhere"))


@pytest.mark.skipif(not WAKE_WORDS.is_dir(), reason="VMCU_WAKE_WORDS names no folder of files")
def test_published_wake_words(capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted(WAKE_WORDS.glob("*.tflite")):
        assert cli.main(["verify", str(path), "-n", "1000", "--on", "host"]) == 0, path
        assert "0 of 1,000 hops differ" in capsys.readouterr().out
    assert compile_model(WAKE_WORDS / "okay_nabu.tflite").pool_bytes <= 4608
