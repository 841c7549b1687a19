# SPDX-License-Identifier: Apache-2.0
"""Plans that a device makes: equal to this computer's, proven, and of any container within it."""

from __future__ import annotations

import ctypes
import errno
import functools
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import online_device as device
import pytest
from builders.containers import member_of
from builders.damages import OF_PLANNERS
from builders.greedy_plans import greedy_plan
from builders.networks import MODELS, network_file
from drawn import seeds
from random_networks import AnyNetwork, EveryNetwork
from test_baselines import recorded_head
from vmcu_bench.runners.samples import make_samples
from vmcu_tools import cli, container, frontends, passes, paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.container import layout
from vmcu_tools.emit.model import write_tables
from vmcu_tools.errors import UserError
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.places import online, smallest_pool
from vmcu_tools.planner.registry import make_plan

NETWORKS, PARTS = 250, 3
ROOT = paths.runtime().parents[1]
DIGITS = ROOT / "samples/digits/digits.onnx"
# What planning may cost on a Cortex-M4, in instructions, by planner.
MOST = {device.GREEDY: 300_000, device.SEGMENTS: 2_000_000}
ON_BOARDS = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="needs arm-none-eabi-gcc and qemu-system-arm",
)


def network(number: int) -> Graph:
    kind = (AnyNetwork, EveryNetwork)[number % 2]
    return passes.optimize(kind(7000 + number, 1 + number % 9).made)


def planned(graph: Graph) -> Plan:
    return make_plan(graph, CompileOptions(online=True), prove=False)


def where(plan: Plan) -> tuple[int, dict[str, int], list[tuple[int, bool]]]:
    """What two plans are compared in."""
    bases = {name: placement.base for name, placement in plan.placements.items()}
    scratch = [step.scratch if step.scratch_bytes else 0 for step in plan.steps]
    turned = [step.descending for step in plan.steps]
    return plan.pool_bytes, bases, list(zip(scratch, turned, strict=True))


@pytest.mark.parametrize("part", seeds(PARTS, 1))
def test_plans_are_those_of_this_computer_and_proven(loader: ctypes.CDLL, part: int) -> None:
    """Of random networks, greedy and in segments; where branches make the latter greedy, too,
    that is said."""
    results: Counter[int] = Counter()
    for number in range(part, NETWORKS, PARTS):
        plan = planned(network(number))
        image = container.of_tables(write_tables(plan, "m").files, "m", container.online_of(plan))
        greedy = greedy_plan(plan.graph)
        for planner in (device.GREEDY, device.SEGMENTS):
            loaded = device.load(loader, image, planner)
            assert loaded.result >= 0, (number, loaded.refusal)
            found = device.plan_of(loaded, plan)
            wanted = online.segments(plan.graph) if planner == device.SEGMENTS else greedy
            assert loaded.result == (wanted is None), number
            assert where(found) == where(wanted or greedy), number
            VirtualMcu(found).prove()
            results[planner, loaded.result] += 1
    assert results[device.SEGMENTS, 0] > results[device.SEGMENTS, 1] > 0


def digits() -> Plan:
    return compile_model(DIGITS, CompileOptions(online=True))


@functools.cache
def meant(path: Path) -> tuple[Plan, list[np.ndarray], bytes]:
    """A network, a sample of it, and the bytes of its outputs."""
    plan = compile_model(path, CompileOptions(online=True))
    sample = make_samples(plan.graph, 1, 0, 0)[0]
    values = reference.run(plan.graph, sample)
    return plan, sample, b"".join(values[port.tensor].tobytes() for port in plan.graph.outputs)


@ON_BOARDS
@pytest.mark.parametrize("planner", [device.GREEDY, device.SEGMENTS])
@pytest.mark.parametrize("name", ["digits", "mcunet-imagenet-320kb"])
def test_boards_plan_the_same_within_what_it_may_cost(
    tmp_path: Path, name: str, planner: int
) -> None:
    path = DIGITS if name == "digits" else network_file(name)
    plan, sample, outputs = meant(path)
    made, counts = device.on_board("qemu:m4", plan, planner, sample, tmp_path, 1 << 20)
    found = device.plan_of(made, plan)
    greedy = greedy_plan(plan.graph)
    wanted = online.segments(plan.graph) if planner == device.SEGMENTS else greedy
    assert wanted is not None and made.result == 0
    assert where(found) == where(wanted)
    VirtualMcu(found).prove()
    assert counts.calls == 1 and counts.instructions < MOST[planner]
    if name != "digits":
        page = (ROOT / "doc/container.md").read_text()
        assert f"| {round(counts.instructions, -3):,} | {found.pool_bytes:,} |" in page
    assert made.outputs == outputs
    # A tensor and a layer as a core of 32 bits has them, and kernels.
    kernels = len(container.kernels_of(container.build(plan, "m")))
    assert made.tail <= 20 * len(plan.placements) + 28 * len(list(plan.steps)) + 4 * kernels + 24


