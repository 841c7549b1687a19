# SPDX-License-Identifier: Apache-2.0
"""Which searches are made for the buffers of a component, and in which turn.

Input: buffers, and the results of attempts so far. Output: batches of attempts. Algorithm: random
restarts with Luby's node limits. A search that has found no placement after a few thousand nodes
has made a wrong decision near its root, so searches are restarted: at the lower bound and at
heights between it and the lowest placement, in orders by random weights. Many buffers are lowered
by ejection instead, most of the time.

All random choices come from one generator with a fixed seed, and none depends on the clock or on
the number of processes: a batch is complete before the next one is drawn.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from .best_fit import best_fit, first_fit
from .blocks import Blocks, blocks_of
from .bounds import granularity, lower_bound
from .ejection import Ejection
from .geometry import Geometry, is_small
from .params import PlacementParams
from .problem import Buffer
from .search import LimitError, Search
from .skyline import skyline_fits

# Every so many rounds of a component with ejections, one is of searches.
SEARCH_PERIOD = 3
# Weights of a buffer: powers of its lifetime and of its size. The heaviest goes first.
ORDER_WEIGHTS = ((1, 0), (1, 1), (0, 1), (0.5, 1), (1, 0.5))
ORDER_DEVIATIONS = (0, 0.05, 0.1, 0.2, 0.4, 0.8)


@dataclass(frozen=True)
class Attempt:
    """A branch and bound among the buffers of a component, as Search has it."""

    component: int
    height: int
    order: tuple[int, ...]
    valley: str
    nodes: int


@dataclass(frozen=True)
class Lowering:
    """An ejection search from the offsets of a component, as Ejection has it."""

    component: int
    offsets: tuple[int, ...]
    goal: int
    step: int
    insertions: int
    seed: int


@dataclass(frozen=True)
class Outcome:
    """`offsets` if there are any; `is_decided`: they were found, or proven not to exist."""

    is_decided: bool
    offsets: tuple[int, ...] = ()


def solve(geometry: Geometry, attempt: Attempt | Lowering, deadline: float) -> Outcome:
    """Makes an attempt; undecided at its nodes' end or at `deadline`, of time.monotonic()."""
    if time.monotonic() > deadline:
        return Outcome(False)
    if isinstance(attempt, Lowering):
        ejection = Ejection(geometry, attempt.offsets, attempt.seed)
        lower = ejection.run(attempt.goal, attempt.step, attempt.insertions, deadline)
        return Outcome(lower is not None, tuple(lower or ()))
    search = Search(geometry, attempt.height, attempt.order, attempt.valley)
    try:
        return Outcome(True, tuple(search.run(attempt.nodes, deadline) or ()))
    except LimitError:
        return Outcome(False)


