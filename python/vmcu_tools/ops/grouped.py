# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers with weights of 4 or 8 bits and a scale for each group of inputs.

A group can have a zero point. Weights of 8 bits are two of 4 bits each, w = 16 hi + lo + 8, so that
the same kernels read them, and their zero points differ by 8.

The scales of a channel are multiples of one unit. Where 8 bits hold all multiples exactly, as
`vmcu quantize` makes them, sums are integers without any rounding. Other scales become multipliers
of 16 bits, which are off by at most 2**-16 of the channel's largest scale. So do scales of both
signs in a channel, as ONNX Runtime's quantiser writes them.

Order of access: pixel by pixel, four output channels at a time; all taps are read before these are
written.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import Op, Window
from ..kernels.integer_scale import IntegerScale, integer_scale
from ..kernels.pack import NIBBLE_ACCUMULATOR, fill, lanes, woven
from ..kernels.targets import PORTABLE, packings
from ..kernels.targets.portable.grouped import FRACTION
from ..quant import INT8_MAX, INT8_MIN, FloatScale, requantize, wrap_int32
from .biases import Biases
from .binding import Binding
from .mac import WORD, accumulate, kernel_type, requant_bytes
from .once import Made, once
from .rates import DENSE
from .window import WindowLayer, window_fields

# The largest multiplier of each kernel.
COARSE, FINE = 255, 32767
# By how much a float32 scale may miss a multiple of a float32 unit.
ROUNDING = 2.0**-22
# The limit of sums, biases included.
MOST_SUM = 1 << 31
# Of an output step, the error of rounding a bias to the unit of its sums that is aimed at, and the
# one that is refused.
BIAS_ERROR, MOST_ERROR = 0.05, 0.06

for _packing in packings():
    if _packing.has_groups:
        kernel_type("grouped", _packing, "grouped(c, {packing}, 1U, false)")
        kernel_type("grouped_fine", _packing, "grouped(c, {packing}, 2U, false)")
        kernel_type("grouped_zeros", _packing, "grouped(c, {packing}, 2U, true)")


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Scales as multiples of a unit of their channel. values: int64 (N, groups); units: float64
    (N,), of the sums that `fine` cuts the lowest FRACTION bits off; biases: float64 (N,),
    integers in these units; error: in output steps, the largest error of the biases and such a
    cut."""

    values: np.ndarray
    units: np.ndarray
    biases: np.ndarray
    error: float
    fine: bool


@dataclass(frozen=True, eq=False)
class GroupedDense(Op):
    """Applied to each pixel's K values. weights int8 (N, K) of `bits` bits; multipliers int64
    (N, groups), one for each K / groups weights; bias int32 (N,). fine: sums of products and
    multipliers lose their lowest FRACTION bits, rounded half up, before the bias is added.
    zeros: int64 (N, groups), which weights are less than what they stand for; None: all zero."""

    clamps = True

    weights: np.ndarray
    multipliers: np.ndarray
    bias: np.ndarray
    requant: FloatScale
    fine: bool
    zeros: np.ndarray | None = None
    bits: int = 4

    @property
    def factors(self) -> np.ndarray:
        """Weights times their multipliers, int64 (N, K)."""
        groups = in_groups(self.weights, self.zeros, self.multipliers.shape)
        products: np.ndarray = (groups * self.multipliers[:, :, None]).reshape(self.weights.shape)
        return products


def in_groups(weights: np.ndarray, zeros: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    """What weights (N, K) with zero points stand for, int64 (N, groups, K / groups). shape:
    (N, groups)."""
    groups = weights.reshape(*shape, -1).astype(np.int64)
    return groups if zeros is None else groups + zeros[:, :, None]


def multipliers_of(
    weights: np.ndarray, scales: np.ndarray, real: np.ndarray, step: float
) -> Multipliers:
    """Multipliers for integers (N, K) with scales float32 (N, groups), which may be negative.

    real: biases float64 (N,), and step: the output's scale, in units of the input's scale."""
    largest = np.abs(scales).max(axis=1).astype(np.float64)
    ratios = scales / largest[:, None]
    sizes = np.abs(weights.astype(np.int64)).reshape(*scales.shape, -1).sum(axis=2)
    reach = (np.abs(ratios) * sizes).sum(axis=1) * (INT8_MAX - INT8_MIN)
    # One sign of a whole channel can be that of its unit.
    signs = np.where((scales <= 0).all(axis=1), -1.0, 1.0)
    least = _exact_multiple(np.abs(ratios))
    if least.all():
        most = _finer(least, reach, real / largest, step / largest)
        units = signs * largest / most
        if (most * reach + np.abs(real / units) < MOST_SUM).all():
            values = np.rint(ratios * (signs * most)[:, None]).astype(np.int64)
            biases = np.rint(real / units)
            error = float((np.abs(real - biases * units) / step).max())
            return Multipliers(values, units, biases, error, False)
    most = np.full(len(scales), FINE)
    while True:
        units = largest / most * (1 << FRACTION)
        sums = most * reach / (1 << FRACTION) + np.abs(real / units)
        beyond = (sums >= MOST_SUM) & (most > 1)
        if not beyond.any():
            break
        most = np.where(beyond, most // 2, most)
    values = np.rint(ratios * most[:, None]).astype(np.int64)
    # Half a unit for the cut, and half a unit for the bias.
    return Multipliers(values, units, np.rint(real / units), float((units / step).max()), True)


def _finer(least: np.ndarray, reach: np.ndarray, real: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Multiples of `least` (N,), at most COARSE, whose units miss the biases by little enough. All
    others in units of a channel's largest scale: the reach of its sums, biases and output steps."""
    chosen, missed = least.copy(), np.full(len(least), np.inf)
    for factor in range(1, COARSE + 1):
        most = least * factor
        error = np.abs(real - np.rint(real * most) / most) / step
        fits = (most <= COARSE) & (most * (reach + np.abs(real)) < MOST_SUM)
        better = fits & (missed > BIAS_ERROR) & (error < missed)
        chosen, missed = np.where(better, most, chosen), np.where(better, error, missed)
    return chosen


