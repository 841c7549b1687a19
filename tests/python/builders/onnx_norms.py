# SPDX-License-Identifier: Apache-2.0
"""Normalisations, a row each: input shape, layer. As for builders.onnx_ops, the opset is 17."""

from __future__ import annotations

import numpy as np

from .onnx_models import IMAGE, VECTOR, Layer, OnnxModel
from .onnx_ops import LINE, SEQUENCE

OUT = 0.03  # of normalised values, most of which lie within -3 to 3


def _factors(m: OnnxModel, shape, offset: bool = True) -> list[str]:
    gain = m.constant(m.rng.uniform(0.3, 2, shape).astype(np.float32))
    if not offset:
        return [gain]
    return [gain, m.constant(m.rng.normal(size=shape).astype(np.float32))]


def norm(op: str, width, offset: bool = True, **attributes) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        return m.node(op, [x, *_factors(m, width, offset)], epsilon=1e-5, **attributes), OUT

    return build


def group_norm(groups: int, shape) -> Layer:
    """As PyTorch's exporters write it."""

    def build(m: OnnxModel, x: str, scale: float):
        to = m.constant(np.array([1, groups, -1]))
        plain = [m.constant(np.full(groups, value, np.float32)) for value in (1, 0)]
        y = m.node("InstanceNormalization", [m.node("Reshape", [x, to]), *plain], epsilon=1e-5)
        y = m.qdq(y, m.stated(OUT))
        y = m.node("Reshape", [y, m.constant(np.array(shape))])
        gain, offset = _factors(m, (shape[1], *[1] * (len(shape) - 2)))
        return m.node("Add", [m.qdq(m.node("Mul", [y, gain]), m.stated(OUT * 2)), offset]), OUT * 3

    return build


def unit_length(axis: int) -> Layer:
    return lambda m, x, scale: (m.node("LpNormalization", [x], axis=axis, p=2), 1 / 127)


def log_softmax(axis: int) -> Layer:
    return lambda m, x, scale: (m.node("LogSoftmax", [x], axis=axis), scale * 1.2)


CASES: dict[str, tuple[tuple[int, ...], Layer]] = {
    "layer norm": (SEQUENCE, norm("LayerNormalization", 12, axis=-1)),
    "layer norm of vector": (VECTOR, norm("LayerNormalization", 24, axis=-1)),
    "layer norm of image": (IMAGE, norm("LayerNormalization", IMAGE[1:], axis=1)),
    "layer norm without offset": (SEQUENCE, norm("LayerNormalization", 12, False, axis=-1)),
    "rms norm": (SEQUENCE, norm("SimplifiedLayerNormalization", 12, False, axis=-1)),
    "rms norm of image": (IMAGE, norm("SimplifiedLayerNormalization", (7, 8), False, axis=2)),
    "instance norm": (IMAGE, norm("InstanceNormalization", 6)),
    "instance norm 1d": (LINE, norm("InstanceNormalization", 6)),
    "group norm": (IMAGE, group_norm(2, IMAGE)),
    "group norm 1d": (LINE, group_norm(3, LINE)),
    "unit length of vector": (VECTOR, unit_length(-1)),
    "unit length of pixels": (IMAGE, unit_length(1)),
    "unit length of columns": (IMAGE, unit_length(2)),
    "log softmax": (VECTOR, log_softmax(-1)),
    "log softmax of pixels": (IMAGE, log_softmax(1)),
    "log softmax of rows": (IMAGE, log_softmax(2)),
}
