# SPDX-License-Identifier: Apache-2.0
"""Other tools' planners: against those tools' own figures, published formulas and brute force."""

from __future__ import annotations

import itertools
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders.dags import Dag
from builders.networks import MODELS, network_file
from test_cuts import chain
from vmcu_lab.planners import BASELINES, plan_by, plan_of, tinyengine
from vmcu_tools.cli import main
from vmcu_tools.errors import PlanError
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops.add import Add
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import PLANNERS, make_plan

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "paper"))
from bottlenecks import Module, modules

# Those with other tools' kernels.
FOREIGN = [name for name in BASELINES if name != "equations"]
# TinyEngine's own code generator, commit 47bb283: peakmem of GeneralMemoryScheduler.
TINYENGINE = {"mcunet-vww-5fps": 93_992, "mcunet-imagenet-320kb": 266_344}


def recorded_head(path: Path, printed: pytest.CaptureFixture[str]) -> int:
    """What TensorFlow Lite Micro's recording allocator says of a model."""
    runtime = pytest.importorskip("tflite_micro").runtime
    recording = runtime.InterpreterConfig.kAllocationRecording
    interpreter = runtime.Interpreter.from_file(str(path), intrepreter_config=recording)
    printed.readouterr()
    interpreter.print_allocations()
    found = re.search(r"Arena allocation head (\d+) bytes", "".join(printed.readouterr()))
    assert found, "the recorder's words have changed"
    return int(found[1])


