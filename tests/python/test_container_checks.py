# SPDX-License-Identifier: Apache-2.0
"""What checks of containers are made of, one by one, against the bytes that are meant: all that a
small pool, a small tensor or a small container can be."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator

import numpy as np
import online_device as device
import pytest
from layer_checks import FloatSum, One

POOL, SIZE = 8, 24
ON_STACK, STACK_SCRATCH = 0xFFFFFFFF, 256
INT32_MAX = 2**31 - 1


class Window(ctypes.Structure):
    _fields_ = (
        *(
            (f"{name}_{axis}", ctypes.c_uint16)
            for name in ("kernel", "stride", "dilation")
            for axis in "hw"
        ),
        *(("pad_top", ctypes.c_int16), ("pad_left", ctypes.c_int16)),
    )


class Packing(ctypes.Structure):
    """struct vmcu_packing."""

    _fields_ = (
        *((name, ctypes.c_uint8) for name in ("lanes", "step", "dense", "pixels", "tap")),
        *((name, ctypes.c_uint8) for name in ("packed", "vector", "bits", "shift")),
        ("paired", ctypes.c_bool),
    )


class Walk(ctypes.Structure):
    _fields_ = (
        *(("packing", ctypes.c_void_p), ("at", ctypes.c_void_p), ("left", ctypes.c_uint32)),
    )


@pytest.fixture
def ask(loader: ctypes.CDLL) -> Callable[..., bool]:
    """Calls a check by its name."""

    def called(name: str, *words: object) -> bool:
        function = getattr(loader, name)
        function.restype = ctypes.c_bool
        return function(*words)

    return called


def circle(at: int, count: int, size: int = POOL) -> set[int]:
    return {(at + n) % size for n in range(count)}


def test_shifts(ask: Callable[..., bool]) -> None:
    assert [n for n in range(-99, 99) if ask("vmcu_check_shift", n)] == [*range(-31, 31)]


def test_lines(ask: Callable[..., bool]) -> None:
    """A line shifts by 1 to 22; without a shift there is none, and the word's last bit is 0."""
    taken = {word & 0xFF for word in range(512) if ask("vmcu_check_line", word)}
    shift, whole = 0x7F, 0x80
    assert taken == {w for w in range(256) if (w & shift) <= 22 and (w & shift or not w & whole)}


def test_arrays(ask: Callable[..., bool]) -> None:
    one = One([device.Tensor()], constants=bytes(SIZE))
    for at, count, each in itertools.product(range(SIZE + 6), range(8), (1, 2, 3, 4, 6, 8, 12, 18)):
        wanted = at > 0 and at % np.gcd(each, 4) == 0 and at + count * each <= SIZE
        found = ask("vmcu_check_array", one(), ctypes.c_void_p(at), count, each)
        assert found == wanted, (at, count, each)


def test_runs_and_scratch(ask: Callable[..., bool]) -> None:
    """Side by side: no byte is in front of one that it follows."""
    one = One([device.Tensor()], POOL)
    for at, count in itertools.product(range(2 * POOL), range(2 * POOL)):
        there = at % POOL + count <= POOL
        assert ask("vmcu_check_run", ctypes.byref(one.model), at, count) == there, (at, count)
        one.layer.scratch = at
        wanted = there and at % 4 == 0 and at < POOL
        assert ask("vmcu_check_scratch", one(), count) == wanted, (at, count)
    one.layer.scratch = ON_STACK
    for count in (0, STACK_SCRATCH, STACK_SCRATCH + 1):
        assert ask("vmcu_check_scratch", one(), count) == (count <= STACK_SCRATCH)


def test_apart(ask: Callable[..., bool]) -> None:
    some = range(POOL)
    for at, count, base, ring in itertools.product(some, range(1, POOL + 1), some, some[1:]):
        one = One([device.Tensor(base, ring)], POOL, scratch=at)
        wanted = not circle(at, count) & circle(base, ring)
        found = ask("vmcu_check_apart", one(), count, ctypes.byref(one.tensors[0]))
        assert found == wanted, (at, count, base, ring)
    one = One([device.Tensor(0, POOL)], POOL, scratch=ON_STACK)
    assert ask("vmcu_check_apart", one(), POOL, ctypes.byref(one.tensors[0]))


