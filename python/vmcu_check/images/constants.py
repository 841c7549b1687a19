# SPDX-License-Identifier: Apache-2.0
"""The constants of an image beside those of the model file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import params, streams
from .channels import FileChannels, after, without
from .elf import LinkedImage
from .nodes import WeightNode
from .scaling import fixed_point
from .streams import WHOLE, LayerWeights, int32
from .tables import ImageLayer, ImageModel
from .walk import FaultError

INT8_MIN, INT8_MAX = -128, 127
# Below a line's adjustment, in its word.
STEP = 256


@dataclass(frozen=True)
class MatchedConstants:
    """pairs: layer and node of the same weights; alone: layers with weights of no node."""

    pairs: tuple[tuple[ImageLayer, WeightNode], ...]
    alone: tuple[ImageLayer, ...]


def compare(image: LinkedImage, model: ImageModel, nodes: Sequence[WeightNode]) -> MatchedConstants:
    """Finds the node of each layer with weights and compares all its constants.

    Raises FaultError at the first one that differs.
    """
    left, pairs, alone = list(nodes), [], []
    known: dict[int, FileChannels] = {}
    for layer in model.layers:
        if not layer.inputs:
            continue
        p = params.read(image, layer.kernel, layer.params)
        ins, out = model.tensors[layer.inputs[0]], model.tensors[layer.output]
        if "stream" in p and not image.has(p["stream"], 1):
            # In a weights file, which the image reads into RAM.
            alone.append(layer)
            continue
        before = known.get(layer.inputs[0])
        if before is None or len(before.kept) != ins.channels:
            before = FileChannels.of(np.arange(ins.channels), ins.channels)
        emitted = streams.read(image, layer, p, ins, out)
        if emitted is None:
            if _keeps_values(layer, p):
                known[out.number] = before
            elif ins.channels == out.channels:
                known[out.number] = FileChannels.of(before.kept, len(before.low))
            continue
        match = _find(left, p, emitted, before)
        if match is None:
            alone.append(layer)
            continue
        node, as_emitted, kept = match
        left = [one for one in left if one is not node]
        _layer(layer, p, emitted, as_emitted)
        known[out.number] = after(node, before, kept)
        pairs.append((layer, as_emitted))
    return MatchedConstants(tuple(pairs), tuple(alone))


def _keeps_values(layer: ImageLayer, p: Mapping[str, Any]) -> bool:
    """True if a channel whose byte is always the same has it behind the layer, too."""
    kind = params.parts(layer.kernel)[0]
    if kind.startswith("average_pool"):
        identity = p["multiplier"], p["shift"], p["input_zero"]
        return p["rescale"] == 0 or identity == (1 << 30, -7, p["output_zero"])
    return kind == "max_pool"


def _find(
    nodes: Sequence[WeightNode], p: Mapping[str, Any], emitted: LayerWeights, before: FileChannels
) -> tuple[WeightNode, WeightNode, np.ndarray] | None:
    """Returns the node whose weights a layer has, the node as the layer has it, and the channels
    that are left of it; the nearest node of this shape if there is none."""
    alike = [
        (node, turned, np.arange(len(node.weights)))
        for node in nodes
        if node.weights.shape == emitted.weights.shape
        for turned in _turned(node, p)
    ]
    differences = [np.count_nonzero(one[1].weights != emitted.weights) for one in alike]
    if 0 not in differences:
        for node in nodes:
            rest = without(node, before, emitted.weights)
            if rest is not None:
                return node, *rest
    return alike[int(np.argmin(differences))] if alike else None


def _turned(node: WeightNode, p: Mapping[str, Any]) -> list[WeightNode]:
    """The node's weights in the orders in which an image may have their taps: as they are, of an
    image whose rows are the file's columns, and of channels that are the file's outer axis."""
    rows, columns = node.window
    depth = node.weights.shape[1] // (rows * columns)
    window = node.weights.reshape(-1, rows, columns, depth).transpose(0, 2, 1, 3)
    emitted = [node, replace(node, weights=window.reshape(node.weights.shape))]
    height, width = p.get("kernel_h", 1), p.get("kernel_w", 1)
    if node.kind == "dense" and height * width > 1:
        for order in ((0, 2, 3, 1), (0, 3, 2, 1)):
            sizes = (height, width) if order[1] == 2 else (width, height)
            image = node.weights.reshape(len(node.weights), -1, *sizes).transpose(order)
            emitted.append(replace(node, weights=image.reshape(node.weights.shape)))
    return emitted


def _layer(
    layer: ImageLayer, p: Mapping[str, Any], emitted: LayerWeights, node: WeightNode
) -> None:
    where = f"layer {layer.number} ({layer.kernel}), '{node.name}'"
    _same(where, "weight", emitted.weights, node.weights)
    zeros = p.get("input_zero", node.zeros[0]), p["output_zero"]
    for side, zero, wanted in zip(("input", "output"), zeros, node.zeros, strict=True):
        if wanted is not None and zero != wanted:
            raise FaultError(f"{where}: the {side}'s zero point is {zero}, {wanted} in the file")
    sums = node.weights.sum(axis=1)
    wanted_bias = node.bias - (node.zeros[0] or 0) * sums
    _same(where, "bias", emitted.bias, int32(wanted_bias))
    if layer.kernel.startswith(("vmcu_conv", "vmcu_depthwise")) and {
        p["kernel_h"],
        p["kernel_w"],
    } != set(node.window):
        raise FaultError(f"{where}: the window is {p['kernel_h']} x {p['kernel_w']}")
    bounds = p.get("act_min", INT8_MIN), p.get("act_max", INT8_MAX)
    if node.bounds is not None and bounds != node.bounds:
        raise FaultError(f"{where}: the output is within {bounds}, {node.bounds} in the file")
    if p.get("is_float", 0) != int(node.is_float) and "is_float" in p:
        raise FaultError(f"{where}: its requantiser is that of another format")
    if node.is_float:
        _lines(where, emitted, node, p)
    else:
        _fixed(where, emitted, node)


def _same(where: str, what: str, emitted: np.ndarray, wanted: np.ndarray) -> None:
    wrong = np.argwhere(emitted != wanted)
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise FaultError(
            f"{where}: {what} {at if len(at) > 1 else at[0]} is {emitted[at]} in the image,"
            f" {wanted[at]} in the file"
        )


def _fixed(where: str, emitted: LayerWeights, node: WeightNode) -> None:
    factors = np.array([fixed_point(float(scale)) for scale in node.scales])
    _same(where, "multiplier", emitted.multiplier, factors[:, 0])
    _same(where, "shift", emitted.other, factors[:, 1])


def _lines(where: str, emitted: LayerWeights, node: WeightNode, p: Mapping[str, Any]) -> None:
    """Each channel's line is the float32 factor, rounded to even, for all sums that there are."""
    ends = (
        node.weights * (INT8_MIN - (node.zeros[0] or 0)),
        node.weights * (INT8_MAX - (node.zeros[0] or 0)),
    )
    lowest = node.bias + np.minimum(*ends).sum(axis=1)
    highest = node.bias + np.maximum(*ends).sum(axis=1)
    zero = p["output_zero"]
    values = np.arange(INT8_MIN - zero, INT8_MAX - zero)
    is_whole = (p["act_min"], p["act_max"]) == (INT8_MIN, INT8_MAX)
    for channel, scale in enumerate(np.asarray(node.scales, np.float32)):
        multiplier, word = int(emitted.multiplier[channel]), int(emitted.other[channel])
        shift, low, high = word % WHOLE, int(lowest[channel]), int(highest[channel])
        if shift == 0 and word == 0:
            if np.int32(multiplier) != scale.view(np.int32):
                raise FaultError(f"{where}: the scale of channel {channel} differs from the file's")
            continue
        adjust = word - word % STEP
        first = -((adjust - ((2 * values + 1) << (31 + shift))) // max(multiplier, 1))
        first = np.clip(first, low, high + 1)

        def real(sums: np.ndarray, scale: np.float32 = scale) -> np.ndarray:
            product = sums.astype(np.float32) * scale
            rounded: np.ndarray = np.rint(np.clip(product, -(2.0**20), 2.0**20))
            return rounded

        inside, behind = first <= high, first > low
        wrong = (real(first[inside]) <= values[inside]).any()
        wrong |= (real(first[behind] - 1) > values[behind]).any()
        if wrong or multiplier <= 0 or bool(word & WHOLE) != is_whole:
            raise FaultError(f"{where}: the factor of channel {channel} is not the file's {scale}")
