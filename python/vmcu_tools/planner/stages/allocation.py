# SPDX-License-Identifier: Apache-2.0
"""Offsets for the tensors of a partition, and gap repair where they have none.

Input: the search over a graph's partitions and a limit in bytes. Output: a plan within the limit,
or the smallest plan found. Peak live bytes are no placement: each tensor is contiguous, so a stage
may have none within its peak. Gap repair then looks for another stage of the same layers that has
one: with other tiles, or with the first layer ahead (layout.Cut). It bisects the fewest bytes in
which one has, stage by stage. Each question is a sequential placement, then an ejection search
in a circular pool (sequential.py, circular_pool.py), so repair takes time in stages times tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...plan.plan import Plan
from ..places import circular_pool
from ..places.layout import Cut, Layout
from ..places.pieces import Piece, most_of, pieces_in, pieces_of
from ..places.sequential import SequentialPlacement
from ..places.smallest_pool import packed, walked
from .partition import Partitioner

Cuts = tuple[Cut, ...]
Pieces = tuple[Piece, ...]


class Allocator:
    """The search for offsets of one graph's partitions. unplaced: by partition its layout, and the
    most bytes in which no placement was found."""

    def __init__(self, partitioner: Partitioner):
        self.partitioner, self.params = partitioner, partitioner.params
        self.unplaced: dict[Cuts, tuple[Layout, int]] = {}
        self.pieces: dict[tuple[Cuts, int], Pieces] = {}
        self.placeable: dict[tuple[Pieces, int], bool] = {}

    def plan_within(self, limit: int) -> Plan | None:
        """The plan of the cheapest partition within a limit, repaired if need be; None if no
        placement is found."""
        for share in self.params.room_shares:
            cuts = self.partitioner.cheapest(limit, int(share * limit))
            plan = self.plan_of(cuts, limit)
            if plan is None:
                repaired = self.repaired(cuts, limit, limit + 1)
                plan = None if repaired is None else self.plan_of(repaired[0], limit)
            if plan is not None:
                return plan
        return None

    def smallest_plan(self, limit: int) -> Plan:
        """The plan within a limit, or the smallest found above it."""
        plan = self.plan_within(limit)
        if plan is not None:
            return plan
        cuts = self.partitioner.cheapest(limit)
        most = most_of(pieces_of(self.partitioner.layout(cuts), False))
        repaired = self.repaired(cuts, limit, most)
        plan = None if repaired is None else self.plan_of(*repaired)
        return self.packed(limit, plan)

    def plan_of(self, cuts: Cuts, limit: int) -> Plan | None:
        """The plan of a partition within a limit, None if no placement is found."""
        layout, without = self.unplaced.get(cuts, (None, 0))
        if without >= limit:
            return None
        layout = layout or self.partitioner.layout(cuts)
        plan = walked("vmcu", layout, limit, lambda size: self.is_hopeful(cuts, size), self.params)
        if plan is None:
            self.unplaced[cuts] = layout, limit
        return plan

    def packed(self, limit: int, best: Plan | None) -> Plan:
        """The smallest plan found for any partition without a placement, or the first within
        `limit` bytes. best: a plan that is known."""
        insertions = self.params.packing_insertions // len(self.unplaced)
        params = replace(self.params, packing_insertions=insertions)
        for cuts, (layout, _) in self.unplaced.items():
            if best is not None and not self.is_hopeful(cuts, best.pool_bytes - 1):
                continue
            below = None if best is None else best.pool_bytes
            plan = packed("vmcu", layout, below, params)
            best = plan if best is None else min(best, plan, key=lambda plan: plan.pool_bytes)
            if best.pool_bytes <= limit:
                break
        assert best is not None, "a partition has no placement"
        return best

    def is_hopeful(self, cuts: Cuts, size: int) -> bool:
        """Whether each stage of several layers has a placement by itself in `size` bytes."""
        return all(self.has_placement(self.pieces_of(cuts, n), size) for n in fused(cuts))

    def repaired(self, cuts: Cuts, limit: int, most: int) -> tuple[Cuts, int] | None:
        """The partition with other stages of the same layers for those without a placement in
        `limit` bytes, and the fewest bytes from there on in which each has one; None if they are
        `most` or more."""
        stages, size = list(cuts), limit
        if not self.params.gap_repair:
            return None
        for number in fused(cuts):
            if self.has_placement(self.pieces_of(cuts, number), size):
                continue
            best, fewest = None, most
            for cut in self.alternatives(cuts[number], limit):
                pieces = self.pieces_of((*cuts[:number], cut, *cuts[number + 1 :]), number)
                least = max(size, *(piece.bound() for piece in pieces))
                if least < fewest and self.has_placement(pieces, fewest - 1):
                    best, fewest = cut, self.fewest_bytes(pieces, least, fewest - 1)
                if fewest == size:
                    break
            if best is None:
                return None
            stages[number], size = best, fewest
        return tuple(stages), size

    def alternatives(self, own: Cut, limit: int) -> Iterator[Cut]:
        """Stages of the same layers within `limit` bytes, the cheap ones first; then those with
        their first layers ahead."""
        partitioner = self.partitioner
        stages = [*dict.fromkeys((own, *partitioner.stages_within(own.first, own.stop, limit)))]
        yield from stages
        if self.params.full_ring_first:
            yield from (
                partitioner.with_full_ring(cut)
                for cut in stages
                if partitioner.can_fill_ring_first(cut)
            )

    def pieces_of(self, cuts: Cuts, number: int) -> Pieces:
        """The pieces that are alive in a stage."""
        if (cuts, number) not in self.pieces:
            layout = self.partitioner.layout(cuts)
            pieces = pieces_in(layout, pieces_of(layout, both_ways=self.params.descending), number)
            self.pieces[cuts, number] = pieces
        return self.pieces[cuts, number]

    def has_placement(self, pieces: Pieces, size: int) -> bool:
        """Whether a placement of all of them is found in `size` bytes."""
        if (pieces, size) not in self.placeable:
            # The walk is soon over, and mostly finds a placement if there is one.
            walked = any(SequentialPlacement(pieces, size, wraps).run() for wraps in (False, True))
            insertions = len(pieces) * self.params.stage_insertions
            self.placeable[pieces, size] = walked or (
                self.params.ejection and circular_pool.fits(pieces, size, insertions) is not None
            )
        return self.placeable[pieces, size]

    def fewest_bytes(self, pieces: Pieces, least: int, most: int) -> int:
        """The fewest bytes in which a placement is found, by bisection; one is in `most`."""
        while least < most:
            size = (least + most) // 2
            if self.has_placement(pieces, size):
                most = size
            else:
                least = size + 1
        return most


def fused(cuts: Cuts) -> Iterator[int]:
    """The numbers of the stages of several layers."""
    return (number for number, cut in enumerate(cuts) if cut.stop - cut.first > 1)
