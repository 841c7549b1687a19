# SPDX-License-Identifier: Apache-2.0
"""Networks for images."""

from __future__ import annotations

import onnx
from network import Network

# Expansion, channels, repetitions, stride. Sandler et al., MobileNetV2 (arXiv:1801.04381), table 2.
_INVERTED = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2))
_INVERTED += ((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

# Channels and stride of each separable block. Howard et al., MobileNets (arXiv:1704.04861).
_SEPARABLE = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2))
_SEPARABLE += ((512, 1),) * 5 + ((1024, 2), (1024, 1))


def scaled(channels: float, divisor: int = 8) -> int:
    """Channels at a width: a multiple of the divisor, at most a tenth below what was asked for."""
    result = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return result + divisor if result < 0.9 * channels else result


def mobilenet_v1(width: float, size: int, classes: int = 2) -> onnx.ModelProto:
    net = Network(f"mobilenetv1-{width}-{size}", (1, 3, size, size))
    x = net.conv("input", scaled(32 * width), 3, 2, activation="relu")
    for channels, stride in _SEPARABLE:
        x = net.depthwise(x, 3, stride, "relu")
        x = net.conv(x, scaled(channels * width), 1, activation="relu")
    return net.finish(net.dense(net.mean(x), classes))


def inverted_residual(
    net: Network, x: str, channels: int, expansion: float, kernel: int, stride: int
) -> str:
    """Expand, depthwise, project, and add the input where shapes allow."""
    y, inner = x, round(net.channels(x) * expansion)
    if expansion != 1:
        y = net.conv(y, inner, 1, activation="relu6")
    y = net.depthwise(y, kernel, stride, "relu6")
    y = net.conv(y, channels, 1)
    return net.add(x, y) if stride == 1 and channels == net.channels(x) else y


def mobilenet_v2(width: float, size: int, classes: int = 1000) -> onnx.ModelProto:
    net = Network(f"mobilenetv2-{width}-{size}", (1, 3, size, size))
    x = net.conv("input", scaled(32 * width), 3, 2, activation="relu6")
    for expansion, channels, count, stride in _INVERTED:
        for index in range(count):
            step = stride if index == 0 else 1
            x = inverted_residual(net, x, scaled(channels * width), expansion, 3, step)
    x = net.conv(x, max(1280, scaled(1280 * width)), 1, activation="relu6")
    return net.finish(net.dense(net.mean(x), classes))
