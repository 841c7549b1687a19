# SPDX-License-Identifier: Apache-2.0
"""Checks of the operators between a network's big layers in containers, against their reference
semantics: shapes, the last valid value of each member, and constants to the last byte."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Sequence

import numpy as np
import online_device as device
import pytest
from layer_checks import SHIFTS, Checks, expect_limits, rows_of, shapes, whole
from vmcu_tools.ops.values import ENUMERATORS

INT32_MAX = 2**31 - 1
LINES = {0: True, 0x80: False, 1: True, 22: True, 0x80 | 22: True, 23: False}


@pytest.fixture
def takes(loader: ctypes.CDLL) -> Checks:
    return Checks(loader)


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


CONTRACTIONS = {"matmul": "hwk,hkc->hwc", "matmul_transposed": "hwk,hck->hwc"}


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


@pytest.mark.parametrize("kernel", CONTRACTIONS)
def test_products_of_matrices(takes: Checks, kernel: str) -> None:
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
        assert takes(kernel, one, "matmul", {}) == wanted, (out, given)
        counts[wanted] += 1
    assert counts[1] > 30
    good = [whole(1, 2, 2)] * (count + 1)
    for is_float, taken in ((0, SHIFTS), (1, LINES)):
        limits, usual = {"product.shift": taken}, {"product": {"is_float": is_float}}
        expect_limits(takes, kernel, rows_of(good, exponentials()), "matmul", usual, limits)
    assert not takes(kernel, rows_of(good[1:], exponentials()), "matmul", {})
    assert not takes(kernel, rows_of(good, exponentials(), columns=1), "matmul", {})
    for n in range(count):
        split = [*good]
        split[n + 1] = device.Tensor(0, 3, 0, 1, 2, 2)
        assert not takes(kernel, rows_of(split, exponentials()), "matmul", {})
