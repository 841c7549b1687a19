# SPDX-License-Identifier: Apache-2.0
"""The way of a model through the house: file -> graph -> plan.

What few models need is imported where it is called: `vmcu build` loads only what it runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .errors import Problem, UserError
from .frontends import load, may_keep_state
from .graph import Graph
from .kernels.targets import named
from .passes import state
from .passes.one_channel import convolve_one_channel
from .plan.chunks import WeightStore
from .plan.plan import Plan
from .planner.options import CompileOptions, check_exclusions
from .planner.registry import DEFAULTS, make_plan


def compile_model(path: Path, options: CompileOptions = DEFAULTS) -> Plan:
    """Reads a model file and returns a plan, which is proven when it is emitted (emit/proof.py).

    Raises UserError for anything the user has to change: the file, an op, the limit, options.
    """
    check_exclusions(options.given(), path)
    graph = load_prepared(path, options)
    if len(options.memory) == 1:
        options = replace(options, ram=options.memory[0].capacity, memory=())
    if graph.state.names:
        # Without an input there is no plan either, and expand_steps() says so.
        rows = graph.tensors[graph.inputs[0].tensor].shape[0] if graph.inputs else 1
        options = replace(options, hop=options.hop or rows)
    if options.external_weights is None:
        return _planned(graph, options)
    return _read_ahead(graph, options, options.external_weights)


def _read_ahead(graph: Graph, options: CompileOptions, store: WeightStore) -> Plan:
    """The plan of a graph whose constants are in a file; its buffer counts in options.ram."""
    from .passes.split_channels import split_channels
    from .plan.weights import chunk_bytes
    from .planner.read_ahead import stage_limit, with_reads

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
    if options.workers > 1:
        from .planner.workers.share import plan_shared

        return plan_shared(graph, options)
    plan = make_plan(graph, options, prove=False)
    if not options.rotate:
        return plan
    from .planner.rotate import rotate

    rotating = rotate(plan)
    ram = options.ram
    if ram is None or rotating.ram_bytes <= ram:
        return rotating
    less = replace(options, ram=max(ram - (rotating.ram_bytes - rotating.pool_bytes), 1))
    # If there is no such plan, rotate() says by how much this one is too large.
    with contextlib.suppress(UserError):
        plan = make_plan(graph, less, prove=False)
    return rotate(plan, ram)


def load_prepared(path: Path, options: CompileOptions) -> Graph:
    """Reads a file and returns its graph after all passes, as planners need it."""
    graph = replace(load(path), target=named(options.target).name)
    graph = state.prepare(graph, options.state)
    if options.hop:
        from .passes.state.transpose import select_time_axis

        graph = select_time_axis(graph, options.hop, options.time)
    return convolve_one_channel(graph)


def rows_of_call(path: Path, pairs: Sequence[str] | None) -> int:
    """Returns the input rows of each call of a file that keeps state; 0 for one without state, and
    for a file that compile_model() refuses. pairs: CompileOptions.state."""
    with contextlib.suppress(UserError):
        return state.rows_of_call(load(path), pairs) if may_keep_state(path) else 0
    return 0
