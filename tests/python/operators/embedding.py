# SPDX-License-Identifier: Apache-2.0
"""Rows of a table by numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from builders.onnx_models import Layer, OnnxModel
from random_builder import Builder
from random_onnx import OperatorNetwork
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.embedding import Embedding


def layer(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 4), 4))
    # Few bytes: containers of all layers have to fit into a board's flash.
    rows = b.pick(1, 2, 60, 300)
    channels = b.pick(1, 2) if rows > 9 else b.pick(1, 3, 8, 33)
    table = b.rng.integers(-128, 128, (rows, channels)).astype(np.int8)
    return b.node(Embedding(table), [x], (*x.shape[:2], channels))


# Of a table in blocks.
ROWS, DEPTH = 37, 48


def in_blocks(m: OnnxModel, ids: str, form: str, axis: int = 1, block: int = 16) -> str:
    """Rows of a table of blocks along an axis; form: its type, bits, and whether it has zero
    points."""
    dtype, bits, zeros = form.split(", ")
    count, shape = int(bits), [ROWS, DEPTH]
    blocks = [-(-n // block) if place == axis else n for place, n in enumerate(shape)]
    least = -(1 << count - 1) if dtype == "int4" else 0
    ints, points = (m.rng.integers(least, least + (1 << count), size) for size in (shape, blocks))
    scales = m.constant(m.rng.uniform(0.01, 0.02, blocks).astype(np.float32))

    def stored(numbers: np.ndarray) -> str:
        if dtype != "uint8":
            return m.constant(numbers.astype(getattr(ml_dtypes, dtype)))
        if count == 4:
            numbers = np.pad(numbers, ((0, 0), (0, numbers.shape[1] % 2)))
            numbers = numbers[:, ::2] | numbers[:, 1::2] << 4
        return m.constant(numbers.astype(np.uint8))

    inputs = [stored(ints), ids, scales] + ([stored(points)] if zeros == "zeros" else [])
    more = {"block_size": block, "quantize_axis": axis, "gather_axis": 0, "bits": count}
    return m.node("GatherBlockQuantized", inputs, "com.microsoft", **more)


def blocked(form: str, axis: int = 1, block: int = 16) -> Layer:
    """Adds some rows of a table."""

    def build(m: OnnxModel, x: str, scale: float):
        rows = in_blocks(m, m.constant(np.array([[3, 0, 36, -1]])), form, axis, block)
        return m.node("Add", [x, rows]), scale * 2

    return build


CASES = {
    "rows of a table in blocks": ((1, 4, DEPTH), blocked("uint8, 4, zeros", block=32)),
    "rows of a table in blocks, 8 bits": ((1, 4, DEPTH), blocked("uint8, 8, none")),
    "rows of a table in blocks of rows": ((1, 4, DEPTH), blocked("int4, 4, none", axis=0)),
}


def drawn(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    form = n.of("int4, 4, none", "uint4, 4, zeros", "uint8, 4, zeros", "uint8, 8, none")
    rows = in_blocks(n.m, n.m.constant(np.array([[3, 0, 36, -1]])), form, block=n.pick(16, 32))
    x = n.input((1, 4, DEPTH))
    return [n.m.node("Add", [x, rows])]


DRAWERS = {"com.microsoft.GatherBlockQuantized": drawn}
