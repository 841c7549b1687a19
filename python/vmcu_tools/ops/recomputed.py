# SPDX-License-Identifier: Apache-2.0
"""A layer and the window behind it as one: the rows between are recomputed wherever a window sees
them, as in the fused kernel of the vMCU paper (section 5.2), so that no line buffer holds them.

No file has it: `planner/stages/recomputation.py` puts it in place of two layers where that needs
less RAM.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..graph import Graph, Node, Op, Tensor
from .layer import NEVER, SCRATCH_ALIGN, STACK_SCRATCH, Cost, Layer, ProgramLayer
from .reach import Reach
from .values import CStruct, Kernel, Struct

PARAMS = CStruct(
    "vmcu_recomputed_params",
    """
	struct vmcu_mac_params inner; /**< parameters of the first layer */
	struct vmcu_mac_params outer; /**< parameters of the second layer, which has the window */
	vmcu_kernel_t inner_kernel;
	vmcu_kernel_t outer_kernel;
	uint32_t ring;    /**< bytes of the inner tensor's ring buffer, at the scratch's start */
	uint32_t scratch; /**< offset of the kernels' scratch in it; 0: on the stack */
	uint16_t height;  /**< height, width and channels of the tensor between the layers */
	uint16_t width;
	uint16_t channels;
	uint16_t columns; /**< output columns that are computed together */
	bool by_pixel;    /**< the first layer reads one pixel for each pixel */
""",
    before="""
/** Two layers, and the shape of the tensor between them. */
""",
    declares="""
/**
 * @brief Computes two layers, and recomputes the first one for each few columns of the second.
 *
 * For each @a columns pixels of the output: computes the pixels of their windows row by row, then
 * the windows. Scratch memory is in the pool. Containers do not support it.
 */
