# SPDX-License-Identifier: Apache-2.0
"""Import rules for TensorFlow Lite operators that rearrange elements."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import tflite

from ...graph import Shape, Tensor
from ...ops.binary import Binary
from ...ops.concat import Concat
from ...ops.pad import Pad
from ...quant import INT8_MIN
from ..common import KEEP_QUANTISATION, axis_of, require
from ..movement import file_index, rearranged
from .arrays import CONSTRAINTS, MOVERS
from .embedding import embedded
from .file import FileOp, FileTensor
from .ops import FOLD_CONSTANT, SAME_SCALE, Importer, rule
from .shapes import place_of

# The names of the inputs after the first in messages.
_OTHERS = {
    "BROADCAST_TO": ("shape",),
    "DEPTH_TO_SPACE": (),
    "GATHER": ("indices",),
    "GATHER_ND": ("indices",),
    "MIRROR_PAD": ("padding amounts",),
    "RESIZE_NEAREST_NEIGHBOR": ("size",),
    "REVERSE_V2": ("axes",),
    "SLICE": ("starts", "sizes"),
    "SPACE_TO_DEPTH": (),
    "STRIDED_SLICE": ("starts", "ends", "steps"),
    "TILE": ("multiples",),
    "TRANSPOSE": ("permutation",),
}


def _emit(importer: Importer, op: FileOp, x: Tensor, index: np.ndarray, output: int = 0) -> None:
    """The elements of an activation at these places as an output of the file's operator."""
    out = importer.activation(op.outputs[output])
    same = (x.scale, x.zero_point) == (out.scale, out.zero_point)
    require(same, "the input and output have different scales or zero points", KEEP_QUANTISATION)
    fits = index.size == out.bytes
    require(fits, f"the output is {out.shape} in the file but computes {list(index.shape)}")
    source, kind = rearranged(importer.builder, x, index.reshape(out.shape))
    importer.emit(op, kind, [source], out.shape, output)


@rule(*_OTHERS, constraints={op: f"{CONSTRAINTS[op]}; {SAME_SCALE}" for op in _OTHERS})
def _moved(importer: Importer, op: FileOp) -> None:
    if op.op == "GATHER" and op.inputs[1] in importer.numbers:
        embedded(importer, op)
        return
    x, index = importer.activation(op.inputs[0]), file_index(importer.shape(op.inputs[0]))
    others = [
        importer.constant(op, place, ("INT32", "INT64"), what).data
        for place, what in enumerate(_OTHERS[op.op], 1)
    ]
    _emit(importer, op, x, MOVERS[op.op](op, index, *others))


_SPLITS = {
    "SPLIT": f"constant axis, equal parts; {SAME_SCALE}",
    "SPLIT_V": f"constant sizes and axis; {SAME_SCALE}",
    "UNPACK": SAME_SCALE,
}


