# SPDX-License-Identifier: Apache-2.0
"""Attention of several heads, row by row: a row of the first input asks, rows of the second answer
how well they fit, and those of the third are added up accordingly.

Order of access: head by head, ascending: reads the head's part of the row that asks and of all
keys that it sees; then, some channels after the others, reads those of all values and writes them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op, Window
from ..kernels.softmax import softmax_onnx, softmax_tflite
from ..quant import INT8_MAX, INT8_MIN, FloatSum, Requant, requantize, wrap_int32
from .add import FLOAT_SUM
from .kernel_type import KernelType
from .layer import NEVER, Layer
from .product import PRODUCT, product_fields
from .rates import Rates
from .reach import Reach
from .softmax import Softmax
from .values import Array, CStruct, Kernel, Struct, StructArray, Value
from .window import WINDOW, window_rows, window_values

MOST_HEADS, MOST_ROWS = 256, 4096
# Channels of values that are added up side by side, where there are as many; else half of them.
SIDE_BY_SIDE = 8
assert WINDOW and PRODUCT
PARAMS = CStruct(
    "vmcu_attention_params",
    """
	const uint32_t *exp;              /**< as of struct vmcu_softmax_params */
	const int8_t *table;              /**< a score's byte plus 128: the score; NULL: as it is */
	const int8_t *score_bias;         /**< added to scores; NULL: nothing, or input 3 */
	const struct vmcu_float_sum *sum; /**< how; NULL: nothing is added */
	struct vmcu_window window;        /**< rows of inputs 1 and 2 that row y sees */
	struct vmcu_product scores;
	struct vmcu_product output;
	uint32_t gain;      /**< as of softmax; 0: vmcu_softmax_tflite() */
	uint16_t bias_head; /**< bytes of it from a head to the next, 0: one for all */
	uint16_t bias_row;  /**< bytes of it from a row to the next, 0: one for all */
	uint16_t heads;     /**< of input 0 and of the output */
	uint16_t sharing;   /**< heads that share keys and values */
	int8_t weight_zero;
	int8_t mask_pad;   /**< input 3 where rows are not there */
	uint8_t mask_rows; /**< 1: input 3 has a byte in each row under the window, 0: in its own */
""",
    declares="""
/**
 * @brief Computes attention: softmax of queries times keys, times values, for each head.
 *
 * A row of input 0 has a query for each head, rows of inputs 1 and 2 have keys and values. Row y
 * sees those rows of its window that are there; all others have scores of 0 and are not added.
 * For each head, ascending: reads its query and all keys that it sees. Then for each eight
 * channels, then four, then the rest: reads them of all values, then writes them.
 * Input 3, if it is there, is the bias: read for each head before its query.
 * Scratch memory: a byte for each row of the window, two with @a mask_rows.
 */
