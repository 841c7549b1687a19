# SPDX-License-Identifier: Apache-2.0
"""Checks of layers with blocks of weights in containers: streams of constants to their last byte,
heads that name as many channels as there are, and the windows of a stream."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from block_checks import Takes, given
from builders.any_core import Core
from layer_checks import One, whole
from vmcu_tools.kernels.integer_scale import WHOLE

BLOCKS = ("pointwise", "pointwise_narrow", "conv", "conv_narrow", "dense")
Head = tuple[int, int, int, int]


@pytest.fixture
def takes(core: Core, core_loader: ctypes.CDLL) -> Takes:
    return Takes(core_loader, core.packing)


def words_of(head: Head) -> int:
    """Fast blocks, exact ones, channels of the last, whether another head follows."""
    fast, exact, last, more = head
    return fast | exact << 16 | last << 28 | more << 31


def stream_of(
    heads: Sequence[Head], size: int, weights: int, wrong: int | None = None, shift: int = 0
) -> bytes:
    """At 8. Shifts are the first that are right, but for one of all channels."""
    found, channel = bytes(8), 0
    for head in heads:
        found += struct.pack("<I", words_of(head))
        for exact in [False] * head[0] + [True] * head[1]:
            found += bytes(size * (8 + weights))
            shifts = [shift if channel + n == wrong else 0 for n in range(size)]
            form = f"<{size}i" if exact else f"<{size}B{-size % 4}x"
            found += struct.pack(form, *shifts)
            channel += size
    return found


def channels_of(heads: Sequence[Head], size: int) -> int:
    """How many a group's heads name; -1 if they cannot be."""
    total = 0
    for number, (fast, exact, last, more) in enumerate(heads):
        last = size if more else last
        if bool(more) != (number + 1 < len(heads)) or fast + exact == 0 or not 0 < last <= size:
            return -1
        total += (fast + exact - 1) * size + last
    return total


@pytest.mark.parametrize("kernel", BLOCKS)
def test_heads_are_of_all_channels(takes: Takes, kernel: str) -> None:
    """Fast and exact blocks, in one run of blocks or several; a byte less is too little."""
    size, cin, weights = takes.size(kernel), 5, takes.packing.padded(5)
    rng = np.random.default_rng(6)
    counts = [0, 0]
    for _ in range(1500):
        heads = []
        for left in reversed(range(int(rng.integers(1, 4)))):
            fast, exact = (int(n) for n in rng.integers(0, 3, 2))
            last = size if rng.random() < 0.5 else int(rng.integers(0, 8))
            heads.append((fast, exact, last, int(left > 0)))
        named = channels_of(heads, size)
        cout = max(named + int(rng.choice([0, 0, 0, -1, 1])), 1)
        stream = stream_of(heads, size, weights)
        found = takes(kernel, given(kernel, cin, cout, stream), "mac", takes.params(cin))
        assert found == (named == cout), (heads, cout)
        counts[found] += 1
        if found:
            less = given(kernel, cin, cout, stream[:-1])
            assert not takes(kernel, less, "mac", takes.params(cin))
    assert min(counts) > 200


@pytest.mark.parametrize("kernel", BLOCKS)
def test_last_block_of_lines(takes: Takes, kernel: str) -> None:
    """A kernel stores all channels of a block of lines, so all of them have to exist."""
    size, weights = takes.size(kernel), takes.packing.padded(5)
    for last, lacks in itertools.product(range(1, size + 1), range(size + 1)):
        words = [1 if n == lacks else WHOLE | 1 for n in range(size)]
        stream = bytearray(stream_of([(0, 1, last, 0)], size, weights))
        struct.pack_into(f"<{size}i", stream, len(stream) - 4 * size, *words)
        one = given(kernel, 5, last, bytes(stream))
        found = takes(kernel, one, "mac", takes.params(5, is_float=1))
        assert found == (last == size or lacks < size), (last, lacks)


