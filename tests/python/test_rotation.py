# SPDX-License-Identifier: Apache-2.0
"""Pools that rotate: proven at every origin, the same bytes in C at each, even writes."""

from __future__ import annotations

import functools
import itertools
import math
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders.networks import network_file
from random_graphs import groups, overlapped, random_inputs, random_layers, with_copies, wrapped
from test_proof import plan as proven_plan
from vmcu_bench import runners
from vmcu_lab.wear.pool import rotated_writes, writes_of_inference
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.machine.rotation import CircularMcu, RotatedMcu, machines_of, prove
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.rotation import longest_run, rotation_step, runs
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.rotate import rotate

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "tests" / "runtime" / "tiny.onnx"
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"
HOST = "host:sanitize"


@functools.cache
def compiled(model: Path, stream_input: bool = False) -> Plan:
    return compile_model(model, CompileOptions(stream_input=stream_input, rotate=True))


def origins(plan: Plan) -> range:
    assert plan.rotation is not None
    return range(0, plan.pool_bytes, math.gcd(plan.rotation.step, plan.pool_bytes))


def expect_in_c(plan: Plan, target: str, inferences: int) -> None:
    """As many inferences in one process give the bytes of the meaning, each at the next origin."""
    sample = random_inputs(plan.graph, 3)
    wanted = reference.run(plan.graph, sample)
    results = runners.get(target).run(plan, [sample] * inferences)
    for number, outputs in enumerate(results):
        for port, got in zip(plan.graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(got, wanted[port.tensor], err_msg=f"{number}")


@pytest.mark.parametrize("stream_input", [False, True])
@pytest.mark.parametrize(("model", "every"), [(TINY, 1), (DIGITS, 11)], ids=["tiny", "digits"])
def test_origins_are_proven(model: Path, every: int, stream_input: bool):
    """On memory as it is, overhang and all, not only on a circle that splits nothing."""
    plan = compiled(model, stream_input)
    machine = RotatedMcu(plan)
    for origin in origins(plan)[::every]:
        machine.origin = origin
        machine.prove()


def test_each_inference_has_its_origin():
    plan = compiled(TINY)
    assert plan.rotation is not None
    turns, at, wanted = len(origins(plan)), 0, []
    for _ in range(turns):
        wanted.append(at)
        at += plan.rotation.step
        at -= plan.pool_bytes if at >= plan.pool_bytes else 0
    assert sorted(wanted) == list(origins(plan))
    machines = itertools.islice(machines_of(plan), 2 * turns)
    assert [machine.origin for machine in machines] == 2 * wanted
    still = list(itertools.islice(machines_of(overlapped(random_layers("add", 1, 1))), 3))
    assert still[0] is still[1] is still[2] and not isinstance(still[0], RotatedMcu)


def test_values_at_every_origin():
    plan = compiled(TINY)
    sample = random_inputs(plan.graph, 1)
    wanted = reference.run(plan.graph, sample)
    machine = RotatedMcu(plan)
    for origin in origins(plan):
        machine.origin = origin
        for name, values in machine.run(sample).items():
            np.testing.assert_array_equal(values, wanted[name])


@pytest.mark.parametrize("stream_input", [False, True])
@pytest.mark.parametrize("model", [TINY, DIGITS], ids=lambda path: path.stem)
def test_c_at_every_origin(model: Path, stream_input: bool):
    plan = compiled(model, stream_input)
    expect_in_c(plan, HOST, len(origins(plan)) + 1)


@pytest.mark.parametrize("kinds", groups(), ids="+".join)
def test_layers_in_c(kinds: tuple[str, ...]):
    """In place where they can, around the end where the plan has them there."""
    graph = random_layers(kinds, 12, 4)
    for plan in (overlapped(graph), wrapped(with_copies(graph), 4)):
        expect_in_c(rotate(plan), HOST, 60)


@pytest.mark.parametrize(
    ("name", "stream_input"),
    [
        ("mlperf-tiny-kws", False),
        ("mlperf-tiny-resnet8", True),
        ("ds-cnn", True),
        pytest.param("resnet8", False, marks=pytest.mark.slow),
    ],
)
def test_models_in_c(name: str, stream_input: bool):
    expect_in_c(compiled(network_file(name), stream_input), "host", 40)


def test_a_board():
    expect_in_c(compiled(DIGITS), "qemu:m4", 12)


def test_an_overhang_too_small_is_refused():
    plan = compiled(DIGITS)
    assert plan.rotation is not None
    less = replace(plan, rotation=replace(plan.rotation, overhang=plan.rotation.overhang - 1))
    with pytest.raises(PlanError, match="longer than the overhang allows"):
        prove(less)
    begin, _ = max(runs(plan), key=lambda run: run[1])
    at_the_end = (plan.pool_bytes - 4 - begin // 4 * 4) % plan.pool_bytes
    RotatedMcu(plan, at_the_end).prove()
    with pytest.raises(PlanError, match="ends beyond the pool"):
        RotatedMcu(less, at_the_end).prove()


@pytest.mark.parametrize("number", [7, 10, 11, 13])
def test_a_moved_tensor_is_judged_as_on_memory_at_every_origin(number: int):
    """The one replay of the proof against a replay for each origin, overhang and all: of a tensor
    moved to any place, and of two in each other's."""
    plan = proven_plan(number)
    places = {name: placement.base for name, placement in plan.placements.items()}
    rng = np.random.default_rng(number)
    moves = [{name: int(rng.integers(plan.pool_bytes))} for name in places for _ in range(12)]
    pairs = itertools.combinations(places, 2)
    moves += [{one: places[other], other: places[one]} for one, other in pairs]
    verdicts = set()
    for move in moves:
        moved = replace(
            plan,
            placements={
                name: replace(placement, base=move.get(name, placement.base))
                for name, placement in plan.placements.items()
            },
        )
        accepted = is_accepted(moved)
        verdicts.add(accepted)
        if accepted:
            machine = RotatedMcu(moved)
            for origin in origins(moved):
                machine.origin = origin
                machine.prove()
    assert verdicts == {True, False}


def is_accepted(plan: Plan) -> bool:
    try:
        prove(plan)
    except PlanError:
        return False
    return True


def test_a_run_in_the_overhang_is_on_what_begins_the_circle():
    """Scratch and progress, of which no test of a tensor has one that reaches around."""
    plan = compiled(DIGITS)
    machine = CircularMcu(plan)
    circle = plan.pool_bytes
    ends, begins = slice(circle - 4, circle + 4), slice(0, 8)
    assert machine._overlap(ends, begins) and machine._overlap(begins, ends)
    assert not machine._overlap(slice(circle - 8, circle), begins)
    assert not VirtualMcu._overlap(machine, ends, begins)
    assert VirtualMcu._overlap(machine, slice(0, 4), slice(3, 8))
    assert not machine._overlap(slice(8, 12), begins) and not machine._overlap(slice(4, 4), begins)


@pytest.mark.parametrize("least", [2, 8])
def test_steps_that_are_refused(least: int):
    """Half a word, and words that do not come to all others: a divisor of the circle."""
    plan = compiled(DIGITS)
    step = next(n for n in range(least, plan.pool_bytes, 4) if plan.pool_bytes % n == 0)
    assert plan.rotation is not None and step < plan.pool_bytes
    with pytest.raises(PlanError, match="every word"):
        prove(replace(plan, rotation=replace(plan.rotation, step=step)))


def test_an_overhang_as_large_as_the_circle_is_refused():
    plan = compiled(DIGITS)
    assert plan.rotation is not None
    with pytest.raises(PlanError, match="every word"):
        prove(replace(plan, rotation=replace(plan.rotation, overhang=plan.pool_bytes)))


def test_a_plan_that_clobbers_is_refused():
    graph = random_layers("conv2d", 3, 1)
    with pytest.raises(UserError, match="cannot rotate"):
        rotate(overlapped(graph, closer=1))


def test_runs_are_what_the_longest_is_of():
    plan = compiled(DIGITS)
    longest = max(count for _, count in runs(plan))
    assert plan.rotation is not None
    assert plan.rotation.overhang in range(longest - 4, longest)
    assert longest_run(plan) == plan.rotation.overhang + 1
    assert rotation_step(plan.pool_bytes) == (plan.rotation.step, len(origins(plan)))


def test_writes_are_even():
    """10,000 inferences, by what each writes."""
    plan = compiled(DIGITS)
    assert plan.rotation is not None
    writes = writes_of_inference(plan)
    after = rotated_writes(writes, plan.rotation.step, 10_000)
    assert after.max() <= 1.02 * after.mean() < writes.max() * 10_000


def test_ram_counts_the_overhang(capsys: pytest.CaptureFixture[str]):
    plan = compiled(DIGITS)
    build = ["build", str(DIGITS), "--rotate", "--ram"]
    assert main([*build, str(plan.ram_bytes)]) == 0
    assert "The origin of the pool advances by" in capsys.readouterr().out
    assert main(["build", str(TINY), "--rotate", "--ram", "64"]) == 1
    assert "does not fit" in capsys.readouterr().err
    with pytest.raises(UserError, match="with the overhang of a pool that rotates"):
        rotate(replace(plan, rotation=None), plan.ram_bytes - 1)


def test_tables_ask_for_a_runtime_that_rotates(tmp_path: Path):
    plan = compiled(TINY)
    for name, text in emit(plan, "tiny").files.items():
        (tmp_path / name).write_text(text)
    include = ROOT / "lib" / "vmcu" / "include"
    command = ["gcc", "-std=c99", "-c", f"-I{include}", "tiny.c", "-o", "tiny.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "CONFIG_VMCU_POOL_ROTATE" in done.stderr
    subprocess.run([*command, "-DVMCU_POOL_ROTATE"], cwd=tmp_path, check=True)


def test_plans_that_stay_run_in_a_runtime_that_rotates():
    """A firmware may have models of both kinds."""
    graph: Graph = random_layers("depthwise", 6, 2)
    plan = overlapped(graph)
    target = runners.get(HOST)
    rotating = replace(target, flags=(*target.flags, "-DVMCU_POOL_ROTATE"))
    sample = random_inputs(graph, 5)
    wanted = reference.run(graph, sample)
    for outputs in rotating.run(plan, [sample] * 3):
        for port, got in zip(graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(got, wanted[port.tensor])
