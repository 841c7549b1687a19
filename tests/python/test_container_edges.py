# SPDX-License-Identifier: Apache-2.0
"""What a loader takes at the edge of what is right: the last byte of a container, the last row of
padding, the last byte of the pool."""

from __future__ import annotations

import ctypes
import errno
import struct

import numpy as np
import pytest
from builders.containers import changed, model_member, of_model, of_table
from random_builder import Builder
from random_graphs import LAYERS, disjoint, random_layers
from test_container import DIGITS, loaded, planned
from vmcu_tools import container
from vmcu_tools.container import layout
from vmcu_tools.emit import structs
from vmcu_tools.emit.model import write_tables
from vmcu_tools.graph import Window
from vmcu_tools.ops import Form, serves
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.quant import FixedPoint


@pytest.fixture(scope="module")
def digits() -> bytes:
    return container.build(planned(DIGITS), "digits")


def test_a_stream_that_ends_too_early_is_refused(loader: ctypes.CDLL, digits: bytes) -> None:
    """The constants of a layer, moved to the end of the container, and cut there."""
    (params,) = struct.unpack_from(
        "<I", digits, model_member(digits, "layers") + structs.LAYER.size + 4
    )
    (stream,) = struct.unpack_from("<I", digits, params)
    blocks = model_member(digits, "blocks")
    sizes = dict(
        struct.unpack_from("<II", digits, blocks + layout.BLOCK.size * n)
        for n in range(model_member(digits, "block_count"))
    )
    for cut in (0, 4, 8, 100, sizes[stream] // 2, sizes[stream] - 4):
        moved = digits + digits[stream : stream + sizes[stream] - cut]
        moved = changed(moved, layout.FILE.members["size"].start, "<I", len(moved))
        found, refusal = loaded(loader, changed(moved, params, "<I", len(digits)))
        assert found == (-errno.EBADMSG if cut else 0)
        assert not cut or (refusal.what, refusal.index) == (b"parameters of layer", 1)


@pytest.mark.parametrize(
    "table", [t for t in layout.TABLES if t.label != "blocks"], ids=lambda table: table.label
)
def test_a_table_may_end_where_the_container_does(
    loader: ctypes.CDLL, digits: bytes, table: layout.Table
) -> None:
    """Each one, moved to the end of the container, or followed by anything; an entry less is too
    few."""
    count = model_member(digits, table.count)
    start = model_member(digits, table.label)
    assert count > 0
    front = digits + bytes(-len(digits) % layout.ALIGN)
    for entries, behind, wanted in ((count, 0, 0), (count, 64, 0), (count - 1, 0, -errno.EBADMSG)):
        moved = front + digits[start : start + table.size * entries] + b"\xff" * behind
        moved = changed(moved, layout.FILE.members["size"].start, "<I", len(moved))
        found, refusal = loaded(loader, of_model(moved, table.label, len(front)))
        assert found == wanted
        assert wanted == 0 or refusal.what.decode() == table.label.replace("_", " ")


# Input rows, stride and dilation along them, rows of padding below.
BELOW = ((6, 1, 1, 0), (6, 1, 1, 1), (6, 1, 2, 1), (6, 2, 3, 2), (7, 2, 2, 1), (6, 1, 3, 2))


@pytest.mark.parametrize(("height", "stride", "dilation", "below"), BELOW)
def test_a_row_of_padding_takes_scratch_if_a_window_reads_it(
    loader: ctypes.CDLL, height: int, stride: int, dilation: int, below: int
) -> None:
    """Of a kernel without a tile, whose row does not fit on the stack."""
    channels, width = 64, 5
    b = Builder(np.random.default_rng(1))
    window = Window((2, width), (stride, 1), (dilation, 1), (0, 0, below, 0))
    weights, rows = np.ones((4, 2, width, channels), np.int8), window.out_size(0, height)
    op = Conv2D(weights, np.zeros(4, np.int32), window, FixedPoint.of(np.full(4, 0.001)))
    y = b.node(op, [b.input((height, width, channels))], (rows, 1, 4))
    plan = disjoint(b.graph([y.name]), Form.DIRECT)
    image = container.of_tables(write_tables(plan, "m").files, "m")
    assert loaded(loader, image)[0] == 0 and b"vmcu_dense\0" in image
    on_stack = layout.CONSTANTS["VMCU_SCRATCH_ON_STACK"]
    error, refusal = loaded(loader, of_table(image, "layers", 0, "scratch", on_stack))
    is_read = (rows - 1) * stride + dilation >= height
    assert error == (-errno.EBADMSG if is_read else 0)
    assert not is_read or refusal.what == b"parameters of layer"


@pytest.mark.parametrize("seed", range(8))
def test_scratch_may_end_where_the_pool_does(loader: ctypes.CDLL, seed: int) -> None:
    """Of any layer and form; a byte less is too little."""
    kinds = set()
    for kind in LAYERS:
        graph = random_layers(kind, 1, seed)
        top = -(-sum(tensor.bytes for tensor in graph.tensors.values()) // 4) * 4
        for form in Form:
            if form is not Form.USUAL and not serves(graph, graph.nodes[0], form):
                continue
            plan = disjoint(graph, form)
            needed = next(iter(plan.steps)).bind(graph).scratch_bytes
            if needed:
                image = container.of_tables(write_tables(plan, "m").files, "m")
                image = of_table(image, "layers", 0, "scratch", top)
                assert loaded(loader, of_model(image, "pool_bytes", top + needed))[0] == 0, kind
                error, _ = loaded(loader, of_model(image, "pool_bytes", top + needed - 1))
                assert error == -errno.EBADMSG, kind
                kinds.add(kind)
    assert len(kinds) >= 5