@pytest.mark.parametrize("kernel", BLOCKS)
def test_shifts_of_all_channels(takes: Takes, kernel: str) -> None:
    """Fast ones up to the packing's; of exact ones those of the requantiser, be it of a line."""
    size, cin, weights = takes.size(kernel), 5, takes.packing.padded(5)
    fixed, line = {-31: True, 30: True, 31: False, -32: False}, {22: True, 23: False, 0x80: False}
    for heads, limits, is_float in (
        ([(2, 0, size, 0)], {takes.shift: True, takes.shift + 1: False}, 0),
        ([(0, 2, size, 0)], fixed, 0),
        ([(0, 2, size, 0)], line, 1),
    ):
        for wrong, (shift, taken) in itertools.product(range(2 * size), limits.items()):
            one = given(kernel, cin, 2 * size, stream_of(heads, size, weights, wrong, shift))
            found = takes(kernel, one, "mac", takes.params(cin, is_float=is_float))
            assert found == taken, (heads, wrong, shift)
    for heads in ([(2, 0, size, 0)], [(1, 1, size, 0)]):
        one = given(kernel, cin, 2 * size, stream_of(heads, size, weights))
        assert takes(kernel, one, "mac", takes.params(cin))
        assert not takes(kernel, one, "mac", takes.params(cin, is_float=1))


@pytest.mark.parametrize("kernel", [name for name in BLOCKS if name != "dense"])
def test_tiles(takes: Takes, kernel: str) -> None:
    """As many pixels as a kernel takes together, or as there are."""
    size, pixels = takes.size(kernel), 2 if kernel.endswith("narrow") else 4
    weights, packing = takes.packing.padded(5), takes.packing
    stream = stream_of([(0, 1, size, 0)], size, weights)
    for width in range(1, 6):
        bytes_of = packing.steps(5) * packing.step * packing.tap * min(width, pixels)
        for less in range(2):
            one = given(kernel, 5, size, stream, width, scratch=12)
            one.model.pool_bytes = 12 + bytes_of - less
            # Tensors are elsewhere: of what is asked for only scratch is looked at.
            assert takes(kernel, one, "mac", takes.params(5)) == (not less), width


@pytest.mark.parametrize("kernel", ["pointwise", "pointwise_narrow"])
def test_members_of_pointwise(takes: Takes, kernel: str) -> None:
    size, packing = takes.size(kernel), takes.packing
    for groups, depth, run, steps, packed in itertools.product(
        range(3), range(4, 7), range(4, 7), range(1, 4), range(2)
    ):
        stream = stream_of([(0, 1, size, 0)] * max(groups, 1), size, packing.step * steps)
        fields = takes.params(5, groups=groups, depth=depth, run=run, steps=steps)
        found = takes(kernel, given(kernel, 5, size, stream), "mac", fields | {"packed": packed})
        assert found == ((groups, depth, run, steps, packed) == (1, 5, 5, packing.steps(5), 0))


