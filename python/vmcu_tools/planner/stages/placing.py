# SPDX-License-Identifier: Apache-2.0
"""Plans of cuts: the cheapest ones within a limit whose tensors have places, and what is tried
where they have none (swing.py, walk.py)."""

from __future__ import annotations

from functools import partial

from ...plan.plan import Plan
from ..options import CompileOptions
from ..places.layout import Cut, Layout
from ..places.pieces import pieces_of
from ..places.swing import packed, rolled, walked, walked_least
from ..places.walk import Walk, plan_of
from .closing import closest, lodged_cuts
from .cuts import Cutter

# Of more nodes in bands, no solver is asked for the places of all at once.
MOST_SOLVED = 20
# Parts of the peak that all other stages are kept within, in turn, until the tensors can be placed.
EASES = (1.0, 0.9, 0.8, 0.65)
# Of a solver, in seconds, before more bytes are allowed.
IN_LINE = 0.3
# By cuts, their layout and the bytes in which no places were found for it.
Tried = dict[tuple[Cut, ...], tuple[Layout, int]]


def placed(
    cutter: Cutter,
    limit: int,
    options: CompileOptions,
    tried: Tried | None = None,
    worth: int | None = None,
) -> Plan:
    """The cheapest cuts within a limit, placed; if no place is found for their tensors, cuts that
    leave more room around the stage with the peak. tried: as placed_within() has it; worth: a plan
    of as many bytes is of no use, so that circles are asked for no more than fewer."""
    layouts: Tried = {} if tried is None else tried
    plan = placed_within(cutter, limit, options, layouts)
    if plan is not None:
        return plan
    if cutter.bands:
        plans = (walked_plan(layout) for layout, _ in layouts.values())
        return min(plans, key=lambda plan: plan.pool_bytes)
    for cuts in lodged_cuts(cutter, limit):
        plan = plan_in(cutter, cuts, limit, options, layouts)
        if plan is not None:
            return plan
    plan = packed_or_stretched(cutter, limit, options, layouts, worth)
    closer = closest(cutter, limit, plan.pool_bytes) if plan.pool_bytes > limit else None
    if closer is None:
        return plan
    cuts, size = closer
    return plan_in(cutter, cuts, size, options, layouts) or plan


def packed_or_stretched(
    cutter: Cutter, limit: int, options: CompileOptions, layouts: Tried, worth: int | None
) -> Plan:
    """The smallest plan that is found where there is none within a limit. layouts: those that were
    tried in it. worth: as placed() has it."""
    # Lines may have places where none were found in circles, and tell how many more bytes do.
    line = packed_best(cutter, layouts, limit, IN_LINE, worth)
    most = line.pool_bytes if worth is None else min(line.pool_bytes, worth)
    stretched = cutter.stretched(cutter.cheapest(limit), limit, most)
    if stretched >= most:
        return line
    plan = placed_within(cutter, stretched, options, layouts)
    plan = plan or packed_best(cutter, layouts, limit, options.solver_seconds, worth)
    return min(plan, line, key=lambda plan: plan.pool_bytes)


def packed_best(
    cutter: Cutter, layouts: Tried, limit: int, seconds: float, worth: int | None = None
) -> Plan:
    """The smallest plan that a solver finds for any of the layouts, or the first within `limit`
    bytes. worth: as placed() has it."""
    share, best = seconds / len(layouts), None
    for cuts, (layout, _) in layouts.items():
        if best is not None and not cutter.lodged(cuts, best.pool_bytes - 1):
            continue
        plan = packed("vmcu", layout, share, None if best is None else best.pool_bytes, worth)
        best = plan if best is None else min(best, plan, key=lambda plan: plan.pool_bytes)
        if best.pool_bytes <= limit:
            break
    assert best is not None, "there is a layout that has no places"
    return best


def placed_within(
    cutter: Cutter,
    limit: int,
    options: CompileOptions,
    layouts: Tried,
) -> Plan | None:
    """A plan within a limit; None if there is none. layouts: those without places, those tried here
    added, and the limit that they were tried in. Many bands have many pieces: what is found for
    some at a time, and not what a solver may find for all, in minutes."""
    for part in EASES:
        cuts = cutter.cheapest(limit, int(part * limit))
        plan = plan_in(cutter, cuts, limit, options, layouts)
        if plan is None:
            others = cutter.loosened(cuts, limit)
            plan = plan_in(cutter, others, limit, options, layouts)
        if plan is not None:
            return plan
    return None


def plan_in(
    cutter: Cutter, cuts: tuple[Cut, ...], limit: int, options: CompileOptions, layouts: Tried
) -> Plan | None:
    """The plan of cuts within a limit, as placed_within() has it."""
    layout, without = layouts.get(cuts, (None, 0))
    if without >= limit:
        return None
    if layout is None:
        layout = cutter.layout(cuts)
    plan = roomy(layout, limit) if cutter.bands else None
    if plan is None and len(cutter.bands) <= MOST_SOLVED:
        plan = walked("vmcu", layout, limit, partial(cutter.lodged, cuts))
    if plan is None and cutter.lodged(cuts, limit):
        plan = rolled("vmcu", layout, limit)
    if plan is None:
        layouts[cuts] = layout, limit
    return plan


def roomy(layout: Layout, limit: int) -> Plan | None:
    """A plan in `limit` bytes, where the walk finds one."""
    for both_ways, wraps in ((True, False), (False, True)):
        pieces = pieces_of(layout, both_ways)
        bound = max(piece.bound() for piece in pieces)
        search = Walk(pieces, limit, wraps)
        if limit >= bound and search.run():
            return plan_of("vmcu", layout, search, bound)
    return None


def walked_plan(layout: Layout) -> Plan:
    """The smallest pool that the walk finds."""
    pieces = pieces_of(layout, both_ways=False)
    bound = max(piece.bound() for piece in pieces)
    return plan_of("vmcu", layout, walked_least(pieces, bound), bound)
