# SPDX-License-Identifier: Apache-2.0
"""Plans with pools in several memories: what they access where, and the bytes that they compute."""

from __future__ import annotations

import itertools
from argparse import ArgumentTypeError
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from drawn import seeds
from onnx import TensorProto
from pool_log import log_c
from random_graphs import LAYERS, disjoint, random_inputs, random_layers
from random_networks import AnyNetwork
from table_mutants import right_in_c
from test_proof import ONE_POOL, PLANS, plan
from vmcu_bench.runners import get
from vmcu_bench.runners.compiled import MODEL_NAME
from vmcu_bench.runners.samples import make_samples
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit
from vmcu_tools.errors import UserError
from vmcu_tools.ops import LAYER_OF, ProgramLayer, bind
from vmcu_tools.plan.accesses import by_region, traffic
from vmcu_tools.plan.pools import Region
from vmcu_tools.planner.keyword import text_of
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.places.layout import Layout
from vmcu_tools.planner.regions.assign import Assigner, problem_of
from vmcu_tools.planner.regions.place import of_memory
from vmcu_tools.planner.regions.search import INPUT_NOTE
from vmcu_tools.report.build import totals
from vmcu_tools.report.model import report
from vmcu_tools.values import memories

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"
# How often their first input is loaded at most: for sums that the zero point of the other operand
# is multiplied with, and for each half of weights of 8 bits.
AGAIN = {"matmul": 2, "grouped": 3}


def regions(text: str) -> tuple[Region, ...]:
    return tuple(memories(text))


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("seed", seeds(3, 1))
def test_bytes_that_a_program_loads_are_those_that_c_does(kind: str, seed: int) -> None:
    graph = random_layers(kind, 1, seed=seed)
    if not issubclass(LAYER_OF[type(graph.nodes[0].op)], ProgramLayer):
        pytest.skip("written by hand")
    layer, one = bind(graph, graph.nodes[0]), disjoint(graph)
    log = log_c(one, random_inputs(graph, seed))
    for index, tensor in enumerate(layer.ins):
        at = log[:, 0] - one.placements[tensor.name].base
        loaded = np.count_nonzero((at >= 0) & (at < tensor.bytes) & (log[:, 1] == 0))
        known = traffic(layer).reads[index]
        if index == 0 and kind in AGAIN:
            assert known <= loaded <= AGAIN[kind] * known
        else:
            assert known == loaded


@pytest.mark.parametrize("number", range(ONE_POOL, PLANS))
def test_c_gives_the_right_bytes(number: int) -> None:
    one = plan(number)
    assert right_in_c(emit(one, MODEL_NAME).files, one, one.graph)


@pytest.mark.parametrize(("target", "streamed"), [("virtual", False), ("host:sanitize", True)])
def test_what_fits_in_no_memory_fits_in_both(target: str, streamed: bool) -> None:
    one = compile_model(DIGITS, CompileOptions(stream_input=streamed))
    half = -(-one.pool_bytes // 16) * 8 + 256
    both = (Region("fast", half, 0.0), Region("slow", half, 1.0))
    found = compile_model(DIGITS, CompileOptions(stream_input=streamed, memory=both))
    assert all(0 < region.pool_bytes <= half < one.pool_bytes for region in found.regions)
    samples = make_samples(one.graph, 3, 0, 1)
    wanted = get("virtual").run(one, samples)
    for got, outputs in zip(get(target).run(found, samples), wanted, strict=True):
        np.testing.assert_array_equal(got[0], outputs[0])


def test_what_is_too_large_for_both_is_refused() -> None:
    with pytest.raises(UserError, match=r"no placement was found in a \(1,024 bytes\), b"):
        compile_model(DIGITS, CompileOptions(memory=regions("a=1K,b=1K")))


def test_one_memory_is_as_much_ram() -> None:
    one = compile_model(DIGITS, CompileOptions(memory=regions("sram=4K")))
    assert emit(one, "m").files == emit(compile_model(DIGITS, CompileOptions(ram=4096)), "m").files


def test_an_input_that_is_kept_whole_is_said_to_be() -> None:
    for text in ("a=1536,b=1536", "a=2K,b=1K", "a=8K,b=1K"):
        one = compile_model(DIGITS, CompileOptions(stream_input=True, memory=regions(text)))
        assert one.input_streamed != (INPUT_NOTE in one.notes)


def test_macs_are_not_computed_twice_without_need() -> None:
    one = compile_model(DIGITS, CompileOptions(memory=regions("a=1600,b=1600"), extra_macs=30))
    assert one.macs_extra == 0


def test_the_same_plan_each_time() -> None:
    first, second = (
        compile_model(DIGITS, CompileOptions(memory=regions("a=2K,b=1K"))) for _ in range(2)
    )
    assert emit(first, "m").files == emit(second, "m").files


@pytest.mark.parametrize("rest", [{"ram": 4096}, {"rotate": True}])
def test_what_does_not_go_with_memories(rest: dict) -> None:
    with pytest.raises(UserError, match="--memory cannot be combined with --"):
        compile_model(DIGITS, CompileOptions(memory=regions("a=2K,b=1K"), **rest))


def test_figures() -> None:
    one = compile_model(DIGITS, CompileOptions(memory=regions("a=2K,b=1K:3")))
    found = report(one, "m", 0, 0)
    shown = found.memories
    assert "the pools in 2 memories: all activations" in dict(totals(found))["RAM"]
    assert ", the pool: all" in dict(totals(replace(found, memories=())))["RAM"]
    assert [memory.pool_bytes for memory in shown] == [r.pool_bytes for r in one.regions]
    assert [memory.accesses for memory in shown] == by_region(one)
    assert [memory.wait for memory in shown] == [0.0, 3.0]
    assert sum(memory.share for memory in shown) == pytest.approx(1, abs=1e-3)
    header = emit(one, "kws").files["kws.h"]
    for region in one.regions:
        assert f"VMCU_MODEL_KWS_POOL_{region.name.upper()}_BYTES {region.pool_bytes}\n" in header


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("dtcm", "is not a memory"),
        ("dtcm=x", "is not a size"),
        ("a=1K:x", "is not a number of cycles"),
        ("a=1K,A=2K", "the same name"),
        ("a=1K,b=1K,c=1K,d=1K,e=1K", "the most is 4"),
        ("a=1K:3,b=1K:1", "fast memories before the slow"),
        ("a=1K,b=512M", "larger than 128M"),
    ],
)
def test_options_that_say_nothing(text: str, reason: str) -> None:
    with pytest.raises(ArgumentTypeError, match=reason):
        memories(text)


