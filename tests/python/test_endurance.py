# SPDX-License-Identifier: Apache-2.0
"""The allocator of stacks that move (lib/vmcu/endurance) against maps of cells, and its bounds."""

from __future__ import annotations

import ctypes
import errno
import itertools
import math
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="not installed: gcc")

RUNTIME = Path(__file__).resolve().parents[2] / "lib" / "vmcu"
WALK, CIRCULAR = 0, 1
FREE, WAITING, TAKEN = 0, 1, 2
HEAP, ALIGN = 2048, 8
GOLDEN = 2654435769


class CSetting(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("bytes", "align", "threshold", "header", "stride")),
        *((name, ctypes.c_uint8) for name in ("stride_depth", "depth", "policy")),
        *((name, ctypes.c_bool) for name in ("largest", "merge", "redraw")),
    ]


class CStack(ctypes.Structure):
    pass


CStack._fields_ = [
    ("next", ctypes.POINTER(CStack)),
    *((name, ctypes.c_uint32) for name in ("start", "size", "ran", "place", "step")),
]


class CBlock(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("start", "size", "stamp")),
        ("state", ctypes.c_uint8),
    ]


class CCounts(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint32)
        for name in (
            *("attempts", "moves", "stride_attempts", "strides", "numbers"),
            *("firsts", "searches", "conversions", "looks"),
        )
    ]


class CStacks(ctypes.Structure):
    _fields_ = [
        ("setting", ctypes.POINTER(CSetting)),
        ("first", ctypes.POINTER(CStack)),
        ("blocks", ctypes.POINTER(CBlock)),
        ("room", ctypes.c_uint16),
        ("count", ctypes.c_uint16),
        ("clock", ctypes.c_uint32),
        ("random", ctypes.c_uint64),
        ("headers", ctypes.c_void_p),
        ("counts", CCounts),
    ]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = tmp_path_factory.mktemp("endurance") / "endurance.so"
    flags = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-shared", "-fPIC")
    checks = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
    sources = sorted(map(str, (RUNTIME / "endurance").glob("*.c")))
    command = ["gcc", *flags, *checks, f"-I{RUNTIME / 'include'}", *sources, "-o", str(made)]
    subprocess.run(command, check=True)
    found = ctypes.CDLL(str(made))
    found.vmcu_stacks_bound.restype = ctypes.c_uint32
    found.vmcu_stacks_ran.restype = ctypes.c_bool
    return found


class Heap:
    """A heap of the device's, checked after each call."""

    def __init__(self, library: ctypes.CDLL, setting: CSetting, room: int = 64):
        self.library, self.setting, self.room = library, setting, room
        self.blocks = (CBlock * room)()
        self.heap = CStacks()
        self.live: list[CStack] = []
        assert self.init(1) == 0

    def init(self, seed: int) -> int:
        given = (ctypes.byref(self.heap), ctypes.byref(self.setting), self.blocks)
        return self.library.vmcu_stacks_init(*given, self.room, ctypes.c_uint64(seed))

    def add(self, size: int) -> int:
        stack = CStack()
        call = self.library.vmcu_stacks_add
        err = call(ctypes.byref(self.heap), ctypes.byref(stack), ctypes.c_uint32(size))
        if err == 0:
            self.live.append(stack)
        self.check()
        return err

    def remove(self, number: int) -> None:
        removed = ctypes.byref(self.live.pop(number))
        self.library.vmcu_stacks_remove(ctypes.byref(self.heap), removed)
        self.check()

    def move(self, number: int) -> int:
        stack = self.live[number]
        before, old = self.heap.counts.looks, stack.start
        bound = self.library.vmcu_stacks_bound(ctypes.byref(self.heap), len(self.live))
        err = self.library.vmcu_stacks_move(ctypes.byref(self.heap), ctypes.byref(stack))
        assert err == 0 or (err == -errno.EAGAIN and stack.start == old)
        assert self.heap.counts.looks - before <= bound
        self.check()
        return err

    def check(self) -> None:
        """Stacks are apart, aligned and inside; a circular heap's blocks tile it."""
        spans = sorted((stack.start, stack.start + stack.size) for stack in self.live)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
        assert all(start % ALIGN == 0 and stop <= HEAP for start, stop in spans)
        if self.setting.policy == WALK:
            return
        blocks = [self.blocks[i] for i in range(self.heap.count)]
        ends = [0, *(block.start + block.size for block in blocks)]
        assert [block.start for block in blocks] == ends[:-1] and ends[-1] == HEAP
        taken = [block.start for block in blocks if block.state == TAKEN]
        assert taken == [start for start, _ in spans]
        states = [block.state for block in blocks]
        assert (FREE, FREE) not in set(itertools.pairwise(states))

    @property
    def queue(self) -> list[tuple[int, int]]:
        """Waiting pieces, the oldest first."""
        blocks = [self.blocks[i] for i in range(self.heap.count)]
        waiting = sorted((b.stamp, b.start, b.size) for b in blocks if b.state == WAITING)
        return [(start, size) for _, start, size in waiting]