def _exact_multiple(ratios: np.ndarray) -> np.ndarray:
    """Finds for each channel the smallest multiplier of the largest scale, at most COARSE, with
    which all ratios (N, groups) become integers; 0 where there is none."""
    chosen = np.zeros(len(ratios), np.int64)
    for most in range(COARSE, 0, -1):
        products = ratios * most
        near = np.abs(products - np.rint(products)) <= ROUNDING * products
        chosen = np.where(near.all(axis=1), most, chosen)
    return chosen


class GroupedDenseLayer(WindowLayer[GroupedDense], op=GroupedDense):
    rates = DENSE
    block = 1

    def __init__(self, *arguments: Any, **more: Any):
        super().__init__(*arguments, **more)
        # Any core reads the layout of portable C.
        others = (self.target.int4, PORTABLE.int4)
        self.target = next(one for one in others if one and one.packing.has_groups)

    @property
    def window(self) -> Window:
        return Window()

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        op = self.op
        taps = data[0][y0:y1].astype(np.int64) - self.ins[0].zero_point
        sums = accumulate(taps, op.factors.T, np.zeros(len(op.bias), np.int64))
        acc = wrap_int32(self._rounded(sums) + op.bias)
        return requantize(acc, op.requant, self.out.zero_point, op.act_min, op.act_max)

    def _rounded(self, sums: np.ndarray) -> np.ndarray:
        return sums + (1 << FRACTION - 1) >> FRACTION if self.op.fine else sums

    @functools.cached_property
    def ends(self) -> np.ndarray:
        """The least and the largest sums, int64 (2, N)."""
        factors, zero = self.op.factors, self.ins[0].zero_point
        ends = [factors * (byte - zero) for byte in (INT8_MIN, INT8_MAX)]
        sums = [extreme(*ends).sum(axis=1) for extreme in (np.minimum, np.maximum)]
        limits: np.ndarray = self._rounded(np.array(sums)) + self.op.bias
        return limits

    @functools.cached_property
    def is_coarse(self) -> bool:
        """True if the kernel with sums of 32 bits is exact, which may have them 16 times too
        large."""
        small = bool(np.abs(self.ends).max() < NIBBLE_ACCUMULATOR)
        plain = not self.op.fine and self.op.zeros is None
        return plain and small and bool(self.op.multipliers.min() >= 0)

    def _stream(self) -> bytes:
        op = self.op
        whole = (op.act_min, op.act_max) == (INT8_MIN, INT8_MAX)
        low, high = self.ends
        line = integer_scale(op.requant.scale, self.out.zero_point, low, high, whole)
        starts = op.bias.astype(np.int64)
        multipliers = op.multipliers
        if self.is_coarse:
            zero = self.ins[0].zero_point * op.factors.sum(axis=1)
            starts = wrap_int32(starts - zero).astype(np.int32)
            multipliers = multipliers.astype(np.uint8)
        else:
            shift = 0 if op.fine else FRACTION
            zero = self.ins[0].zero_point * (op.factors.sum(axis=1) << shift)
            starts = (starts << FRACTION) + (1 << FRACTION - 1) - zero
            multipliers = (multipliers << shift).astype(np.int16)
        return self._blocks(starts, multipliers, line)

    def _blocks(self, starts: np.ndarray, multipliers: np.ndarray, line: IntegerScale) -> bytes:
        """The stream; where sums start, multipliers and factors by channel."""
        op, packing = self.op, self.target.packing
        count, groups = multipliers.shape
        size = packing.dense
        zeros, parts = op.zeros, [op.weights]
        if op.bits > packing.bits:
            assert zeros is not None
            parts, zeros = [op.weights >> 4, (op.weights & 15) - 8], zeros + 8
        runs = [part.reshape(count, groups, -1) for part in parts]
        stream = []
        for first in range(0, count, size):
            pick = slice(first, first + size)
            stream.append(fill(starts[pick], size))
            if zeros is not None:
                sums = multipliers[pick].astype(np.int32) * zeros[pick].astype(np.int32)
                stream += [fill(sums[:, group], size) for group in range(groups)]
            for part, group in itertools.product(runs, range(groups)):
                taps = fill(lanes(part[pick, group, None], packing, packing.lanes), size)
                stream += [woven(taps, packing), fill(multipliers[pick, group], size)]
            stream += [fill(line.multiplier[pick], size), fill(line.word[pick], size)]
        return b"".join(np.ascontiguousarray(part).tobytes() for part in stream)

    @functools.cached_property
    def binding(self) -> Binding:
        op = self.op
        run, groups = op.weights.shape[1], op.multipliers.shape[1]
        depth = run * op.bits // self.target.packing.bits
        fields = {
            **window_fields(self.window),
            **{"groups": groups, "depth": depth, "run": run, "packed": 0, "is_float": 1},
            "steps": run // groups // self.target.packing.lanes,
            **self.zeros,
            **self.bounds,
        }
        values = (op.act_min, op.act_max, *self.zeros.values(), op.fine, op.bits)
        constants = (op.weights, op.multipliers, op.bias, op.requant, op.zeros)
        stream = once(Made(constants, values, self._stream))
        kind = "fine" if op.zeros is None else "zeros"
        program = self.program("grouped" if self.is_coarse else f"grouped_{kind}")
        blocks = -(-len(op.bias) // self.target.packing.dense)
        return Binding(program, fields, stream, lines=(len(stream) // WORD // blocks,))

    def biases(self) -> Biases:
        # Of sums, those beyond float32 round in the runtime, too.
        return Biases(np.zeros(len(self.op.bias), bool))

    @property
    def macs(self) -> int:
        return self.out.shape[0] * self.out.shape[1] * int(self.op.weights.size)

    @property
    def weight_bytes(self) -> int:
        op = self.op
        each = 1 if self.is_coarse else 2 * op.bits // 4
        each += 0 if op.zeros is None else 4
        constants = 4 * len(op.bias) + requant_bytes(op.requant)
        return int(op.weights.size * op.bits // 8 + each * op.multipliers.size + constants)