def test_options() -> None:
    found = memories("dtcm=64K,PSRAM=8M:10")
    assert list(found) == [Region("dtcm", 65536, 0.0), Region("psram", 8 << 20, 10.0)]
    assert memories(text_of(found)) == found


@pytest.mark.parametrize("seed", seeds(40, 14))
def test_no_other_assignment_waits_less(seed: int) -> None:
    """Against all of them, each taken to fit where no piece's bound is beyond its memory."""
    graph = AnyNetwork(seed, layers=3).made
    problem = problem_of(Layout.singles(graph))
    names = [piece.name for piece in problem.pieces]
    if len(names) > 9:
        pytest.skip("too many to try")
    size = max(piece.bound() for piece in problem.pieces)
    both = (Region("fast", size * 2 // 3, 0.0), Region("slow", size * 2 // 3, 1.0))
    best = None
    for choice in itertools.product(range(2), repeat=len(names)):
        memory = dict(zip(names, choice, strict=True))
        if all(fits(problem, memory, number, one.capacity) for number, one in enumerate(both)):
            waits = sum(problem.accesses[name] for name in names if memory[name] == 1)
            best = waits if best is None else min(best, waits)
    found = Assigner(problem, both).solve([one.capacity for one in both])
    assert (found is None) == (best is None)
    if found is not None and best is not None:
        assert best <= found.waits <= best * 1.001 + 1


def fits(problem, memory: dict[str, int], number: int, capacity: int) -> bool:
    names = {name for name, where in memory.items() if where == number}
    sizes = {piece.name: piece.size for piece in problem.pieces}
    for piece in of_memory(problem, memory, number):
        if piece.bound() > capacity:
            return False
    for piece in problem.pieces:
        if sum(sizes[live.name] for live in piece.ways[0].live if live.name in names) > capacity:
            return False
    return True


def test_wear_is_of_one_pool(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--wear", str(DIGITS), "--memory", "a=2K,b=1K"]) == 1
    assert "wear is simulated in one pool" in capsys.readouterr().err


def test_a_model_without_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its input is its output. Each option builds it, or says why not."""
    m = OnnxModel()
    y = m.qdq("x", m.stated(0.05))
    path = tmp_path / "none.onnx"
    onnx.save(m.proto({"x": (TensorProto.FLOAT, (1, 4))}, {y: (TensorProto.FLOAT, (1, 4))}), path)
    page = str(tmp_path / "page.html")
    for words in (
        ["--memory", "fast=17,slow=32:1"],
        ["--pareto"],
        ["--html", page],
        ["--stream-input"],
    ):
        assert main(["build", str(path), *words]) == 0, words
    assert main(["build", str(path), "--hop", "1"]) == 1
    assert "the model has no layers" in capsys.readouterr().err
