# SPDX-License-Identifier: Apache-2.0
"""Options that exclude each other: the command line and the API refuse each pair of the table."""

from __future__ import annotations

from dataclasses import fields

import pytest
from vmcu_tools import paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.plan.chunks import WeightStore
from vmcu_tools.plan.pools import Region
from vmcu_tools.planner.options import EXCLUSIONS, CompileOptions, check_exclusions, spelled

TINY = paths.root() / "tests" / "runtime" / "tiny.onnx"
PAIRS = [(one.option, other) for one in EXCLUSIONS for other in one.reasons]
# A value of each option that is not its default, in Python and as words of the command line.
VALUES = {
    "ram": (4096, ["4K"]),
    "stream_input": (True, []),
    "external_input": (True, []),
    "extra_macs": (10.0, ["10"]),
    "rotate": (True, []),
    "memory": ((Region("a", 1024, 0.0), Region("b", 4096, 1.0)), ["a=1K,b=4K"]),
    "hop": (1, ["1"]),
    "online": (True, []),
    "external_weights": (WeightStore(8e6), ["8MB/s"]),
    "workers": (2, ["2"]),
    "pareto": (True, []),
    "output": (None, ["out"]),
}


@pytest.mark.parametrize(("option", "other"), PAIRS)
def test_the_command_refuses_both(
    option: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for one in (option, other) for word in (spelled(one), *VALUES[one][1])]
    if "online" in (option, other):
        words += ["--format", "container"]
    assert main(["build", str(TINY), *words]) == 1
    said = capsys.readouterr().err
    assert "cannot be combined with" in said and spelled(option) in said and spelled(other) in said


OF_PLANS = [pair for pair in PAIRS if not {"pareto", "output"} & set(pair)]


@pytest.mark.parametrize(("option", "other"), OF_PLANS)
def test_the_compiler_refuses_both(option: str, other: str) -> None:
    options = CompileOptions(**{one: VALUES[one][0] for one in (option, other)})
    assert options.given() == {option, other}
    with pytest.raises(UserError, match=f"{spelled(option)} cannot be combined.*{spelled(other)}"):
        compile_model(TINY, options)


def test_each_name_is_an_option() -> None:
    known = {field.name for field in fields(CompileOptions)} | {"pareto", "output"}
    assert {name for pair in PAIRS for name in pair} <= known


def test_options_that_go_together() -> None:
    check_exclusions({"ram", "stream_input", "extra_macs", "rotate"}, TINY)
    check_exclusions({"hop", "ram", "effort", "state"}, TINY)
    assert CompileOptions().given() == set()
