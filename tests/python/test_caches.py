# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache of earlier tokens, however a file writes it, beside ONNX Runtime, which
is given the cache call by call."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from builders.onnx_caches import Step
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.planner.options import CompileOptions


@pytest.mark.parametrize(
    ("by_heads", "same", "sliced_first"), list(itertools.product([False, True], repeat=3))
)
def test_every_spelling(by_heads: bool, same: bool, sliced_first: bool, tmp_path: Path) -> None:
    path = Step(by_heads, same, sliced_first).save(tmp_path / "step.onnx")
    plan = compile_model(path, CompileOptions(hop=1, state=None))
    assert plan.model.states == ("past_key", "past_value")
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "60", "--on", target]) == 0
