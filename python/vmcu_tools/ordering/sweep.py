# SPDX-License-Identifier: Apache-2.0
"""All orders at once: dynamic programming over the sets of tasks that have run, by their size.

Input: a direction, a limit. Output: the best order found, and whether it is proven. Complexity: the
sets times the tasks that are ready in each, at most `effort` of these.

Two ways to a set differ in their worst step only, so the better one is kept. Two rules leave out
orders that are no better than others; both rest on bytes alive being a submodular function of the
set, so that a task that lowers them now does so for any order in between:

- a ready task that raises neither the worst step nor the bytes alive runs at once;
- a ready task after which such tasks follow, none of them ready before, that end with no more bytes
  alive than it began with, is all that is tried.

Where a sweep keeps every set, it has found the best order, or shown that there is none below its
limit. Where it keeps only the `width` best of one count, it is a beam search.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from .direction import Direction, OutOfTimeError

# No more numbers are held for the states of one count.
MOST_NUMBERS = 60_000_000
# A beam settles so many times its width and keeps the best of these.
SPARE_WIDTH = 8
# The cost of a step by itself, in moves, and how many tasks of a state are copied in a move's time.
MOVES_PER_STEP = 300
TASKS_PER_MOVE = 60


@dataclass
class States:
    """Sets of tasks, one a row: `waiting` by task and `counts` by tensor, bytes `alive`, the bytes
    of the worst step so far (`peak`), the tasks as bits in `words`, and `log`, the entry of the
    last one in the sweep's log."""

    waiting: np.ndarray
    counts: np.ndarray
    alive: np.ndarray
    peak: np.ndarray
    words: np.ndarray
    log: np.ndarray
    done: np.ndarray

    def __len__(self) -> int:
        return len(self.alive)

    def take(self, rows: np.ndarray) -> States:
        """Copies of some rows."""
        return States(*(array[rows] for array in vars(self).values()))

    @staticmethod
    def joined(parts: list[States]) -> States:
        """The rows of all."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return States(*(np.concatenate(arrays) for arrays in columns))


@dataclass(frozen=True)
class Moves:
    """Tasks that may run next: in which state, which one, with how many bytes alive after it and
    in its step."""

    state: np.ndarray
    task: np.ndarray
    alive: np.ndarray
    step: np.ndarray

    def __len__(self) -> int:
        return len(self.state)

    def where(self, rows: np.ndarray) -> Moves:
        """Those of a mask, or of an array of numbers."""
        return Moves(self.state[rows], self.task[rows], self.alive[rows], self.step[rows])


class Sweep:
    """One pass over a direction. `floor`: steps up to so many bytes count alike; `limit`: none may
    take as many. `weighed`: moves that were weighed so far; `reached`: tasks of the sets that
    were looked at last; `cost`: moves weighed for each of these; `is_narrowed`: fewer were kept
    than its width, for want of effort."""

    def __init__(self, direction: Direction, floor: int, limit: int):
        self.direction, self.floor, self.limit = direction, floor, limit
        self.weighed = self.reached = 0
        self.cost = 1.0
        self.is_narrowed = False
        self.origins = [np.array([-1])]
        self.ran = [np.array([-1])]
        self.entries = 1

    def run(self, width: int, effort: int, ending: bool = False) -> tuple[list[int] | None, bool]:
        """The best order found, and whether that is proven: no other is better or, without one,
        none stays below the limit. `effort`: moves to weigh at most. `ending`: keep fewer sets
        rather than run out of effort. Raises OutOfTimeError at the direction's deadline."""
        d = self.direction
        width = max(1, min(width, MOST_NUMBERS // (d.tasks + len(d.sizes))))
        waiting: dict[int, list[States]] = {}
        first = self.start()
        if int(first.peak[0]) >= self.limit:
            return None, True
        if d.params.free_moves:
            self.settle(first, *self.ready(first))
        waiting[int(first.done[0])] = [first]
        complete = True
        while waiting:
            if time.monotonic() > d.deadline:
                raise OutOfTimeError
            count = self.reached = min(waiting)
            states = unique(States.joined(waiting.pop(count)))
            if count == d.tasks:
                return self.order(states), complete
            if ending:
                width = self.affordable_width(width, count, effort)
            if len(states) > width:
                complete = False
                states = states.take(best_of(states.peak, states.alive, width))
            if self.weighed > effort and not ending:
                return None, False
            before = self.weighed
            after, cut = self.step(states, width)
            self.cost = (self.weighed - before) / len(states)
            complete = complete and not cut
            counts = np.unique(after.done).tolist() if len(after) else []
            for done in counts:
                part = after if len(counts) == 1 else after.take(np.flatnonzero(after.done == done))
                waiting.setdefault(done, []).append(part)
        return None, complete

    def affordable_width(self, width: int, count: int, effort: int) -> int:
        """Returns the number of sets that may be kept, if the steps left cost as much as the one
        before."""
        share = (effort - self.weighed) / (self.direction.tasks - count)
        affordable = max(1, min(width, int(share / max(self.cost, 1.0))))
        self.is_narrowed = self.is_narrowed or affordable < width
        return affordable

    def start(self) -> States:
        """Nothing has run, or, backwards, everything."""
        d = self.direction
        return States(
            d.waiting[None].copy(),
            d.counts[None].copy(),
            np.array([d.alive]),
            np.array([max(self.floor, d.alive)]),
            np.zeros((1, d.words), np.uint64),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
        )

    def ready(self, states: States) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of a state and a task that may run in it."""
        state, task = np.nonzero(states.waiting == 0)
        return state, task

    def weigh(self, states: States, state: np.ndarray, task: np.ndarray) -> Moves:
        """Weighs the results of the moves."""
        d = self.direction
        self.weighed += len(state)
        inputs = d.inputs[task]
        turning = states.counts[state[:, None], inputs] == 1
        # A sum over a short axis by itself takes several times as long.
        change = d.left[task] - np.einsum("mi,mi->m", d.sizes[inputs], turning)
        saved = np.einsum("mi,mi->m", d.shared[task], turning)
        now = states.alive[state]
        after = now - change if d.backwards else now + change
        before = after if d.backwards else now
        step = d.scratch[task] + np.maximum(before, before + d.made[task] - saved)
        return Moves(state, task, after, step)

    def apply(self, states: States, rows: np.ndarray, moves: Moves) -> None:
        """Makes a move in each of some rows, which are all different."""
        d, task = self.direction, moves.task
        states.waiting[rows, task] = -1
        states.waiting[rows[:, None], d.next[task]] -= 1
        states.waiting[rows, d.tasks] = d.waiting[-1]
        states.counts[rows[:, None], d.inputs[task]] -= 1
        states.counts[rows, len(d.sizes) - 1] = d.counts[-1]
        states.alive[rows] = moves.alive
        states.peak[rows] = np.maximum(states.peak[rows], moves.step)
        states.words[rows, d.word[task]] |= d.bit[task]
        states.done[rows] += 1
        self.origins.append(states.log[rows])
        self.ran.append(task)
        states.log[rows] = np.arange(self.entries, self.entries + len(rows))
        self.entries += len(rows)

    def settle(self, states: States, row: np.ndarray, task: np.ndarray) -> None:
        """Runs these tasks, and those that they make ready or cheaper, where that raises neither
        the worst step nor the bytes alive."""
        d = self.direction
        while len(row):
            waits = states.waiting[row, task] == 0
            row, task = row[waits], task[waits]
            moves = self.weigh(states, row, task)
            free = (moves.alive <= states.alive[row]) & (moves.step <= states.peak[row])
            moves = moves.where(free)
            rows, first = np.unique(moves.state, return_index=True)
            if not len(rows):
                return
            moves = moves.where(first)
            self.apply(states, rows, moves)
            others = np.ones(int(free.sum()), bool)
            others[first] = False
            near = d.near[moves.task]
            owner = np.repeat(rows, near.shape[1])
            row = np.concatenate([row[free][others], owner])
            task = np.concatenate([task[free][others], near.ravel()])

    def step(self, states: States, width: int) -> tuple[States, bool]:
        """All states that follow, and whether some were left out."""
        moves = self.weigh(states, *self.ready(states))
        moves = moves.where(np.maximum(moves.step, states.peak[moves.state]) < self.limit)
        if not len(moves):
            return states.take(np.zeros(0, np.int64)), False
        peak = np.maximum(moves.step, states.peak[moves.state])
        one_of, same = self.distinct(states, moves, peak)
        cut = False
        if len(one_of) > SPARE_WIDTH * width:
            cut = True
            kept = best_of(peak[one_of], moves.alive[one_of], SPARE_WIDTH * width)
            renumbered = np.full(len(one_of), -1)
            renumbered[kept] = np.arange(len(kept))
            one_of, same = one_of[kept], renumbered[same]
            moves, same = moves.where(same >= 0), same[same >= 0]
            # Of each set one move is left: those into sets that were left out are gone.
            one_of = np.unique(same, return_index=True)[1]
        after = states.take(moves.state[one_of])
        # Copying the rows of large graphs takes its time too.
        self.weighed += MOVES_PER_STEP + len(after) * after.waiting.shape[1] // TASKS_PER_MOVE
        rows = np.arange(len(one_of))
        self.apply(after, rows, moves.where(one_of))
        begun = after.words.copy()
        near = self.direction.near[moves.task[one_of]]
        if self.direction.params.free_moves:
            self.settle(after, np.repeat(rows, near.shape[1]), near.ravel())
        if not self.direction.params.dominance:
            return after, cut
        return after.take(self.needed(states, moves, same, after, begun)), cut

    def distinct(
        self, states: States, moves: Moves, peak: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best move into each set, and for each move the number of that set."""
        d = self.direction
        words = states.words[moves.state]
        words[np.arange(len(moves)), d.word[moves.task]] |= d.bit[moves.task]
        order, new = grouped(words, peak)
        same = np.empty(len(order), np.int64)
        same[order] = np.cumsum(new) - 1
        return order[new], same

    def needed(
        self, states: States, moves: Moves, same: np.ndarray, after: States, begun: np.ndarray
    ) -> np.ndarray:
        """The rows of the next states that must be kept: where a state has a move that is
        sufficient, its other moves are left out."""
        ready = ready_words(self.direction, states)
        settled = after.words ^ begun
        new = ~(settled[same] & ready[moves.state]).any(1)
        enough = (
            new
            & (after.alive[same] <= states.alive[moves.state])
            & (after.peak[same] <= states.peak[moves.state])
        )
        only = np.full(len(states), -1)
        chosen = np.flatnonzero(enough)[::-1]
        only[moves.state[chosen]] = chosen
        numbers = np.arange(len(moves))
        kept = (only[moves.state] < 0) | (only[moves.state] == numbers)
        return np.unique(same[kept])

    def order(self, states: States) -> list[int]:
        """The tasks of the best of some states in which all have run."""
        entry = int(states.log[np.argmin(states.peak)])
        origins, ran = np.concatenate(self.origins), np.concatenate(self.ran)
        tasks = []
        while entry > 0:
            tasks.append(int(ran[entry]))
            entry = int(origins[entry])
        return self.direction.in_order(tasks[::-1])


def best_of(peak: np.ndarray, alive: np.ndarray, count: int) -> np.ndarray:
    """The numbers of the smallest peaks, among those of the fewest bytes alive, in rising order."""
    return np.sort(np.lexsort((alive, peak))[:count])


def grouped(words: np.ndarray, peak: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order in which equal sets are next to each other, that with the smallest peak first, and
    where in it a new set begins. Sets of many words may come up twice, which costs time only."""
    if words.shape[1] == 1:
        key = words[:, 0]
    else:
        odd = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint64)
        key = (words * (odd * np.uint64(0x9E3779B97F4A7C15))).sum(1, dtype=np.uint64)
    order = np.lexsort((peak, key))
    new = np.ones(len(order), bool)
    new[1:] = (words[order[1:]] != words[order[:-1]]).any(1)
    return order, new


def unique(states: States) -> States:
    """Each set once, with the smallest peak."""
    if len(states) == 1:
        return states
    order, new = grouped(states.words, states.peak)
    return states if new.all() else states.take(np.sort(order[new]))


def ready_words(direction: Direction, states: States) -> np.ndarray:
    """The tasks that are ready in each state, as bits."""
    ready = np.zeros((len(states), direction.words * 64), bool)
    ready[:, : direction.tasks] = states.waiting[:, : direction.tasks] == 0
    packed = np.packbits(ready, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u8")