@pytest.mark.parametrize("name", MODELS)
def test_greedy_plans_are_as_large_as_the_recorded_one(
    loader: ctypes.CDLL, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """TensorFlow Lite Micro's own planner, for the nodes as the file has them."""
    path = network_file(name)
    head = recorded_head(path, capfd)
    plan = online.in_file_order(greedy_plan(frontends.load(path)))
    tables = write_tables(plan, "m").files
    made = device.load(loader, container.of_tables(tables, "m", container.online_of(plan)), 1)
    assert made.result == 0
    assert max(one.base + -(-one.ring // 16) * 16 for one in made.tensors) == head


def test_segments_need_no_more_than_the_worst_layer() -> None:
    plan = digits()
    found = online.segments(plan.graph)
    assert found is not None and found.pool_bytes == smallest_pool.least(found)
    assert found.pool_bytes < greedy_plan(plan.graph).pool_bytes


@pytest.mark.parametrize("number", range(len(OF_PLANNERS)))
def test_what_is_wrong_is_said(loader: ctypes.CDLL, number: int) -> None:
    damage, what, error = OF_PLANNERS[number]
    image = container.build(digits(), "digits", online=True)
    made = device.load(loader, damage(image), device.SEGMENTS)
    assert (made.result, made.refusal[0]) == (-getattr(errno, error), what)


def test_the_smallest_arena_is_enough_and_no_other(loader: ctypes.CDLL) -> None:
    image = container.build(digits(), "digits", online=True)
    for planner in (device.GREEDY, device.SEGMENTS):
        made = device.load(loader, image, planner)
        needed = made.pool_bytes + made.tail + -(made.pool_bytes + made.tail) % 8
        assert device.load(loader, image, planner, needed).result == 0
        for size in (needed - 8, made.tail, 64, 8):
            assert device.load(loader, image, planner, size).result == -errno.ENOMEM


def test_a_container_for_devices_runs_as_built_and_by_older_readers(loader: ctypes.CDLL) -> None:
    """Its own plan is where it was, whatever else there is."""
    plan = digits()
    image = container.build(plan, "digits", online=True)
    assert where(device.plan_of(device.load(loader, image, device.BUILT), plan)) == where(plan)
    older = member_of(image, 0, layout.FILE, "minor", 0)
    assert where(device.plan_of(device.load(loader, older, device.BUILT), plan)) == where(plan)
    usual = container.build(plan, "digits")
    assert container.unpack(usual)[1] == "digits"
    assert device.load(loader, usual, device.GREEDY).result == -errno.ENOTSUP


def test_plans_of_stages_are_refused() -> None:
    plan = compile_model(DIGITS)
    with pytest.raises(UserError, match="one by one"):
        container.build(plan, "digits", online=True)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return device.damager(tmp_path_factory.mktemp("harness"))


@pytest.mark.parametrize("number", seeds(6, 2))
def test_damaged_containers_touch_nothing_outside(
    harness: Path, tmp_path: Path, number: int
) -> None:
    plan = digits() if number == 0 else planned(network(20 + number))
    image = container.build(plan, "m", online=True)
    assert device.damaged(harness, image, tmp_path, 500, number) > 30


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def vmcu(*words: object) -> tuple[int, str]:
        code = cli.main([str(word) for word in words])
        return code, "".join(capsys.readouterr())

    made = ("build", DIGITS, "--online", "-o", tmp_path)
    assert vmcu(*made, "--format", "container")[0] == 0
    code, said = vmcu("container", "show", tmp_path / "digits.vmcu")
    assert code == 0 and "devices can re-plan it" in said and "version 1.1" in said
    for words in ((), ("--format", "container", "--stream-input"), ("--pareto",)):
        code, said = vmcu(*made, *words)
        assert code == 1 and "--online" in said and "hint" in said
