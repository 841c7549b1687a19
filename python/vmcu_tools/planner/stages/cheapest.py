# SPDX-License-Identifier: Apache-2.0
"""The cuts that cost least within given bytes.

What a stage costs is known at once, what it needs takes a trace. So all that is not known to need
too much is taken for possible, and only the stages of the cuts that are then the cheapest are
traced, until none of them turns out to need more.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..places.layout import Cut
from .candidates import CandidateStages
from .footprint import Option

# More than any stage costs.
EXCESS_COST = 1 << 40


class Cheapest:
    """A search for the cheapest cuts. relaxed_limit: bytes that stages should stay within where
    they can.

    Unless `thorough`, it looks at stages that seem worth having: a stage in front of a layer that
    fits by itself gains nothing from that layer, as long as the layers after it fit too.
    """

    def __init__(
        self, stages: CandidateStages, limit: int, relaxed_limit: int, thorough: bool = False
    ):
        self.stages, self.thorough = stages, thorough
        self.limit, self.relaxed_limit = limit, relaxed_limit
        # How many of these are known to need too much: what is known of them stays so.
        self.refused: dict[tuple[int, int, int], int] = {}
        self.likely: dict[tuple[int, int], Option | None] = {}
        self.options: dict[int, list[tuple[int, int, Option]]] = {}
        self.confirmed: set[Cut] = set()

    def run(self) -> tuple[Cut, ...] | None:
        """The cuts, None if there are none."""
        while (options := self._likely_cuts()) is not None:
            wrong = [option for option in options if not self._is_confirmed(option)]
            if not wrong:
                return tuple(option.cut for option in options)
            for option in wrong:
                self._replace(option.cut.first, option.cut.stop)
        return None

    def _replace(self, first: int, stop: int) -> None:
        """Looks for other stages of nodes [first, stop), until they are confirmed: the cuts are
        those of the whole graph, and cost more to find again than a stage to trace."""
        self.options.pop(first, None)
        option = self._likely_stage(first, stop)
        while option is not None and not self._is_confirmed(option):
            option = self._likely_stage(first, stop)
        self.likely[first, stop] = option

    def _is_confirmed(self, option: Option) -> bool:
        """Whether a stage needs no more than it was taken for, as far as that makes a
        difference."""
        if option.cut not in self.confirmed:
            most = self.limit if option.peak > self.relaxed_limit else self.relaxed_limit
            if self.stages.option_within(option.cut, most) is not None:
                self.confirmed.add(option.cut)
        return option.cut in self.confirmed

    def _likely_cuts(self) -> tuple[Option, ...] | None:
        """The cheapest cuts for all that is known, None if there are none."""
        count = self.stages.count
        best: list[int | None] = [0, *[None] * count]
        last: dict[int, Option] = {}
        for first in range(count):
            here = best[first]
            if here is None:
                continue
            if first not in self.options:
                self.options[first] = list(self._stages_from(first))
            for stop, cost, option in self.options[first]:
                cost += here
                there = best[stop]
                if there is None or cost < there:
                    best[stop], last[stop] = cost, option
        if best[count] is None:
            return None
        options, stop = [], count
        while stop:
            options.append(last[stop])
            stop = last[stop].cut.first
        return tuple(reversed(options))

    def _stages_from(self, first: int) -> Iterator[tuple[int, int, Option]]:
        """Stages that begin at a node: the node behind them, and what they cost."""
        count, single = self.stages.count, self.stages.single
        for stop in range(first + 1, min(first + self.stages.longest, count) + 1):
            if (first, stop) not in self.likely:
                self.likely[first, stop] = self._likely_stage(first, stop)
            option = self.likely[first, stop]
            if option is None:
                continue
            yield stop, option.cost + EXCESS_COST * (option.peak > self.relaxed_limit), option
            if not self.thorough and stop < count and single[stop] <= self.relaxed_limit:
                return

    def _likely_stage(self, first: int, stop: int) -> Option | None:
        """The stage of nodes [first, stop) that costs least of those that may stay within the
        relaxed limit, or else within the limit; None if there is none."""
        for limit in (self.relaxed_limit, self.limit):
            key = first, stop, limit
            hopeless = self.stages.exceeds(first, stop, limit)
            cuts = [] if hopeless else self.stages.stages_by_cost(first, stop)
            for number in range(self.refused.get(key, 0), len(cuts)):
                self.refused[key] = number
                option = self.stages.likely(cuts[number], limit)
                if option is not None:
                    return option
            self.refused[key] = len(cuts)
        return None
