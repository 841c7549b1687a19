# SPDX-License-Identifier: Apache-2.0
"""The default planner: which layers run together, and where their tensors live.

cuts.py looks for stages, swing.py for places. Where the fewest bytes cost more cycles than is
allowed, a larger peak is taken that does not; where they are still too many, and multiply-
accumulates may be done twice, the stage with the peak is put in bands (bands.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...errors import Problem, UserError
from ...graph import Graph
from ...kernels.targets import named
from ...plan.plan import Plan
from ...plan.schedule import ONE_COLUMN
from ..options import Options
from ..places import joint
from ..places.layout import Cut, Layout
from ..places.order import reordered
from ..places.swing import packed, place, walked
from . import bands
from .costs import bargain, extra_cost
from .cuts import TILES, UNLIMITED, Choice, Cutter, count_of

# Parts of the peak that all other stages are kept within, in turn, until the tensors can be placed.
EASES = (1.0, 0.9, 0.8, 0.65)
TILES_LEFT = "The search for tiles was cut short: others may need fewer bytes or cycles."
# Of solvers, in seconds, where a plan is to come soon.
SOON = 1.0
# The most multiply-accumulates that may be done twice to fit into given bytes, a part of all.
MOST_EXTRA = 1.0


@dataclass(frozen=True, eq=False)
class Variant:
    """A graph, maybe with layers in bands, and the search over its cuts: the smallest peak, and
    the multiply-accumulates beyond those of the graph without bands."""

    cutter: Cutter
    least: int
    macs_extra: int


def plan(graph: Graph, options: Options) -> Plan:
    """The default planner: stages, order and placement for the smallest pool, or, where there is
    a limit, for the fewest multiply-accumulates and then cycles within it.

    Raises UserError if the input cannot be streamed.
    """
    order = reordered(graph)
    if not order.graph.nodes:
        return place("vmcu", Layout(order.graph, ()), options.seconds)
    best = best_of_variants(order.graph, options)
    if options.stream_input and (options.ram is None or best.pool_bytes > options.ram):
        best = with_whole_input(order.graph, options, best)
    return order.noted(best)


def in_rows(graph: Graph, options: Options) -> Plan:
    """A plan in the graph's own order whose stages work whole rows, soon found. Raises UserError if
    the input cannot be streamed."""
    cutter = Cutter(graph, options.stream_input, TILES[:1])
    least = checked(graph, cutter.least_peak(TILES[:1], UNLIMITED))
    layout = Layout(graph, cutter.cheapest(least), options.stream_input)
    return walked("vmcu", layout, least) or packed("vmcu", layout, SOON)


def with_whole_input(graph: Graph, options: Options, streamed: Plan) -> Plan:
    """A plan that keeps the input whole, where that needs fewer bytes than one that does not."""
    cutter = Cutter(graph, False)
    if cutter.least_peak(TILES, streamed.pool_bytes) >= streamed.pool_bytes:
        return streamed
    whole = best_of_variants(graph, replace(options, stream_input=False))
    if whole.pool_bytes >= streamed.pool_bytes:
        return streamed
    note = f"The input is kept whole; in rows it would take {streamed.pool_bytes:,} bytes in all."
    return replace(whole, notes=(*whole.notes, note))


def best_of_variants(graph: Graph, options: Options) -> Plan:
    """As plan(), in the graph's order."""
    most = options.extra_macs if options.ram is None else max(options.extra_macs, MOST_EXTRA)
    found: Iterable[Variant] = variants(graph, options, most)
    if options.ram is None:
        # The last needs the fewest bytes, unless its tensors have no places within its peak.
        found = reversed(list(found))
    best: Plan | None = None
    for variant in found:
        if options.ram is None and best is not None and best.pool_bytes < variant.least:
            break
        before = None if variant.cutter.graph is graph else graph
        plan = replace(
            smallest(variant, options), macs_extra=variant.macs_extra, without_bands=before
        )
        best = plan if best is None else min(best, plan, key=bytes_and_macs)
        if options.ram is not None and best.pool_bytes <= options.ram:
            break
    assert best is not None, "the graph itself is a variant"
    return best


def bytes_and_macs(plan: Plan) -> tuple[int, int]:
    """By which plans are compared: RAM first, then what is computed twice."""
    return plan.pool_bytes, plan.macs_extra


def smallest(variant: Variant, options: Options) -> Plan:
    """The plan of a variant that comes nearest to what is asked for."""
    cutter, least = variant.cutter, variant.least
    if options.tile_cost is None:
        plan = bargained(cutter, least, options)
    else:
        plan = placed(cutter, cutter.within_budget(least, options.tile_cost), options)
    if options.ram is not None and plan.pool_bytes > options.ram:
        plan = placed(cutter, least, options)
    if options.ram is not None and options.ram > plan.pool_bytes:
        fast = placed(cutter, options.ram, options)
        plan = fast if fast.pool_bytes <= options.ram else plan
    over_all = f"Over all cuts of this order and all tiles that were tried, it is {least:,} bytes."
    plan = replace(plan, notes=(*plan.notes, over_all, *([TILES_LEFT] if cutter.cut_short else ())))
    if plan.pool_bytes > max(least, *cutter.single) and not options.stream_input:
        # The stages could not be placed without a gap; layers one by one perhaps can.
        single = replace(joint.in_order(cutter.graph, options.seconds), planner="vmcu")
        plan = min(plan, single, key=lambda plan: plan.pool_bytes)
    return plan


