# SPDX-License-Identifier: Apache-2.0
"""Which stages a graph is cut into where it may use several memories.

Each of a few sets of stages is tried: from those that fit into all memories together, cheap in
cycles, to those that need the fewest bytes, slow as they are. All keep within the first memory
wherever they can. That with the fewest cycles is taken, those of waiting for memories included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...errors import Problem as Complaint
from ...errors import UserError
from ...graph import Graph
from ...plan.plan import Plan
from ...plan.pools import Region
from ..options import CompileOptions
from ..places.layout import Cut, Layout
from ..places.order import reordered
from ..stages.fusion import variants
from ..stages.partition import Partitioner
from ..stages.variants import Variant, search_partition
from .assign import Assigner, problem_of
from .place import Places, placed, plan_from

# How many limits between the fewest bytes and all that there are.
LIMIT_COUNT = 6
INPUT_NOTE = (
    "The pool has the whole input, which costs fewer cycles. You can still push it row by row."
)
# Parts of the first memory that stages are kept within where they can.
FIRST_MEMORY_SHARES = (1.0, 0.8)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A layout and what it costs, in cycles by estimate: what its stages cost more than layers one
    by one, what is computed twice, and waiting."""

    variant: Variant
    layout: Layout
    cycles: float


def plan(graph: Graph, options: CompileOptions) -> Plan:
    """The plan with the fewest cycles, by estimate, in options.memory; the order of nodes is that
    of the smallest pool. Raises UserError if nothing fits."""
    order = reordered(graph)
    regions = options.memory
    tried = [*variants(order.graph, options, options.extra_macs / 100)]
    if options.stream_input:
        # It may be kept whole, where that costs less.
        tried = [*tried, *variants(order.graph, replace(options, stream_input=False), 0.0)]
    candidates = [one for variant in tried for one in candidates_of(variant, regions)]
    for candidate in sorted(candidates, key=lambda one: one.cycles):
        places = placed(problem_of(candidate.layout), regions)
        if places is not None:
            finished = _finished(order.graph, candidate, places, regions)
            if options.stream_input and not finished.input_streamed:
                finished = replace(finished, notes=(*finished.notes, INPUT_NOTE))
            return order.noted(finished)
    least = search_partition(order.graph, options)[1]
    raise UserError(
        Complaint(
            f"does not fit: no placement was found in {_said(regions)}; in one memory, its worst "
            f"step needs {least:,} bytes",
            "allow more with --memory, deliver the input row by row with --stream-input, or make "
            "the widest layers smaller",
            graph.origin,
        )
    )


def candidates_of(variant: Variant, regions: Sequence[Region]) -> Iterator[Candidate]:
    """The layouts of a variant that fit, as far as bytes can tell."""
    partitioner = variant.partitioner
    twice = (
        partitioner.binder.layer(0).target.costs.mac * variant.macs_extra
        if partitioner.count
        else 0
    )
    for cuts in dict.fromkeys(_cuts(partitioner, variant.least, regions)):
        layout = Layout(partitioner.graph, cuts, partitioner.streamed, partitioner.binder)
        assigned = Assigner(problem_of(layout), regions).solve([one.capacity for one in regions])
        if assigned is not None:
            yield Candidate(variant, layout, partitioner.cost(cuts) + twice + assigned.waits)


def _cuts(
    partitioner: Partitioner, least: int, regions: Sequence[Region]
) -> Iterator[tuple[Cut, ...]]:
    if not partitioner.count:
        yield ()
        return
    first, total = regions[0].capacity, sum(region.capacity for region in regions)
    limits = [
        round(least * (max(total, least) / least) ** (n / (LIMIT_COUNT - 1)))
        for n in range(LIMIT_COUNT)
    ]
    for limit in sorted({*limits, max(first, least)}):
        for ease in FIRST_MEMORY_SHARES:
            yield partitioner.cheapest(limit, min(limit, int(ease * first)))


def _finished(
    graph: Graph, candidate: Candidate, places: Places, regions: Sequence[Region]
) -> Plan:
    variant = candidate.variant
    before = None if variant.partitioner.graph is graph else graph
    finished = plan_from(candidate.layout, places, regions)
    return replace(finished, macs_extra=variant.macs_extra, original=before)


def _said(regions: Sequence[Region]) -> str:
    return ", ".join(f"{region.name} ({region.capacity:,} bytes)" for region in regions)
