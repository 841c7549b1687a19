# SPDX-License-Identifier: Apache-2.0
"""Plans of `--effort`: the long search is never worse, and Ctrl-C ends it with the normal plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.dags import Dag
from builders.networks import network_file
from drawn import case
from vmcu_tools import cli, model_file
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.passes import optimize
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import DEFAULT_PARAMS, EFFORTS, LONG, NORMAL, QUICK
from vmcu_tools.planner.registry import INTERRUPTED, PLANNERS, make_plan
from vmcu_tools.planner.stages import fusion

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"


def test_an_effort_changes_limits_only() -> None:
    assert DEFAULT_PARAMS.at(NORMAL) == DEFAULT_PARAMS
    for name in EFFORTS[QUICK]:
        quick, normal, long = (getattr(DEFAULT_PARAMS.at(effort), name) for effort in EFFORTS)
        assert quick < normal < long
    assert replace(DEFAULT_PARAMS.at(LONG), **EFFORTS[QUICK]).ejection


# test_a_long_search_finds_a_smaller_pool has the dearest one.
@pytest.mark.parametrize(
    "effort",
    [case(one, slow=one == LONG) for one in EFFORTS],
)
def test_plans_of_each_effort(effort: str) -> None:
    graph = Dag(4, 24).graph()
    plan = make_plan(graph, CompileOptions(effort=effort))
    VirtualMcu(plan).prove()
    if effort == LONG:
        assert plan.pool_bytes <= make_plan(graph).pool_bytes


def test_a_long_search_finds_a_smaller_pool() -> None:
    graph = optimize(load(network_file("mlperf-tiny-vww")))
    normal, long = (
        make_plan(graph, CompileOptions(stream_input=True, effort=effort))
        for effort in (NORMAL, LONG)
    )
    assert long.pool_bytes < normal.pool_bytes
    fastest = make_plan(graph, CompileOptions(ram=9500, stream_input=True))
    found = make_plan(graph, CompileOptions(ram=9500, stream_input=True, effort=LONG))
    assert fusion.added_cycles(found) <= fusion.added_cycles(fastest)


def test_an_interruption_keeps_the_normal_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    normal = PLANNERS["vmcu"]

    def interrupted(graph: Graph, options: CompileOptions) -> Plan:
        if options.effort == LONG:
            raise KeyboardInterrupt
        return normal(graph, options)

    graph = optimize(load(DIGITS))
    monkeypatch.setitem(PLANNERS, "vmcu", interrupted)
    plan = make_plan(graph, CompileOptions(effort=LONG))
    assert plan.notes[-1] == INTERRUPTED
    assert plan.placements == make_plan(graph).placements


def test_an_interruption_of_the_normal_search_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(graph: Graph, options: CompileOptions) -> Plan:
        raise KeyboardInterrupt

    monkeypatch.setitem(PLANNERS, "vmcu", interrupted)
    for effort in (NORMAL, LONG):
        with pytest.raises(KeyboardInterrupt):
            make_plan(Dag(3, 8).graph(), CompileOptions(effort=effort))


def test_only_build_goes_on_with_the_best_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_plan(optimize(load(DIGITS)))
    interrupted = replace(plan, notes=(INTERRUPTED,))
    monkeypatch.setattr(model_file, "planned", lambda *_: interrupted)
    for words in (
        ["fit", "--ram", "1M"],
        ["verify"],
        ["check", "--max-ram", "1M"],
        ["bench", "--wear"],
    ):
        assert cli.main([words[0], str(DIGITS), *words[1:]]) == 130
        assert "interrupted" in capsys.readouterr().err
    assert cli.main(["build", str(DIGITS)]) == 130
    assert "best plan found" in capsys.readouterr().out
