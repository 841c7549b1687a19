# SPDX-License-Identifier: Apache-2.0
"""The proof of what is emitted: damaged tables either do not pass, or compute the right bytes."""

from __future__ import annotations

import functools
import os
from dataclasses import replace

import numpy as np
import pytest
from random_networks import AnyNetwork, wide
from table_mutants import damage, right_in_c
from vmcu_bench.runners.compiled import MODEL_NAME
from vmcu_tools.emit.model import write_tables
from vmcu_tools.emit.proof import prove
from vmcu_tools.errors import PlanError, Problem, UserError
from vmcu_tools.machine import decoded
from vmcu_tools.plan.plan import Plan, pool_scratch
from vmcu_tools.plan.pools import Region
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import ALL_TILES, DEFAULT_PARAMS, SearchParams
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.rotate import rotate

# `VMCU_CASES=1000 pytest tests/python/test_proof.py` is the thorough run.
MUTANTS = int(os.environ.get("VMCU_CASES", "100"))
PLANS = 32
# From so many on, shares mean something.
ENOUGH = 100
# Of these, the last have pools in two memories.
ONE_POOL = 24
# Compiling takes most of the time: of mutants that pass, as many are run.
RUN = 12


# The smallest pool, whatever tiles cost.
ANY_TILES = SearchParams(trade_off=False, tiles=ALL_TILES)


@functools.cache
def plan(number: int) -> Plan:
    """Plans of every kind: layers one by one, stages, inputs streamed or elsewhere, tiles, pools
    that rotate."""
    seed = 1000 + number
    while True:
        graph = wide(seed) if number % 5 == 4 else AnyNetwork(seed, layers=7).made
        streamed = number % 3 == 1 and len(graph.inputs) == 1
        elsewhere = number % 6 == 0 and len(graph.inputs) == 1
        params = ANY_TILES if number % 4 == 2 else DEFAULT_PARAMS
        try:
            options = CompileOptions(
                ram=None, stream_input=streamed, external_input=elsewhere, params=params
            )
            found = make_plan(graph, options)
            if number >= ONE_POOL:
                found = divided(found, options)
            if number % 2:
                graph = found.graph
                first, *others = graph.inputs
                first = replace(first, layout="nchw", half_away=True)
                found = replace(found, graph=replace(graph, inputs=(first, *others)))
            return rotate(found) if number % 3 and number < ONE_POOL else found
        except UserError:
            seed += 100


def divided(one: Plan, options: CompileOptions) -> Plan:
    """A plan for what one pool is planned for, in two memories that are both too small for it;
    UserError if that was not found."""
    size = max(one.pool_bytes * 3 // 4, 8)
    regions = (Region("fast", size, 0.0), Region("slow", size, 1.0))
    found = make_plan(one.model, replace(options, memory=regions))
    if any(region.pool_bytes == 0 for region in found.regions):
        raise UserError(Problem("all of it is in one memory"))
    return found


@pytest.mark.parametrize("number", range(PLANS))
def test_what_is_emitted_passes(number: int) -> None:
    files = write_tables(plan(number), MODEL_NAME).files
    prove(files, MODEL_NAME, plan(number))


@pytest.mark.parametrize("number", range(PLANS))
def test_what_is_read_back_is_the_plan(number: int) -> None:
    one = plan(number)
    found = prove(write_tables(one, MODEL_NAME).files, MODEL_NAME, one).plan
    assert found.graph is one.graph
    assert (found.pool_bytes, found.ram_bytes) == (one.pool_bytes, one.ram_bytes)
    assert (found.rotation, found.input_streamed) == (one.rotation, one.input_streamed)
    assert found.pools == one.pools
    assert found.taken == one.taken
    assert list(found.placements) == list(one.placements) and found.tensors == one.tensors
    for name, placement in one.placements.items():
        there = found.placements[name]
        assert (there.base, there.phase) == (placement.base % one.pool_bytes, placement.phase)
        assert there.ring == placement.ring
    for place, (stage, there) in enumerate(zip(one.stages, found.stages, strict=True)):
        if len(stage) > 1:
            assert found.progress[place] == one.progress[place]
        assert [step.node for step in there] == [step.node for step in stage]
        for step, read in zip(stage, there, strict=True):
            assert (read.descending, read.columns, read.form) == (
                (step.descending, step.columns, step.form)
            )
            # Steps of a stage share scratch, which some of them do not need.
            needed = pool_scratch(step.bind(one.graph))
            assert (read.scratch, read.scratch_bytes) == (step.scratch if needed else 0, needed)


def test_a_layer_is_called_as_often_as_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    several = (
        one for one in map(plan, range(PLANS)) if any(len(steps) > 1 for steps in one.stages)
    )
    one = next(several)
    files = write_tables(one, MODEL_NAME).files
    layers = [step.bind(one.graph) for steps in one.stages if len(steps) > 1 for step in steps]
    most = max(layer.height * -(-layer.width // layer.columns) for layer in layers)
    monkeypatch.setattr(decoded, "MOST_CALLS", most)
    prove(files, MODEL_NAME, one)
    monkeypatch.setattr(decoded, "MOST_CALLS", most - 1)
    with pytest.raises(PlanError, match="too often"):
        prove(files, MODEL_NAME, one)


def test_damaged_tables_never_compute_wrong_bytes() -> None:
    rng = np.random.default_rng(int(os.environ.get("VMCU_SEED", "0")))
    rejected = passed = ran = 0
    for number in range(MUTANTS):
        one = plan(number % PLANS)
        files = write_tables(one, MODEL_NAME).files
        mutant = damage(rng, files)
        try:
            prove(mutant, MODEL_NAME, one)
        except PlanError:
            rejected += 1
            continue
        passed += mutant != files
        if ran < RUN or MUTANTS >= 1000:
            ran += 1
            assert right_in_c(mutant, one, one.graph), difference(files, mutant)
    if MUTANTS >= ENOUGH:
        assert rejected >= MUTANTS * 0.85
        assert rejected + passed >= MUTANTS * 0.95


def difference(files: dict[str, str], mutant: dict[str, str]) -> str:
    """The lines that a mutant has changed."""
    found = []
    for name, text in files.items():
        pairs = zip(text.splitlines(), mutant[name].splitlines(), strict=False)
        found += [f"{name}: {a} -> {b}" for a, b in pairs if a != b][:2]
    return "\n".join(found)
