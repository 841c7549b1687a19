# SPDX-License-Identifier: Apache-2.0
"""Many short searches instead of a long one: each with its own strategy, order and height.

Whether a search finds a placement depends on luck more than on time: one that has not found it
after a few thousand nodes has taken a wrong turn near its root. So searches are restarted, at the
bound as well as at heights between the bound and the best placement known, half of them from
that placement: its buffers in the order of their offsets, shuffled within a stretch of time.

Everything here is drawn from a generator with a fixed seed, and nothing depends on the clock or
on the number of processes: a batch is complete before the next one is drawn.
"""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from .blocks import Blocks, blocks_of
from .bounds import grain, live_bound
from .ejection import Ejection
from .greedy import best_first_fit, by_time, height_of
from .partial import Geometry
from .problem import Buffer
from .search import LimitError, Search
from .skyline import fills
from .strategy import Strategy

BATCH = 8
SEED = 1
# Beyond, first fit takes longer than it is worth.
MOST_FIRST_FIT = 4000
# Beyond, fills of so many tastes leave time for blocks.
MOST_FILLED, FEW_TASTES = 20_000, 2
# Beyond, who is alive at the same time has no room.
MOST_EJECTED = 30_000
# Insertions of an ejection, for each buffer, and of how many of them a batch consists.
EJECTION_STEPS, MANY_STEPS, MOST_STEPS, EJECTIONS = 8, 40, 60_000, 2
# From so many buffers on, one batch in OFTEN is not of ejections; below, one in SELDOM is.
MANY, SELDOM, OFTEN = 500, 4, 3
MOST_INT64 = 1 << 60
LEAST_NODES = 1000
NODES_PER_BUFFER = 3

STRATEGIES = tuple(
    Strategy(valley, fit, cover)
    for valley in ("covered", "lowest", "fewest", "tightest", "narrowest")
    for fit, cover in (("rank", True), ("waste", False), ("waste", True), ("share", True))
)
# For the neighbourhood of a placement: close to its own order, bottom up.
NEARBY = (
    Strategy("lowest", "rank", False),
    Strategy("lowest", "rank"),
    Strategy("lowest", "waste", False),
    Strategy("fewest", "rank"),
)
# Powers of how full a buffer's fullest section is, of its lifetime, and of its size: a buffer's
# weight is their product, and the heaviest goes first.
CROWDING = (0, 2, 6, 20, 60)
SHAPES = ((1, 0), (1, 1), (0, 1), (0.5, 1), (1, 0.5))
NOISE = (0, 0.05, 0.1, 0.2, 0.4, 0.8)
# Where between the bound (0) and the best height known (1) a search aims.
AIMS = (0, 0, 0.5, 0.9)
NEAR_AIMS = (0, 0.5, 0.8, 0.95, 1)
# The same as long as the best height is this many times the bound: step by step, in short searches.
FAR = 1.04
FAR_AIMS = (0, 0.7, 0.85, 0.95)
FAR_NEAR_AIMS = (0.5, 0.8, 0.95, 1)
OPENING = (
    (Strategy("covered", "rank"), (0, 1, 0)),
    (Strategy("fewest", "waste"), (0, 0, 1)),
    (Strategy("tightest", "waste"), (0, 0.5, 1)),
    (Strategy("covered", "waste"), (0, 1, 0)),
    (Strategy("lowest", "waste", False), (6, 1, 0.5)),
    (Strategy("fewest", "rank"), (0, 0.5, 1)),
    (Strategy("narrowest", "waste", False), (6, 1, 0.5)),
    (Strategy("covered", "rank"), (6, 1, 0)),
)


@dataclass(frozen=True)
class Attempt:
    """One search: `component` says among which buffers, `height` what they may take, `order` which
    are tried first, `nodes` how many of the search tree are visited."""

    component: int
    height: int
    order: tuple[int, ...]
    strategy: Strategy
    nodes: int


@dataclass(frozen=True)
class Outcome:
    """`offsets` if there are any; `decided`: they were found, or proven not to be."""

    decided: bool
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class Lowering:
    """Makes a placement of a component lower, in so many insertions; `goal`: no further than
    that, `grain`: to a multiple of it, bytes."""

    component: int
    offsets: tuple[int, ...]
    goal: int
    grain: int
    steps: int
    seed: int


