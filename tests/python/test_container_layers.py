# SPDX-License-Identifier: Apache-2.0
"""What loaders take of each operator between a network's big layers, against what its meaning
needs: shapes, the last value of each member that is right, and constants to the last byte."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Iterator, Sequence

import numpy as np
import online_device as device
import pytest
from layer_checks import Checks, Fields, One, whole
from vmcu_tools.ops.values import ENUMERATORS

INT32_MAX = 2**31 - 1
# The first and the last shift of a requantiser, and what is beyond them.
SHIFTS = {-32: False, -31: True, 30: True, 31: False}
LINES = {0: True, 0x80: False, 1: True, 22: True, 0x80 | 22: True, 23: False}


@pytest.fixture
def takes(loader: ctypes.CDLL) -> Checks:
    return Checks(loader)


def rows_of(tensors: Sequence[device.Tensor], constants: bytes = b"", **changes: int) -> One:
    """A layer that is called for rows of its output."""
    out = tensors[0]
    usual = {"rows": out.height, "width": out.width, "columns": out.width, "scratch": 0}
    return One(list(tensors), constants=constants, **(usual | changes))


def shapes(sizes: Sequence[int] = (1, 2, 3)) -> Iterator[tuple[int, ...]]:
    return itertools.product(sizes, repeat=3)


def expect_limits(
    takes: Checks, kernel: str, one: One, params: str, good: Fields, limits: dict[str, dict]
) -> None:
    """limits: by member, which of its values are taken; of the others all are as in `good`."""
    assert takes(kernel, one, params, good)
    for path, values in limits.items():
        outer, _, inner = path.partition(".")
        for value, taken in values.items():
            changed = {**good.get(outer, {}), inner: value} if inner else value
            found = takes(kernel, one, params, {**good, outer: changed})
            assert found == taken, (kernel, path, value)


def test_operands_are_repeated_or_as_large(takes: Checks) -> None:
    """Of a sum of two: an input, or a constant, which ends where the container does."""
    out = whole(2, 3, 2)
    for shape in shapes((1, 2, 3)):
        right = all(n in (1, m) for n, m in zip(shape, (2, 3, 2), strict=True))
        for inputs in ([whole(*shape), out], [out, whole(*shape)]):
            assert takes("binary", rows_of([out, *inputs]), "binary", {}) == right, shape
        sizes = dict(zip(("height", "width", "channels"), shape, strict=True))
        fields = {"constant": 8} | {f"constant_{name}": n for name, n in sizes.items()}
        for less in range(2):
            one = rows_of([out, out], bytes(8 + int(np.prod(shape)) - less))
            assert takes("binary", one, "binary", fields) == (right and not less), shape
    assert not takes("binary", rows_of([out, out]), "binary", {})
    one = rows_of([out, out, out], bytes(99))
    assert not takes("binary", one, "binary", {"constant": 8})


def test_what_is_repeated_is_not_split(takes: Checks) -> None:
    """Calls for single columns do not ask what is as large for more than a pixel at a time."""
    out = whole(2, 3, 2)
    for height, width in itertools.product((1, 2), (1, 3)):
        split = device.Tensor(0, 4, 0, height, width, 2)
        wanted = width == 1 or height == 2
        one = rows_of([out, split, out], columns=1)
        assert takes("binary", one, "binary", {}) == wanted, (height, width)


def test_numbers_of_a_binary(takes: Checks) -> None:
    out = whole(1, 1, 1)
    kinds = {n: n <= ENUMERATORS["VMCU_BINARY_QUOTIENT"] for n in range(13)}
    kinds[ENUMERATORS["VMCU_BINARY_FLOAT_SUM"]] = False
    limits = {"left_shift": {30: True, 31: False}, "rescale": {1: True, 2: False}, "kind": kinds}
    limits |= {f"{name}.shift": SHIFTS for name in ("a", "b", "output")}
    expect_limits(takes, "binary", rows_of([out, out, out]), "binary", {}, limits)
    product = {"kind": ENUMERATORS["VMCU_BINARY_FLOAT_PRODUCT"]}
    limits = {"output.shift": LINES, "a.shift": {99: True}, "b.shift": {99: True}}
    expect_limits(takes, "binary", rows_of([out, out, out]), "binary", product, limits)
    total = {"kind": ENUMERATORS["VMCU_BINARY_FLOAT_SUM"]}
    for at, less, taken in ((8, 0, True), (8, 1, False), (12, 0, False)):
        one = rows_of([out, out, out], bytes(at + 48 - less))
        assert takes("binary", one, "binary", total | {"sum": at}) == taken
    wrong = bytes(8) + struct.pack("<3q4iBB6x", 0, 0, 0, 0, 0, 0, 0, 32, 0)
    assert not takes("binary", rows_of([out, out, out], wrong), "binary", total | {"sum": 8})


def test_what_is_joined(takes: Checks) -> None:
    out = (2, 2, 2)
    for axis, first, second in itertools.product(range(4), shapes((1, 2)), shapes((1, 2))):
        try:
            joined = np.concatenate([np.zeros(first), np.zeros(second)], axis).shape
        except ValueError:
            joined = ()
        one = rows_of([whole(*out), whole(*first), whole(*second)])
        assert takes("concat", one, "concat", {"axis": axis}) == (joined == out)
    parts = [whole(1, 2, 2), whole(1, 1, 2), whole(1, 1, 2)]
    fields = {"axis": 1, "table_of": 8, "tables": 16}
    for numbers, entries, end in itertools.product(
        itertools.product((-1, 0, 1), repeat=2), (0, 255, 256, 511, 512), (4, 3)
    ):
        numbered = struct.pack("<8x2h4x", *numbers)
        fits = all(256 * (n + 1) <= entries for n in numbers)
        found = takes("concat", rows_of(parts, numbered + bytes(entries)), "concat", fields)
        assert found == fits, (numbers, entries)
        # Where numbers end with the container.
        one = rows_of(parts, bytes(8 + 512 + end))
        at_end = fields | {"table_of": 520, "tables": 8}
        assert takes("concat", one, "concat", at_end) == (end == 4)
    for columns in (1, 2):
        assert takes("concat", rows_of(parts, columns=columns), "concat", {"axis": 1}) == (
            columns == 2
        )
    # Pixels side by side may be asked for in parts, and must not be split either.
    pair = [whole(1, 2, 2), whole(1, 2, 1), whole(1, 2, 1)]
    for columns, ring in itertools.product((1, 2), (1, 2)):
        some = [pair[0], pair[1], device.Tensor(0, ring, 0, 1, 2, 1)]
        found = takes("concat", rows_of(some, columns=columns), "concat", {"axis": 2})
        assert found == (columns <= ring), (columns, ring)
    split = device.Tensor(0, 2, 0, 1, 1, 2), device.Tensor(0, 1, 0, 1, 1, 2)
    for n, part in itertools.product(range(2), split):
        some = [*parts[: n + 1], part, *parts[n + 2 :]]
        assert takes("concat", rows_of(some), "concat", {"axis": 1}) == (part.ring == 2)


def exponentials(first: int = 1 << 16, last: int = INT32_MAX) -> bytes:
    """A table, at 8."""
    return bytes(8) + struct.pack("<256I", first, *[last] * 255)


def test_tables_of_pixels(takes: Checks) -> None:
    """Softmax, its logarithm, lookup: a table to the last byte of the container."""
    pair = whole(1, 2, 3), whole(1, 2, 3)
    kinds = [("softmax_onnx", "softmax"), ("softmax_tflite", "softmax")]
    kinds += [(name, name) for name in ("log_softmax_onnx", "log_softmax_tflite")]
    for kernel, params in kinds:
        fields = {"exp": 8} | ({"scaled": 8} if params == "log_softmax_tflite" else {})
        tables = [(exponentials(), True), (exponentials()[:-1], False)]
        tables += [(exponentials((1 << 16) - 1), False), (exponentials(last=INT32_MAX + 1), False)]
        for table, taken in tables:
            assert takes(kernel, rows_of(pair, table), params, fields) == taken
        other = rows_of([pair[0], whole(1, 2, 2)], exponentials())
        assert not takes(kernel, other, params, fields)
    one = rows_of(pair, exponentials() + bytes(1020))
    assert not takes(
        "log_softmax_tflite", one, "log_softmax_tflite", {"exp": 8, "scaled": 12 + 1020}
    )
    assert takes("log_softmax_tflite", one, "log_softmax_tflite", {"exp": 8, "scaled": 8 + 1020})
    limits = {"step": {0: True, -1: False}}
    limits["gain"] = {0: True, -1: False, (1 << 40) - 1: True, 1 << 40: False}
    one = rows_of(pair, exponentials())
    expect_limits(takes, "log_softmax_onnx", one, "log_softmax_onnx", {"exp": 8}, limits)
    for less in range(2):
        assert takes("lookup", rows_of(pair, bytes(264 - less)), "lookup", {"table": 8}) != less


def test_numbers_of_a_norm(takes: Checks) -> None:
    pair = whole(1, 2, 6), whole(1, 2, 6)
    good = {"gain": 8, "offset": 20, "run": 2, "factors": 3}
    limits = {
        "bits": {31: True, 32: False},
        "fraction": {0: True, 1: False, 2: True, 16: True, 18: False},
        "centred": {1: True, 2: False},
        "epsilon": {0: True, -1: False, (1 << 46) - 1: True, 1 << 46: False},
        "run": {0: False, 1: True, 3: True, 4: False, 6: True, -1: False},
        "factors": {0: False, 1: True, 4: False},
        "gain": {20: True, 24: False},
        "offset": {8: True, 24: False},
    }
    expect_limits(takes, "layer_norm", rows_of(pair, bytes(32)), "layer_norm", good, limits)
    limits = {"epsilon": {(1 << 48) - 1: True, 1 << 48: False}}
    finer = good | {"fraction": 2}
    expect_limits(takes, "layer_norm", rows_of(pair, bytes(32)), "layer_norm", finer, limits)
    for channels in (1 << 14, (1 << 14) + 1):
        one = rows_of([whole(1, 1, channels)] * 2, bytes(32))
        found = takes("layer_norm", one, "layer_norm", good | {"run": 1})
        assert found == (channels == 1 << 14)


def test_what_is_moved_is_there(takes: Checks) -> None:
    """Runs within rows of the input."""
    out, given = whole(2, 2, 4), whole(2, 4, 2)
    rng = np.random.default_rng(3)
    counts = [0, 0]
    for _ in range(600):
        run = int(rng.choice([1, 2, 4]))
        channels = rng.integers(-1, 3, 4 // run) + rng.integers(0, 2)
        places = [rng.choice([0, 8], 2), rng.integers(0, 5, 2), channels]
        numbers = np.concatenate([*places]).astype("<i4")
        fields = {"rows": 8, "columns": 16, "channels": 24, "run": run}
        at = places[0][:, None, None] + places[1][:, None] + places[2]
        ends = at + run - 1
        right = at.min() >= 0 and ends.max() < 16 and (at // 8 == ends // 8).all()
        table = bytes(8) + numbers.tobytes()
        found = takes("move", rows_of([out, given], table), "move", fields)
        assert found == right, (places, run)
        assert not takes("move", rows_of([out, given], table[:-1]), "move", fields)
        counts[found] += 1
    assert min(counts) > 100
    table = bytes(99)
    for run in range(6):
        fields = {"rows": 8, "columns": 16, "channels": 24, "run": run}
        found = takes("move", rows_of([out, given], table), "move", fields)
        assert found == (run in (1, 2, 4))
    for member in ("rows", "columns", "channels"):
        fields = {"rows": 8, "columns": 8, "channels": 8, "run": 4}
        size = 4 if member == "channels" else 8
        for less in range(2):
            one = rows_of([out, given], bytes(24 + size - less))
            assert takes("move", one, "move", fields | {member: 24}) != less, member


def test_what_is_resized(takes: Checks) -> None:
    """Both rows and both columns of each entry are the input's; the last ends the container."""
    out, given = whole(2, 3, 2), whole(4, 5, 2)
    for axis, number, which, value in itertools.product(range(2), range(3), range(2), range(-1, 7)):
        entries = np.zeros((2, 3, 3), "<i2")
        entries[axis, number, which] = value
        table = bytes(8) + entries[0, :2].tobytes() + entries[1].tobytes()
        right = 0 <= value < (4, 5)[axis] or (axis, number) == (0, 2)
        fields = {"rows": 8, "columns": 20}
        assert takes("resize", rows_of([out, given], table), "resize", fields) == right
        assert not takes("resize", rows_of([out, given], table[:-1]), "resize", fields)
    table = bytes(8 + 18)
    for at in (12, 14, 16):
        one = rows_of([out, given], table)
        found = takes("resize", one, "resize", {"rows": at, "columns": 8})
        assert found == (at + 12 <= 26)
    limits = {"factor.shift": SHIFTS, "rescale": {1: True, 2: False}}
    one, fields = rows_of([out, given], table), {"rows": 8, "columns": 8}
    expect_limits(takes, "resize", one, "resize", fields, limits)
    assert not takes("resize", rows_of([out, whole(4, 5, 3)], table), "resize", fields)


