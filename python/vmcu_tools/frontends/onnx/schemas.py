# SPDX-License-Identifier: Apache-2.0
"""The least numbers of inputs and outputs of a node by ONNX's schemas."""

from __future__ import annotations

import onnx

from .file import FileNode


def missing(node: FileNode, opset: int) -> str:
    """Names the missing inputs and outputs of a node by the schema of its operator, "" if there
    are none or there is none."""
    if node.proto.domain not in ("", "ai.onnx"):
        return ""
    try:
        schema = onnx.defs.get_schema(node.proto.op_type, opset)
    except onnx.defs.SchemaError:
        return ""
    sides = (
        ("inputs", node.inputs, schema.min_input),
        ("outputs", node.outputs, schema.min_output),
    )
    for what, names, least in sides:
        if len(names) < least:
            return f"{len(names)} {what}; ONNX requires {least}"
    return ""
