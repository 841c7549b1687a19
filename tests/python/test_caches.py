# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache of earlier tokens, however a file writes it, beside ONNX Runtime, which
is given the cache call by call."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from builders.onnx_caches import Step
from drawn import case
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.planner.options import CompileOptions


# Each two spellings in all four ways; the other half is slow.
@pytest.mark.parametrize(
    ("by_heads", "same", "sliced_first"),
    [case(*one, slow=sum(one) % 2 == 1) for one in itertools.product([False, True], repeat=3)],
)
def test_every_spelling(by_heads: bool, same: bool, sliced_first: bool, tmp_path: Path) -> None:
    """One cache that is read in place, if its scale stays."""
    expect(Step(by_heads, same, sliced_first), tmp_path, rings=same)


@pytest.mark.parametrize(
    "step",
    [
        Step(sharing=3),
        Step(bias=True, heads=3),
        Step(bias=True, sharing=2, by_heads=False),
        Step(heads=1, depth=5, tokens=2),
        Step(tokens=40, depth=8, sharing=2),
        Step(lone=True),
        Step(lone=True, by_heads=False),
        Step(whole=True, sharing=2),
        Step(whole=True, by_heads=False),
    ],
    ids=str,
)
def test_heads(step: Step, tmp_path: Path) -> None:
    expect(step, tmp_path, rings=True)


@pytest.mark.parametrize(
    "step",
    [
        Step(ids=True),
        Step(mask="row", sharing=3),
        Step(mask="front", heads=1),
        Step(mask="each", by_heads=False, ids=True, packed=True),
        Step(mask="added", sliced_first=True, twice=True),
        Step(mask="valid", ids=True, twice=True),
        Step(mask="constant", by_heads=False),
        Step(mask="row", tokens=64, heads=4, depth=16, ids=True),
        Step(mask="valid", tokens=64, heads=4, depth=16),
    ],
    ids=str,
)
def test_rings_beside_other_inputs_and_outputs(step: Step, tmp_path: Path) -> None:
    expect(step, tmp_path, rings=True, rest=120)


def test_a_whole_cache_of_another_scale_is_copied(tmp_path: Path) -> None:
    expect(Step(whole=True, same=False), tmp_path, rings=False)


def test_copies_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Step(same=False).save(tmp_path / "step.onnx")
    assert main(["build", str(path), "-o", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "each call copies 'past_key', 'past_value' (96 bytes; " in said
    assert "its scale or zero point differs from that of the output" in said


def expect(step: Step, folder: Path, rings: bool, rest: int = 40) -> None:
    """The same bytes as ONNX Runtime on the host and the virtual MCU, and the cache once."""
    path = step.save(folder / "step.onnx")
    plan = compile_model(path, CompileOptions(hop=1, state=None))
    assert plan.model.state.names[-2:] == ("past_key", "past_value")
    assert bool(plan.model.state.recurrent) != rings
    assert (plan.state[1] < 2 * (step.tokens + 3) * step.width + rest) or not rings
    for target in ("virtual", "host"):
        calls = str(max(60, 2 * step.tokens + 5))
        assert main(["verify", str(path), "-n", calls, "--on", target]) == 0
