# SPDX-License-Identifier: Apache-2.0
"""Checks of layers with windows: pooling, transposed convolutions, SVDF, means; in containers."""

from __future__ import annotations

import ctypes
import itertools
import struct

import online_device as device
import pytest
from layer_checks import SHIFTS, Checks, One, expect_limits, rows_of, shapes, whole


@pytest.fixture
def takes(loader: ctypes.CDLL) -> Checks:
    return Checks(loader)


def test_int16_layers(takes: Checks) -> None:
    """Of SVDF: elements are whole, and weights are there to the last byte."""
    for out, given, less in itertools.product(range(1, 7), (1, 3), range(2)):
        one = rows_of([whole(2, 3, out), whole(2, 3, given)], bytes(8 + out // 2 * given - less))
        found = takes("dense_int16", one, "dense_int16", {"weights": 8})
        assert found == (out % 2 == less == 0), (out, given)
    taps = {"window": window(1) | {"kernel_h": 3}, "weights": 8, "bias": 8, "rank": 2}
    for width, given, less in itertools.product((1, 2), (8, 12, 16), range(3)):
        pair = [whole(1, width, 3), whole(3, width, given)]
        one = rows_of(pair, bytes(8 + 2 * 3 * 2 * 3 - less))
        found = takes("filter_int16", one, "filter_int16", taps)
        assert found == (width == 1 and given == 12 and less == 0), (width, given, less)


def window(kernel: int = 1, pad: int = 0, stride: int = 1, dilation: int = 1) -> dict[str, int]:
    pairs = {"kernel": kernel, "stride": stride, "dilation": dilation}
    found = {f"{name}_{axis}": value for name, value in pairs.items() for axis in "hw"}
    return found | {"pad_top": pad, "pad_left": pad}


def test_what_is_spread(takes: Checks) -> None:
    """A transposed convolution: groups, and constants to the last byte."""
    good = {"window": window(2), "groups": 2, "depth": 3, "weights": 8, "bias": 8}
    good |= {"multiplier": 8, "shift": 8}
    out, given = whole(2, 2, 4), whole(1, 1, 6)
    # 48 taps, four of each of the other arrays.
    ends = {"weights": 48, "bias": 16, "multiplier": 16, "shift": 16, "scale": 16}
    for member, size in ends.items():
        for less in range(2):
            one = rows_of([out, given], bytes(64 + size - less))
            fields = good | {member: 64}
            assert takes("transpose_conv", one, "transpose_conv", fields) != less, member
    for groups, depth, channels in itertools.product(range(5), range(7), range(3, 6)):
        one = rows_of([whole(2, 2, channels), given], bytes(999))
        fields = good | {"groups": groups, "depth": depth}
        right = groups * depth == 6 and channels % groups == 0
        assert takes("transpose_conv", one, "transpose_conv", fields) == right
    for place, (shift, taken) in itertools.product(range(5), SHIFTS.items()):
        words = struct.pack("<5i", *[shift if n == place else 0 for n in range(5)])
        one = rows_of([out, given], bytes(64) + words)
        found = takes("transpose_conv", one, "transpose_conv", good | {"shift": 64})
        assert found == (taken or place == 4)
        assert takes("transpose_conv", one, "transpose_conv", good | {"shift": 64, "scale": 8})
    # As many taps as no container has.
    one = rows_of([out, given], bytes(999))
    fields = good | {"window": window(65535)}
    assert not takes("transpose_conv", one, "transpose_conv", fields)


def test_numbers_of_a_mean_of_a_table(takes: Checks) -> None:
    pair = whole(2, 2, 3), whole(2, 2, 3)
    good = {"window": window(1), "table": 8}
    limits = {
        "bits": {0: True, 30: True, 31: False},
        "divisor": {0: True, 1: True, -1: False},
        "table": {8: True, 12: False},
    }
    one = rows_of(pair, bytes(8 + 1024))
    expect_limits(takes, "table_mean", one, "table_mean", good, limits)
    assert takes("table_mean", one, "table_mean", good | {"window": window(1024)})
    assert not takes("table_mean", one, "table_mean", good | {"window": window(1025)})
    other = rows_of([pair[0], whole(2, 2, 4)], bytes(8 + 1024))
    assert not takes("table_mean", other, "table_mean", good)


def sees(size: int, outputs: int, kernel: int, pad: int, stride: int, dilation: int) -> bool:
    taps = range(kernel)
    starts = [n * stride - pad for n in range(outputs)]
    return all(any(0 <= at + k * dilation < size for k in taps) for at in starts)


def test_means_are_of_something(takes: Checks) -> None:
    """Without padding that counts, each window has a tap inside the image."""
    some = itertools.product((1, 2, 3), (1, 2), range(4), (1, 3), (1, 3), (1, 2))
    for size, outputs, pad, stride, dilation, kernel in some:
        there = sees(size, outputs, kernel, pad, stride, dilation)
        for high in range(2):
            shape = (size, 1, 2) if high else (1, size, 2)
            out = (outputs, 1, 2) if high else (1, outputs, 2)
            wide = window(kernel, pad, stride, dilation)
            other = "wl" if high else "ht"
            for name in ("kernel", "stride", "dilation"):
                wide[f"{name}_{other[0]}"] = 1
            wide["pad_left" if high else "pad_top"] = 0
            one = rows_of([whole(*out), whole(*shape)])
            assert takes("average_pool", one, "average_pool", {"window": wide}) == there
            counted = {"window": wide, "count_padding": 1}
            assert takes("average_pool", one, "average_pool", counted)
            assert takes("max_pool", one, "max_pool", {"window": wide})
    one = rows_of([whole(1, 1, 2), whole(1, 1, 3)])
    assert not takes("max_pool", one, "max_pool", {"window": window()})


MEANS = {"rescale": {2: True, 3: True, 4: False}, "factor.shift": SHIFTS}


def test_numbers_of_means(takes: Checks) -> None:
    one, good = rows_of([whole(1, 1, 2)] * 2), {"window": window()}
    limits = MEANS | {"count_padding": {1: True, 2: False}}
    expect_limits(takes, "average_pool", one, "average_pool", good, limits)
    exact = {"rescale": 3, **good}
    limits = {"factor.shift": {99: True}}
    expect_limits(takes, "average_pool", one, "average_pool", exact, limits)


def test_means_of_all(takes: Checks) -> None:
    """Called for the input's columns, with sums of its channels in scratch."""
    given = whole(2, 3, 2)
    changes = ({}, {"rows": 1}, {"rows": 3}, {"width": 2}, {"width": 4}, {"descending": 1})
    for shape, change in itertools.product(shapes((1, 2)), changes):
        layer = {"rows": 2, "width": 3, "columns": 1} | change
        one = rows_of([whole(*shape), given], **layer)
        found = takes("average_pool_sum", one, "average_pool", {})
        assert found == (shape == (1, 1, 2) and not change)
    layer = {"rows": 2, "width": 3, "columns": 3}
    one = rows_of([whole(1, 1, 2), given], **layer)
    expect_limits(takes, "average_pool_sum", one, "average_pool", {}, MEANS)
    large = {"rows": 1, "width": 257, "columns": 257}
    for image, made, least in ((given, layer, 4), (whole(1, 257, 2), large, 8)):
        for room in (least, least - 1):
            one = One([whole(1, 1, 2), image], 600 + room, scratch=600, **made)
            assert takes("average_pool_sum", one, "average_pool", {}) == (room == least)
    split = device.Tensor(0, 4, 0, 2, 3, 2)
    assert not takes(
        "average_pool_sum", rows_of([whole(1, 1, 2), split], **layer), "average_pool", {}
    )
