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


def mobilenet_v2_cut(width: float, size: int) -> onnx.ModelProto:
    """As msf-CNN counts it (analysis_optimization.py of its repository): channels rounded down,
    each block with an expansion, the last convolution as wide as all others, no classifier."""
    net = Network(f"mobilenetv2-{width}-{size}-cut", (1, 3, size, size))
    x = net.conv("input", int(32 * width), 3, 2, activation="relu6")
    for expansion, channels, count, stride in _INVERTED:
        for index in range(count):
            inner, source = net.channels(x) * expansion, x
            x = net.conv(x, inner, 1, activation="relu6")
            x = net.depthwise(x, 3, stride if index == 0 else 1, "relu6")
            x = net.conv(x, int(channels * width), 1)
            x = net.add(source, x) if index else x
    return net.finish(net.mean(net.conv(x, int(1280 * width), 1, activation="relu6")))


def residual(net: Network, x: str, channels: int, stride: int) -> str:
    """Two 3 x 3 convolutions beside a shortcut, which is a 1 x 1 one where shapes change."""
    y = net.conv(x, channels, 3, stride, activation="relu")
    y = net.conv(y, channels, 3)
    if stride != 1 or net.channels(x) != channels:
        x = net.conv(x, channels, 1, stride)
    return net.activate(net.add(x, y), "relu")


def resnet(blocks: int, classes: int = 10) -> onnx.ModelProto:
    """Of 32 x 32 pixels, with `blocks` residual blocks at each of three widths: 1 is ResNet-8, 3
    is ResNet-20. He et al., Deep Residual Learning (arXiv:1512.03385), section 4.2."""
    net = Network(f"resnet{6 * blocks + 2}", (1, 3, 32, 32))
    x = net.conv("input", 16, 3, activation="relu")
    for channels in (16, 32, 64):
        for index in range(blocks):
            x = residual(net, x, channels, 2 if index == 0 and channels > 16 else 1)
    return net.finish(net.dense(net.mean(x), classes))


# Expansion, channels, kernel, stride of each block of MCUNet for 80 x 80 pixels. Lin et al., MCUNet
# (arXiv:2007.10319): mcunet-vww-5fps of its model zoo.
_MCUNET = ((3, 16, 3, 2), (3, 16, 7, 1), (3, 16, 3, 1), (4, 24, 7, 2), (5, 24, 5, 1))
_MCUNET += ((5, 40, 7, 2), (4, 40, 3, 1), (5, 48, 7, 1), (4, 48, 3, 1), (5, 96, 5, 2))
_MCUNET += ((4, 96, 3, 1), (4, 96, 5, 1), (5, 160, 7, 1))


def mcunet(size: int = 80, classes: int = 2) -> onnx.ModelProto:
    net = Network(f"mcunet-{size}", (1, 3, size, size))
    x = net.conv("input", 16, 3, 2, activation="relu6")
    x = inverted_residual(net, x, 8, 1, 3, 1)
    for expansion, channels, kernel, stride in _MCUNET:
        x = inverted_residual(net, x, channels, expansion, kernel, stride)
    return net.finish(net.dense(net.mean(x), classes))


def unet(size: int = 48, width: int = 8, depth: int = 2) -> onnx.ModelProto:
    """Ronneberger et al., U-Net (arXiv:1505.04597), small: a mask of one channel."""
    net = Network(f"unet-{size}", (1, 1, size, size))

    def twice(x: str, channels: int) -> str:
        x = net.conv(x, channels, 3, activation="relu")
        return net.conv(x, channels, 3, activation="relu")

    x, skips = "input", []
    for level in range(depth):
        x = twice(x, width << level)
        skips.append(x)
        x = net.max_pool(x, 2)
    x = twice(x, width << depth)
    for level in reversed(range(depth)):
        x = net.upsample(x, width << level)
        x = twice(net.concat([skips[level], x]), width << level)
    return net.finish(net.sigmoid(net.conv(x, 1, 1)))