def drawn(rng: np.random.Generator, shape: tuple[int, int, int]) -> device.Tensor:
    """A tensor in a ring that may split it anywhere."""
    whole = int(np.prod(shape))
    return device.Tensor(
        0, int(rng.integers(1, whole + 2)), int(rng.integers(0, whole + 2)), *shape
    )


def is_unsplit(t: device.Tensor, y: int, x: int, columns: int) -> bool:
    """Of pixels from one that exists on, each byte is where the one before it ends, in the ring."""
    start = (y * t.width + x) * t.channels + t.phase
    return y < t.height and x < t.width and start % t.ring + columns * t.channels <= t.ring


def is_one_run(t: device.Tensor, y: int, x: int, columns: int) -> bool:
    """All of the pixels exist, too."""
    return is_unsplit(t, y, x, columns) and x + columns <= t.width


def calls(layer: device.Layer, split: list[device.Tensor]) -> Iterator[tuple[int, int, int]]:
    """Rows, columns and counts that an executor has a layer called for: cut where one of some
    tensors is split, be it in the middle of a pixel, which is told by a count of 0."""
    for y, first in itertools.product(range(layer.rows), range(0, layer.width, layer.columns)):
        x, end = first, min(first + layer.columns, layer.width)
        while x < end:
            fits = [n for n in range(end - x + 1) if all(is_unsplit(t, y, x, n) for t in split)]
            count = max(fits, default=0)
            yield y, x, count
            x = x + count if count else end


def test_calls_are_for_what_lies_side_by_side(ask: Callable[..., bool]) -> None:
    """Outputs and inputs of all sizes, in whatever rings, some of which split calls."""
    rng = np.random.default_rng(1)
    counts = np.zeros((4, 2), int)
    for _ in range(6000):
        height, width, channels = (int(n) for n in rng.integers(1, (3, 4, 3)))
        near = [int(n) for n in rng.integers(0, 2, 2)]
        shapes = [(height, width, channels), (height + near[0], width + near[1], channels)]
        tensors = [drawn(rng, shape) for shape in shapes]
        rows, wide = height + int(rng.random() < 0.1), width + int(rng.random() < 0.1)
        columns, splits = int(rng.integers(1, wide + 1)), int(rng.integers(0, 8))
        one = One(tensors, rows=rows, width=wide, columns=columns, splits=splits)
        split = [t for n, t in enumerate(tensors) if splits >> n & 1]
        made = list(calls(one.layer, split))
        fits = [
            splits < 4 and all(n and is_one_run(t, y, x, n) for y, x, n in made) for t in tensors
        ]
        wanted = (
            (rows, wide) == (height, width) and fits[0],
            fits[1],
            all(is_one_run(tensors[1], y, 0, shapes[1][1]) for y in range(shapes[1][0])),
            (rows, wide) == (height, width) and all(fits),
        )
        found = (
            ask("vmcu_check_calls", one()),
            ask("vmcu_check_columns", one(), 0),
            ask("vmcu_check_rows", one(), 0),
            ask("vmcu_check_alike", one(), 1),
        )
        assert found == wanted, (
            shapes,
            [(t.ring, t.phase) for t in tensors],
            rows,
            wide,
            columns,
            splits,
        )
        for kind, taken in enumerate(found):
            counts[kind, int(taken)] += 1
    assert counts.min() > 200, counts


def test_alike(ask: Callable[..., bool]) -> None:
    for channels, given, asked in itertools.product(range(1, 3), (1, 2), (1, 2)):
        others = [device.Tensor(0, 2, 0, 1, 1, 2)] * (given - 1)
        last = device.Tensor(0, channels, 0, 1, 1, channels)
        one = One([device.Tensor(0, 2, 0, 1, 1, 2), *others, last], rows=1, width=1, columns=1)
        assert ask("vmcu_check_alike", one(), asked) == (given == asked and channels == 2)
        assert ask("vmcu_check_inputs", one(), asked) == (given == asked)


NAMES = {"h": ("height", "pad_top"), "w": ("width", "pad_left")}


def window_of(**changes: int) -> Window:
    usual = {"kernel": 3, "stride": 2, "dilation": 4}
    members = {f"{name}_{axis}": size for name, size in usual.items() for axis in "hw"}
    return Window(**(members | changes))