def test_what_is_like_its_input(takes: Checks) -> None:
    for shape in shapes():
        out, given = whole(2, 3, 2), whole(*shape)
        one = rows_of([out, given])
        assert takes("reshape", one, "pad", {}) == (np.prod(shape) == 12), shape
        larger = all(n >= m for n, m in zip(shape[:2], (2, 3), strict=True))
        for kernel in ("hardmax", "l2_norm"):
            assert takes(kernel, one, kernel, {}) == (larger and shape[2] == 2), shape
    pair = [whole(2, 3, 2)] * 2
    assert not takes("reshape", rows_of(pair, columns=1), "pad", {})
    limits = {"factor.shift": SHIFTS, "rescale": {1: True, 2: False}}
    expect_limits(takes, "requantize", rows_of(pair), "requantize", {}, limits)
    limits = {"smallest": {1: True, 2: False}, "last": {1: True, 2: False}}
    for channels in (3, 4, 5):
        one = rows_of([whole(2, 3, channels), pair[0]])
        if channels == 4:
            expect_limits(takes, "arg_max", one, "arg_max", {}, limits)
        assert takes("arg_max", one, "arg_max", {}) == (channels == 4)


def test_elements_of_several_bytes(takes: Checks) -> None:
    """As many of them in a pixel of the output as of the input, none of them cut."""
    for given, made, source, out in itertools.product((1, 2), (1, 2, 4), range(1, 9), range(1, 17)):
        one = rows_of([whole(2, 3, out), whole(2, 3, source)])
        fields = {"input_bytes": given, "output_bytes": made}
        right = source % given == 0 and source // given * made == out
        assert takes("requantize_wide", one, "requantize_wide", fields) == right, (fields, one)
    limits = {"input_bytes": {0: False, 2: True, 3: False}, "factor.shift": SHIFTS}
    pair = rows_of([whole(2, 3, 4)] * 2)
    fields = {"input_bytes": 2, "output_bytes": 2}
    expect_limits(takes, "requantize_wide", pair, "requantize_wide", fields, limits)
    for out in range(1, 9):
        table = struct.pack("<256I", 1 << 16, *range(255))
        one = rows_of([whole(2, 3, out), whole(2, 3, 3)], bytes(8) + table)
        assert takes("softmax_int16", one, "softmax", {"exp": 8}) == (out == 6)


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


