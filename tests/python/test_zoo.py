# SPDX-License-Identifier: Apache-2.0
"""The benchmark networks go the whole way: float, int8 .onnx, plan, C on this computer."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from vmcu_bench.oracle.ort import session_of
from vmcu_bench.runners.borders import to_file, to_memory
from vmcu_bench.verify import verify
from vmcu_tools.compiler import compile_model
from vmcu_tools.frontends import load
from vmcu_tools.machine import reference

pytest.importorskip("onnxruntime")

MODELS = Path(__file__).resolve().parents[2] / "benchmarks" / "models"
SMALL = ("ds-cnn", "heartbeat", "resnet8", "transformer", "unet-48")


@pytest.fixture
def build(monkeypatch):
    monkeypatch.syspath_prepend(str(MODELS))
    yield __import__("build")
    for name in ("build", "network", "sequences", "vision"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", SMALL)
def test_network_equals_onnxruntime(build, tmp_path, name):
    plan = compile_model(build.write(name, tmp_path))
    outcome = verify.verify(plan, "host", 1, 1, 0)
    assert outcome.passed
    products = [check for check in outcome.checks if check.promise.steps == 0]
    assert len(products) >= 4


@pytest.mark.parametrize("name", ["ds-cnn", "heartbeat", "resnet8"])
def test_same_classes_as_onnxruntime(build, tmp_path, name):
    plan = compile_model(build.write(name, tmp_path))
    (border,) = verify.verify(plan, "host", 20, 0, 0).ends.borders
    assert border.agreeing == border.samples >= 20


def test_equal_to_onnxruntime_as_it_comes(build, tmp_path):
    """Also where a tensor has two readers, and with the fusions of its own choice."""
    if platform.machine() != "x86_64":
        pytest.skip("ONNX Runtime adds in another way off x86-64")
    path = build.write("resnet8", tmp_path)
    graph = load(path)
    session = session_of(path, "ORT_ENABLE_EXTENDED")
    for sample in build.samples(onnx.load(path), 5, 3):
        values = reference.run(graph, [to_memory(sample["input"], graph, graph.inputs[0])])
        ours = to_file(values[graph.outputs[0].tensor], graph, graph.outputs[0])
        np.testing.assert_array_equal(ours, session.run(None, sample)[0])


def test_files_are_the_same_every_time(build, tmp_path):
    first = build.write("ds-cnn", tmp_path).read_bytes()
    assert build.write("ds-cnn", tmp_path).read_bytes() == first
