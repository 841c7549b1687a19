# SPDX-License-Identifier: Apache-2.0
"""Attributes of nodes as Python values."""

from __future__ import annotations

from typing import Any

import onnx


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """A node's attributes as Python values."""
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