@pytest.mark.parametrize("kernel", ["conv", "conv_narrow"])
def test_members_of_conv(takes: Takes, kernel: str) -> None:
    """Groups, stretches of a tap or of a window's row, and the words that these fill."""
    size, cin, count, packing = takes.size(kernel), 6, 0, takes.packing
    for groups, depth, run, high, wide, dilation, packed in itertools.product(
        range(3), (2, 3, 6), range(0, 13, 1), (1, 2), (1, 2), (1, 2), range(2)
    ):
        across = run // depth
        right = run > 0 and run % depth == 0 and groups * depth == cin
        right = right and (across == 1 or (across == wide and groups == 1 and dilation == 1))
        runs = high * (wide // across) if right else 1
        taps = run * runs if packed else packing.padded(run) * runs
        right = right and not (packed and taps > packing.packed)
        heads = [(0, 1, size, 0)] * max(groups, 1)
        cout = size * max(groups, 1)
        window = {"kernel_h": high, "kernel_w": wide, "stride_h": 1, "stride_w": 1}
        window |= {"dilation_h": 1, "dilation_w": dilation}
        for steps in {packing.steps(taps), packing.steps(taps) + 1, run}:
            stream = stream_of(heads, size, packing.step * steps)
            fields = {"window": window, "groups": groups, "depth": depth, "run": run}
            fields |= {"steps": steps, "packed": packed, "stream": 8}
            found = takes(kernel, given(kernel, cin, cout, stream), "mac", fields)
            assert found == (right and steps == packing.steps(taps)), fields
            count += found
        if right and groups > 1:
            odd = given(kernel, cin, cout - 1, stream_of(heads, size, packing.step * steps))
            assert not takes(kernel, odd, "mac", fields)
    assert count > 20
    # A window of as many taps in one piece as there may be, and of more.
    most = packing.packed // 2
    for high in (most, most + 1):
        steps = packing.steps(2 * high)
        stream = stream_of([(0, 1, size, 0)], size, packing.step * steps)
        window = takes.params(1)["window"] | {"kernel_h": high, "kernel_w": 2}
        fields = takes.params(1, packed=1, window=window, steps=steps)
        found = takes(kernel, given(kernel, 1, size, stream), "mac", fields)
        assert found == (high == most)


def test_members_of_dense(takes: Takes) -> None:
    """A row of its input is one pixel, or is so for each column."""
    for width, others, run, groups, packed in itertools.product(
        (1, 2), (1, 2, 3), range(8), range(3), range(2)
    ):
        stream = stream_of([(0, 1, 4, 0)] * max(groups, 1), 4, takes.packing.padded(run))
        one = One(
            [whole(2, width, 4), whole(2, others, 2)],
            constants=stream,
            **{"rows": 2, "width": width, "columns": width, "scratch": 0},
        )
        fields = takes.params(2, run=run, groups=groups, packed=packed)
        flat = 0 < run <= 2 * others
        right = flat if width == 1 else (run == 2 and width <= others)
        found = takes("dense", one, "mac", fields)
        assert found == (right and groups == 1 and packed == 0), fields
    for high, top, left in itertools.product((1, 2), range(2), range(2)):
        window = takes.params(2)["window"]
        window |= {"kernel_h": high, "pad_top": top, "pad_left": left}
        stream = stream_of([(0, 1, 4, 0)], 4, takes.packing.padded(2) * high)
        found = takes("dense", given("dense", 2, 4, stream), "mac", takes.params(2, window=window))
        assert found == (left == 0 and (top == 0 or high > 1)), window


def test_rows_of_dense(takes: Takes) -> None:
    """Rows that fit on the stack are copied, and so are one run; others are filled up to whole
    lanes each. A byte less is too little."""
    for high, cin in ((2, 4), (3, 4), (2, 12), (2, 6), (2, 132)):
        run = cin * high if cin * high <= 256 else cin
        weights = takes.packing.padded(run) * (cin * high // run)
        stream = stream_of([(0, 1, 4, 0)], 4, weights)
        fields = takes.params(cin, window=takes.params(cin)["window"] | {"kernel_h": high})
        for less in range(2):
            one = given("dense", cin, 4, stream[: len(stream) - less], scratch=0)
            assert takes("dense", one, "mac", fields) == (not less), (high, cin)


def test_codes_of_pairs(takes: Takes) -> None:
    """A head's code for pairs of pixels counts no blocks, but where there are no pairs."""
    for kernel in BLOCKS:
        size = takes.size(kernel)
        stream = bytearray(stream_of([(1, 0, size, 0)], size, takes.packing.padded(5)))
        for code in range(4):
            struct.pack_into("<I", stream, 8, words_of((1, 0, size, 0)) | code << 14)
            one = given(kernel, 5, size, bytes(stream))
            right = code == 0 or (takes.packing.paired and kernel != "dense")
            assert takes(kernel, one, "mac", takes.params(5)) == right, (kernel, code)
