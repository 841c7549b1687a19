# SPDX-License-Identifier: Apache-2.0
"""Constants of sums, means and softmax beside those of the model file.

No order of nodes is assumed: a layer's constants must be those of some node. Sums are compared for
all pairs of bytes: in float32 one is the nearest byte, or next to a tie. Factors are within
TOLERANCE of the real number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .constants import axes_of
from .elf import Image, prove
from .model_file import FileNode
from .scaling import INT8_MAX, INT8_MIN, exponentials, fixed_point, scaled
from .tables import ImageLayer, ImageModel

TOLERANCE = 1e-6
# From a byte to the real number that float32 may round to it.
TIE = 0.5 + 1e-4
# Of TensorFlow Lite's sum: inputs are shifted to the left.
LEFT_SHIFT = 20
ENTRIES = 256
KEPT, OF_256, OF_SUM, OF_SUM_FLOAT = range(4)


def check(model: ImageModel, nodes: Sequence[FileNode]) -> int:
    """Compares layers of these kinds with the nodes of their kind; returns how many it compared.

    Raises FaultError for the first one that is none of them.
    """
    compared = 0
    for layer in model.layers:
        kind, fits = KINDS.get(layer.kind, ("", _is_sum))
        mine = [node for node in nodes if node.kind == kind]
        is_one = any(_is_around(layer, one) and fits(model.image, layer, one) for one in mine)
        what = f"layer {layer.number} ({layer.kernel}): its constants are those of no {kind}"
        prove(is_one or not mine, f"{what} in the file")
        compared += is_one
    return compared


def _is_around(layer: ImageLayer, node: FileNode) -> bool:
    """Returns true if the window and the bounds of a layer are a node's."""
    mine, axes = axes_of(layer, node)
    bounds = layer.p.get("act_min", INT8_MIN), layer.p.get("act_max", INT8_MAX)
    return mine == axes and (node.bounds or bounds) == bounds


def _is_sum(image: Image, layer: ImageLayer, node: FileNode) -> bool:
    q, p = np.arange(-128, 128), layer.p
    lines = (q * p["a_scale"] >> 8)[:, None] + (q * p["b_scale"] >> 8) + p["bias"]
    mine = np.clip(lines >> p["shift"], -128, 127)
    wanted = np.clip((_real_sum if node.is_float else _fixed_sum)(node), -128, 127)
    most = TIE if node.is_float else 0
    return any(bool((np.abs(mine - one) <= most).all()) for one in (wanted, wanted.T))


def _real_sum(node: FileNode) -> np.ndarray:
    """Returns the bytes that sums of all pairs of bytes are, before they are rounded."""
    a, b = (
        (np.arange(-128, 128) - zero) * float(scale) / float(node.scales[2])
        for zero, scale in zip(node.zeros[:2], node.scales[:2], strict=True)
    )
    return a[:, None] + b + node.zeros[2]


def _fixed_sum(node: FileNode) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/add.h, for all pairs of bytes."""
    twice = 2 * max(node.scales[:2])
    q = np.arange(-128, 128)
    terms = [
        scaled((q - zero) << LEFT_SHIFT, scale / twice)
        for scale, zero in zip(node.scales[:2], node.zeros[:2], strict=True)
    ]
    total = terms[0][:, None] + terms[1]
    return scaled(total, twice / ((1 << LEFT_SHIFT) * node.scales[2])) + node.zeros[2]


def _is_mean(image: Image, layer: ImageLayer, node: FileNode) -> bool:
    real, p = float(node.scales[0]) / float(node.scales[1]), layer.p
    if p["output_zero"] != node.zeros[1] or p["input_zero"] != node.zeros[0]:
        return p["rescale"] == KEPT and node.zeros[0] == node.zeros[1] and real == 1
    count = p["kernel_h"] * p["kernel_w"]
    factor = p["multiplier"] * 2.0 ** (p["shift"] - 31)
    if p["rescale"] == OF_SUM_FLOAT:
        factor = float(np.int32(p["multiplier"]).view(np.float32))
    wanted = {KEPT: factor, OF_256: real / 256}.get(p["rescale"], real / count)
    return abs(factor - wanted) <= TOLERANCE * wanted and (p["rescale"] != KEPT or real == 1)


def _is_softmax(image: Image, layer: ImageLayer, node: FileNode) -> bool:
    table = image.array("u4", layer.p["exp"], ENTRIES).astype(np.int64)
    if node.is_float:
        wanted = np.rint(np.exp(-float(node.scales[0]) * np.arange(ENTRIES)) * table[0])
    else:
        wanted = exponentials(float(node.scales[0]), ENTRIES)
    is_zero = layer.p["output_zero"] == node.zeros[1]
    return is_zero and bool((np.abs(table - wanted) <= node.is_float).all())


def _is_lstm(image: Image, layer: ImageLayer, node: FileNode) -> bool:
    p = layer.p
    factors = [(p[f"multiplier{n}"], p[f"shift{n}"]) for n in range(len(node.scales))]
    return (
        layer.out.channels == len(node.weights)
        and factors == [fixed_point(float(scale)) for scale in node.scales]
        and (image.array("i1", p["weights"], node.weights.size) == node.weights.ravel()).all()
        and (image.array("i4", p["biases"], node.bias.size) == node.bias.ravel()).all()
    )


KINDS = {
    "lstm": ("lstm", _is_lstm),
    "add": ("sum", _is_sum),
    "max_pool": ("max", lambda *_: True),
    **dict.fromkeys(("average_pool", "average_pool_sum"), ("mean", _is_mean)),
    **dict.fromkeys(("softmax_tflite", "softmax_onnx"), ("softmax", _is_softmax)),
}