void vmcu_recomputed(const struct vmcu_call *call);
""",
)


@dataclass(frozen=True, eq=False)
class Recomputed(Op):
    """`inner` makes tensor `between`, `outer`, with a window, the output from it: both ops with
    weights, struct vmcu_mac_params and calls by columns. columns: of the output that are made at a
    time."""

    clamps = True

    inner: Op
    outer: Op
    between: Tensor
    columns: int

    @property
    def requantisers(self) -> set[str]:
        return self.inner.requantisers | self.outer.requantisers


class RecomputedLayer(Layer[Recomputed], op=Recomputed):
    by_columns = addressed = True

    def __init__(self, graph: Graph, node: Node, *more: Any, **named: Any):
        super().__init__(graph, node, *more, **named)
        op, name = self.op, self.op.between.name
        sub = replace(graph, tensors={**graph.tensors, name: op.between})
        outer = Node(f"{node.name}: outer", op.outer, (name,), node.outputs)
        inner = Node(f"{node.name}: inner", op.inner, node.inputs, (name,))
        self.outer = _bound(sub, outer, min(op.columns, self.columns))
        self.inner = _bound(sub, inner, self._widest)

    @functools.cached_property
    def _widest(self) -> int:
        """The most columns between that a piece sees, wherever a split call makes it begin."""
        reach, width, stop = self.outer.reach(0), self.op.between.shape[1], self.out.shape[1]
        ends = (min(x + self.op.columns, stop) - 1 for x in range(stop))
        return max(1, *(len(reach.span(1, x, last, width)) for x, last in enumerate(ends)))

    def _seen(self, columns: int) -> Iterator[range]:
        """Yields for a row in calls of so many columns those between that each piece of a call
        sees."""
        reach, width = self.outer.reach(0), self.op.between.shape[1]
        for x in range(0, self.out.shape[1], columns):
            stop = min(x + columns, self.out.shape[1])
            for first in range(x, stop, self.op.columns):
                last = min(first + self.op.columns, stop) - 1
                yield reach.span(1, first, last, width)

    @property
    def fewest(self) -> int:
        return self.op.columns

    @property
    def block(self) -> int:  # type: ignore[override]
        return self.fewest

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        between = np.zeros(self.op.between.shape, np.int8)
        seen = [y for row in range(y0, y1) for y in self.outer.input_rows(0, row)]
        if seen:
            first, stop = min(seen), max(seen) + 1
            between[first:stop] = self.inner.rows(data, first, stop)
        return self.outer.rows([between], y0, y1)

    def input_rows(self, index: int, y: int) -> range:
        seen = [self.inner.input_rows(index, row) for row in self.outer.input_rows(0, y)]
        rows = [row for some in seen for row in some]
        return range(min(rows), max(rows) + 1) if rows else range(0)

    def reach(self, index: int) -> Reach:
        near, far = self.outer.reach(0), self.inner.reach(index)

        def both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
            down, across = (a * s + b for a, s, b in zip(one, far.stride, other, strict=True))
            return down, across

        none = (0, 0)
        return Reach(
            both(near.stride, none), both(near.before, far.before), both(near.after, far.after)
        )

    # A pixel is written in no earlier piece than those that read for the pixels in front of it, in
    # whatever pieces a call is made: as if each were one column.

    @property
    def ticks_per_row(self) -> int:
        return self.out.shape[1]

    @functools.cached_property
    def _last_columns(self) -> np.ndarray:
        """Returns for each column of the input the output's last column that is made of it;
        NEVER if none is."""
        reach, width = self.reach(0), self.ins[0].shape[1]
        last = np.full(width, NEVER, np.int64)
        for x in range(self.out.shape[1]):
            part = reach.span(1, x, x, width)
            last[part.start : part.stop] = x
        return last

    def last_reads(self, index: int) -> np.ndarray:
        rows = np.full(self.ins[0].shape[0], NEVER, np.int64)
        for y in range(self.height):
            part = self.input_rows(0, y)
            rows[part.start : part.stop] = y
        rows, columns = rows[:, None, None], self._last_columns[None, :, None]
        times = np.where((rows < 0) | (columns < 0), NEVER, rows * self.ticks_per_row + columns)
        return np.broadcast_to(times, self.ins[0].shape)

    def writes(self) -> np.ndarray:
        ticks = np.arange(self.height * self.ticks_per_row, dtype=np.int64)
        return np.broadcast_to(ticks.reshape(self.height, -1, 1), self.out.shape)

    def reads_in_call(self, index: int, x: int, columns: int) -> np.ndarray | None:
        reach, width = self.reach(0), self.ins[0].shape[1]
        part = reach.span(1, x, x + columns - 1, width)
        last = np.full(width, NEVER, np.int64)
        last[part.start : part.stop] = self._last_columns[part.start : part.stop] - x
        # Columns between windows are never read.
        last = np.clip(last, NEVER, columns - 1)
        return np.broadcast_to(last[:, None], self.ins[0].shape[1:])

    def writes_in_call(self, x: int, columns: int) -> np.ndarray | None:
        ticks = np.full(self.out.shape[1], NEVER, np.int64)
        ticks[x : x + columns] = np.arange(columns)
        return np.broadcast_to(ticks[:, None], self.out.shape[1:])

    @functools.cached_property
    def ring_pixels(self) -> int:
        """Counts the pixels of the ring between: the fewest in which the rows of a piece do not
        meet."""
        height, width, _ = self.op.between.shape
        rows = max((self.outer.input_rows(0, y) for y in range(self.height)), key=len)
        count, long = max(len(rows), 1), self._widest
        apart = np.arange(count) * rows.step * width
        for ring in range(count * long, height * width):
            places = np.sort(apart % ring)
            gaps = np.diff([*places, places[0] + ring])
            if gaps.min() >= long:
                return ring
        return height * width

    @property
    def _kernels_at(self) -> int:
        """Returns the offset in scratch of the kernels' own; 0 on the stack."""
        if max(self.inner.scratch_bytes, self.outer.scratch_bytes) <= STACK_SCRATCH:
            return 0
        return -(-self._ring // SCRATCH_ALIGN) * SCRATCH_ALIGN

    @property
    def _ring(self) -> int:
        return self.ring_pixels * self.op.between.shape[2]

    @property
    def scratch_bytes(self) -> int:
        if not self._kernels_at:
            return self._ring
        return self._kernels_at + max(self.inner.scratch_bytes, self.outer.scratch_bytes)

    @property
    def parts(self) -> dict[str, ProgramLayer[Any]]:
        return {"inner": self.inner, "outer": self.outer}

    @property
    def kernel(self) -> Kernel:
        height, width, channels = self.op.between.shape
        params = PARAMS(
            inner=Struct("", self.inner.binding.members("inner_stream")),
            outer=Struct("", self.outer.binding.members("outer_stream")),
            inner_kernel=self.inner.symbol,
            outer_kernel=self.outer.symbol,
            ring=self._ring,
            scratch=self._kernels_at,
            height=height,
            width=width,
            channels=channels,
            columns=self.op.columns,
            by_pixel=self.inner.reach(0) == Reach.shifted(),
        )
        return Kernel("vmcu_recomputed", params)

    @property
    def cost(self) -> Cost:
        inner, outer = self.inner.cost, self.outer.cost
        return Cost(inner.per_call + outer.per_call, outer.per_idle)

    def cycles(self, calls: int) -> float:
        pieces = calls * -(-min(self.columns, self.width) // self.op.columns)
        # Rows of a window are one call each, of the columns that a piece sees.
        again = (self.macs - self.outer.macs) / self.inner.macs
        rows = pieces * len(self.outer.input_rows(0, self.height // 2))
        inner = self.inner.rates.call * rows + again * self.inner.cycles(0)
        return self.outer.cycles(pieces) + inner

    @property
    def macs(self) -> int:
        height, width, _ = self.op.between.shape
        rows = sum(len(self.outer.input_rows(0, y)) for y in range(self.height))
        columns = sum(map(len, self._seen(self.columns)))
        return self.outer.macs + self.inner.macs * rows * columns // (height * width)

    @property
    def weight_bytes(self) -> int:
        return self.inner.weight_bytes + self.outer.weight_bytes


def _bound(graph: Graph, node: Node, columns: int) -> ProgramLayer[Any]:
    """A layer of the two. Raises ValueError where it is none that can be one of them."""
    from . import bind

    layer: Any = bind(graph, node, columns=columns)
    able = isinstance(layer, ProgramLayer) and layer.by_columns
    if not able or layer.binding.program.params != "vmcu_mac_params":
        raise ValueError(f"{node.kind} cannot be computed again")
    program_layer: ProgramLayer[Any] = layer
    return program_layer
