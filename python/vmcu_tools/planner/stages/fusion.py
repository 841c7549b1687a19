# SPDX-License-Identifier: Apache-2.0
"""The default planner: which layers run together, and where their tensors live.

partition.py looks for stages, allocation.py for their offsets. Where the fewest bytes cost more
cycles than is allowed, a larger peak is taken that does not; where they are still too many, and
multiply-accumulates may be done twice, variants.py has graphs that need fewer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...boards.flash import Flash
from ...graph import Graph
from ...kernels.targets import named
from ...ops import bind
from ...plan.choice import Choice
from ...plan.plan import Plan
from ..options import CompileOptions
from ..places.layout import Layout
from ..places.order import Ordered, reordered
from ..places.smallest_pool import packed, place, walked
from .costs import FEWER_CYCLES, extra_cost, most_bytes, preferred, time_of
from .external_input import fetched
from .partition import UNLIMITED, Partitioner
from .variants import Variant, check_streamable, without_extra_macs

TILES_LEFT = "The search for tiles stopped early: other tiles may need fewer bytes or cycles."
# Tiles that are whole rows.
ROWS = (None,)


def plan(graph: Graph, options: CompileOptions) -> Plan:
    """The default planner: stages, order and placement for the smallest pool, or, where there is
    a limit, for the fewest multiply-accumulates and then cycles within it.

    Raises UserError if the input cannot be streamed, or be elsewhere.
    """
    if not graph.nodes:
        return place("vmcu", Layout(graph, ()))
    params = options.params
    order = reordered(graph, params=params) if params.reorder else Ordered(graph, 0, 0)
    plans = [_plan(order.graph, options)]
    row, flash = in_one_row(order.graph, options), params.flash
    if row is not None:
        variant = without_extra_macs(row, options)
        plans += [plan_by_trade_off(variant)] if options.ram is None else []
        least = min(plan.pool_bytes for plan in plans)
        plans += fastest_within(variant, options.ram or most_bytes(least, flash))
    if flash is not None and options.ram is None:
        plans += fastest_within(without_extra_macs(order.graph, options), UNLIMITED)
    return order.noted(with_faster(preferred(plans, options.ram, flash), plans, flash))


def fastest_within(variant: Variant, limit: int) -> list[Plan]:
    """The fastest plan of a variant within a limit, if there is one."""
    plan = variant.allocator.plan_within(limit) if variant.least <= limit else None
    return [] if plan is None else [plan]


def in_one_row(graph: Graph, options: CompileOptions) -> Graph | None:
    """The graph with images of one row, if all of them have one column: kernels compute several
    pixels of a row at once, while rows of one pixel need the fewest bytes."""
    shapes = [tensor.shape for tensor in graph.tensors.values()]
    is_sequence = max(shape[0] for shape in shapes) > 1 == max(shape[1] for shape in shapes)
    if (
        not is_sequence
        or graph.loops
        or options.stream_input
        or options.external_input
        or options.memory
    ):
        return None
    from ...passes.state.transpose import transpose_columns

    return transpose_columns(graph)


def with_faster(best: Plan, plans: Sequence[Plan], flash: Flash | None) -> Plan:
    """The plan with a note on the fastest one, if that needs less time for more bytes."""
    larger = [
        (time_of(one, flash), one.pool_bytes) for one in plans if one.pool_bytes > best.pool_bytes
    ]
    if not larger:
        return best
    (fastest, pool_bytes), time = min(larger), time_of(best, flash)
    if fastest > FEWER_CYCLES * time:
        return best
    note = f"--ram {pool_bytes} needs {1 - fastest / time:.0%} less time, by estimate."
    return replace(best, notes=(*best.notes, note))


def _plan(graph: Graph, options: CompileOptions) -> Plan:
    if options.external_input:
        return replace(best_of_variants(fetched(graph), options), original=graph)
    best = best_of_variants(graph, options)
    if options.stream_input and (options.ram is None or best.pool_bytes > options.ram):
        best = with_whole_input(graph, options, best)
    return best


def in_rows(graph: Graph, options: CompileOptions) -> Plan:
    """A plan in the graph's own order whose stages work whole rows, soon found. Raises UserError if
    the input cannot be streamed."""
    partitioner = Partitioner(graph, options.stream_input, replace(options.params, tiles=ROWS))
    least = check_streamable(graph, partitioner.least(ROWS, UNLIMITED))
    layout = Layout(graph, partitioner.cheapest(least), options.stream_input)
    return walked("vmcu", layout, least) or packed("vmcu", layout)


def with_whole_input(graph: Graph, options: CompileOptions, streamed: Plan) -> Plan:
    """A plan that keeps the input whole, where that needs fewer bytes than one that does not."""
    if sum(graph.tensors[port.tensor].bytes for port in graph.inputs) >= streamed.pool_bytes:
        return streamed
    partitioner = Partitioner(graph, False, options.params)
    if partitioner.least_peak(partitioner.tiles, streamed.pool_bytes) >= streamed.pool_bytes:
        return streamed
    whole = best_of_variants(graph, replace(options, stream_input=False))
    if whole.pool_bytes >= streamed.pool_bytes:
        return streamed
    note = f"Does not stream the input: that would need {streamed.pool_bytes:,} bytes of RAM."
    return replace(whole, notes=(*whole.notes, note))


def best_of_variants(graph: Graph, options: CompileOptions) -> Plan:
    """Plans the graph in its order; see plan()."""
    if options.ram is None:
        best = smallest_of(variants(graph, options, options.extra_macs / 100), graph, options)
        return with_fewer_macs(best, graph, options)
    from .extra_macs import lower_peaks, with_extra_macs

    params = options.params
    base, most = without_extra_macs(graph, options), max(options.extra_macs / 100, params.band_macs)
    tried = itertools.chain([base], with_extra_macs(graph, base, options, most))
    first = first_within(options.ram, tried, graph, options)
    assert first is not None, "the graph itself is a variant"
    if options.ram < first.pool_bytes < params.recomputation_reach * options.ram:
        most = max(options.extra_macs / 100, params.recomputation_macs)
        twice = lower_peaks(graph, base, options, most, banded=False)
        again = first_within(options.ram, twice, graph, options)
        return min(first, again or first, key=bytes_and_macs)
    return first


def variants(graph: Graph, options: CompileOptions, most: float) -> Iterator[Variant]:
    """The graph, then those of with_extra_macs() for at most this part of its multiply-accumulates
    done twice."""
    base = without_extra_macs(graph, options)
    yield base
    if most > 0:
        # Most networks need none of it.
        from .extra_macs import with_extra_macs

        yield from with_extra_macs(graph, base, options, most)


def below(graph: Graph, options: CompileOptions, least: int) -> Iterator[Plan]:
    """Plans of fewer than `least` bytes, each smaller than the one before, until a search for one
    byte less finds none."""
    # A limit that is far away has everything searched that may need fewer bytes.
    limit = int(least / options.params.recomputation_reach) + 1
    for _ in range(options.params.smaller_tries):
        smaller = plan(graph, replace(options, ram=max(min(limit, least - 1), 1)))
        if smaller.pool_bytes < least:
            least = smaller.pool_bytes
            yield smaller
        elif limit >= least - 1:
            return
        limit = least - 1


def with_fewer_macs(best: Plan, graph: Graph, options: CompileOptions) -> Plan:
    """The smaller of a plan and of those for lower limits on extra MACs: a variant with a smaller
    bound may have a gap that one with fewer MACs has not."""
    while best.gap and best.macs_extra:
        less = (best.macs_extra - 1) / sum(bind(graph, node).macs for node in graph.nodes)
        other = smallest_of(variants(graph, options, less), graph, options)
        if other.pool_bytes >= best.pool_bytes:
            return min(best, other, key=bytes_and_macs)
        best = other
    return best


def smallest_of(variants: Iterable[Variant], graph: Graph, options: CompileOptions) -> Plan:
    """The plan of the variant that needs the fewest bytes once its tensors have places."""
    first, *others = sorted(variants, key=lambda variant: variant.least)
    best = of_variant(first, graph, options)
    for variant in others:
        if best.pool_bytes < variant.least:
            break
        best = min(best, of_variant(variant, graph, options), key=bytes_and_macs)
    return best


def first_within(
    ram: int, variants: Iterable[Variant], graph: Graph, options: CompileOptions
) -> Plan | None:
    """The plan of the first variant that fits into `ram` bytes, the smallest if there is none; None
    without variants. Solvers are left to pack those that compute something twice until all have
    been tried."""
    known: list[Variant] = []
    plans: list[Plan] = []
    for variant in variants:
        known.append(variant)
        if variant.least > ram:
            continue
        if variant.macs_extra:
            plan = variant.allocator.plan_within(ram)
            plans += [] if plan is None else [as_variant(plan, variant, graph)]
        else:
            plans.append(of_variant(variant, graph, options))
        if plans and plans[-1].pool_bytes <= ram:
            return plans[-1]
    for variant in known:
        if variant.least <= ram and variant.macs_extra:
            plans.append(of_variant(variant, graph, options))
            if plans[-1].pool_bytes <= ram:
                return plans[-1]
    larger = [variant for variant in known if variant.least > ram]
    plans += [smallest_of(larger, graph, options)] if larger else []
    return min(plans, key=bytes_and_macs, default=None)


def of_variant(variant: Variant, graph: Graph, options: CompileOptions) -> Plan:
    """The plan of a variant of a graph."""
    return as_variant(smallest(variant, options), variant, graph)


def as_variant(plan: Plan, variant: Variant, graph: Graph) -> Plan:
    """The plan with what a variant of the graph computes twice."""
    before = None if variant.partitioner.graph is graph else graph
    return replace(plan, macs_extra=variant.macs_extra, original=before)


def bytes_and_macs(plan: Plan) -> tuple[int, int]:
    """The key that compares plans: RAM first, then the recomputation."""
    return plan.pool_bytes, plan.macs_extra


def smallest(variant: Variant, options: CompileOptions) -> Plan:
    """The plan of a variant that comes nearest to what is asked for."""
    partitioner, least, allocator = variant.partitioner, variant.least, variant.allocator
    if partitioner.bands:
        return allocator.smallest_plan(max(least, options.ram or 0))
    if options.ram is not None:
        within = allocator.plan_within(options.ram) if options.ram > least else None
        plans = [within or allocator.smallest_plan(least)]
        # The default may be faster than what the search estimates to be the fastest.
        plans += [plan_by_trade_off(variant)] if within else []
        plan = preferred(plans, options.ram, options.params.flash)
    else:
        plan = plan_by_trade_off(variant)
    over_all = f"Lower bound over all groupings tried: {least:,} bytes."
    plan = replace(
        plan, notes=(*plan.notes, over_all, *([TILES_LEFT] if partitioner.cut_short else ()))
    )
    if options.choices:
        plan = replace(plan, choices=tuple(partitioner.front(least)))
    return plan


def plan_by_trade_off(variant: Variant) -> Plan:
    """The plan within the smallest peak, or, if it is a bargain, the one within a larger peak."""
    partitioner, least, flash = variant.partitioner, variant.least, variant.partitioner.params.flash
    peaks = [least, partitioner.best_trade_off(least)]
    peaks += [] if flash is None else [most_bytes(least, flash)]
    plans = [variant.allocator.smallest_plan(peak) for peak in dict.fromkeys(peaks)]
    return preferred(plans, None, flash)


def extra_cycles(plan: Plan) -> int:
    """Cycles that a plan's stages cost more than their layers one by one, by estimate."""
    stages = (steps for steps in plan.stages if len(steps) > 1)
    return sum(extra_cost(step.bind(plan.graph)) for steps in stages for step in steps)


