# SPDX-License-Identifier: Apache-2.0
"""Networks as people train them, small: images. Each is a float graph as PyTorch exports it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from .exported import Net

Network = Callable[[Net], onnx.ModelProto]
IMAGES: dict[str, Network] = {}


def image(function: Network) -> Network:
    IMAGES[function.__name__] = function
    return function


@image
def eegnet(n: Net) -> onnx.ModelProto:
    y = n.conv(n.input(1, 1, 8, 32), 1, 4, (1, 9))
    y = n.op("Elu", n.conv(y, 4, 8, (8, 1), pad=[0, 0], groups=4), alpha=1.0)
    y = n.op("AveragePool", y, kernel_shape=[1, 4], strides=[1, 4])
    y = n.conv(n.conv(y, 8, 8, (1, 5), groups=8), 8, 8, (1, 1))
    y = n.op("AveragePool", n.op("Elu", y, alpha=1.0), kernel_shape=[1, 4], strides=[1, 4])
    y = n.linear(n.flatten(y, 16, "x"), 16, 4)
    return n.model(n.op("LogSoftmax", y, axis=1))


@image
def mobilenet_v3(n: Net) -> onnx.ModelProto:
    y = n.hard_swish(n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2))
    z = n.hard_swish(n.conv(y, 8, 16, (1, 1)))
    z = n.hard_swish(n.conv(z, 16, 16, groups=16))
    z = n.conv(n.squeeze_excite(z, 16, 4), 16, 8, (1, 1))
    y = n.hard_swish(n.conv(n.op("Add", z, y), 8, 16, (1, 1)))
    y = n.hard_swish(n.linear(n.flatten(n.global_pool(y), 16), 16, 12))
    return n.model(n.linear(y, 12, 5))


@image
def mobilenet_v3_decomposed(n: Net) -> onnx.ModelProto:
    y = n.hard_swish(n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2), True)
    z = n.hard_swish(n.conv(y, 8, 8, groups=8), True)
    gate = n.conv(n.relu(n.conv(n.mean(z, [2, 3]), 8, 4, (1, 1))), 4, 8, (1, 1))
    gate = n.op("Div", n.clip(n.op("Add", gate, n.k(3)), 0, 6), n.k(6))
    y = n.op("Add", n.conv(n.op("Mul", z, gate), 8, 8, (1, 1)), y)
    return n.model(n.linear(n.mean(y, [2, 3], False), 8, 5))


@image
def yolox_focus(n: Net) -> onnx.ModelProto:
    x = n.input(1, 3, 16, 16)
    parts = [
        n.cut(n.cut(x, 2, top, 2**63 - 1, 2), 3, left, 2**63 - 1, 2)
        for left in (0, 1)
        for top in (0, 1)
    ]
    y = n.silu(n.conv(n.cat(*parts), 12, 8))
    deep = n.silu(n.conv(y, 8, 16, stride=2))
    up = n.resize(n.silu(n.conv(deep, 16, 8, (1, 1))))
    y = n.silu(n.conv(n.cat(up, y), 16, 8))
    box = n.conv(y, 8, 4, (1, 1))
    score, kind = (n.op("Sigmoid", n.conv(y, 8, c, (1, 1))) for c in (1, 3))
    y = n.reshape(n.cat(box, score, kind), 1, 8, 64)
    return n.model(n.transpose(y, 0, 2, 1))


@image
def yolox_decoded(n: Net) -> onnx.ModelProto:
    """With the grid and strides in the graph."""
    y = n.silu(n.conv(n.input(1, 3, 8, 8), 3, 8, stride=2))
    y = n.transpose(n.reshape(n.conv(y, 8, 6, (1, 1)), 1, 6, 16), 0, 2, 1)
    grid = np.stack(np.meshgrid(range(4), range(4)), -1).reshape(1, 16, 2)
    xy, wh = n.cut(y, 2, 0, 2), n.cut(y, 2, 2, 4)
    xy = n.op("Mul", n.op("Add", xy, n.weight(grid)), n.weight(np.full((1, 16, 1), 2)))
    wh = n.op("Mul", n.op("Exp", wh), n.weight(np.full((1, 16, 1), 2)))
    rest = n.op("Sigmoid", n.cut(y, 2, 4, 6))
    return n.model(n.cat(xy, wh, rest, axis=2))


def _shuffle(n: Net, x: str, channels: int, side: int) -> str:
    y = n.reshape(x, 1, 2, channels // 2, side, side)
    return n.reshape(n.transpose(y, 0, 2, 1, 3, 4), 1, channels, side, side)


@image
def shufflenet_shared(n: Net) -> onnx.ModelProto:
    """One unit that is called twice."""
    y = n.relu(n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2))
    shared = [n.conv_weights(4, 4, (1, 1)), n.conv_weights(4, 4, (3, 3), 4)]
    for _ in range(2):
        a, b = n.split(y, 4, 4)
        b = n.relu(n.conv(b, 4, 4, (1, 1), shared[0]))
        b = n.conv(b, 4, 4, weights=shared[1], groups=4)
        b = n.relu(n.conv(b, 4, 4, (1, 1), shared[0]))
        y = _shuffle(n, n.cat(a, b), 8, 8)
    return n.model(n.linear(n.mean(y, [2, 3], False), 8, 5))


@image
def unet(n: Net) -> onnx.ModelProto:
    a = n.relu(n.conv(n.input(1, 1, 16, 16), 1, 4))
    b = n.relu(n.conv(n.pool(a), 4, 8))
    c = n.relu(n.conv(n.pool(b), 8, 16))
    b = n.relu(n.conv(n.cat(n.transposed_conv(c, 16, 8), b), 16, 8))
    a = n.relu(n.conv(n.cat(n.transposed_conv(b, 8, 4), a), 8, 4))
    return n.model(n.op("Sigmoid", n.conv(a, 4, 1, (1, 1))))


def _prelu(n: Net, x: str, channels: int) -> str:
    return n.op("PRelu", x, n.weight(n.rng.uniform(0.1, 0.4, (channels, 1, 1))))


@image
def face_prelu(n: Net) -> onnx.ModelProto:
    """Ends in an embedding of length one."""
    y = _prelu(n, n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2), 8)
    z = _prelu(n, n.conv(y, 8, 8, groups=8), 8)
    y = n.op("Add", y, n.conv(z, 8, 8, (1, 1)))
    y = n.linear(n.flatten(n.conv(y, 8, 16, (8, 8), pad=[0, 0]), 16), 16, 12)
    length = n.clip_norm(y)
    return n.model(n.op("Div", y, length))


@image
def resnet(n: Net) -> onnx.ModelProto:
    y = n.pool(n.relu(n.conv(n.input(1, 3, 16, 16), 3, 8, (5, 5), stride=2)), 3, 2, 1)
    z = n.conv(n.relu(n.conv(y, 8, 8)), 8, 8)
    y = n.relu(n.op("Add", z, y))
    z = n.conv(n.relu(n.conv(y, 8, 16, stride=2)), 16, 16)
    y = n.relu(n.op("Add", z, n.conv(y, 8, 16, (1, 1), stride=2, pad=[0, 0])))
    return n.model(n.linear(n.flatten(n.global_pool(y), 16), 16, 10))


@image
def resnet_preactivation(n: Net) -> onnx.ModelProto:
    """Batch normalisations that stay."""
    y = n.conv(n.input(1, 3, 8, 8), 3, 8)
    for _ in range(2):
        z = n.conv(n.relu(n.norm(y, 8)), 8, 8)
        y = n.op("Add", y, n.conv(n.relu(n.norm(z, 8)), 8, 8))
    y = n.global_pool(n.relu(n.norm(y, 8)))
    return n.model(n.linear(n.flatten(y, 8, "x"), 8, 4))


@image
def densenet(n: Net) -> onnx.ModelProto:
    y = n.conv(n.input(1, 3, 8, 8), 3, 4)
    kept = [y]
    for i in range(3):
        z = n.cat(*kept) if len(kept) > 1 else y
        kept.append(n.conv(n.relu(n.norm(z, 4 + 4 * i)), 4 + 4 * i, 4))
    y = n.pool(n.relu(n.norm(n.cat(*kept), 16)), kind="AveragePool")
    return n.model(n.op("Softmax", n.linear(n.flatten(n.global_pool(y), 16), 16, 4), axis=1))


@image
def ghostnet(n: Net) -> onnx.ModelProto:
    y = n.relu(n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2))
    a = n.relu(n.conv(y, 8, 8, (1, 1)))
    z = n.cat(a, n.relu(n.conv(a, 8, 8, groups=8)))
    z = n.squeeze_excite(z, 16, 4)
    a = n.conv(n.cut(z, 1, 0, 12), 12, 4, (1, 1))
    z = n.cat(a, n.conv(a, 4, 4, groups=4))
    y = n.op("Add", z, n.conv(n.conv(y, 8, 8, groups=8), 8, 8, (1, 1)))
    return n.model(n.linear(n.flatten(n.global_pool(y), 8), 8, 4))


@image
def squeezenet(n: Net) -> onnx.ModelProto:
    y = n.pool(n.relu(n.conv(n.input(1, 3, 17, 17), 3, 8, stride=2, pad=[0, 0])), 3, 2)
    for count in (8, 16):
        s = n.relu(n.conv(y, 8 if count == 8 else 16, 4, (1, 1)))
        y = n.cat(n.relu(n.conv(s, 4, 8, (1, 1))), n.relu(n.conv(s, 4, 8)))
    y = n.global_pool(n.relu(n.conv(y, 16, 6, (1, 1))))
    return n.model(n.op("Softmax", n.flatten(y, 6), axis=1))


@image
def inception(n: Net) -> onnx.ModelProto:
    y = n.relu(n.conv(n.input(1, 3, 8, 8), 3, 8))
    a = n.relu(n.conv(y, 8, 4, (1, 1)))
    b = n.relu(n.conv(n.relu(n.conv(y, 8, 4, (1, 1))), 4, 4, (1, 3)))
    c = n.relu(n.conv(n.pool(y, 3, 1, 1, kind="AveragePool"), 8, 4, (1, 1)))
    y = n.pool(n.cat(a, b, c, n.pool(y, 3, 1, 1)))
    return n.model(n.linear(n.flatten(n.mean(y, [-1, -2]), 20), 20, 4))


@image
def convnext(n: Net) -> onnx.ModelProto:
    y = n.conv(n.input(1, 3, 16, 16), 3, 8, (4, 4), stride=4, pad=[0, 0])
    z = n.transpose(n.conv(y, 8, 8, (7, 7), groups=8), 0, 2, 3, 1)
    z = n.tokens(n.gelu(n.tokens(n.layer_norm(z, 8), 8, 32)), 32, 8)
    z = n.op("Mul", n.weight(n.rng.uniform(0.2, 1, 8)), z)
    y = n.op("Add", y, n.transpose(z, 0, 3, 1, 2))
    y = n.layer_norm(n.mean(y, [-2, -1], False), 8)
    return n.model(n.linear(y, 8, 4))


@image
def fcn(n: Net) -> onnx.ModelProto:
    """Segmentation; the logits are resized to the image."""
    y = n.relu(n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2))
    y = n.conv(n.relu(n.conv(y, 8, 8, dilation=2)), 8, 3, (1, 1))
    return n.model(n.resize(y, 2.0, "linear", (1, 3, 16, 16)))


@image
def deeplab_argmax(n: Net) -> onnx.ModelProto:
    """Pyramid with an image-wide branch; ends in classes."""
    y = n.relu(n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2))
    wide = n.relu(n.conv(n.global_pool(y), 8, 4, (1, 1)))
    wide = n.resize(wide, 8.0, "linear", (1, 4, 8, 8))
    y = n.cat(n.relu(n.conv(y, 8, 4, dilation=2)), n.relu(n.conv(y, 8, 4, (1, 1))), wide)
    y = n.conv(y, 12, 3, (1, 1))
    return n.model(n.op("ArgMax", y, axis=1, keepdims=0))


@image
def ssd_heads(n: Net) -> onnx.ModelProto:
    """Several outputs, of two scales."""
    y = n.clip(n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2), 0, 6)
    boxes, scores = [], []
    for side in (8, 4):
        box, score = n.conv(y, 8, 8), n.conv(y, 8, 6)
        boxes.append(n.reshape(n.transpose(box, 0, 2, 3, 1), 1, 2 * side**2, 4))
        scores.append(n.reshape(n.transpose(score, 0, 2, 3, 1), 1, 2 * side**2, 3))
        y = n.clip(n.conv(y, 8, 8, stride=2), 0, 6)
    return n.model(n.cat(*boxes), n.op("Softmax", n.cat(*scores), axis=2))


@image
def detr_outputs(n: Net) -> onnx.ModelProto:
    """Three outputs of one trunk, each with a tail of its own."""
    y = n.relu(n.conv(n.input(1, 3, 8, 8), 3, 8, stride=2))
    f = n.flatten(n.global_pool(y), 8)
    return n.model(
        n.op("Sigmoid", n.linear(f, 8, 4)),
        n.op("Softmax", n.linear(f, 8, 5), axis=-1),
        n.op("Softplus", n.linear(f, 8, 2)),
    )


@image
def siamese(n: Net) -> onnx.ModelProto:
    a, b = n.input(1, 1, 8, 8), n.input(1, 1, 8, 8)
    first, second, last = (
        n.conv_weights(1, 4, (3, 3)),
        n.conv_weights(4, 8, (3, 3)),
        n.linear_weights(8, 6),
    )
    ends = []
    for y in (a, b):
        y = n.pool(n.relu(n.conv(y, 1, 4, weights=first)))
        y = n.relu(n.conv(y, 4, 8, weights=second))
        ends.append(n.linear(n.flatten(n.global_pool(y), 8), 8, 6, last))
    y = n.linear(n.op("Abs", n.op("Sub", *ends)), 6, 1)
    return n.model(n.op("Sigmoid", y))


@image
def autoencoder(n: Net) -> onnx.ModelProto:
    y = n.relu(n.conv(n.input(1, 1, 16, 16), 1, 4, stride=2))
    y = n.relu(n.conv(y, 4, 8, stride=2))
    y = n.relu(n.transposed_conv(y, 8, 4, (3, 3), 2, 1, 1))
    return n.model(n.op("Sigmoid", n.transposed_conv(y, 4, 1, (3, 3), 2, 1, 1)))


@image
def efficientnet(n: Net) -> onnx.ModelProto:
    y = n.silu(n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2))
    z = n.silu(n.conv(n.silu(n.conv(y, 8, 16, (1, 1))), 16, 16, groups=16))
    gate = n.conv(n.silu(n.conv(n.mean(z, [2, 3]), 16, 4, (1, 1))), 4, 16, (1, 1))
    z = n.op("Mul", n.op("Sigmoid", gate), z)
    y = n.op("Add", n.conv(z, 16, 8, (1, 1)), y)
    return n.model(n.linear(n.flatten(n.global_pool(n.silu(n.conv(y, 8, 16, (1, 1)))), 16), 16, 4))


@image
def cbam(n: Net) -> onnx.ModelProto:
    """Attention over channels by one network of two pools, then over places."""
    y = n.relu(n.conv(n.input(1, 3, 8, 8), 3, 8))
    shared = n.conv_weights(8, 4, (1, 1)), n.conv_weights(4, 8, (1, 1))
    ends = []
    for pooled in (n.global_pool(y), n.op("GlobalMaxPool", y)):
        z = n.relu(n.conv(pooled, 8, 4, (1, 1), shared[0]))
        ends.append(n.conv(z, 4, 8, (1, 1), shared[1]))
    y = n.op("Mul", n.op("Sigmoid", n.op("Add", *ends)), y)
    places = n.cat(n.mean(y, [1]), n.reduce("ReduceMax", y, [1]))
    y = n.op("Mul", n.op("Sigmoid", n.conv(places, 2, 1, (7, 7))), y)
    return n.model(n.linear(n.mean(y, [2, 3], False), 8, 4))


@image
def super_resolution(n: Net) -> onnx.ModelProto:
    y = n.op("Tanh", n.conv(n.input(1, 1, 8, 8), 1, 8, (5, 5)))
    y = n.conv(n.op("Tanh", n.conv(y, 8, 8)), 8, 4)
    return n.model(n.clip(n.op("DepthToSpace", y, blocksize=2, mode="CRD"), 0, 1))


@image
def hourglass(n: Net) -> onnx.ModelProto:
    y = n.op("LeakyRelu", n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2), alpha=0.1)
    z = n.op("LeakyRelu", n.conv(n.pool(y), 8, 8), alpha=0.1)
    return n.model(n.conv(n.op("Add", y, n.resize(z)), 8, 4, (1, 1)))


@image
def eca(n: Net) -> onnx.ModelProto:
    """A convolution along channels."""
    y = n.relu(n.conv(n.input(1, 3, 8, 8), 3, 8))
    z = n.op("Squeeze", n.global_pool(y), n.ints(-1))
    z = n.conv(n.transpose(z, 0, 2, 1), 1, 1, (3,))
    z = n.op("Sigmoid", n.op("Unsqueeze", n.transpose(z, 0, 2, 1), n.ints(-1)))
    y = n.op("Mul", y, n.op("Expand", z, n.ints(1, 8, 8, 8)))
    return n.model(n.linear(n.flatten(n.global_pool(y), 8), 8, 4))


@image
def generalised_mean(n: Net) -> onnx.ModelProto:
    """GeM pooling: powers on both sides of a mean."""
    y = n.relu(n.conv(n.input(1, 3, 8, 8), 3, 8))
    y = n.op("Pow", n.op("Clip", y, n.k(1e-6)), n.k(3))
    y = n.op("Pow", n.pool(y, 8, kind="AveragePool"), n.k(1 / 3))
    return n.model(n.linear(n.flatten(y, 8), 8, 4))


@image
def spiking(n: Net) -> onnx.ModelProto:
    """Leaky integrate and fire, three steps of one input, weights shared."""
    x = n.input(1, 1, 8, 8)
    first, last = n.conv_weights(1, 4, (3, 3)), n.linear_weights(64, 3)
    mem, total, beta = "", "", n.k(0.9)
    for _ in range(3):
        current = n.pool(n.conv(x, 1, 4, weights=first))
        mem = n.op("Add", n.op("Mul", mem, beta), current) if mem else current
        spike = n.op("Cast", n.op("Greater", mem, n.k(0.3)), to=1)
        mem = n.op("Sub", mem, n.op("Mul", spike, n.k(0.3)))
        out = n.linear(n.flatten(spike, 64), 64, 3, last)
        total = n.op("Add", total, out) if total else out
    return n.model(total)


@image
def group_norm(n: Net) -> onnx.ModelProto:
    """nn.GroupNorm as both exporters write it below opset 21."""
    y = n.conv(n.input(1, 3, 8, 8), 3, 8)
    ones, zeros = n.k(np.ones(2)), n.k(np.zeros(2))
    z = n.op("InstanceNormalization", n.reshape(y, 1, 2, -1), ones, zeros, epsilon=1e-5)
    z = n.op("Mul", n.reshape(z, 1, 8, 8, 8), n.weight(n.rng.uniform(0.5, 1.5, (8, 1, 1))))
    z = n.op("Add", z, n.weight(n.rng.normal(size=(8, 1, 1)) / 9))
    y = n.conv(n.relu(z), 8, 4)
    return n.model(n.linear(n.flatten(n.global_pool(y), 4), 4, 3))
