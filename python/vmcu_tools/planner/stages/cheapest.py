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
        self.cheapest_stages: dict[tuple[int, int, int], Option | None] = {}
        # How many of these are known to need too much: what is known of them stays so.
        self.refused: dict[tuple[int, int, int], int] = {}
        self.worthwhile: dict[tuple[int, int], tuple[Option, ...]] = {}
        self.options: dict[int, list[Option]] = {}
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
        wrong = True
        while wrong:
            self.worthwhile.pop((first, stop), None)
            for limit in (self.limit, self.relaxed_limit):
                self.cheapest_stages.pop((first, stop, limit), None)
            self.worthwhile[first, stop] = self._worthwhile_stages(first, stop)
            wrong = not all(map(self._is_confirmed, self.worthwhile[first, stop]))

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
            for option in self.options[first]:
                stop = option.cut.stop
                cost = here + option.cost + (EXCESS_COST if option.peak > self.relaxed_limit else 0)
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

    def _stages_from(self, first: int) -> Iterator[Option]:
        """Stages that begin at a node."""
        count, single = self.stages.count, self.stages.single
        for stop in range(first + 1, min(first + self.stages.longest, count) + 1):
            options = self.worthwhile.get((first, stop))
            if options is None:
                options = self.worthwhile[first, stop] = self._worthwhile_stages(first, stop)
            if not options:
                continue
            yield from options
            if self.thorough or stop == count:
                continue
            if single[stop] <= self.relaxed_limit:
                return

    def _worthwhile_stages(self, first: int, stop: int) -> tuple[Option, ...]:
        """The stages of nodes [first, stop) that are worth having: the cheapest, and the cheapest
        within the relaxed limit."""
        cheapest = self._cheapest_of(first, stop, self.limit)
        if cheapest is None or cheapest.peak <= self.relaxed_limit:
            return () if cheapest is None else (cheapest,)
        relaxed = self._cheapest_of(first, stop, self.relaxed_limit)
        return (cheapest,) if relaxed is None else (cheapest, relaxed)

    def _cheapest_of(self, first: int, stop: int, limit: int) -> Option | None:
        """The stage of nodes [first, stop) that costs least of those that may stay within `limit`
        bytes, None if there is none."""
        key = first, stop, limit
        if key not in self.cheapest_stages:
            hopeless = self.stages.exceeds(first, stop, limit)
            cuts = [] if hopeless else self.stages.stages_by_cost(first, stop)
            refused, option = self.refused.get(key, 0), None
            while option is None and refused < len(cuts):
                option = self.stages.likely(cuts[refused], limit)
                refused += option is None
            self.cheapest_stages[key], self.refused[key] = option, refused
        return self.cheapest_stages[key]
