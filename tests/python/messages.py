# SPDX-License-Identifier: Apache-2.0
"""The form of a message: FILE: NODE (OP): what is wrong. hint: what to do."""

from __future__ import annotations

import re

from vmcu_tools.errors import Problem

# Names that begin with a capital letter wherever they stand.
NAMES = ("TensorFlow", "ONNX", "Vela", "Zephyr", "DequantizeLinear", "QuantizeLinear", "LSTM")


def assert_form(problem: Problem) -> None:
    """Lower case after the colon, a hint, no full stop behind a single clause, and no pronoun for
    the node that the message names before."""
    for part in (problem.reason, problem.remedy):
        assert part and (part.startswith(NAMES) or not re.match(r"[A-Z][a-z]", part)), problem
        assert not re.match(r"(it|its|they|what|who)\b", part), problem
        assert not part.endswith(".") or ". " in part, problem
    where = f"{problem.node} ({problem.op}): " if problem.op and problem.node else ""
    assert str(problem).startswith(f"{problem.file}: {where}"), problem
    assert f"hint: {problem.remedy}" in str(problem)
