# SPDX-License-Identifier: Apache-2.0
"""SPACE_TO_BATCH_ND, a convolution, BATCH_TO_SPACE_ND: how TensorFlow writes a dilated one.

Its converter recognises the three where the batch is fixed, and leaves them where it is open.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...graph import Tensor, Window
from ..common import KEEP_QUANTISATION, require
from ..movement import file_index
from .file import FileOp
from .ops import CONVOLUTIONS, Importer, convolution_of, rule, windowed

_ONE_CONVOLUTION = "let only a convolution stand between the two, or convert with a fixed batch"
_MOST_FOLLOWERS = 8
_RESHAPES = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")


@dataclass(frozen=True)
class _Blocks:
    """Block size and (before, after) padding or cropping, of H and of W."""

    sizes: tuple[int, int]
    margins: tuple[tuple[int, int], tuple[int, int]]


def _blocks(importer: Importer, op: FileOp, upright: bool) -> _Blocks:
    """upright: the only axis of a tensor with three dimensions is H, not W."""
    sizes = importer.integers(op, 1, "block shape")
    margins = importer.integers(op, 2, "paddings or crops")
    known = len(sizes) in (1, 2) and len(margins) == 2 * len(sizes)
    require(known and min(sizes) >= 1 and min(margins) >= 0, f"invalid blocks {sizes}, {margins}")
    pairs = [(margins[i], margins[i + 1]) for i in range(0, len(margins), 2)]
    if len(sizes) == 1:
        sizes = [sizes[0], 1] if upright else [1, sizes[0]]
        pairs = [pairs[0], (0, 0)] if upright else [(0, 0), pairs[0]]
    return _Blocks((sizes[0], sizes[1]), (pairs[0], pairs[1]))


def _followers(importer: Importer, op: FileOp) -> list[FileOp]:
    """The operators after SPACE_TO_BATCH_ND up to BATCH_TO_SPACE_ND, each the only reader of the
    one before it."""
    followers: list[FileOp] = []
    last = op
    while not followers or followers[-1].op != "BATCH_TO_SPACE_ND":
        require(len(last.outputs) == 1, f"{len(last.outputs)} outputs instead of one")
        index = last.outputs[0]
        readers = [other for other in importer.model.ops if index in other.inputs]
        alone = len(readers) == 1 and index not in importer.model.outputs
        require(alone, "its result is read several times, or not at all", _ONE_CONVOLUTION)
        last = readers[0]
        allowed = last.op in (*CONVOLUTIONS, *_RESHAPES, "BATCH_TO_SPACE_ND")
        require(
            allowed and len(followers) < _MOST_FOLLOWERS,
            f"{last.op} reads the result",
            _ONE_CONVOLUTION,
        )
        followers.append(last)
    return followers


@dataclass(frozen=True)
class Dilated:
    """The operators behind a SPACE_TO_BATCH_ND, of which `conv` is the convolution and `end` the
    BATCH_TO_SPACE_ND, and the dilation (y, x) and padding (top, left, bottom, right) that all of
    them amount to. upright: the only axis of a tensor with three dimensions is H, not W."""

    followers: list[FileOp]
    conv: FileOp
    end: FileOp
    dilation: tuple[int, int]
    pad: tuple[int, int, int, int]
    upright: bool


def dilated(importer: Importer, op: FileOp) -> Dilated:
    """Reads the dilated convolution that a SPACE_TO_BATCH_ND begins. Raises UnsupportedError if
    it is no dilated convolution."""
    followers = _followers(importer, op)
    convolutions = [other for other in followers if other.op in CONVOLUTIONS]
    require(len(convolutions) == 1, f"{len(convolutions)} convolutions follow", _ONE_CONVOLUTION)
    conv, end = convolutions[0], followers[-1]
    shape = importer.shape(conv.inputs[0])
    require(len(shape) == 4, f"the convolution's input has {len(shape)} dimensions")
    upright = shape[1] != 1
    blocks, crops = (_blocks(importer, o, upright) for o in (op, end))
    require(blocks.sizes == crops.sizes, f"blocks of {blocks.sizes} and of {crops.sizes}")
    options = conv.options(CONVOLUTIONS[conv.op])
    plain = options.StrideH() == options.StrideW() == 1 and options.Padding() == 1
    plain &= options.DilationHFactor() == options.DilationWFactor() == 1
    require(plain, "the convolution has strides, dilations or padding", _ONE_CONVOLUTION)
    return Dilated(followers, conv, end, blocks.sizes, _pad(blocks, crops), upright)


@rule(
    "SPACE_TO_BATCH_ND",
    constraints="only before one convolution with stride 1 and no padding, and "
    "BATCH_TO_SPACE_ND: a dilated convolution",
)
def _space_to_batch(importer: Importer, op: FileOp) -> None:
    convolution = dilated(importer, op)
    x = _image(importer, op, convolution.upright)
    middle = importer.activation(convolution.conv.outputs[0])
    out = importer.activation(convolution.end.outputs[0])
    same = (middle.scale, middle.zero_point) == (out.scale, out.zero_point)
    require(same, "the convolution and its result have different scales", KEEP_QUANTISATION)
    # The tensor between convolution and end has no place in the graph.
    del importer.builder.tensors[middle.name]
    kind = convolution_of(
        importer,
        convolution.conv,
        x,
        out,
        lambda kernel: Window(kernel, (1, 1), convolution.dilation, convolution.pad),
    )
    height, width, channels = windowed(kind.window, x, kind.bias.size)
    require(min(height, width) > 0, "the output is empty")
    importer.emit_as(convolution.end, kind, [x], (height, width, channels))
    importer.done.update(convolution.followers)


def _image(importer: Importer, op: FileOp, upright: bool) -> Tensor:
    """The input as the convolution sees it."""
    x, shape = importer.activation(op.inputs[0]), importer.shape(op.inputs[0])
    require(len(shape) in (3, 4), f"the input has {len(shape)} dimensions")
    require(shape[0] == 1, f"batch size {shape[0]} in shape {list(shape)}", "use batch size 1")
    if len(shape) == 4:
        return x
    view = (shape[1], 1, shape[2]) if upright else (1, shape[1], shape[2])
    name = f"{importer.model.tensors[op.outputs[0]].name}/image"
    return importer.arranged(x, file_index(x.shape), view, name)


def _pad(blocks: _Blocks, crops: _Blocks) -> tuple[int, int, int, int]:
    """Computes the padding: rows cropped at the end were padded there to fill a block, and need
    not be computed."""
    pads = []
    for (before, after), (first, last) in zip(blocks.margins, crops.margins, strict=True):
        require(first == 0 and last <= after, f"cannot crop by {crops.margins}", _ONE_CONVOLUTION)
        pads.append((before, after - last))
    return pads[0][0], pads[1][0], pads[0][1], pads[1][1]


@rule("BATCH_TO_SPACE_ND", constraints="only after SPACE_TO_BATCH_ND and a convolution")
def _batch_to_space(importer: Importer, op: FileOp) -> None:
    require(False, "no SPACE_TO_BATCH_ND and convolution are before it", _ONE_CONVOLUTION)
