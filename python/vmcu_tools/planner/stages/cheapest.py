# SPDX-License-Identifier: Apache-2.0
"""The cuts that cost least within given bytes.

What a stage costs is known at once, what it needs takes a trace. So all that is not known to need
too much is taken for possible, and only the stages of the cuts that are then the cheapest are
traced, until none of them turns out to need more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ..places.layout import Cut
from .footprint import Option

# More than any stage costs.
EXCESS_COST = 1 << 40


class Stages(Protocol):
    """The figures of stages that the search asks for; see Partitioner. single: bytes that each of
    `count` nodes needs."""

    @property
    def longest(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def single(self) -> list[int]: ...

    def exceeds(self, first: int, stop: int, limit: int) -> bool: ...

    def stages_by_cost(self, first: int, stop: int) -> list[Cut]: ...

    def likely(self, cut: Cut, limit: int) -> Option | None: ...

    def option_within(self, cut: Cut, limit: int) -> Option | None: ...


class Cheapest:
    """A search for the cheapest cuts. ease: bytes that stages should stay within where they can.

    Unless `thorough`, it looks at stages that seem worth having: one that is followed by a layer
    which fits by itself gains nothing by taking that layer in, as long as what comes after it fits
    too.
    """

    def __init__(
        self,
        stages: Stages,
        limit: int,
        ease: int,
        thorough: bool = False,
    ):
        self.stages, self.limit, self.ease, self.thorough = stages, limit, ease, thorough
        self.chosen: dict[tuple[int, int, int], Option | None] = {}
        # How many of these are known to need too much: what is known of them stays so.
        self.refused: dict[tuple[int, int, int], int] = {}
        self.between: dict[tuple[int, int], tuple[Option, ...]] = {}
        self.options: dict[int, list[Option]] = {}
        self.right: set[Cut] = set()

    def run(self) -> tuple[Cut, ...] | None:
        """The cuts, None if there are none."""
        while (options := self._likely()) is not None:
            wrong = [option for option in options if not self._right(option)]
            if not wrong:
                return tuple(option.cut for option in options)
            for option in wrong:
                cut = option.cut
                self.options.pop(cut.first, None)
                self.between.pop((cut.first, cut.stop), None)
                for limit in (self.limit, self.ease):
                    self.chosen.pop((cut.first, cut.stop, limit), None)
        return None

    def _right(self, option: Option) -> bool:
        """Whether a stage needs no more than it was taken for, as far as that makes a
        difference."""
        if option.cut in self.right:
            return True
        known = self.stages.option_within(option.cut, self.limit)
        right = known is not None and (known.peak <= self.ease or option.peak > self.ease)
        if right:
            self.right.add(option.cut)
        return right

    def _likely(self) -> tuple[Option, ...] | None:
        """The cheapest cuts for all that is known, None if there are none."""
        count = self.stages.count
        best: list[int | None] = [0, *[None] * count]
        last: dict[int, Option] = {}
        for first in range(count):
            here = best[first]
            if here is None:
                continue
            if first not in self.options:
                self.options[first] = list(self._from(first))
            for option in self.options[first]:
                stop = option.cut.stop
                cost = here + option.cost + (EXCESS_COST if option.peak > self.ease else 0)
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

    def _from(self, first: int) -> Iterator[Option]:
        """Stages that begin at a node."""
        count, single = self.stages.count, self.stages.single
        for stop in range(first + 1, min(first + self.stages.longest, count) + 1):
            options = self.between.get((first, stop))
            if options is None:
                options = self.between[first, stop] = self._between(first, stop)
            if not options:
                continue
            yield from options
            if self.thorough or stop == count:
                continue
            if single[stop] <= self.ease:
                return

    def _between(self, first: int, stop: int) -> tuple[Option, ...]:
        """The stages of nodes [first, stop) that are worth having: the cheapest, and the cheapest
        with ease."""
        cheapest = self._cheapest_of(first, stop, self.limit)
        if cheapest is None or cheapest.peak <= self.ease:
            return () if cheapest is None else (cheapest,)
        easy = self._cheapest_of(first, stop, self.ease)
        return (cheapest,) if easy is None else (cheapest, easy)

    def _cheapest_of(self, first: int, stop: int, limit: int) -> Option | None:
        """The stage of nodes [first, stop) that costs least of those that may stay within `limit`
        bytes, None if there is none."""
        key = first, stop, limit
        if key not in self.chosen:
            hopeless = self.stages.exceeds(first, stop, limit)
            cuts = [] if hopeless else self.stages.stages_by_cost(first, stop)
            refused, option = self.refused.get(key, 0), None
            while option is None and refused < len(cuts):
                option = self.stages.likely(cuts[refused], limit)
                refused += option is None
            self.chosen[key], self.refused[key] = option, refused
        return self.chosen[key]
