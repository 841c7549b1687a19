# SPDX-License-Identifier: Apache-2.0
"""The benchmark networks go the whole way: float, int8 .onnx, plan, C on this computer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from vmcu_tools import verify
from vmcu_tools.compiler import compile_model

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
    plan = compile_model(build.write(name, tmp_path), "vmcu")
    outcome = verify.verify(plan, "host", 1, 1, 0)
    assert outcome.passed
    products = [check for check in outcome.checks if check.tolerance == 0]
    assert len(products) >= 4


def test_files_are_the_same_every_time(build, tmp_path):
    first = build.write("ds-cnn", tmp_path).read_bytes()
    assert build.write("ds-cnn", tmp_path).read_bytes() == first