def test_sums_are_within_32_bits(takes: Checks) -> None:
    """Of all pairs of bytes."""
    trio = [whole(1, 1, 2)] * 3
    one = rows_of(trio)
    limits = {"shift": {-1: False, 0: True, 31: True, 32: False}}
    expect_limits(takes, "add", one, "add", {}, limits)
    byte = np.arange(-128, 128)
    rng = np.random.default_rng(4)
    for signs in itertools.product((-1, 1), repeat=3):
        for more in (-1, 0, 1):
            a, b = (
                int(sign * n) for sign, n in zip(signs, rng.integers(0, 1 << 30, 2), strict=False)
            )
            sums = (byte * a >> 8)[:, None] + (byte * b >> 8)
            bias = signs[2] * (INT32_MAX - int(np.abs(sums).max()) + more)
            fields = {"a_scale": a, "b_scale": b, "bias": bias, "shift": 31}
            assert takes("add", one, "add", fields) == (more <= 0), fields
    limits = {"left_shift": {31: True, 32: False}}
    limits |= {f"{name}.shift": SHIFTS for name in ("a", "b", "output")}
    expect_limits(takes, "add_exact", one, "add_exact", {}, limits)
    limits = {"narrow": {1: True, 2: False}, "sum.shift": {31: True, 32: False}}
    expect_limits(takes, "add_float", one, "add_float", {}, limits)


