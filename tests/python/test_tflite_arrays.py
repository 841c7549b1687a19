# SPDX-License-Identifier: Apache-2.0
"""Operators of a .tflite that rearrange elements, element by element, up to the last amounts that
they take and the first that they refuse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vmcu_tools.frontends.common import MAX_TENSOR_BYTES, UnsupportedError
from vmcu_tools.frontends.tflite.arrays import MOVERS

REFLECT, SYMMETRIC = 0, 1
SHAPES = [(3,), (1,), (2, 3), (1, 3, 2)]


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def moved(name: str, x: np.ndarray, *others: Any, **options: Any) -> np.ndarray | None:
    """None if it is refused. options: the members of its table that are set."""
    table = SimpleNamespace(
        **{label: lambda value=value: value for label, value in options.items()}
    )
    op: Any = SimpleNamespace(op=name, options=lambda kind: table)
    try:
        return MOVERS[name](op, x, *map(np.array, others))
    except UnsupportedError:
        return None


def check(found: np.ndarray | None, wanted: np.ndarray | None, what: object) -> None:
    assert (found is None) == (wanted is None), what
    if found is not None and wanted is not None:
        assert found.shape == wanted.shape, what
        np.testing.assert_array_equal(found, wanted, str(what))


def mirrored(n: int, before: int, after: int, edge: int) -> list[int] | None:
    """Places of a line with so many more at its ends; edge: 1 if its ends are repeated."""
    if min(before, after) < 0 or max(before, after) > n - 1 + edge:
        return None
    ahead = [i - edge + 1 for i in range(before)][::-1]
    return [*ahead, *range(n), *(n - 2 + edge - i for i in range(after))]


@pytest.mark.parametrize("mode", [REFLECT, SYMMETRIC])
def test_mirrors(mode: int) -> None:
    for n, before, after in itertools.product((1, 2, 3), range(-1, 5), range(-1, 5)):
        line = mirrored(n, before, after, mode)
        wanted = None if line is None else np.array(line)
        check(moved("MIRROR_PAD", numbered((n,)), [[before, after]], Mode=mode), wanted, n)
        wanted = None if wanted is None else numbered((2, n))[:, wanted]
        pads = [[0, 0], [before, after]]
        check(moved("MIRROR_PAD", numbered((2, n)), pads, Mode=mode), wanted, (n, pads))
    # One pair for each axis.
    assert moved("MIRROR_PAD", numbered((2, 3)), [[0, 0]], Mode=mode) is None
    assert moved("MIRROR_PAD", numbered((2,)), [[0, 0], [0, 0]], Mode=mode) is None


def sub(sizes: tuple[int, ...], within: range) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(within for _ in sizes))


def test_slices() -> None:
    for shape in ((3,), (2, 3)):
        x = numbered(shape)
        for begin, size in itertools.product(sub(shape, range(-1, 4)), sub(shape, range(-2, 4))):
            ends = [n if s == -1 else b + s for b, s, n in zip(begin, size, shape, strict=True)]
            fits = all(b >= 0 and b < e <= n for b, e, n in zip(begin, ends, shape, strict=True))
            places = itertools.product(*(range(b, e) for b, e in zip(begin, ends, strict=True)))
            wanted = None
            if fits:
                lengths = [e - b for b, e in zip(begin, ends, strict=True)]
                wanted = np.array([x[place] for place in places]).reshape(lengths)
            check(moved("SLICE", x, begin, size), wanted, (shape, begin, size))
    assert moved("SLICE", numbered((2, 3)), [0], [1]) is None
    assert moved("SLICE", numbered((2, 3)), [0, 0], [1]) is None


def strided(**masks: int) -> dict[str, int]:
    names = ("BeginMask", "EndMask", "ShrinkAxisMask", "EllipsisMask", "NewAxisMask")
    return {name: masks.get(name, 0) for name in names}


def test_strided_slices() -> None:
    """Of the second axis, with every mask and any bounds."""
    x = numbered((2, 3))
    bounds = itertools.product(range(-4, 5), range(-4, 5), (-2, -1, 0, 1, 2), range(8))
    for start, stop, step, bits in bounds:
        begin, end, shrink = bits & 1, bits >> 1 & 1, bits >> 2
        masks = strided(BeginMask=begin * 2, EndMask=end * 2, ShrinkAxisMask=shrink * 2)
        found = moved("STRIDED_SLICE", x, [0, start], [2, stop], [1, step], **masks)
        if step == 0 or (shrink and not -3 <= start < 3):
            wanted = None
        elif shrink:
            wanted = np.array([x[row, start % 3] for row in range(2)])
        else:
            first = (0 if step > 0 else 2) if begin else start + 3 * (start < 0)
            last = (3 if step > 0 else -1) if end else stop + 3 * (stop < 0)
            if step > 0:
                places = list(range(max(first, 0), min(last, 3), step))
            else:
                places = list(range(min(first, 2), max(last, -1), step))
            wanted = np.array([[x[row, i] for i in places] for row in range(2)], int)
            wanted = wanted.reshape(2, len(places))
        check(found, wanted, (start, stop, step, bits))
    # Axes that it does not name stay; more than there are, or another number of ends, are refused.
    check(moved("STRIDED_SLICE", x, [1], [2], [1], **strided()), x[1:2], "one axis")
    for bad in (([0] * 3, [1] * 3, [1] * 3), ([0], [1, 1], [1]), ([0], [1], [1, 1])):
        assert moved("STRIDED_SLICE", x, *bad, **strided()) is None
    for mask in ("EllipsisMask", "NewAxisMask"):
        assert moved("STRIDED_SLICE", x, [0], [1], [1], **strided(**{mask: 1})) is None


def test_axes() -> None:
    for shape in SHAPES:
        x, rank = numbered(shape), len(shape)
        for axis in range(-rank - 3, rank + 3):
            inside = -rank - 1 <= axis <= rank
            place = axis if axis >= 0 else axis + rank + 1
            wanted = x.reshape(*shape[:place], 1, *shape[place:]) if inside else None
            check(moved("EXPAND_DIMS", x, [axis]), wanted, (shape, axis))
            wanted = None
            if -rank <= axis < rank:
                lines = [list(range(n)) for n in shape]
                lines[axis] = lines[axis][::-1]
                wanted = x[np.ix_(*lines)]
            check(moved("REVERSE_V2", x, [axis]), wanted, (shape, axis))
        for order in itertools.product(range(-1, rank + 1), repeat=rank):
            wanted = None
            if sorted(order) == list(range(rank)):
                places = np.ndindex(*(shape[axis] for axis in order))
                at = [tuple(p[order.index(axis)] for axis in range(rank)) for p in places]
                wanted = np.array([x[p] for p in at]).reshape([shape[axis] for axis in order])
            check(moved("TRANSPOSE", x, order), wanted, (shape, order))


@pytest.mark.parametrize("shape", [(1,), (1, 3, 1), (2, 1), (3,)])
def test_axes_of_one_element_are_dropped(shape: tuple[int, ...]) -> None:
    x, rank = numbered(shape), len(shape)
    for count in range(rank + 1):
        for axes in itertools.product(range(-rank - 1, rank + 1), repeat=count):
            # None named: all that there are.
            named = set(range(rank)) if not axes else {axis % rank for axis in axes}
            inside = all(-rank <= axis < rank for axis in axes)
            fits = inside and (not axes or all(shape[axis] == 1 for axis in named))
            left = [n for axis, n in enumerate(shape) if n > 1 or axis not in named]
            options = {"SqueezeDimsLength": len(axes), "SqueezeDimsAsNumpy": np.array(axes, int)}
            wanted = x.reshape(left) if fits else None
            check(moved("SQUEEZE", x, **options), wanted, (shape, axes))


def test_elements_are_picked() -> None:
    x = numbered((2, 3))
    for axis, first, second in itertools.product(range(-3, 3), range(-1, 4), range(-1, 4)):
        inside = -2 <= axis < 2 and all(0 <= i < x.shape[axis] for i in (first, second))
        wanted = None
        if inside:
            wanted = x[[first, second]] if axis in (0, -2) else x[:, [first, second]]
        found = moved("GATHER", x, [first, second], BatchDims=0, Axis=axis)
        check(found, wanted, (axis, first, second))
        picks = [[first, second]]
        fits = 0 <= first < 2 and 0 <= second < 3
        check(moved("GATHER_ND", x, picks), np.array([x[first, second]]) if fits else None, picks)
        deep = moved("GATHER_ND", x, [[[first, second]], [[0, 1]], [[1, 2]]])
        check(deep, np.array([[x[first, second]], [1], [5]]) if fits else None, picks)
        wanted = x[[first]] if 0 <= first < 2 else None
        check(moved("GATHER_ND", x, [[first]]), wanted, first)
    assert moved("GATHER", x, [0], BatchDims=1, Axis=1) is None
    assert moved("GATHER", x, np.zeros(0, int), BatchDims=0, Axis=0) is None
    for bad in (np.zeros((1, 3), int), np.zeros((1, 0), int), np.zeros((0, 2), int), 0):
        assert moved("GATHER_ND", x, bad) is None


def test_elements_are_repeated() -> None:
    for shape in SHAPES:
        x = numbered(shape)
        for counts in itertools.product(range(-1, 3), repeat=len(shape)):
            wanted = None
            if min(counts) > 0:
                lines = [[i % n for i in range(n * k)] for n, k in zip(shape, counts, strict=True)]
                wanted = x[np.ix_(*lines)]
            check(moved("TILE", x, counts), wanted, (shape, counts))
            for to in (counts, (2, *counts)):
                ends = zip(shape, to[len(to) - len(shape) :], strict=True)
                fits = min(to) > 0 and all(n in (1, d) for n, d in ends)
                found = moved("BROADCAST_TO", x, to) if min(to) > 0 else None
                wanted = x + np.zeros(to, int) if fits else None
                check(found, wanted, (shape, to))
    assert moved("TILE", numbered((2, 3)), [1]) is None
    assert moved("BROADCAST_TO", numbered((2, 3)), [3]) is None


LARGE = numbered((1, 1024))
MOST = MAX_TENSOR_BYTES // LARGE.size


@pytest.mark.parametrize("more", [0, 1])
def test_no_more_elements_than_a_tensor_may_have(more: int) -> None:
    found = {
        "TILE": moved("TILE", LARGE, [MOST + more, 1]),
        "BROADCAST_TO": moved("BROADCAST_TO", LARGE, [MOST + more, 1024]),
        "GATHER": moved("GATHER", LARGE, np.zeros(MOST + more, int), BatchDims=0, Axis=0),
        "GATHER_ND": moved("GATHER_ND", LARGE, np.zeros((MOST + more, 1), int)),
    }
    for name, array in found.items():
        assert (array is None) == bool(more), name
        assert array is None or array.size == MAX_TENSOR_BYTES


def test_another_shape() -> None:
    x = numbered((2, 3))
    for to in itertools.chain.from_iterable(
        itertools.product(range(-1, 7), repeat=rank) for rank in (1, 2, 3)
    ):
        rest = math.prod(n for n in to if n != -1)
        fits = rest == 6 if -1 not in to else to.count(-1) == 1 and rest > 0 and 6 % rest == 0
        wanted = None
        if fits:
            shape = [6 // rest if n == -1 else n for n in to]
            wanted = np.array(x.ravel().tolist()).reshape(shape)
        check(moved("RESHAPE", x, to), wanted, to)


def nearest(size: int, target: int, align: bool, half: bool) -> list[int]:
    """Exact, which float32 is for these sizes."""
    aligned = align and target > 1
    scale = Fraction(size - 1, target - 1) if aligned else Fraction(size, target)
    places = [(i + Fraction(int(half), 2)) * scale + Fraction(int(align), 2) for i in range(target)]
    return [min(math.floor(place), size - 1) for place in places]


@pytest.mark.parametrize(("align", "half"), list(itertools.product((False, True), repeat=2)))
def test_nearest_elements(align: bool, half: bool) -> None:
    options = {"AlignCorners": align, "HalfPixelCenters": half}
    sizes = [(n, m) for n in (1, 2, 4) for m in (1, 2, 4, 8)] if not align else []
    sizes += [(3, 2), (3, 5), (5, 3), (5, 2), (5, 9), (2, 3), (5, 5), (4, 1)] if align else []
    for (height, rows), (width, columns) in itertools.product(sizes, repeat=2):
        x = numbered((1, height, width, 2))
        down, across = nearest(height, rows, align, half), nearest(width, columns, align, half)
        found = moved("RESIZE_NEAREST_NEIGHBOR", x, [rows, columns], **options)
        check(found, x[:, down][:, :, across], (height, rows, width, columns))
    x = numbered((1, 2, 2, 1))
    for bad in ([0, 2], [2, -1], [2], [2, 2, 2]):
        assert moved("RESIZE_NEAREST_NEIGHBOR", x, bad, **options) is None
    most = MAX_TENSOR_BYTES // 4
    for more in (0, 1):
        found = moved("RESIZE_NEAREST_NEIGHBOR", x[..., :1], [most + more, 4], **options)
        assert (found is None) == bool(more)


@pytest.mark.parametrize("name", ["DEPTH_TO_SPACE", "SPACE_TO_DEPTH"])
def test_blocks(name: str) -> None:
    for height, width, channels, size in itertools.product((2, 4), (2, 6), (1, 4, 9), (1, 2, 3)):
        deep = name == "DEPTH_TO_SPACE"
        x = numbered((1, height, width, channels))
        wanted = None
        if deep and channels % (size * size) == 0:
            count = channels // (size * size)
            wanted = np.zeros((1, height * size, width * size, count), int)
            for _, y, z, c in np.ndindex(*wanted.shape):
                block = (y % size * size + z % size) * count + c
                wanted[0, y, z, c] = x[0, y // size, z // size, block]
        if not deep and height % size == width % size == 0:
            wanted = np.zeros((1, height // size, width // size, channels * size * size), int)
            for _, y, z, c in np.ndindex(*x.shape):
                block = (y % size * size + z % size) * channels + c
                wanted[0, y // size, z // size, block] = x[0, y, z, c]
        check(moved(name, x, BlockSize=size), wanted, (height, width, channels, size))
    for shape in ((2, 2, 2, 4), (2, 2, 4)):
        assert moved(name, numbered(shape), BlockSize=2) is None
