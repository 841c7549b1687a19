# SPDX-License-Identifier: Apache-2.0
"""Import rules for operators that pick, repeat or rearrange elements."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..common import (
    KEEP_QUANTISATION,
    MAX_TENSOR_BYTES,
    UnsupportedError,
    axis_of,
    present,
    require,
)
from ..movement import file_index
from ..tables import Function
from .context import Context, rule
from .embedding import embedded
from .evaluation import evaluate, operands_checked
from .file import FileNode
from .values import Activation, Args, Indices, Real, Value

_MOVES = {
    "Slice": "constant starts, ends, axes and steps",
    "Split": "constant sizes",
    "Expand": "constant shape",
    "Tile": "constant repeats",
    "DepthToSpace": "4-D",
    "SpaceToDepth": "4-D",
}


@rule(*_MOVES, constraints=_MOVES)
def _moved(context: Context, node: FileNode, args: Args) -> list[Value]:
    """Lets onnx move the places of the elements."""
    x = context.activation(args[0])
    arrays = {
        name: context.constant(args, place, "operands")
        for place, name in enumerate(node.inputs[1:], 1)
    }
    given = {name: array for name, array in arrays.items() if array is not None}
    places = {node.inputs[0]: file_index(x.shape)}
    with operands_checked():
        parts = evaluate(node.proto, {**given, **places}, context.model.opset)
    named = zip(parts, node.proto.output, strict=True)
    return [
        context.moved(node, x, index, place) if name else Real(x)
        for place, (index, name) in enumerate(named)
    ]


@rule("Gather", constraints="constant integer indices; or a constant table, 2-D, axis 0")
def _gather(context: Context, node: FileNode, args: Args) -> Value | list[Value]:
    if len(args) > 1 and isinstance(args[1], Indices):
        return embedded(context, node, args, args[1])
    return _moved(context, node, args)


@rule(
    "GatherND",
    constraints="constant integer indices; or a constant table, 2-D, and one index for each row; "
    "batch_dims 0",
)
def _gather_nd(context: Context, node: FileNode, args: Args) -> Value | list[Value]:
    unfit = "the indices do not match the input's shape"
    indices = args[1] if len(args) > 1 else None
    batches = bool(node.attributes.get("batch_dims"))
    if not isinstance(indices, Indices):
        require(not batches, unfit)
        return _moved(context, node, args)
    hint = "pick whole rows of a constant table, by a Gather"
    require(not batches and indices.shape[-1:] == (1,), unfit, hint)
    return embedded(context, node, args, replace(indices, shape=indices.shape[:-1]))


@rule("GatherElements", constraints="constant indices")
def _gather_elements(context: Context, node: FileNode, args: Args) -> Value:
    x, indices = context.activation(args[0]), context.constant(args, 1, "indices")
    axis = axis_of(node.attributes.get("axis", 0), len(x.shape))
    indices = present(indices, "the indices are missing")
    with operands_checked():
        near = tuple(slice(None if a == axis else size) for a, size in enumerate(indices.shape))
        return context.moved(node, x, np.take_along_axis(file_index(x.shape)[near], indices, axis))


def resize_sizes(
    context: Context, node: FileNode, args: Args, x: Activation
) -> tuple[list[int], list[float]]:
    """The output's size along every axis, and the scales that places are computed with."""
    plain = "axes" not in node.attributes and not node.attributes.get("antialias")
    policy = node.attributes.get("keep_aspect_ratio_policy", b"stretch")
    require(
        plain and policy == b"stretch",
        "axes, antialias and keep_aspect_ratio_policy are not supported",
    )
    scales = context.constant(args, 2, "scales")
    sizes = context.constant(args, 3, "sizes")
    rank = len(x.shape)
    if sizes is not None and sizes.size:
        target = [int(v) for v in sizes.ravel()]
        require(len(target) == rank and min(target) > 0, f"invalid sizes {target}")
        factors = [t / s for t, s in zip(target, x.shape, strict=True)]
    else:
        if scales is None or scales.size != rank:
            raise UnsupportedError("there is not one scale for each axis")
        factors = [float(v) for v in scales.ravel()]
        sane = all(math.isfinite(v) and 0 < v < 1e4 for v in factors)
        require(sane, f"invalid scales {factors}")
        target = [math.floor(s * f) for s, f in zip(x.shape, factors, strict=True)]
    elements = math.prod(target)
    require(elements <= MAX_TENSOR_BYTES, f"the output has {elements} elements")
    require(min(target) > 0, f"invalid output size {target}", KEEP_QUANTISATION)
    return target, factors


def resize_places(node: FileNode, size: int, target: int, scale: float) -> np.ndarray:
    """Maps each output index to its place on the input's axis, float32 as in ONNX Runtime."""
    mode = node.attributes.get("coordinate_transformation_mode", b"half_pixel").decode()
    at = np.arange(target, dtype=np.float32)
    factor = np.float32(scale)
    if mode == "align_corners":
        if target == 1:
            return np.zeros(1, np.float32)
        return at * np.float32(size - 1) / np.float32(target - 1)
    if mode == "asymmetric":
        return at / factor
    if mode == "pytorch_half_pixel" and target == 1:
        return np.zeros(1, np.float32)
    known = mode in ("half_pixel", "pytorch_half_pixel")
    require(known, f"unsupported coordinate_transformation_mode {mode}", "use half_pixel")
    return (at + np.float32(0.5)) / factor - np.float32(0.5)


def nearest(node: FileNode, size: int, target: int, scale: float) -> np.ndarray:
    """The input index for each output index."""
    at = resize_places(node, size, target, scale)
    mode = node.attributes.get("nearest_mode", b"round_prefer_floor").decode()
    rounding: dict[str, Function] = {
        "round_prefer_floor": lambda v: np.ceil(v - np.float32(0.5)),
        "round_prefer_ceil": lambda v: np.floor(v + np.float32(0.5)),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    require(mode in rounding, f"unsupported nearest_mode {mode}")
    return np.clip(rounding[mode](at), 0, size - 1).astype(np.int64)