PRODUCTS = {
    "matmul": ("product",),
    "matmul_transposed": ("product",),
}
CONTRACTIONS = {
    "matmul": "hwk,hkc->hwc",
    "matmul_transposed": "hwk,hck->hwc",
}


def contracted(kernel: str, given: Sequence[Sequence[int]], out: Sequence[int]) -> bool:
    """True if matrices fit; of what is summed over a later one may have more, as padding."""
    names, result = CONTRACTIONS[kernel].split("->")
    sizes = dict(zip(result, out, strict=True))
    for letters, shape in zip(names.split(","), given, strict=True):
        for letter, size in zip(letters, shape, strict=True):
            if letter in result and sizes[letter] != size:
                return False
            if sizes.setdefault(letter, size) > size:
                return False
    return True


@pytest.mark.parametrize("kernel", PRODUCTS)
def test_products_of_matrices(takes: Checks, kernel: str) -> None:
    params = "matmul" if kernel == "matmul_transposed" else kernel
    count = CONTRACTIONS[kernel].count(",") + 1
    rng = np.random.default_rng(5)
    counts = [0, 0]
    for _ in range(3000):
        near = [[2, *row] for row in rng.choice([2, 3, 4], (count + 1, 2), p=[0.2, 0.6, 0.2])]
        drawn = [[int(n) for n in shape] for shape in near]
        if rng.random() < 0.2:
            drawn[rng.integers(0, count + 1)][0] = 1
        out, *given = drawn
        one = rows_of([whole(*shape) for shape in drawn], exponentials())
        wanted = contracted(kernel, given, out)
        assert takes(kernel, one, params, {}) == wanted, (out, given)
        counts[wanted] += 1
    assert counts[1] > 30
    good = [whole(1, 2, 2)] * (count + 1)
    for number in range(len(PRODUCTS[kernel])):
        name = PRODUCTS[kernel][number]
        for is_float, taken in ((0, SHIFTS), (1, LINES)):
            limits = {f"{name}.shift": taken}
            usual = {name: {"is_float": is_float}}
            expect_limits(takes, kernel, rows_of(good, exponentials()), params, usual, limits)
    assert not takes(kernel, rows_of(good[1:], exponentials()), params, {})
    assert not takes(kernel, rows_of(good, exponentials(), columns=1), params, {})
    for n in range(count):
        split = [*good]
        split[n + 1] = device.Tensor(0, 3, 0, 1, 2, 2)
        assert not takes(kernel, rows_of(split, exponentials()), params, {})
