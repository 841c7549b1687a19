# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests: those within scope pass, and doc/onnx-node-tests.md says which."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_node_tests
import pytest

TABLE = Path(__file__).resolve().parents[2] / "doc" / "onnx-node-tests.md"


@pytest.fixture(scope="module")
def found():
    return onnx_node_tests.outcomes()


def test_every_test_within_scope_passes(found):
    passing = {outcome.test for outcome in found if not outcome.reason}
    assert "test_qlinearconv" in passing
    assert sum(test.startswith("test_qlinearmatmul") for test in passing) >= 4
    assert {"test_quantizelinear", "test_dequantizelinear"} <= passing


def test_the_table_is_current(found):
    table = TABLE.read_text()
    if f"`onnx` {onnx.__version__} " not in table:
        pytest.skip(f"the table is not of onnx {onnx.__version__}")
    assert table == onnx_node_tests.table(found)
