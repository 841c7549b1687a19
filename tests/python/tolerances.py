# SPDX-License-Identifier: Apache-2.0
"""How far a node may be from ONNX Runtime's, in size and in count: where only half steps go another
way, few bytes differ, and a wrong function shows though each byte is within a step."""

from __future__ import annotations

from vmcu_tools.graph import Node
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.binary import Binary
from vmcu_tools.ops.lookup import Lookup
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.ops.requantize import Requantize
from vmcu_tools.ops.resize import Resize
from vmcu_tools.oracle import Difference, Oracle

# The share of bytes that may differ, by op.
_SHARES = {
    # Weights of 1/1024 instead of float32.
    Resize: 0.3,
    # Float constants are quantised.
    Binary: 0.2,
    # An average in units of 1/256.
    AveragePool2D: 0.12,
    # See doc/models.md; bytes half way are rare.
    Lookup: 0.0,
    MaxPool2D: 0.0,
    Requantize: 0.0,
}
_SHARE = 0.06
# Of a few bytes, any share may be one of them.
_ANY = 2


def most(node: Node, total: int) -> int:
    """Bytes of `total` that may differ in a node's output."""
    return int(_SHARES.get(type(node.op), _SHARE) * total) + _ANY


def assert_within(judge: Oracle, found: Difference) -> None:
    assert found.largest <= judge.tolerance(found.node), found
    assert found.count <= most(found.node, found.total), found