@pytest.mark.parametrize("name", MODELS)
def test_tflm_head_is_the_recorded_one(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = network_file(name)
    head = recorded_head(path, capfd)
    assert plan_of("tflm", path).pool_bytes == head


@pytest.mark.parametrize("name", TINYENGINE)
def test_tinyengine_counts_what_its_own_tool_counts(name: str) -> None:
    assert plan_of("tinyengine", network_file(name)).pool_bytes == TINYENGINE[name]


def sizes(module: Module) -> tuple[int, int, int, int, int]:
    """A, B, C, D of the vMCU paper's formulas, and A again if it is alive throughout."""

    def shrunk(side: int, stride: int) -> int:
        return -(-side // stride)

    side = module.side
    wide = shrunk(side, module.strides[0])
    narrow = shrunk(wide, module.strides[1])
    a, b, c = side**2 * module.depth, wide**2 * module.mid, narrow**2 * module.mid
    return a, b, c, shrunk(narrow, module.strides[2]) ** 2 * module.out, a * module.residual


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_modules_need_what_the_papers_formulas_say(module: Module) -> None:
    a, b, c, d, r = sizes(module)
    graph = module.graph()
    counted = plan_by("tinyengine", graph).pool_bytes
    assert counted - tinyengine.scratch_bytes(graph) == max(a + b, r + b, r + c + d)
    assert plan_by("hmcos", graph).pool_bytes == max(a + b, r + b + c, r + c + d)


def least_peak(graph: Graph, done: frozenset[int] = frozenset()) -> int:
    """The most bytes alive in the best of all orders that begin with `done`, sums in place."""
    kept = {port.tensor for port in graph.outputs}
    made = {port.tensor for port in graph.inputs}
    made |= {name for number in done for name in graph.nodes[number].outputs}

    def alive(after: frozenset[int]) -> set[str]:
        left = [node for number, node in enumerate(graph.nodes) if number not in after]
        return {name for name in made if name in kept or any(name in n.inputs for n in left)}

    best = None
    for number, node in enumerate(graph.nodes):
        if number in done or not made.issuperset(node.inputs):
            continue
        after = done | {number}
        now = sum(graph.tensors[name].bytes for name in alive(done))
        in_place = isinstance(node.op, Add) and not alive(after).issuperset(node.inputs)
        needed = now + (0 if in_place else graph.tensors[node.outputs[0]].bytes)
        found = max(needed, least_peak(graph, after))
        best = found if best is None else min(best, found)
    return best or 0


@pytest.mark.parametrize("seed", range(12))
def test_hmcos_has_the_peak_of_the_best_order(seed: int) -> None:
    graph = Dag(seed, 9, width=3).graph()
    plan = plan_by("hmcos", graph)
    assert plan.pool_bytes == least_peak(graph)


@pytest.mark.parametrize("planner", FOREIGN)
@pytest.mark.parametrize("seed", range(6))
def test_originals_compute_what_the_graph_means(planner: str, seed: int) -> None:
    dag = Dag(seed, 20)
    graph, sample = dag.graph(), dag.sample()
    meaning = reference.run(graph, sample)
    flat = [values.reshape(1, 1, -1) for values in sample]
    for name, values in VirtualMcu(plan_by(planner, graph)).run(flat).items():
        np.testing.assert_array_equal(values.ravel(), meaning[name].ravel())


@pytest.mark.parametrize(("side", "kernel"), itertools.product((5, 8), (1, 3, 5)))
def test_equations_give_the_offsets_that_are_enumerated(side: int, kernel: int) -> None:
    """Integer programs and the order of access agree on chains, and the plan is proven."""
    graph = chain(side, 6, kernel)
    plan = plan_by("equations", graph)
    single = make_plan(graph, CompileOptions(planner="single"))
    assert plan.pool_bytes == single.pool_bytes
    assert {n: one.base for n, one in plan.placements.items()} == {
        n: one.base for n, one in single.placements.items()
    }
    assert any("Equation 2" in note for note in plan.notes)


@pytest.mark.parametrize("seed", range(6))
def test_equations_compute_what_the_graph_means(seed: int) -> None:
    dag = Dag(seed, 20)
    graph, sample = dag.graph(), dag.sample()
    meaning = reference.run(graph, sample)
    for name, values in VirtualMcu(plan_by("equations", graph)).run(sample).items():
        np.testing.assert_array_equal(values, meaning[name])


def test_planners_without_their_package_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vmcu_lab.planners.find_spec", lambda _: None)
    assert main(["compare", str(network_file("resnet8"))]) == 0
    assert "equations needs Python packages" in "".join(capsys.readouterr())


def overlapping(plan: Plan) -> set[frozenset[str]]:
    """Pairs of tensors that share bytes while both are alive, steps of handing over included."""
    return {
        frozenset((one.tensor, other.tensor))
        for one, other in itertools.combinations(plan.placements.values(), 2)
        if one.first <= other.last
        and other.first <= one.last
        and one.base < other.base + plan.graph.tensors[other.tensor].bytes
        and other.base < one.base + plan.graph.tensors[one.tensor].bytes
    }


@pytest.mark.parametrize("planner", FOREIGN)
def test_originals_share_bytes_in_place_only_and_nowhere_else(planner: str) -> None:
    """A tensor moved onto another one is rejected."""
    rejected = 0
    for seed in range(4):
        plan = plan_by(planner, Dag(seed, 20).graph())
        in_place = overlapping(plan)
        for pair in in_place:
            one, other = (plan.placements[name] for name in pair)
            assert one.base == other.base
        for name, placement in plan.placements.items():
            for shift in (-1, 1, 17):
                moved = replace(placement, base=placement.base + shift)
                mutant = replace(plan, placements={**plan.placements, name: moved})
                top = moved.base + plan.graph.tensors[name].bytes
                if moved.base < 0 or top > plan.pool_bytes or overlapping(mutant) <= in_place:
                    continue
                with pytest.raises(PlanError):
                    VirtualMcu(mutant).prove()
                rejected += 1
    assert rejected >= 100


@pytest.mark.parametrize("shift", [-2, -1, 1, 2])
def test_depthwise_in_place_is_exactly_in_place(shift: int) -> None:
    module = next(module for module in modules() if module.name == "S5")
    plan = plan_by("tinyengine", module.graph())
    placement = plan.placements["filtered"]
    assert placement.base == plan.placements["expanded"].base
    moved = replace(placement, base=placement.base + shift)
    placements = {**plan.placements, "filtered": moved}
    # Room on both sides, so that it is the depthwise layer that fails.
    spread = {n: replace(p, base=p.base + 8) for n, p in placements.items()}
    steps = tuple((replace(step, scratch=step.scratch + 16),) for (step,) in plan.stages)
    mutant = replace(plan, placements=spread, stages=steps, pool_bytes=plan.pool_bytes + 16)
    with pytest.raises(PlanError, match="filtered"):
        VirtualMcu(mutant).prove()


@pytest.mark.parametrize("name", ["mlperf-tiny-resnet8", "resnet8"])
def test_compare_lists_every_planner(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    assert main(["compare", str(network_file(name)), "--json", str(figures)]) == 0
    rows = {row["planner"]: row for row in json.loads(figures.read_text())["planners"]}
    assert list(rows) == [*PLANNERS, *BASELINES]
    assert rows["tflm"]["pool_bytes"] == rows["hmcos"]["pool_bytes"] == 49_152
    printed = capsys.readouterr().out
    for row in rows.values():
        assert row["largest_step"] <= row["pool_bytes"] and row["solve_seconds"] >= 0
        assert row["ratio"] == round(row["pool_bytes"] / rows["vmcu"]["pool_bytes"], 3) >= 1
        assert f"{row['pool_bytes']:,}" in printed
