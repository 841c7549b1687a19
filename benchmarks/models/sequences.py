# SPDX-License-Identifier: Apache-2.0
"""Networks for sounds, signals and sequences."""

from __future__ import annotations

import onnx
from network import Network


def ds_cnn(classes: int = 12) -> onnx.ModelProto:
    """Keyword spotting on 49 x 10 features. Zhang et al., Hello Edge (arXiv:1711.07128): small."""
    net = Network("ds-cnn", (1, 1, 49, 10))
    x = net.conv("input", 64, (11, 5), 2, activation="relu")
    for _ in range(4):
        x = net.depthwise(x, 3, activation="relu")
        x = net.conv(x, 64, 1, activation="relu")
    return net.finish(net.dense(net.mean(x), classes))


def heartbeat(length: int = 187, classes: int = 5) -> onnx.ModelProto:
    """Heartbeats of an electrocardiogram, residual and one-dimensional. Kachuee et al., ECG
    Heartbeat Classification (arXiv:1805.00794)."""
    net = Network("heartbeat", (1, 1, length))
    x = net.conv("input", 32, 5)
    for _ in range(3):
        y = net.conv(x, 32, 5, activation="relu")
        y = net.conv(y, 32, 5)
        x = net.max_pool(net.activate(net.add(x, y), "relu"), 2)
    x = net.dense(net.flatten(x), 32, "relu")
    return net.finish(net.dense(x, classes))


def transformer(
    length: int = 32, width: int = 48, heads: int = 4, layers: int = 2, classes: int = 6
) -> onnx.ModelProto:
    """An encoder for windows of inertial measurements, normalised before each block. Vaswani et
    al., Attention Is All You Need (arXiv:1706.03762); classified by the mean over time."""
    net = Network("transformer", (1, length, 6))
    x = net.add_constant(net.rows("input", width), (1, length, width))
    for _ in range(layers):
        x = net.add(x, _attention(net, net.layer_norm(x), heads))
        inner = net.gelu(net.rows(net.layer_norm(x), 2 * width))
        x = net.add(x, net.rows(inner, width))
    x = net.node("ReduceMean", [net.layer_norm(x)], (1, width), axes=[1], keepdims=0)
    return net.finish(net.dense(x, classes))


def _attention(net: Network, x: str, heads: int) -> str:
    _, length, width = net.shapes[x]
    depth = width // heads

    def split(value: str, order: list[int]) -> str:
        shape = (1, length, heads, depth)
        parts = net.reshape(value, shape)
        turned = tuple(shape[axis] for axis in order)
        return net.node("Transpose", [parts], turned, perm=order)

    query, value = (split(net.rows(x, width), [0, 2, 1, 3]) for _ in range(2))
    key = split(net.rows(x, width), [0, 2, 3, 1])
    scores = net.node("MatMul", [query, key], (1, heads, length, length))
    scores = net.node("Mul", [scores, net.scalar(depth**-0.5)], (1, heads, length, length))
    weights = net.node("Softmax", [scores], (1, heads, length, length), axis=-1)
    mixed = net.node("MatMul", [weights, value], (1, heads, length, depth))
    joined = net.node("Transpose", [mixed], (1, length, heads, depth), perm=[0, 2, 1, 3])
    return net.rows(net.reshape(joined, (1, length, width)), width)
