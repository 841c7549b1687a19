# SPDX-License-Identifier: Apache-2.0
"""The common parts of convolutions and fully connected layers: weights, a bias, a requantiser, a
window.

Order of access: pixel by pixel, output channel by output channel; all taps of a channel are read
before its byte is written.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..graph import Graph, Node, Op
from ..kernels.language.packing import Packing, packed_shifts
from ..kernels.pack import MacWeights, blocks, lines
from ..kernels.targets import packings
from ..kernels.targets.portable.dense import are_copied
from ..kernels.targets.portable.shapes import NARROW, WIDE, Shape
from ..quant import (
    INT32_MAX,
    INT32_MIN,
    FixedPoint,
    FloatScale,
    Requant,
    requantize,
    wrap_int32,
)
from . import dense_per_tensor
from .biases import Biases, beyond_float32
from .binding import Binding
from .interval import Interval
from .kernel_type import KernelType
from .layer import STACK_SCRATCH, Form, Layer, OpT
from .once import Made, once
from .rates import TILED
from .values import CStruct
from .window import WindowLayer, covered, gather, window_fields

# Taps in a word of a stream.
WORD = 4
PARAMS = CStruct(
    "vmcu_mac_params",
    "const void *stream; struct vmcu_window window; uint16_t groups, depth, run, steps;"
    "int8_t input_zero, output_zero, act_min, act_max; uint8_t is_float, packed;",
)


def kernel_type(name: str, packing: Packing, check: str) -> None:
    """A kernel that reads weights in a packing. check: as KernelType has it, without its prefix."""
    symbol, check = f"vmcu_{name}{packing.suffix}", f"vmcu_check_{check}"
    KernelType(symbol, PARAMS, reads="WINDOW", check=check, packing=packing)


for _packing in packings():
    kernel_type("dense", _packing, "dense(c, {packing})")
    for _name, (_suffix, _shapes) in itertools.product(
        ("pointwise", "conv"), (("", WIDE), ("_narrow", NARROW))
    ):
        _pixels = max(_shapes)
        _size = f"{_pixels}U, {_shapes[_pixels].channels(_packing)}U"
        kernel_type(f"{_name}{_suffix}", _packing, f"{_name}(c, {{packing}}, {_size})")


def requant_bytes(requant: Requant) -> int:
    if isinstance(requant, FixedPoint):
        return requant.multiplier.size * 5
    return requant.scale.size * 8


def repeated(count: int, of: int) -> np.ndarray:
    """Which of `of` channels or taps stand for `count`: the first ones, again and again."""
    return np.arange(count) % of


def accumulate(taps: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(..., K) taps times (K, N) weights plus bias (N,), exact.

    float64 carries sums below 2**53 without rounding and is much faster than integer products.
    """
    acc = taps.astype(np.float64) @ weights.astype(np.float64)
    return acc.astype(np.int64) + bias.astype(np.int64)


@dataclass(frozen=True)
class Reading:
    """kernel: its name; run: taps that are contiguous in the input; tiled: by way of a scratch
    tile; flat: a row of the input is one pixel to it; packed: so many taps, all of a window,
    lie side by side in a tile, 0 where only a run's do; rows: of a window that become one run."""

    kernel: str
    run: int
    tiled: bool = True
    flat: bool = False
    packed: int = 0
    rows: int = 1

    @property
    def side_by_side(self) -> int:
        """Taps behind each other in the stream."""
        return self.packed or self.run * self.rows

    def step(self, packing: Packing) -> int:
        """Taps of a step of the dot product."""
        return packing.step if self.tiled else packing.lanes