void vmcu_attention(const struct vmcu_call *call);
""",
)
KERNEL = KernelType("vmcu_attention", PARAMS, reads="ATTENDED", check="vmcu_check_attention(c)")


@dataclass(frozen=True, eq=False)
class Attention(Op):
    """Queries (M, 1, heads * D) over keys (T, 1, heads / sharing * D) and values (T, 1, heads /
    sharing * N): (M, 1, heads * N). `sharing` heads next to each other have the same keys.

    Row y of the output sees the rows under `window`, one pixel wide; those outside are zeros. The
    bytes of the scores are `scores` of the products with zero point `scores_zero`; where they are
    there, those that `table` (256,) has for them, and the `sum` with `score_bias`, int8 (1 or
    heads, 1 or M, T), or with a fourth input: (1 or M, 1, T or heads * T), or, with `mask_pad`, one
    byte in each row under the window, `mask_pad` outside. Softmax gives weights with zero point
    `weight_zero`; `requant` brings weights times values to the output's scale.
    """

    data_dependent = "weights as in Softmax, float sums as in Add; up to 1.4 times as many"
    clamps = True
    # As of Softmax.
    differing_share = 0.4

    heads: int
    sharing: int
    window: Window
    scores: Requant
    scores_zero: int
    softmax: Softmax
    weight_zero: int
    requant: Requant
    table: np.ndarray | None = None
    score_bias: np.ndarray | None = None
    sum: FloatSum | None = None
    mask_pad: int | None = None


class AttentionLayer(Layer[Attention], op=Attention):
    rates = Rates(call=900, mac=7.5, byte=95, floating=0)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        return np.stack([self._row(data, y) for y in range(y0, y1)])

    def _row(self, data: Sequence[np.ndarray], y: int) -> np.ndarray:
        op, zero = self.op, self.out.zero_point
        query = (data[0][y].astype(np.int64) - self.ins[0].zero_point).reshape(op.heads, -1)
        keys, values = (self._seen(data[index], index, y) for index in (1, 2))
        acc = wrap_int32(np.einsum("hd,thd->ht", query, keys))
        scores = requantize(acc, op.scores, op.scores_zero, INT8_MIN, INT8_MAX).astype(np.int64)
        if op.table is not None:
            scores = op.table[scores - INT8_MIN].astype(np.int64)
        if op.score_bias is not None:
            assert op.sum is not None
            bias = op.score_bias[:, y if op.score_bias.shape[1] > 1 else 0]
            scores = np.clip(op.sum.apply(scores, bias), INT8_MIN, INT8_MAX)
        elif op.sum is not None:
            scores = np.clip(op.sum.apply(scores, self._mask(data[3], y)), INT8_MIN, INT8_MAX)
        weights = self._weights(scores) - op.weight_zero
        acc = wrap_int32(np.einsum("ht,thn->hn", weights, values))
        return requantize(acc, op.requant, zero, op.act_min, op.act_max).reshape(1, -1)

    def _seen(self, rows: np.ndarray, index: int, y: int) -> np.ndarray:
        """Keys or values under the window, less their zero point, (T, heads, D)."""
        op = self.op
        at = op.window.first(0, y) + np.arange(op.window.kernel[0])
        inside = (at >= 0) & (at < len(rows))
        values = rows[np.clip(at, 0, len(rows) - 1)].astype(np.int64) - self.ins[index].zero_point
        values[~inside] = 0
        parts = values.reshape(len(at), op.heads // op.sharing, -1)
        return parts.repeat(op.sharing, axis=1)

    def _mask(self, rows: np.ndarray, y: int) -> np.ndarray:
        """The bias of a row's scores, (1 or heads, T)."""
        count = self.op.window.kernel[0]
        if self.op.mask_pad is None:
            row: np.ndarray = rows[y if len(rows) > 1 else 0].reshape(-1, count)
            return row
        at = self.op.window.first(0, y) + np.arange(count)
        inside = (at >= 0) & (at < len(rows))
        seen = rows[np.clip(at, 0, len(rows) - 1)].ravel()
        return np.where(inside, seen, self.op.mask_pad)[None]

    def _weights(self, scores: np.ndarray) -> np.ndarray:
        softmax = self.op.softmax
        if softmax.exact_shares:
            shares = softmax_onnx(scores, softmax.exp, softmax.gain, self.op.weight_zero)
        else:
            shares = softmax_tflite(scores, softmax.exp)
        weights: np.ndarray = np.clip(shares, INT8_MIN, INT8_MAX)
        return weights

    def input_rows(self, index: int, y: int) -> range:
        if self._by_row(index):
            row = y if self.ins[index].shape[0] > 1 else 0
            return range(row, row + 1)
        return window_rows(self.op.window, self.ins[index].shape[0], y)

    def reach(self, index: int) -> Reach:
        if index == 3 and self.ins[3].shape[0] < self.out.shape[0]:
            return Reach((0, 1), (0, 0), (0, 0))
        return Reach.shifted() if self._by_row(index) else Reach.window(self.op.window)

    def _by_row(self, index: int) -> bool:
        """True if a query reads the row of its own number of an input."""
        return index == 0 or (index == 3 and self.op.mask_pad is None)

    @functools.cached_property
    def _groups(self) -> np.ndarray:
        """Returns for each channel of a head's values the number of its group, whose channels
        are added up together."""
        channels = np.arange(self.out.shape[2] // self.op.heads)
        eights = len(channels) // SIDE_BY_SIDE * SIDE_BY_SIDE
        behind = (channels - eights) // (SIDE_BY_SIDE // 2) + eights // SIDE_BY_SIDE
        return np.where(channels < eights, channels // SIDE_BY_SIDE, behind)

    @property
    def _ticks(self) -> int:
        """Counts the ticks of a head."""
        return int(self._groups[-1]) + 1

    @property
    def ticks_per_row(self) -> int:
        return self.op.heads * self._ticks

    def writes(self) -> np.ndarray:
        rows = np.arange(self.out.shape[0], dtype=np.int64)[:, None, None] * self.ticks_per_row
        ticks: np.ndarray = rows + self._in_row(self._groups, 1)
        return ticks

    def _in_row(self, groups: np.ndarray, sharing: int) -> np.ndarray:
        """Returns for each channel of a row of heads, each of which so many share, the tick of
        the last of these; groups: by channel of one of them."""
        heads = np.arange(self.op.heads // sharing, dtype=np.int64) * sharing + sharing - 1
        ticks: np.ndarray = (heads[:, None] * self._ticks + groups).ravel()
        return ticks

    def _read(self, index: int) -> np.ndarray:
        """Returns for each channel of an input's row the tick of its last read while a row is
        made."""
        if index == 3 and self.ins[3].shape[2] <= self.op.window.kernel[0]:
            tick = 0 if self.op.mask_pad is not None else (self.op.heads - 1) * self._ticks
            return np.full(self.ins[3].shape[2], tick, np.int64)
        heads = self.op.heads // (self.op.sharing if index in (1, 2) else 1)
        first = np.zeros(self.ins[index].shape[2] // heads, np.int64)
        return self._in_row(self._groups if index == 2 else first, self.op.heads // heads)

    def last_reads(self, index: int) -> np.ndarray:
        last = np.full(self.ins[index].shape[0], NEVER, np.int64)
        for y in range(self.out.shape[0]):
            seen = self.input_rows(index, y)
            last[seen.start : seen.stop] = y
        ticks: np.ndarray = last[:, None, None] * self.ticks_per_row + self._read(index)
        ticks[last < 0] = NEVER
        return ticks

    def reads_in_call(self, index: int, x: int, columns: int) -> np.ndarray | None:
        return self._read(index)[None]

    def writes_in_call(self, x: int, columns: int) -> np.ndarray | None:
        return self._in_row(self._groups, 1)[None]

    @property
    def by_rows(self) -> bool:
        bias = self.op.score_bias
        return self.op.window.stride[0] == 1 and (bias is None or bias.shape[1] == 1)

    @property
    def macs(self) -> int:
        depth = self.ins[0].shape[2] + self.out.shape[2]
        return self.out.shape[0] * self.op.window.kernel[0] * depth

    @property
    def scratch_bytes(self) -> int:
        return self.op.window.kernel[0] * (1 if self.op.mask_pad is None else 2)

    @property
    def weight_bytes(self) -> int:
        op = self.op
        return 4 * op.softmax.exp.size + sum(
            a.size for a in (op.table, op.score_bias) if a is not None
        )

    @property
    def kernel(self) -> Kernel:
        op = self.op
        query, keys, values, *_ = (tensor.zero_point for tensor in self.ins)
        window = window_values(op.window.kernel, op.window.stride, (1, 1), op.window.pad[:2])
        fields: dict[str, Value] = {"exp": Array("exp", op.softmax.exp.astype(np.uint32))}
        if op.table is not None:
            fields["table"] = Array("table", op.table.astype(np.int8))
        if op.score_bias is not None:
            heads, rows, seen = op.score_bias.shape
            fields["score_bias"] = Array("bias", op.score_bias.astype(np.int8))
            fields["bias_head"] = rows * seen if heads > 1 else 0
            fields["bias_row"] = seen if rows > 1 else 0
        elif op.sum is not None:
            seen = op.window.kernel[0]
            fields["bias_head"] = seen if self.ins[3].shape[2] > seen else 0
            fields["bias_row"] = int(self.ins[3].shape[0] == self.out.shape[0])
            fields["mask_rows"] = int(op.mask_pad is not None)
            fields["mask_pad"] = op.mask_pad or 0
        if op.sum is not None:
            fields["sum"] = StructArray("sum", (FLOAT_SUM(**op.sum.fixed()),))
        limits = (op.scores_zero, INT8_MIN, INT8_MAX)
        last = (self.out.zero_point, op.act_min, op.act_max)
        zeros, depth = (op.weight_zero, values), self.ins[0].shape[2] // op.heads
        return KERNEL(
            window=Struct("", dict(window)),
            scores=Struct("", dict(product_fields(op.scores, (query, keys), limits, depth))),
            output=Struct("", dict(product_fields(op.requant, zeros, last, op.window.kernel[0]))),
            gain=op.softmax.gain if op.softmax.exact_shares else 0,
            heads=op.heads,
            sharing=op.sharing,
            weight_zero=op.weight_zero,
            **fields,
        )