@pytest.mark.parametrize("axis", "hw")
def test_windows(ask: Callable[..., bool], axis: str) -> None:
    """What kernels count, rows, columns and bytes, is within their numbers: up to the last."""
    size, pad = NAMES[axis]

    def taken(shape: tuple[int, int] = (4, 4), out: tuple[str, int] = (size, 4), **changes: int):
        tensors = [device.Tensor(0, 1, 0, 4, 4, 1), device.Tensor(0, 1, 0, 4, *shape)]
        setattr(tensors[0], *out)
        one = One(tensors)
        return ask("vmcu_check_window", one(), ctypes.byref(window_of(**changes)))

    kernel, stride, dilation = (f"{name}_{axis}" for name in ("kernel", "stride", "dilation"))
    assert taken() and taken(**{pad: 0})
    wrong = {kernel: 0, stride: 0, dilation: 0, pad: -1}
    assert not any(taken(**{name: value}) for name, value in wrong.items())
    # A window of one row may be further down, as those that pick a call's last row are.
    assert taken(**{kernel: 1, pad: -1}) == (axis == "h")
    # Below 2^20 = 1024 * 1024 are 1023 * 1025.
    assert taken((1, 1), **{kernel: 1023, dilation: 1025})
    assert not taken((1, 1), **{kernel: 1024, dilation: 1024})
    assert taken(out=(size, 1023), **{stride: 1025})
    assert not taken(out=(size, 1024), **{stride: 1024})
    # Below 2^31 - 1, which is a prime, are 331 * 151 * 11 * 3906 and 128 * 128 * 512 * 256.
    least = {"h": 331 * 151 * 11, "w": 331 * 151 * 11}[axis]
    assert least * 3906 == INT32_MAX - 1
    shape = (126, 341) if axis == "h" else (1, 3906)
    assert taken(shape, **{kernel: 331 * (1 if axis == "h" else 11), dilation: 151})
    shape = (512, 256) if axis == "h" else (1, 16384)
    assert not taken(shape, **{kernel: 128 * (1 if axis == "h" else 8), dilation: 128})


def test_float_sums(ask: Callable[..., bool]) -> None:
    """Of any two bytes a sum is in int32, and in the exact way in 64 bits."""
    good = {"a": 1, "b": 1, "constant": 1, "a_scale": 3, "b_scale": -4, "bias": -5, "shift": 31}

    def taken(**changes: int) -> bool:
        return ask("vmcu_check_float_sum", ctypes.byref(FloatSum(**(good | changes))))

    assert taken() and not taken(shift=32)
    for name, bits in (("a", 53), ("b", 53), ("constant", 61)):
        for sign in (-1, 1):
            assert taken(**{name: sign * ((1 << bits) - 1)})
            assert not taken(**{name: sign * (1 << bits)})
    rng = np.random.default_rng(2)
    for sign in itertools.product((-1, 1), repeat=3):
        for more in range(2):
            a, b = (int(n) for n in rng.integers(0, 1 << 22, 2))
            bias = INT32_MAX - (a + b) * 128 + more
            signed = zip(("a_scale", "b_scale", "bias"), sign, (a, b, bias), strict=True)
            assert taken(**{name: s * value for name, s, value in signed}) == (more == 0)


def test_walks(ask: Callable[..., bool]) -> None:
    words = (ctypes.c_int32 * 8)(*range(8))
    for left, count in itertools.product(range(6), range(8)):
        walk = Walk(None, ctypes.addressof(words), left)
        fits = ask("vmcu_walk_skip", ctypes.byref(walk), ctypes.c_uint64(count))
        assert fits == (count <= left)
        moved = count if fits else 0
        assert (walk.at, walk.left) == (ctypes.addressof(words) + moved, left - moved)
    walk = Walk(ctypes.addressof(packing := Packing(shift=22)), ctypes.addressof(words), 9)
    assert not ask("vmcu_walk_skip", ctypes.byref(walk), ctypes.c_uint64(1 << 32))
    for place, shift in itertools.product(range(4), (22, 23)):
        some = (ctypes.c_uint8 * 4)(*[shift if n == place else 1 for n in range(4)])
        for count in range(5):
            found = ask("vmcu_walk_fast", ctypes.byref(walk), some, count)
            assert found == (shift == packing.shift or count <= place)