def stretches(importer: Importer, op: FileOp) -> tuple[int, int, list[int]]:
    """The place of the input that SPLIT, SPLIT_V or UNPACK parts, the axis, and the elements of
    each part along it."""
    place, count = int(op.op == "SPLIT"), len(op.outputs)
    shape = importer.shape(op.inputs[place])
    if op.op == "UNPACK":
        axis = op.options(tflite.UnpackOptions).Axis()
    else:
        axis = importer.integers(op, 0 if op.op == "SPLIT" else 2, "axis")[0]
    axis = axis_of(axis, len(shape))
    sizes = [shape[axis] // max(count, 1) if op.op == "SPLIT" else 1] * count
    if op.op == "SPLIT_V":
        sizes = importer.integers(op, 1, "sizes")
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    whole = min(sizes, default=0) > 0 and sum(sizes) == shape[axis] and len(sizes) == count
    require(whole, f"cannot split {shape[axis]} into {sizes}")
    return place, axis, sizes


@rule("SPLIT", "SPLIT_V", "UNPACK", constraints=_SPLITS)
def _split(importer: Importer, op: FileOp) -> None:
    """One output for each stretch of an axis."""
    place, axis, sizes = stretches(importer, op)
    derived = importer.derived.get(op.inputs[place])
    index = file_index(importer.shape(op.inputs[place]))
    for output, part in enumerate(np.split(index, np.cumsum(sizes[:-1]), axis)):
        if derived is not None:
            importer.move_derived(op, derived, part, output)
        else:
            _emit(importer, op, importer.activation(op.inputs[place]), part, output)


_JOINED = (
    "any axis; same scale and zero point for inputs, constants and output; not all inputs constant"
)


@rule("CONCATENATION", constraints=_JOINED + "; no fused activation")
def _concat(importer: Importer, op: FileOp) -> None:
    options = op.options(tflite.ConcatenationOptions)
    require(options.FusedActivationFunction() == 0, "a fused activation is not supported")
    shape = importer.shape(op.outputs[0])
    axis = axis_of(options.Axis(), len(shape))
    sizes = []
    for i in op.inputs:
        part = importer.shape(i)
        same = [a == b for k, (a, b) in enumerate(zip(part, shape, strict=False)) if k != axis]
        require(
            len(part) == len(shape) and all(same),
            f"cannot concatenate {list(part)} to {list(shape)}",
        )
        sizes.append(part[axis])
    require(sum(sizes) == shape[axis], f"cannot concatenate {sizes} to {shape[axis]}")
    _join(importer, op, axis, sizes)


@rule("PACK", constraints=_JOINED)
def _pack(importer: Importer, op: FileOp) -> None:
    """A concatenation along a new axis."""
    shape = importer.shape(op.outputs[0])
    axis = axis_of(op.options(tflite.PackOptions).Axis(), len(shape))
    for i in op.inputs:
        part = importer.shape(i)
        fits = math.prod(part) == math.prod(shape[:axis]) * math.prod(shape[axis + 1 :])
        require(fits, f"cannot pack {list(part)} into {list(shape)}")
    require(len(op.inputs) == shape[axis], f"cannot pack {len(op.inputs)} into {shape[axis]}")
    _join(importer, op, axis, [1] * len(op.inputs))


def _join(importer: Importer, op: FileOp, axis: int, sizes: list[int]) -> None:
    """The inputs one after the other along an axis of the output, of which they take `sizes`."""
    out, shape = importer.activation(op.outputs[0]), importer.shape(op.outputs[0])
    place, view = place_of(axis, shape), out.shape
    if place is None:
        place, view = 1, (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    joiner = _Joiner(importer, out, place, view)
    for number, (i, size) in enumerate(zip(op.inputs, sizes, strict=True)):
        if importer.is_constant(i):
            joiner.constant(importer.constant(op, number, ("INT8",), "constants"), size)
        else:
            joiner.activation(importer.activation(i), size, f"{out.name}/part{number}")
    require(len(joiner.parts) > 0, "all its inputs are constant", FOLD_CONSTANT)
    parts = [joiner.padded(part, f"{out.name}/padded{n}") for n, part in enumerate(joiner.parts)]
    importer.emit_as(op, Concat(place, (None,) * len(parts)), parts, view)


@dataclass
class _Part:
    """An activation of a concatenation, and the constants on either side of it."""

    tensor: Tensor
    before: list[np.ndarray]
    after: list[np.ndarray]


@dataclass
class _Joiner:
    """Collects the inputs that are joined along axis `place` of (H, W, C) `view`."""

    importer: Importer
    out: Tensor
    place: int
    view: Shape
    parts: list[_Part] = field(default_factory=list)
    leading: list[np.ndarray] = field(default_factory=list)

    def _shape(self, size: int) -> Shape:
        height, width, channels = (
            size if axis == self.place else d for axis, d in enumerate(self.view)
        )
        return height, width, channels

    def activation(self, x: Tensor, size: int, name: str) -> None:
        # TensorFlow Lite Micro, micro/kernels/concatenation.cc, refuses to rescale int8.
        same = (x.scale, x.zero_point) == (self.out.scale, self.out.zero_point)
        reason = f"input '{x.name}' and its output have different scales or zero points"
        require(same, reason, KEEP_QUANTISATION)
        x = self.importer.arranged(x, file_index(x.shape), self._shape(size), name)
        self.parts.append(_Part(x, self.leading, []))
        self.leading = []

    def constant(self, tensor: FileTensor, size: int) -> None:
        given = [*tensor.scales, *tensor.zero_points]
        same = given == [np.float32(self.out.scale), self.out.zero_point]
        require(same, "a constant and its output have different scales", KEEP_QUANTISATION)
        values = tensor.values.reshape(self._shape(size))
        (self.parts[-1].after if self.parts else self.leading).append(values)

    def padded(self, part: _Part, name: str) -> Tensor:
        """The activation with constants around it: the larger of the activation, padded with the
        least value, and of the constants, padded likewise."""
        if not part.before and not part.after:
            return part.tensor
        x = part.tensor
        least = np.full(x.shape, INT8_MIN, np.int8)
        values = np.concatenate([*part.before, least, *part.after], axis=self.place)
        before = sum(v.shape[self.place] for v in part.before)
        amounts = [(0, 0)] * 3
        amounts[self.place] = before, values.shape[self.place] - before - x.shape[self.place]
        shape = values.shape[0], values.shape[1], values.shape[2]
        pad = Pad((amounts[0], amounts[1], amounts[2]), INT8_MIN)
        greatest = Binary("maximum", constant=values)
        steps = (name, pad, shape), (f"{name}/constants", greatest, shape)
        return self.importer.builder.add_steps(name, x, steps)
