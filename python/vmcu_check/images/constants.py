# SPDX-License-Identifier: Apache-2.0
"""The weights, biases and factors of an image beside those of the model file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from . import streams
from .channels import FileChannels, after, without
from .elf import FaultError, prove
from .model_file import FileNode
from .scaling import INT8_MAX, INT8_MIN, fixed_point
from .streams import WHOLE, WeightBlock, int32
from .tables import POINT, Axes, ImageLayer, ImageModel

# Below a line's adjustment, in its word.
STEP = 256


def compare(
    model: ImageModel, nodes: Sequence[FileNode], is_fed: bool = False
) -> tuple[list[ImageLayer], list[ImageLayer]]:
    """Finds the node of each layer with weights and compares all its constants. is_fed: inputs of
    the file are what it computed before, which the image keeps.

    Returns the layers that it compared, and those whose weights are of no node. Raises FaultError
    at the first constant that differs.
    """
    left, compared, alone = list(nodes), [], []
    known: dict[int, FileChannels] = {}
    # By tensor: the last node in the file that it depends on.
    places: dict[int, int] = {}
    for layer in (one for each in model.layers for one in each.within or (each,)):
        if not layer.ins:
            continue
        ins, out, match = layer.ins[0], layer.out, None
        behind = max(places.get(one.number, -1) for one in layer.ins)
        places[out.number] = behind
        before = known.get(ins.number)
        if before is None or len(before.kept) != ins.channels:
            before = FileChannels.of(np.arange(ins.channels), ins.channels)
        if not streams.has_weights(layer):
            if _keeps_values(layer):
                known[out.number] = before
            elif ins.channels == out.channels:
                known[out.number] = FileChannels.of(before.kept, len(before.low))
            continue
        # The image may read a weights file into RAM.
        if not model.has_weights_file or model.image.has(layer.p["stream"], 1):
            emitted = streams.read(model.image, layer)
            match = _find(left, layer, emitted, before)
        if match is None:
            alone.append(layer)
            continue
        node, as_emitted, kept = match
        left = [one for one in left if one is not node]
        _layer(_without_past(layer) if is_fed else layer, emitted, as_emitted)
        places[out.number] = next(i for i, one in enumerate(nodes) if one is node)
        what = f"layer {layer.number} ({layer.kernel}), '{node.name}'"
        prove(places[out.number] > behind, f"{what}: it is in front of its inputs in the file")
        known[out.number] = after(node, before, kept)
        compared.append(layer)
    return compared, alone


def _keeps_values(layer: ImageLayer) -> bool:
    """Returns true if a channel whose byte is always the same has it behind the layer, too."""
    p = layer.p
    if layer.kind.startswith("average_pool"):
        identity = p["multiplier"], p["shift"], p["input_zero"]
        return p["rescale"] == 0 or identity == (1 << 30, -7, p["output_zero"])
    return layer.kind == "max_pool"


def _find(
    nodes: Sequence[FileNode], layer: ImageLayer, emitted: WeightBlock, before: FileChannels
) -> tuple[FileNode, FileNode, np.ndarray] | None:
    """Returns the node whose weights a layer has, the node as the layer has it, and the channels
    that are left of it; the nearest node of this shape if there is none."""
    alike = [
        (np.count_nonzero(turned.weights != emitted.weights), node, turned)
        for node in nodes
        if node.weights.shape == emitted.weights.shape
        for turned in _turned(node, layer)
    ]
    nearest = min(alike, key=lambda one: one[0], default=None)
    if nearest is None or nearest[0]:
        for node in nodes:
            rest = without(node, before, emitted.weights)
            if rest is not None:
                return node, *rest
    return nearest and (*nearest[1:], np.arange(len(emitted.weights)))


def _turned(node: FileNode, layer: ImageLayer) -> Iterator[FileNode]:
    """Yields the node with its weights in the orders in which an image may have their taps: as they
    are, of an image whose rows are the file's columns, and of channels that are the file's outer
    axis."""
    rows, columns = (axis[0] for axis in node.axes)
    orders = [((rows, columns, -1), (0, 1, 2, 3)), ((rows, columns, -1), (0, 2, 1, 3))]
    height, width = layer.p.get("kernel_h", 1), layer.p.get("kernel_w", 1)
    if node.kind == "dense" and height * width > 1:
        orders += [((-1, height, width), (0, 2, 3, 1)), ((-1, width, height), (0, 3, 2, 1))]
    for shape, order in orders:
        weights = node.weights.reshape(len(node.weights), *shape).transpose(order)
        yield replace(node, weights=weights.reshape(node.weights.shape))


def _without_past(layer: ImageLayer) -> ImageLayer:
    """Returns a layer without the rows that its window has seen before, where the file has them in
    front of the new ones."""
    p = layer.p
    before = (p.get("kernel_h", 1) - 1) * p.get("dilation_h", 1)
    return replace(layer, p={**p, "pad_top": 0}) if p.get("pad_top") == before else layer


def _layer(layer: ImageLayer, emitted: WeightBlock, node: FileNode) -> None:
    """Compares all constants of a layer."""
    where, p = f"layer {layer.number} ({layer.kernel}), '{node.name}'", layer.p
    _same(where, "weight", emitted.weights, node.weights)
    bounds = p.get("act_min", INT8_MIN), p.get("act_max", INT8_MAX)
    for what, mine, wanted in (
        ("the input's zero point", p.get("input_zero", node.zeros[0]), node.zeros[0]),
        ("the output's zero point", p["output_zero"], node.zeros[1]),
        ("the window", *axes_of(layer, node)),
        ("the range of the output", bounds, node.bounds or bounds),
        ("the flag of float32 factors", p.get("is_float", node.is_float), node.is_float),
    ):
        prove(mine == wanted, f"{where}: {what} is {mine}, {wanted} in the file")
    wanted_bias = node.bias - node.zeros[0] * node.weights.sum(axis=1)
    _same(where, "bias", emitted.bias, int32(wanted_bias))
    if node.is_float:
        _lines(where, emitted, node, layer)
    else:
        factors = np.array([fixed_point(float(scale)) for scale in node.scales])
        _same(where, "multiplier", emitted.multiplier, factors[:, 0])
        _same(where, "shift", emitted.other, factors[:, 1])


def axes_of(layer: ImageLayer, node: FileNode) -> tuple[Axes, Axes]:
    """Returns the axes of a layer and those of its node, whose columns may be the image's rows. A
    stride of one step, or a dilation of one tap, has no effect."""
    if "kernel_h" not in layer.p:
        return node.axes, node.axes
    mine = layer.axes
    # The window of a fully connected layer, or a mean, may be its whole input.
    is_whole = node.axes == POINT and node.kind not in ("conv", "depthwise")
    wanted = [(taps, stride, 1, 0) for taps, stride, *_ in mine] if is_whole else node.axes

    def plain(axes: Iterable[Sequence[int]]) -> Axes:
        sizes = zip(axes, (layer.out.height, layer.out.width), strict=True)
        return tuple(
            (taps, stride if size > 1 else 1, dilation if taps > 1 else 1, pad)
            for (taps, stride, dilation, pad), size in sizes
        )

    turned = plain(wanted[::-1])
    return plain(mine), turned if plain(mine) == turned else plain(wanted)


def _same(where: str, what: str, emitted: np.ndarray, wanted: np.ndarray) -> None:
    for wrong in np.argwhere(emitted != wanted)[:1].tolist():
        at, place = tuple(wrong), tuple(wrong) if len(wrong) > 1 else wrong[0]
        what = f"{where}: {what} {place} is {emitted[at]} in the image, {wanted[at]} in the file"
        raise FaultError(what)


def _lines(where: str, emitted: WeightBlock, node: FileNode, layer: ImageLayer) -> None:
    """Each channel's line is the float32 factor, rounded to even, for all sums that there are."""
    ends = [node.weights * (end - node.zeros[0]) for end in (INT8_MIN, INT8_MAX)]
    lowest = node.bias + np.minimum(*ends).sum(axis=1)
    highest = node.bias + np.maximum(*ends).sum(axis=1)
    values = np.arange(INT8_MIN, INT8_MAX) - layer.p["output_zero"]
    is_whole = (layer.p["act_min"], layer.p["act_max"]) == (INT8_MIN, INT8_MAX)
    for channel, scale in enumerate(np.asarray(node.scales, np.float32)):
        multiplier, word = int(emitted.multiplier[channel]), int(emitted.other[channel])
        shift, low, high = word % WHOLE, int(lowest[channel]), int(highest[channel])
        if word == 0:
            is_wrong = np.int32(multiplier) != scale.view(np.int32)
        else:
            # The first sum that is rounded to more than each value, and the one in front of it.
            adjust = word - word % STEP
            first = -((adjust - ((2 * values + 1) << (31 + shift))) // max(multiplier, 1))
            first = np.clip(first, low, high + 1)
            more, less = (
                np.rint(np.clip(sums.astype(np.float32) * scale, -(2.0**20), 2.0**20)) > values
                for sums in (first, first - 1)
            )
            is_wrong = not more[first <= high].all() or bool(less[first > low].any())
            is_wrong |= multiplier <= 0 or bool(word & WHOLE) != is_whole
        prove(not is_wrong, f"{where}: the factor of channel {channel} is not the file's {scale}")