def added_cycles(plan: Plan) -> float:
    """Cycles that stages and recomputation cost, by estimate."""
    return extra_cycles(plan) + named(plan.graph.target).costs.mac * plan.macs_extra


def front(graph: Graph, options: CompileOptions) -> list[Choice]:
    """The choices of the default planner, the fast and large before the slow and small: each is a
    limit on RAM with the plan that plan() finds for it.

    If tensors have no offsets within the limit that the search estimates, the limit is the pool
    that was found instead, if plan() meets that one. A limit whose plan is slower than that of a
    smaller one is left out.
    """
    choices: list[Choice] = []
    if not graph.nodes:
        return [Choice(plan(graph, options).pool_bytes, 0.0, 0, 0)]
    graph = reordered(graph, params=options.params).graph
    cycles = Partitioner(graph, options.stream_input).cycles
    for limit in limits(graph, options):
        best = plan(graph, replace(options, ram=limit))
        if best.pool_bytes > limit:
            limit = best.pool_bytes
            best = plan(graph, replace(options, ram=limit))
        smaller = not choices or limit < choices[-1].pool_bytes
        if smaller and best.pool_bytes <= limit:
            choices.append(_choice(limit, best, cycles))
    least = min((choice.pool_bytes for choice in choices), default=0)
    for best in below(graph, options, least):
        choices.append(_choice(best.pool_bytes, best, cycles))
    fast: list[Choice] = []
    for choice in reversed(choices):
        if not fast or choice.extra_cycles < fast[0].extra_cycles:
            fast.insert(0, choice)
    return fast


def _choice(limit: int, best: Plan, cycles: float) -> Choice:
    """The choice of a limit with its plan; cycles: of the layers one by one, by estimate."""
    stages = sum(len(steps) > 1 for steps in best.stages)
    return Choice(limit, added_cycles(best) / cycles, best.macs_extra, stages)


def limits(graph: Graph, options: CompileOptions) -> Iterator[int]:
    """The pools of the choices by estimate, before tensors have places."""
    graph = fetched(graph) if options.external_input else graph
    base, *others = variants(
        graph, options, max(options.extra_macs / 100, options.params.band_macs)
    )
    yield from (choice.pool_bytes for choice in base.partitioner.front(base.least))
    yield from (variant.least for variant in others)
