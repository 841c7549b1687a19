# SPDX-License-Identifier: Apache-2.0
"""Plans within a time: the best so far when it is over, or when somebody interrupts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from builders.dags import Dag
from builders.networks import network_file
from vmcu_tools import cli
from vmcu_tools.commands import models
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.passes import optimize
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner import anytime
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import PLANNERS, make_plan

GRAPH = Dag(3, 24).graph()
DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"
MARK = "VMCU_TEST_MARK"
os.environ.setdefault(MARK, f"vmcu-test-{os.getpid()}")


def endless(graph: Graph, options: CompileOptions) -> Plan:
    """A planner that never answers, with a solver that does not either."""
    subprocess.run([sys.executable, "-c", "import time; time.sleep(100)", os.environ[MARK]])
    raise AssertionError("it answered")


def hopeless(graph: Graph, options: CompileOptions) -> Plan:
    raise UserError(Problem("does not fit", "allow more"))


def within(seconds: float, planning: anytime.Planning, **wanted: bool | int) -> tuple[Plan, float]:
    start = time.monotonic()
    options = CompileOptions(plan_seconds=seconds, **wanted)  # type: ignore[arg-type]
    plan = anytime.plan_within(GRAPH, options, planning, start + seconds)
    return plan, time.monotonic() - start


def test_time_that_is_over_gives_the_best_so_far() -> None:
    plan, took = within(9.0, endless)
    VirtualMcu(plan).prove()
    assert plan.notes[-1] == anytime.OVER.format(9)
    assert took <= 9.0
    assert plan.pool_bytes == anytime.smallest_pool.plan(GRAPH).pool_bytes


def test_a_planner_that_ends_by_itself_gives_what_it_gives_without_a_limit() -> None:
    graph = optimize(load(network_file("ds-cnn")))
    limited = make_plan(graph, CompileOptions(plan_seconds=60))
    free = make_plan(graph)
    assert limited.pool_bytes == free.pool_bytes and limited.placements == free.placements
    assert not any("ended after" in note for note in limited.notes)


def test_without_any_plan_it_is_said() -> None:
    with pytest.raises(UserError, match=r"no plan was found within 0\.8 seconds"):
        within(0.8, endless, stream_input=True)
    with pytest.raises(UserError, match="does not fit"):
        within(30.0, hopeless, ram=16)


def test_what_the_best_planner_refuses_the_others_may_do() -> None:
    assert within(30.0, hopeless)[0].pool_bytes > 0


def test_an_interruption_keeps_the_best_so_far() -> None:
    # Jobs in the background of a shell ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(8.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        plan, took = within(60.0, endless)
    finally:
        signal.signal(signal.SIGINT, before)
    assert plan.notes[-1] == anytime.INTERRUPTED and 8.0 <= took < 12.0


def test_an_interruption_without_a_limit_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(graph: Graph, options: CompileOptions) -> Plan:
        raise KeyboardInterrupt

    monkeypatch.setitem(PLANNERS, "vmcu", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_plan(GRAPH)


def test_only_build_goes_on_with_the_best_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_plan(optimize(load(DIGITS)))
    interrupted = replace(plan, notes=(anytime.INTERRUPTED,))
    monkeypatch.setattr(models, "planned", lambda *_: interrupted)
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


def test_nothing_goes_on_when_time_is_over() -> None:
    within(5.0, endless)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert os.environ[MARK] not in listed


def test_the_whole_command_ends_in_time(tmp_path: Path) -> None:
    """With a margin for computers that do other things as well."""
    path, out = network_file("ds-cnn"), tmp_path / "plan.json"
    command = [sys.executable, "-m", "vmcu_tools", "build", str(path), "--json", str(out)]
    start = time.monotonic()
    done = subprocess.run([*command, "--plan-seconds", "8"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - start < 8 * 1.25
    assert json.loads(out.read_text())["pool_bytes"] > 0


def test_a_process_may_be_older_than_the_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As that of somebody who calls the command from Python, again and again."""
    command = ["build", str(DIGITS), "-o", str(tmp_path), "--plan-seconds", "60"]
    assert cli.main(command) == 0
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 1000)
    assert cli.main(command) == 0


def test_a_script_is_not_run_again(tmp_path: Path) -> None:
    """By the process of the planners, as one of multiprocessing would where nothing forbids it."""
    script = tmp_path / "plan.py"
    script.write_text(
        "import vmcu\n"
        "print('begun')\n"
        f"print(vmcu.load({str(DIGITS)!r}).plan(plan_seconds=60).report().bytes > 0)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("begun\nTrue\n", "")
