# SPDX-License-Identifier: Apache-2.0
"""Networks of benchmarks/speech, quantised, call by call with their states beside ONNX Runtime."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import onnx
import pytest
from vmcu_tools import paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.quantize.calibration import quantize
from vmcu_tools.verify import stream

pytest.importorskip("onnxruntime")
ROOT = paths.root()
MAKE = runpy.run_path(str(ROOT / "benchmarks/speech/make.py"))
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
    assert len(plan.model.recurs) == 2
    outcome = stream.verify(plan, "host", 100, 1)
    assert outcome.hops == 100 and outcome.passed
    assert not any(one.differing for one in outcome.judged)


@pytest.mark.parametrize("name", PARTS)
def test_an_enhancer(name: str, tmp_path: Path) -> None:
    """A mean of squares and a LayerNormalization may be a step off, see promise.py."""
    form, states = PARTS[name]
    plan = planned(MAKE["enhancer"](MAKE["Enhancer"](**SMALL, **form)), tmp_path)
    assert len(plan.model.recurs) == states
    outcome = stream.verify(plan, "host", 100, 1)
    assert outcome.hops == 100 and outcome.passed
    assert not any(one.differing for one in outcome.judged if one.strict)


def test_the_page_has_the_detectors_figures() -> None:
    script = runpy.run_path(str(ROOT / "benchmarks/speech/run.py"))
    line = " | ".join(script["row"]("vad"))
    assert f"| {line} |" in (ROOT / "doc/streaming.md").read_text(encoding="utf-8")