def setting_of(policy: int, depth: int = 2, stride: int = 200, **more: bool) -> CSetting:
    return CSetting(
        bytes=HEAP, align=ALIGN, stride=stride, stride_depth=2, depth=depth, policy=policy, **more
    )


@dataclass
class Cells:
    """The circular heap as a map of cells of ALIGN bytes, and a queue."""

    setting: CSetting
    # Bytes in front of each piece: what is left of a run is none with fewer than two of them.
    header: int = 0
    cells: list[bool] = field(default_factory=lambda: [False] * (HEAP // ALIGN))
    queue: list[list[int]] = field(default_factory=list)
    live: list[list[int]] = field(default_factory=list)
    state: int = 1

    def stride(self) -> int:
        x, mask = self.state, (1 << 64) - 1
        x ^= x >> 12
        x ^= x << 25 & mask
        x ^= x >> 27
        self.state = x
        number = (x * 2685821657736338717 & mask) >> 33
        return self.room(1 + number % self.setting.stride)

    def room(self, size: int) -> int:
        return -(-(size + self.header) // ALIGN)

    def runs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for at, used in enumerate(self.cells):
            if used:
                continue
            if found and sum(found[-1]) == at:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((at, 1))
        return found

    def mark(self, start: int, count: int, used: bool) -> None:
        self.cells[start : start + count] = [used] * count

    def obtain(self, size: int, depth: float, redraw: bool) -> list[int] | None:
        turn = 0
        while turn < depth:
            size = self.stride() if turn and redraw else size
            fits = [run for run in self.runs() if run[1] >= size]
            if fits:
                largest = max(fits, key=lambda run: run[1])
                start, length = largest if self.setting.largest else fits[0]
                size = length if (length - size) * ALIGN < 2 * self.header else size
                self.mark(start, size, True)
                return [start, size]
            if self.queue:
                self.mark(*self.queue.pop(0), False)
            elif depth == math.inf:
                return None
            turn += 1
        return None

    def release(self, piece: list[int]) -> None:
        start, count = piece
        above = [entry for entry in self.queue if entry[0] == start + count]
        if self.setting.merge and above:
            self.queue.remove(above[0])
            count += above[0][1]
        below = [entry for entry in self.queue if sum(entry) == start]
        if self.setting.merge and below:
            below[0][1] += count
        else:
            self.queue.append([start, count])

    def add(self, size: int) -> bool:
        piece = self.obtain(self.room(size), math.inf, False)
        if piece is not None:
            self.live.append(piece)
        return piece is not None

    def remove(self, number: int) -> None:
        self.release(self.live.pop(number))

    def move(self, number: int, size: int = 0) -> bool:
        """Moves a piece to one of so many cells, as many as it has by default."""
        if self.setting.stride:
            piece = self.obtain(self.stride(), self.setting.stride_depth, self.setting.redraw)
            if piece is not None:
                self.queue.append(piece)
        piece = self.obtain(size or self.live[number][1], self.setting.depth, False)
        if piece is not None:
            self.release(self.live[number])
            self.live[number] = piece
        return piece is not None


CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 700)),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("move"), st.integers(0, 5)),
        st.tuples(st.just("move"), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(CALLS, st.integers(1, 4), st.sampled_from([0, 64, 400]), st.tuples(*3 * [st.booleans()]))
@settings(max_examples=150, deadline=None)
def test_circular_heap_is_that_of_a_map_of_cells(
    library: ctypes.CDLL,
    calls: list[tuple[str, int]],
    depth: int,
    stride: int,
    choices: tuple[bool, bool, bool],
):
    largest, merge, redraw = choices
    setting = setting_of(CIRCULAR, depth, stride, largest=largest, merge=merge, redraw=redraw)
    # As many blocks as there are cells: pieces are never taken whole for lack of them.
    heap, model = Heap(library, setting, HEAP // ALIGN), Cells(setting)
    for what, number in calls:
        if what == "add":
            assert (heap.add(number) == 0) == model.add(number)
        elif number < len(heap.live) and what == "remove":
            heap.remove(number)
            model.remove(number)
        elif number < len(heap.live):
            assert (heap.move(number) == 0) == model.move(number)
        starts = [stack.start // ALIGN for stack in heap.live]
        assert starts == [start for start, _ in model.live]
        assert heap.queue == [(start * ALIGN, size * ALIGN) for start, size in model.queue]


@given(CALLS, st.integers(3, 12))
@settings(max_examples=100, deadline=None)
def test_circular_heap_with_few_blocks(library: ctypes.CDLL, calls: list, room: int):
    heap = Heap(library, setting_of(CIRCULAR, merge=True, redraw=True), room)
    for what, number in calls:
        if what == "add":
            heap.add(number)
        elif number < len(heap.live):
            (heap.remove if what == "remove" else heap.move)(number)


@given(CALLS, st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_walk_takes_the_next_free_place(library: ctypes.CDLL, calls: list, depth: int):
    heap = Heap(library, setting_of(WALK, depth))
    turns: list[int] = []
    for what, number in calls:
        if what == "add":
            if heap.add(-(-number // ALIGN) * ALIGN) == 0:
                turns.append(0)
        elif number >= len(heap.live):
            continue
        elif what == "remove":
            heap.remove(number)
            turns.pop(number)
        else:
            stack = heap.live[number]
            others = [o for o in heap.live if o is not stack]
            places = (HEAP - stack.size) // ALIGN + 1
            step = places * GOLDEN >> 32
            while step > 1 and math.gcd(step, places) != 1:
                step -= 1
            expected = stack.start
            for _ in range(depth):
                turns[number] += 1
                start = turns[number] * max(step, 1) % places * ALIGN
                if all(start + stack.size <= o.start or o.start + o.size <= start for o in others):
                    expected = start
                    break
            heap.move(number)
            assert stack.start == expected


@pytest.mark.parametrize("moves", [1, 77, 2**32 - 1])
def test_a_walk_resumes_after_a_restart(library: ctypes.CDLL, moves: int):
    size = 400
    places = (HEAP - size) // ALIGN + 1
    heap = Heap(library, setting_of(WALK))
    heap.add(size)
    stack = heap.live[0]
    library.vmcu_stacks_resume(ctypes.byref(heap.heap), ctypes.byref(stack), ctypes.c_uint32(moves))
    heap.move(0)
    assert stack.start == (moves + 1) * stack.step % places * ALIGN


@pytest.mark.parametrize("policy", [WALK, CIRCULAR])
def test_faults_leak_nothing(library: ctypes.CDLL, policy: int):
    """10,000 jobs that end anyhow: a worker that is given up and made anew finds room."""
    heap = Heap(library, setting_of(policy, merge=True, redraw=True))
    assert [heap.add(size) for size in (400, 304)] == [0, 0]
    state = 1
    for _ in range(10_000):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        number = state >> 8 & 1
        heap.move(number)
        if state >> 12 & 3 == 0:
            size = heap.live[number].size
            heap.remove(number)
            assert heap.add(size) == 0
    sizes = sorted(stack.size for stack in heap.live)
    assert sizes == [304, 400]
    while heap.live:
        heap.remove(0)
    assert [heap.add(size) for size in (HEAP + ALIGN, HEAP)] == [-errno.ENOMEM, 0]
    assert heap.add(ALIGN) == -errno.ENOMEM


def test_bounds_are_reached_within_a_factor(library: ctypes.CDLL):
    """Bounded work that no heap comes near would say little."""
    heap = Heap(library, setting_of(CIRCULAR, 4, 60, redraw=True), 24)
    assert heap.add(400) == 0
    worst = 0
    for _ in range(2000):
        before = heap.heap.counts.looks
        heap.move(0)
        worst = max(worst, heap.heap.counts.looks - before)
    bound = library.vmcu_stacks_bound(ctypes.byref(heap.heap), 1)
    assert bound / 8 < worst <= bound


def test_threshold(library: ctypes.CDLL):
    heap = Heap(library, setting_of(WALK))
    heap.setting.threshold = 100
    heap.add(200)

    def ran(time: int) -> bool:
        given = (ctypes.byref(heap.heap), ctypes.byref(heap.live[0]), ctypes.c_uint32(time))
        return library.vmcu_stacks_ran(*given)

    assert [ran(40), ran(59), ran(1)] == [False, False, True]
    assert ran(2**32 - 1)
    heap.move(0)
    assert not ran(99)


def test_what_init_refuses(library: ctypes.CDLL):
    heap = Heap(library, setting_of(CIRCULAR))
    assert heap.init(0) == -errno.EINVAL
    for name in ("align", "depth", "stride_depth"):
        setting = setting_of(CIRCULAR)
        setattr(setting, name, 0)
        heap.setting = setting
        assert heap.init(1) == -errno.EINVAL
    heap.setting, heap.room = setting_of(CIRCULAR), 0
    assert heap.init(1) == -errno.EINVAL