def bargained(cutter: Cutter, least: int, options: Options) -> Plan:
    """The better bargain of a plan within the balanced peak and one within the smallest: which it
    is shows when tensors have their places."""
    peak = cutter.balanced(least)
    plan = placed(cutter, peak, options)
    cost = cutter.cycles + cutter.cost(cutter.cheapest(least))
    if peak == least or price(plan, cutter) <= bargain(least, cost):
        return plan
    return min(plan, placed(cutter, least, options), key=lambda plan: price(plan, cutter))


def price(plan: Plan, cutter: Cutter) -> float:
    """The bargain of bytes and cycles, by estimate."""
    stages = (steps for steps in plan.stages if len(steps) > 1)
    extra = sum(extra_cost(step.bind(plan.graph)) for steps in stages for step in steps)
    return bargain(plan.pool_bytes, cutter.cycles + extra)


def variants(graph: Graph, options: Options, most: float) -> Iterator[Variant]:
    """The graph, then ever smaller peaks as the stage with the peak is put in bands, for at most
    this part of its multiply-accumulates done twice."""
    cutter, least = searched(graph, options)
    yield Variant(cutter, least, 0)
    macs = bands.macs(graph)
    while most > 0:
        cuts = cutter.cheapest(least)
        worst = max(cuts, key=lambda cut: cutter.peak((cut,)))
        better = cutter.in_bands(worst, least, int(macs * (1 + most)))
        if better is None:
            return
        cutter, peak = searched(better, options)
        if peak >= least:
            return
        least = peak
        yield Variant(cutter, least, max(bands.macs(better) - macs, 0))


def searched(graph: Graph, options: Options) -> tuple[Cutter, int]:
    """The search over a graph's cuts, and the smallest peak; UserError as plan()."""
    # Single columns waste half and more of what kernels compute: only for who would pay any price.
    narrow = options.tile_cost is not None and options.tile_cost > 1
    tiles = (*TILES, ONE_COLUMN) if narrow else TILES
    cutter = Cutter(graph, options.stream_input, tiles)
    least = cutter.least_peak(tiles, cutter.least_peak(tiles[:1], UNLIMITED))
    least = cutter.refined(least) if least < UNLIMITED else least
    return cutter, checked(graph, least)


def checked(graph: Graph, least: int) -> int:
    """The smallest peak; UserError if there is none."""
    if least == UNLIMITED:
        raise UserError(
            Problem(
                "its input cannot be streamed: too many layers need it",
                "leave out --stream-input",
                graph.origin,
            )
        )
    return least


def front(graph: Graph, options: Options) -> list[Choice]:
    """What the default planner can choose from, the fast and large before the slow and small."""
    found: list[Choice] = []
    for variant in variants(reordered(graph).graph, options, MOST_EXTRA):
        if not found:
            found = variant.cutter.front(variant.least)
            continue
        cutter, cuts = variant.cutter, variant.cutter.cheapest(variant.least)
        twice = named(graph.target).costs.mac * variant.macs_extra
        extra = (cutter.cost(cuts) + twice) / (cutter.cycles - twice)
        found.append(Choice(variant.least, extra, variant.macs_extra, count_of(cuts)))
    return found


def placed(cutter: Cutter, limit: int, options: Options) -> Plan:
    """The cheapest cuts within a limit, placed; if no place is found for their tensors, cuts that
    leave more room around the stage with the peak."""
    layouts: dict[tuple[Cut, ...], tuple[Layout, int]] = {}
    plan = _placed(cutter, limit, options, layouts)
    if plan is None:
        stretched = cutter.stretched(cutter.cheapest(limit), limit)
        plan = _placed(cutter, stretched, options, layouts)
    if plan is not None:
        return plan
    share = options.seconds / len(layouts)
    plans = [packed("vmcu", layout, share) for layout, _ in layouts.values()]
    return min(plans, key=lambda plan: plan.pool_bytes)


def _placed(
    cutter: Cutter,
    limit: int,
    options: Options,
    layouts: dict[tuple[Cut, ...], tuple[Layout, int]],
) -> Plan | None:
    """A plan within a limit; None if there is none. layouts: those without places, those tried here
    added, and the limit that they were tried in."""
    for part in EASES:
        cuts = cutter.cheapest(limit, int(part * limit))
        for tried in dict.fromkeys((cuts, cutter.loosened(cuts, limit))):
            layout, without = layouts.get(tried, (None, 0))
            if without >= limit:
                continue
            if layout is None:
                layout = Layout(cutter.graph, tried, options.stream_input, cutter.binder)
            plan = walked("vmcu", layout, limit)
            if plan is not None:
                return plan
            layouts[tried] = layout, limit
    return None
