# SPDX-License-Identifier: Apache-2.0
"""Whole numbers that a .tflite computes from constants, beside what the schema's operators mean,
worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders.tflite_models import TfliteModel
from vmcu_tools.frontends.tflite import states
from vmcu_tools.frontends.tflite.fold import FOLDED, fold

A = [[7, -7, 2], [0, 5, -3]]
B = [2, 2, -2]

# Operands, what they yield, and the options.
CASES = {
    "ADD": ([A, B], [[9, -5, 0], [2, 7, -5]], {}),
    "SUB": ([A, B], [[5, -9, 4], [-2, 3, -1]], {}),
    "MUL": ([A, B], [[14, -14, -4], [0, 10, 6]], {}),
    # Towards zero, as C divides; FLOOR_DIV rounds down.
    "DIV": ([A, B], [[3, -3, -1], [0, 2, 1]], {}),
    "FLOOR_DIV": ([A, B], [[3, -4, -1], [0, 2, 1]], {}),
    "MAXIMUM": ([A, B], [[7, 2, 2], [2, 5, -2]], {}),
    "MINIMUM": ([A, B], [[2, -7, -2], [0, 2, -3]], {}),
    "SUM": ([A, [0]], [7, -2, -1], {"kind": "Reducer", "keepDims": False}),
    "REDUCE_PROD": ([A, [1]], [[-98], [0]], {"kind": "Reducer", "keepDims": True}),
    "REDUCE_MAX": ([A, [-1]], [7, 5], {"kind": "Reducer", "keepDims": False}),
    "REDUCE_MIN": ([A, [0, 1]], [[-7]], {"kind": "Reducer", "keepDims": True}),
    "CONCATENATION": ([A, [[1, 1, 1]]], [*A, [1, 1, 1]], {"kind": "Concatenation", "axis": 0}),
    "PACK": ([B, [1, 0, 1]], [[2, 1], [2, 0], [-2, 1]], {"kind": "Pack", "axis": 1}),
    "FILL": ([[2, 2], 5], [[5, 5], [5, 5]], {}),
    "RANGE": ([3, -4, -3], [3, 0, -3], {}),
    "CAST": ([A], A, {}),
    "BROADCAST_ARGS": ([[3, 1, 4], [5, 1]], [3, 5, 4], {}),
    "EQUAL": ([A, B], [[0, 0, 0], [0, 0, 0]], {}),
    "NOT_EQUAL": ([A, A], [[0, 0, 0], [0, 0, 0]], {}),
    "LESS": ([A, B], [[0, 1, 0], [1, 0, 1]], {}),
    "LESS_EQUAL": ([A, A], [[1, 1, 1], [1, 1, 1]], {}),
    "GREATER": ([A, B], [[1, 0, 1], [0, 1, 0]], {}),
    "GREATER_EQUAL": ([A, B], [[1, 0, 1], [0, 1, 0]], {}),
    "SHAPE": ([A], [2, 3], {}),
}


def folded(path: Path, op: str) -> np.ndarray | None:
    """The constant in the operator's place, None if it is still there."""
    operands, wanted, options = CASES[op]
    m = TfliteModel()
    y = m.activation(np.shape(wanted), dtype=np.int32)
    m.op(op, [m.constant(np.array(values, np.int32)) for values in operands], y, **options)
    found = fold(states.read(m.save(path, [], [y])))
    return found.model.tensors[y].data if found.constants == (y,) else None


@pytest.mark.parametrize("op", CASES)
def test_constants_are_computed_as_tensorflow_does(tmp_path, op):
    found = folded(tmp_path / "m.tflite", op)
    assert found is not None
    np.testing.assert_array_equal(found, np.array(CASES[op][1]))


def test_every_operator_has_a_case() -> None:
    assert sorted(CASES) == sorted(FOLDED)


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_only_integers_are_compared(tmp_path: Path, dtype: type) -> None:
    m = TfliteModel()
    y = m.activation((2,), dtype=np.bool_)
    m.op("LESS", [m.constant(np.array([1, 2], dtype), [scale]) for scale in (0.1, 0.2)], y)
    assert not fold(states.read(m.save(tmp_path / "m.tflite", [], [y]))).constants