def solve(geometry: Geometry, attempt: Attempt | Lowering, deadline: float) -> Outcome:
    """Makes an attempt; undecided at its nodes' end or at `deadline`, of time.monotonic()."""
    if time.monotonic() > deadline:
        return Outcome(False)
    if isinstance(attempt, Lowering):
        ejection = Ejection(geometry, attempt.offsets, attempt.seed)
        lower = ejection.lowered(attempt.goal, attempt.grain, attempt.steps, deadline)
        return Outcome(lower is not None, tuple(lower or ()))
    search = Search(geometry, attempt.height, attempt.order, attempt.strategy)
    try:
        return Outcome(True, tuple(search.run(attempt.nodes, deadline) or ()))
    except LimitError:
        return Outcome(False)


class Component:
    """Buffers that some chain of lifetimes connects, what is known of their placement, and what
    to try next."""

    def __init__(self, number: int, buffers: Sequence[Buffer]):
        self.number = number
        self.buffers = buffers
        self.geometry = Geometry(buffers)
        self.grain = grain(buffers)
        self.bound = self.rounded(live_bound(buffers))
        self.offsets = tuple(by_time(buffers))
        self.height = height_of(buffers, self.offsets)
        self.rounds = 0
        self.dice = random.Random(SEED)
        self.blocks: Blocks | None = None
        self.inner: Component | None = None
        self.looked_for_blocks = False

    def begin(self, deadline: float) -> None:
        """A better placement to start from, if there is time. It does not depend on the first one,
        which is for problems where there is none."""
        fewer = len(self.buffers) > MOST_FILLED
        found = list(islice(fills(self.buffers, deadline), FEW_TASTES if fewer else None))
        if len(self.buffers) <= MOST_FIRST_FIT:
            offsets = best_first_fit(self.buffers, deadline)
            found = [*found, offsets] if offsets is not None else found
        for offsets in found:
            self.take(tuple(offsets))

    def put_together(self, number: int, deadline: float) -> Component | None:
        """Its blocks as a component with this number, if there are fewer of them, with a placement
        to start from."""
        self.looked_for_blocks = True
        blocks = blocks_of(self.buffers, deadline)
        if blocks is None:
            return None
        self.blocks, self.inner = blocks, Component(number, blocks.buffers())
        self.inner.begin(deadline)
        self.take(blocks.unfolded(self.inner.offsets))
        return self.inner

    def take(self, offsets: tuple[int, ...]) -> None:
        """Takes offsets over if they are lower."""
        height = height_of(self.buffers, offsets)
        if height < self.height:
            self.height, self.offsets = height, offsets

    @functools.cached_property
    def crowding(self) -> list[float]:
        """How full each buffer's fullest section is, of the fullest of all."""
        fullest = self.geometry.fullest()
        most = max(fullest, default=0) or 1
        return [full / most for full in fullest]

    def rounded(self, height: int) -> int:
        """The next height, in bytes, that sums of these sizes can reach."""
        return -(-height // self.grain) * self.grain

    def batch(self, floor: int) -> Sequence[Attempt | Lowering]:
        """The next searches, none for a height below `floor`."""
        inner = self.inner
        if (
            inner
            and inner.height > max(self.bound, floor)
            and inner.rounds * len(inner.buffers) <= (self.rounds + 1) * len(self.buffers)
        ):
            return inner.batch(max(self.bound, floor))
        self.rounds += 1
        nodes = max(LEAST_NODES, NODES_PER_BUFFER * len(self.buffers))
        goal = max(self.bound, self.rounded(floor))
        if self.rounds == 1 and not self.many:
            return [
                Attempt(self.number, goal, self.by_weight(powers, 0), strategy, nodes)
                for strategy, powers in OPENING
            ]
        if self.ejects:
            steps = (MANY_STEPS if self.many else EJECTION_STEPS) * len(self.buffers)
            seeds = [self.dice.randrange(1 << 30) for _ in range(EJECTIONS)]
            return [
                Lowering(self.number, self.offsets, goal, self.grain, min(steps, MOST_STEPS), seed)
                for seed in seeds
            ]
        return [self.draw(goal, nodes) for _ in range(BATCH)]

    @property
    def many(self) -> bool:
        """Whether searches are too slow to begin with."""
        return len(self.buffers) >= MANY

    @property
    def ejects(self) -> bool:
        """Whether this round is one of ejections."""
        count = len(self.buffers)
        if count > MOST_EJECTED or sum(b.size + b.alignment for b in self.buffers) > MOST_INT64:
            return False
        if self.many and self.height > FAR * self.bound:
            return self.rounds % OFTEN != 0
        return self.rounds % SELDOM == SELDOM - 1

    def draw(self, goal: int, nodes: int) -> Attempt:
        """A search near the best placement, or one that starts afresh."""
        dice, far = self.dice, self.height > FAR * self.bound
        if dice.random() < 0.5:
            order, strategy = self.nearby(), dice.choice(NEARBY)
            aim = dice.choice(FAR_NEAR_AIMS if far else NEAR_AIMS)
            nodes *= 1 if far else luby(self.rounds)
        else:
            powers = (dice.choice(CROWDING), *dice.choice(SHAPES))
            order, strategy = self.by_weight(powers, dice.choice(NOISE)), dice.choice(STRATEGIES)
            aim = dice.choice(FAR_AIMS if far else AIMS)
            nodes *= luby(self.rounds)
        steps = (self.height - self.grain - goal) // self.grain
        height = goal + max(0, int(steps * aim)) * self.grain
        return Attempt(self.number, height, order, strategy, nodes)

    def by_weight(self, powers: tuple[float, float, float], noise: float) -> tuple[int, ...]:
        """The buffers, the heaviest first; powers: see CROWDING and SHAPES; noise: the standard
        deviation of a weight's logarithm."""
        crowding, lifetime, size = powers
        weight = [
            crowding * math.log(crowded)
            + lifetime * math.log(buffer.upper - buffer.lower)
            + size * math.log(buffer.size)
            + (self.dice.gauss(0, noise) if noise else 0)
            for crowded, buffer in zip(self.crowding, self.buffers, strict=True)
        ]
        return tuple(sorted(range(len(weight)), key=lambda b: -weight[b]))

    def nearby(self) -> tuple[int, ...]:
        """The buffers in the order of the lowest allocation known, from its bottom or its top,
        shuffled over a stretch of time."""
        dice, geometry, count = self.dice, self.geometry, len(self.buffers)
        span = dice.choice((0.1, 0.2, 0.4, 1.0)) * geometry.sections
        noise = dice.choice((0.01, 0.03, 0.1, 0.3)) * self.bound
        ends = [o + b.size for o, b in zip(self.offsets, self.buffers, strict=True)]
        # Around a buffer near the top, more often than not: those are what is too high.
        edge = self.bound + 0.8 * (self.height - self.bound)
        high = [b for b in range(count) if ends[b] > edge]
        around = dice.choice(high) if high and dice.random() < 0.7 else dice.randrange(count)
        start = dice.randrange(geometry.first[around], geometry.end[around]) - span * dice.random()
        upside_down = dice.random() < 0.3
        level = [self.height - end for end in ends] if upside_down else list(self.offsets)
        for b in range(count):
            if geometry.first[b] < start + span and geometry.end[b] > start:
                level[b] += round(dice.gauss(0, noise))
        return tuple(sorted(range(count), key=lambda b: level[b]))

    def learn(self, attempt: Attempt | Lowering, outcome: Outcome) -> None:
        """Takes over what an attempt has found: a lower allocation, or a higher bound."""
        if attempt.component != self.number:
            assert self.inner and self.blocks, "it was an attempt with blocks"
            self.inner.learn(attempt, outcome)
            self.take(self.blocks.unfolded(self.inner.offsets))
        elif outcome.offsets:
            self.take(outcome.offsets)
        elif outcome.decided and isinstance(attempt, Attempt):
            self.bound = max(self.bound, attempt.height + self.grain)


def components_of(buffers: Sequence[Buffer]) -> list[list[Buffer]]:
    """Groups no moment connects; they are placed independently of one another."""
    components: list[list[Buffer]] = []
    end = 0
    for buffer in sorted(buffers, key=lambda b: b.lower):
        if not components or buffer.lower >= end:
            components.append([])
            end = buffer.upper
        components[-1].append(buffer)
        end = max(end, buffer.upper)
    return components


def luby(number: int) -> int:
    """1 1 2 1 1 2 4 ...: whatever limit would have been best, it comes up often enough."""
    size = number.bit_length()
    while number != (1 << size) - 1:
        number -= (1 << (size - 1)) - 1
        size = number.bit_length()
    return 1 << (size - 1)