class Component:
    """Buffers that some chain of lifetimes connects, with the lowest offsets and the highest bound
    known. `blocks`: a problem with fewer buffers that stands for it, and its component."""

    def __init__(self, number: int, buffers: Sequence[Buffer], params: PlacementParams):
        self.number, self.buffers, self.params = number, buffers, params
        self.geometry = Geometry(buffers)
        self.step = granularity(buffers)
        self.bound = self.rounded(lower_bound(buffers))
        self.offsets = tuple(best_fit(buffers))
        self.height = height_of(buffers, self.offsets)
        if len(buffers) <= params.first_fit_most and is_small(buffers):
            self.take(tuple(first_fit(buffers)))
        self.rounds = 0
        self.dice = random.Random(params.seed)
        self.blocks: tuple[Blocks, Component] | None = None
        self.looked_for_blocks = not params.blocks

    def begin(self, deadline: float) -> None:
        """Improves the first placement along the skyline, as far as there is time."""
        if self.params.skyline:
            few = len(self.buffers) <= self.params.skyline_few
            for offsets in islice(skyline_fits(self.buffers, deadline), None if few else 2):
                self.take(tuple(offsets))

    def add_blocks(self, number: int, deadline: float) -> Component | None:
        """Its blocks as a component with this number, None unless they are fewer."""
        self.looked_for_blocks = True
        blocks = blocks_of(self.buffers, deadline, self.params)
        if blocks is None:
            return None
        inner = Component(number, blocks.buffers(), self.params)
        self.blocks = blocks, inner
        inner.begin(deadline)
        self.take(blocks.unfold(inner.offsets))
        return inner

    def take(self, offsets: tuple[int, ...]) -> None:
        """Keeps offsets if they are lower."""
        height = height_of(self.buffers, offsets)
        if height < self.height:
            self.height, self.offsets = height, offsets

    def rounded(self, height: int) -> int:
        """The next height, in bytes, that sums of these sizes can reach."""
        return -(-height // self.step) * self.step

    def batch(self, floor: int) -> Sequence[Attempt | Lowering]:
        """The next attempts, none for a height below `floor`."""
        goal = max(self.bound, self.rounded(floor))
        if self.blocks:
            _, inner = self.blocks
            turn = inner.rounds * len(inner.buffers) <= (self.rounds + 1) * len(self.buffers)
            if turn and inner.height > goal:
                return inner.batch(goal)
        self.rounds += 1
        count, params = len(self.buffers), self.params
        if self.has_ejections and (self.rounds % SEARCH_PERIOD or not params.valleys):
            insertions = min(params.ejection_steps * count, params.ejection_work)
            seed = self.dice.randrange(1 << 30)
            return [
                Lowering(self.number, self.offsets, goal, self.step, insertions, seed + n)
                for n in range(2)
            ]
        nodes = max(params.least_nodes, params.nodes_per_buffer * count) * luby(self.rounds)
        count = params.batch if params.valleys else 0
        return [self.draw(goal, nodes, number) for number in range(count)]

    @property
    def is_large(self) -> bool:
        """Whether branch and bound is too slow to begin with."""
        return len(self.buffers) >= self.params.ejection_least

    @property
    def has_ejections(self) -> bool:
        """Whether there are many buffers, with numbers that arrays can hold."""
        few = len(self.buffers) <= self.params.ejection_most
        return self.params.ejection and self.is_large and few and is_small(self.buffers)

    def draw(self, goal: int, nodes: int, number: int) -> Attempt:
        """A search with random weights; in the first batch at the bound, without noise."""
        dice, params = self.dice, self.params
        if self.rounds == 1:
            order = self.weighted_order(ORDER_WEIGHTS[number % len(ORDER_WEIGHTS)], 0)
            valley = params.valleys[number % len(params.valleys)]
            return Attempt(self.number, goal, order, valley, nodes)
        order = self.weighted_order(dice.choice(ORDER_WEIGHTS), dice.choice(ORDER_DEVIATIONS))
        aims = params.far_aims if self.height > params.far * self.bound else params.aims
        steps = (self.height - self.step - goal) // self.step
        height = goal + max(0, int(steps * dice.choice(aims))) * self.step
        return Attempt(self.number, height, order, dice.choice(params.valleys), nodes)

    def weighted_order(self, powers: tuple[float, float], deviation: float) -> tuple[int, ...]:
        """The buffers, the heaviest first; powers: see ORDER_WEIGHTS; deviation: of a weight's
        logarithm."""
        lifetime, size = powers
        weight = [
            lifetime * math.log(buffer.upper - buffer.lower)
            + size * math.log(buffer.size)
            + (self.dice.gauss(0, deviation) if deviation else 0)
            for buffer in self.buffers
        ]
        return tuple(sorted(range(len(weight)), key=lambda b: -weight[b]))

    def learn(self, attempt: Attempt | Lowering, outcome: Outcome) -> None:
        """Keeps an attempt's result: lower offsets, or a higher bound."""
        if attempt.component != self.number:
            assert self.blocks, "it was an attempt with blocks"
            blocks, inner = self.blocks
            inner.learn(attempt, outcome)
            self.take(blocks.unfold(inner.offsets))
        elif outcome.offsets:
            self.take(outcome.offsets)
        elif outcome.is_decided and isinstance(attempt, Attempt):
            self.bound = max(self.bound, attempt.height + self.step)


def height_of(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    """The end, in bytes, of the highest buffer."""
    return max(o + b.size for o, b in zip(offsets, buffers, strict=True))


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
