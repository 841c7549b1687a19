# SPDX-License-Identifier: Apache-2.0
"""Networks of benchmarks/speech, quantised, call by call with their states beside ONNX Runtime."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from vmcu_bench.verify import stream
from vmcu_tools import paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.quantize.calibration import quantize

pytest.importorskip("onnxruntime")
ROOT = paths.root()
SPEECH = ROOT / "benchmarks/speech"
MAKE, CALLS, RUN = (runpy.run_path(str(SPEECH / f"{name}.py")) for name in ("make", "calls", "run"))
PAGE = (ROOT / "doc/streaming.md").read_text(encoding="utf-8")
SMALL: dict[str, Any] = {"bins": 9, "low": 3, "bands": 2, "channels": 8}
# The enhancer's parts, and the number of their states; the whole takes minutes to plan.
PARTS: dict[str, tuple[dict[str, Any], int]] = {
    "over time": ({"dilations": (2,), "layers": 0}, 4),
    "over frequency": ({"dilations": (), "layers": 1}, 1),
}


def planned(model: onnx.ModelProto, folder: Path, calls: int = 30) -> Plan:
    whole, int8 = folder / "float.onnx", folder / "int8.onnx"
    onnx.save(model, whole)
    found = MAKE["calibration"](model, MAKE["frames_of"](model, calls, 1))
    samples = [{name: array[n] for name, array in found.items()} for n in range(calls)]
    quantize(whole, int8, samples)
    return compile_model(int8, CompileOptions(state=None))


def test_a_detector(tmp_path: Path) -> None:
    """Every byte is ONNX Runtime's."""
    size = MAKE["Detector"](samples=64, window=32, step=16, channels=(8, 8, 8, 8), units=8)
    plan = planned(MAKE["detector"](size), tmp_path)
    assert len(plan.model.state.recurrent) == 2
    outcome = stream.verify(plan, "host", 100, 1)
    assert outcome.hops == 100 and outcome.passed
    assert not any(one.differing for one in outcome.judged)


@pytest.mark.parametrize("name", PARTS)
def test_an_enhancer(name: str, tmp_path: Path) -> None:
    """A mean of squares and a LayerNormalization may be a step off, see promise.py."""
    form, states = PARTS[name]
    plan = planned(MAKE["enhancer"](MAKE["Enhancer"](**SMALL, **form)), tmp_path)
    assert len(plan.model.state.recurrent) == states
    outcome = stream.verify(plan, "host", 100, 1)
    assert outcome.hops == 100 and outcome.passed
    assert not any(one.differing for one in outcome.judged if one.strict)


def expect_row(name: str) -> None:
    """The row of a trained network has its score in float and in int8."""
    assert f"| {' | '.join(RUN['row'](name))} |" in PAGE


@pytest.mark.parametrize("name", ["vad", "vad-trained"])
def test_the_page_has_the_detectors_figures(name: str) -> None:
    expect_row(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["enhancer", "enhancer-trained"])
def test_the_page_has_the_enhancers_figures(name: str) -> None:
    """Minutes: the planner."""
    expect_row(name)


@pytest.mark.parametrize("name", ("enhancer", "vad"))
def test_training_improves_a_network(name: str) -> None:
    """On sounds that training has not heard, without the planner."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {name}-trained |"))
    before, after = (RUN["score"](MAKE["NETWORKS"][one]()) for one in (name, f"{name}-trained"))
    assert before < after - 3
    assert f"{after:.1f}" == row.split(" | ")[-2]


@pytest.mark.parametrize("name", ("enhancer", "vad"))
def test_training_runs_the_graph_of_the_file(name: str) -> None:
    """Needs PyTorch, which is no package of the tests: sequences beside ONNX Runtime's calls, and
    gradients for all constants."""
    torch = pytest.importorskip("torch")
    unrolled = runpy.run_path(str(SPEECH / "unrolled.py"))
    make = MAKE["RANDOM"][name]
    model, learned = make(), MAKE["learned"](make)
    states = {one.name: CALLS["state_output"](one.name) for one in model.graph.input[1:]}
    frames = MAKE["frames_of"](model, 12, 1)
    net = unrolled["Unrolled"](model, states, learned)
    found = net(torch.tensor(np.stack([frames, 0 * frames], 1)))
    wanted = CALLS["run"](model, frames)[1]
    assert np.allclose(found[:, 0].detach().numpy(), wanted, atol=1e-4)
    found.square().mean().backward()
    assert len(learned) > 10 and all(one.grad.any() for one in net.parameters())