class MacLayer(WindowLayer[OpT]):
    """A layer with weights, a bias, a requantiser, a window."""

    rates = TILED

    def __init__(self, *arguments: Any, **more: Any):
        super().__init__(*arguments, **more)
        small = self.target.int4
        if small and self.has_int4 and self.whole_weights().fits_nibbles:
            self.target = small

    @property
    def has_int4(self) -> bool:
        """True if weights may have 4 bits in a stream."""
        return getattr(self.op, "weight_bits", 8) == 4 and self.reading is not None

    @classmethod
    def working(cls, graph: Graph, node: Node, form: Form) -> type[Layer[Any]] | None:
        if form is Form.WIDE:
            usual, wide = cls(graph, node), cls(graph, node, form=form)
            # Of several groups, the later ones of a tile are read after the first is written.
            other = wide.shapes is not usual.shapes and getattr(node.op, "groups", 1) == 1
            return cls if other else None
        return super().working(graph, node, form)

    @property
    def reading(self) -> Reading | None:
        """Returns the reading of its input for a kernel of programs/conv.py or dense.py; None if
        another serves."""
        return None

    @property
    def by_columns(self) -> bool:
        # The dense kernel, which takes whole rows, serves outputs of one column only.
        return self.out.shape[1] > 1

    def finish(self, acc: np.ndarray) -> np.ndarray:
        """Accumulators to int8; like the C kernels they are 32 bits wide and wrap."""
        return requantize(
            wrap_int32(acc), self.op.requant, self.out.zero_point, self.op.act_min, self.op.act_max
        )

    def taps(self, data: np.ndarray, y0: int, y1: int) -> np.ndarray:
        """q - zero_point under output rows y0 .. y1-1, int64 (rows, W, kh, kw, C)."""
        zero = self.ins[0].zero_point
        return gather(data, self.window, self.out.shape[1], y0, y1, zero)[0] - zero

    def tap_weights(self) -> np.ndarray:
        """Weights by output channel and tap, int64 (N, kh, kw, D)."""
        kernel = self.window.kernel
        weights: np.ndarray = self.op.weights.astype(np.int64).reshape(
            len(self.op.bias), *kernel, -1
        )
        return weights

    def tap_channels(self) -> np.ndarray:
        """Which input channel each of them meets, (N, 1, 1, D)."""
        channels, groups = len(self.op.bias), getattr(self.op, "groups", 1)
        depth = self.ins[0].shape[2] // groups
        first = np.arange(channels) // (channels // groups) * depth
        return (first[:, None] + np.arange(depth))[:, None, None]

    def interval(self, ins: Sequence[Interval]) -> Interval:
        ever, outside = covered(self.window, self.ins[0].shape, self.out.shape)
        weights, met = self.tap_weights(), self.tap_channels()
        ends = []
        for values, extreme in ((ins[0].low, np.minimum), (ins[0].high, np.maximum)):
            taps = (values - self.ins[0].zero_point)[met]
            taps = np.where(outside[..., None], extreme(taps, 0), taps)
            ends.append(weights * np.where(ever[..., None], taps, 0))
        sums = [extreme(*ends).sum(axis=(1, 2, 3)) for extreme in (np.minimum, np.maximum)]
        sums = np.array(sums) + self.op.bias
        if sums.min() < INT32_MIN or sums.max() > INT32_MAX:
            return super().interval(ins)
        return Interval.around([self.finish(sums)])

    def foldable(self, source: Interval) -> np.ndarray:
        """Input channels, bool (C,), whose byte is the same under every tap."""
        _, outside = covered(self.window, self.ins[0].shape, self.out.shape)
        if not outside.any():
            return source.constant
        is_foldable: np.ndarray = source.constant & (source.low == self.ins[0].zero_point)
        return is_foldable

    def needed_channels(self, outs: np.ndarray, source: Interval) -> np.ndarray:
        used = (self.tap_weights()[outs] != 0).any(axis=(0, 1, 2))
        wanted: np.ndarray = used & ~self.foldable(source)
        return wanted

    def without(self, outs: np.ndarray, ins: np.ndarray, source: Interval) -> Op:
        weights = self.tap_weights()[outs]
        gone = np.where(ins, 0, source.low - self.ins[0].zero_point)
        bias = self.op.bias[outs] + (weights * gone).sum(axis=(1, 2, 3))
        kept = weights[..., ins].astype(np.int8)
        if self.op.weights.ndim == 2:
            kept = kept[:, 0, 0]
        requant = self.op.requant.pick(np.flatnonzero(outs))
        op: Op = replace(self.op, weights=kept, bias=bias, requant=requant)
        return op

    def ranges(self) -> dict[str, int]:
        """Zero points, bounds and requantiser, as every parameter struct with weights has them."""
        is_float = int(isinstance(self.op.requant, FloatScale))
        return {**self.zeros, **self.bounds, "is_float": is_float}

    @property
    def steps(self) -> int:
        """Counts the steps of a dot product."""
        reading, packing = self.reading, self.target.packing
        assert reading is not None
        runs = self.op.weights[0].size // reading.side_by_side
        taps = runs * packing.padded(reading.side_by_side)
        count: int = -(-taps // reading.step(packing))
        return count

    @property
    def shapes(self) -> Mapping[int, Shape] | None:
        """Returns the shapes of blocks, by pixels: of a wide tile if scratch that costs nothing
        has room for it, or if scratch may cost something; None without a tile."""
        if self.reading is None or not self.reading.tiled:
            return None
        packing = self.target.packing
        size = max(WIDE) * self.steps * packing.step * packing.tap
        enough = self.form is Form.WIDE or size <= STACK_SCRATCH
        return WIDE if enough and self.columns >= max(WIDE) else NARROW

    @property
    def sharing(self) -> int:
        return self.block if self.shapes is None else max(self.shapes)

    @functools.cached_property
    def is_per_tensor(self) -> bool:
        """True if the kernel is the one of layers whose stream has no factors."""
        reading, packing = self.reading, self.target.packing
        if reading is None or reading.kernel != "dense" or any(self.window.pad):
            return False
        alike = self.ins[0].shape[:2] == self.out.shape[:2] and self.out.shape[1] == 1
        shape = self.out.shape[2], reading.run
        serves = self.window.kernel == (1, 1) and dense_per_tensor.serves(packing, *shape)
        return alike and serves and self.whole_weights().has_one_factor(packing)

    @functools.cached_property
    def binding(self) -> Binding:
        if self.is_per_tensor:
            return self._per_tensor()
        op, packing, reading = self.op, self.target.packing, self.reading
        assert reading is not None
        depth, run = op.weights.shape[-1], reading.run
        channels, groups = len(op.bias), getattr(op, "groups", 1)
        taps = op.weights.reshape(channels, -1, reading.side_by_side)
        step, steps, shapes = reading.step(packing), self.steps, self.shapes
        block, kernel, pixels = packing.dense, reading.kernel, 0
        if shapes is not None:
            pixels = max(shapes)
            block = shapes[pixels].channels(packing)
            kernel += "_narrow" * (shapes is NARROW)
        size = channels // groups
        picks = [slice(first, first + size) for first in range(0, channels, size)]
        stream = self.shared_stream(
            lambda: b"".join(
                blocks(self.mac_weights(taps, pick), packing, block, step, reading.tiled)
                for pick in picks
            ),
            (reading, block, step),
        )
        fields = {
            **window_fields(self.window),
            **{"groups": groups, "depth": depth, "run": run, "steps": steps},
            "packed": int(reading.packed > 0),
            **self.ranges(),
        }
        tile = min(pixels, self.out.shape[1]) * steps * step * packing.tap
        if not reading.tiled:
            tile = self._rows_kept(run)
        # A bias, taps and a multiplier for each channel, then a shift.
        words = 2 * block + packing.weight_bytes(block * steps * step) // WORD
        fast, exact = words + packed_shifts(block) // WORD, words + block
        program = self.program(kernel)
        return Binding(program, fields, stream, tile, reading.flat, lines(stream, fast, exact))

    def _per_tensor(self) -> Binding:
        weights, packing = self.whole_weights(), self.target.packing
        size, step = packing.dense, packing.lanes
        stream = self.shared_stream(
            lambda: blocks(weights, packing, size, step, tiled=False, has_factors=False),
            ("per tensor",),
        )
        multiplier, shift = weights.factors(np.array([0]), quick=True)
        fields = {"multiplier": int(multiplier[0]), "shift": int(shift[0])}
        fields["output_zero"] = self.out.zero_point
        words = len(stream) // WORD * size // len(self.op.bias)
        return Binding(self.program("dense_per_tensor"), fields, stream, lines=(words,))

    def _rows_kept(self, run: int) -> int:
        """Bytes of scratch without a tile: of a copy of the window's rows, if that costs nothing
        and lets them be read as one run of whole words, or of a row of padding."""
        rows = self.window.kernel[0]
        if are_copied(rows, run):
            return -(-rows * run // WORD) * WORD
        return run if any(self.window.pad) else 0

    def shared_stream(self, make: Callable[[], bytes], values: tuple[Hashable, ...]) -> bytes:
        """The stream that `make` makes of the op's constants and tensors' zero points; values:
        whatever else it depends on."""
        op = self.op
        same = (type(op), op.act_min, op.act_max, *self.zeros.values(), self.target.packing)
        return once(Made((op.weights, op.bias, op.requant), (*same, *values), make))

    def mac_weights(self, taps: np.ndarray, pick: slice) -> MacWeights:
        """The weights of some output channels; taps (channels, runs, run)."""
        op = self.op
        return MacWeights(
            taps[pick],
            op.bias[pick],
            op.requant.pick(pick),
            self.ins[0].zero_point,
            self.out.zero_point,
            op.act_min,
            op.act_max,
        )

    def whole_weights(self) -> MacWeights:
        """The weights of all output channels."""
        channels = len(self.op.bias)
        return self.mac_weights(self.op.weights.reshape(channels, 1, -1), slice(0, channels))

    @property
    def slow_share(self) -> float:
        if not isinstance(self.op.requant, FixedPoint):
            return 0.0
        return 1 - float(self.whole_weights().fast(self.target.packing).mean())

    def biases(self) -> Biases:
        weights = self.whole_weights()
        folded = weights.exact_bias
        rounded = beyond_float32(folded) | beyond_float32(weights.bias)
        if not isinstance(weights.requant, FloatScale):
            rounded &= False
        elif rounded.any():
            # Integers stand for the factors of the others.
            rounded &= weights.integers.word == 0
        beyond = (folded < INT32_MIN) | (folded > INT32_MAX)
        return Biases(rounded, beyond, weights.input_zero)

    @property
    def macs(self) -> int:
        return self.out.shape[0] * self.out.shape[1] * int(self.op.weights.size)

    @property
    def weight_bytes(self) -> int:
        factors = self.op.requant.pick(np.array([0])) if self.is_per_tensor else self.op.requant
        constants: int = self.op.bias.size * 4 + requant_bytes(factors)
        return self.target.packing.weight_bytes(self.op.weights.size) + constants
