# SPDX-License-Identifier: Apache-2.0
"""The way of a model through the house: file -> graph -> plan."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .errors import Problem, UserError
from .frontends import load, may_keep_state
from .graph import Graph
from .kernels.targets import named
from .passes import optimize
from .passes.carried import goes_on, prepared
from .passes.fed_back import fed_back, recurs
from .passes.joined_inputs import joined_inputs
from .passes.one_channel import convolve_one_channel
from .passes.recurring import detached, optimized
from .passes.split_channels import split_channels
from .passes.trained_head import trained_head
from .passes.turned import with_time
from .plan.chunks import WeightStore
from .plan.plan import Plan
from .plan.weights import chunk_bytes
from .planner.options import CompileOptions, check_exclusions
from .planner.read_ahead import stage_limit, with_reads
from .planner.registry import DEFAULTS, make_plan
from .planner.rotate import rotate
from .training import Training


def compile_model(path: Path, options: CompileOptions = DEFAULTS) -> Plan:
    """Reads a model file and returns a plan, which is proven when it is emitted (emit/proof.py).

    Raises UserError for anything the user has to change: the file, an op, the limit, options.
    """
    check_exclusions(options.given(), path)
    graph = _prepared(path, options)
    if len(options.memory) == 1:
        options = replace(options, ram=options.memory[0].capacity, memory=())
    if graph.state.names:
        # Without an input there is no plan either, and moving() says so.
        rows = graph.tensors[graph.inputs[0].tensor].shape[0] if graph.inputs else 1
        options = replace(options, hop=options.hop or rows)
    if options.external_weights is None:
        return _planned(graph, options)
    if options.container:
        reason = "a container has its weights in the same file"
        raise UserError(Problem(reason, "leave out --external-weights", str(path)))
    return _read_ahead(graph, options, options.external_weights)


def _read_ahead(graph: Graph, options: CompileOptions, store: WeightStore) -> Plan:
    """The plan of a graph whose constants are in a file; its buffer counts in options.ram."""
    limit = stage_limit(graph, store)
    whole = graph
    if store.ram is not None:
        graph = split_channels(graph, limit, chunk_bytes)
    params = replace(options.params, stage_weight_bytes=limit)
    notes = []
    if len(graph.nodes) > len(whole.nodes):
        more = len(graph.nodes) - len(whole.nodes)
        notes += [f"Split layers by output channels for the weights buffer: {more:,} more layers."]

    def planned(ram: int | None) -> Plan:
        plan = _planned(graph, replace(options, params=params, ram=ram))
        return with_reads(replace(plan, notes=(*plan.notes, *notes)), store)

    plan = planned(options.ram)
    most = options.ram
    if most is None or plan.ram_bytes + plan.buffer_bytes <= most:
        return plan
    # If there is no such plan, the sizes of the first one say more.
    with contextlib.suppress(UserError):
        smaller = planned(max(most - plan.buffer_bytes, 1))
        if smaller.ram_bytes + smaller.buffer_bytes <= most:
            return smaller
    reason = (
        f"does not fit: the pool has {plan.ram_bytes:,} bytes, the weights buffer "
        f"{plan.buffer_bytes:,}; {most:,} are allowed"
    )
    hint = "allow more with --ram, or a smaller buffer with --external-weights ...,ram=SIZE"
    raise UserError(Problem(reason, hint, graph.origin))


def _planned(graph: Graph, options: CompileOptions) -> Plan:
    """The plan of a graph, with a pool that rotates if that is asked for."""
    plan = make_plan(graph, options, prove=False)
    if not options.rotate:
        return plan
    found = rotate(plan)
    ram = options.ram
    if ram is None or found.ram_bytes <= ram:
        return found
    less = replace(options, ram=max(ram - (found.ram_bytes - found.pool_bytes), 1))
    # If there is no such plan, rotate() says by how much this one is too large.
    with contextlib.suppress(UserError):
        plan = make_plan(graph, less, prove=False)
    return rotate(plan, ram)


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """A plan that trains the last layers, and the plan of inference alone. weights: by trained
    layer the first value of its input, int8."""

    training: Training
    plan: Plan
    inference: Plan
    weights: tuple[np.ndarray, ...]


def compile_training(
    path: Path, training: Training, options: CompileOptions = DEFAULTS
) -> TrainingPlan:
    """Reads a model file and returns a plan that trains its last dense layers.

    Raises UserError for a model that cannot be trained, and as compile_model() does.
    """
    graph = _prepared(path, options)
    head = trained_head(graph, training)
    plan = make_plan(head.graph, options, prove=False)
    # A limit is for training, which needs more.
    inference = make_plan(graph, replace(options, ram=None), prove=False)
    return TrainingPlan(training, plan, inference, head.weights)


def _prepared(path: Path, options: CompileOptions) -> Graph:
    """The graph of a file after the passes, as planners get it."""
    graph = fed_back(load(path), options.state)
    if graph.is_recurrent and not goes_on(graph):
        graph = load(path, unrolled=True)
    graph = replace(graph, target=named(options.target).name)
    if graph.state.recurrent:
        graph = optimized(_with_one_input(graph))
    else:
        # What is constant in a first call is not in the next.
        graph = optimize(graph, all_channels=bool(graph.state.names))
        if graph.state.names:
            graph = _with_one_input(graph) if recurs(graph) else prepared(graph)
    if options.hop:
        graph = with_time(graph, options.hop, options.time)
    return convolve_one_channel(graph, bool(options.hop))


def rows_of_call(path: Path, state: Sequence[str] | None) -> int:
    """Rows that a file takes a call which keeps its state, of which `state` is as compile_model()
    has it; 0 for one that keeps none, and for one of which compile_model() says what is wrong."""
    try:
        graph = fed_back(load(path), state) if may_keep_state(path) else None
    except UserError:
        return 0
    if graph is None or not graph.state.names:
        return 0
    graph = _with_one_input(graph)
    return graph.tensors[graph.inputs[0].tensor].shape[0] if graph.inputs else 0


def _with_one_input(graph: Graph) -> Graph:
    """A graph that keeps state, with its inputs besides the states as one row."""
    return joined_inputs(detached(graph) if recurs(graph) else graph)
