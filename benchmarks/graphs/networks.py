# SPDX-License-Identifier: Apache-2.0
"""Networks with many branches, as small as microcontrollers have them.

What they compute is meaningless; how their layers hang together is that of the papers.
"""

from __future__ import annotations

from collections.abc import Callable

from sketch import Sketch
from vmcu_tools.graph import Graph, Tensor


def gru(steps: int, features: int = 8, units: int = 16) -> Graph:
    """A gated recurrent unit, one copy of it a step, as TensorFlow unrolls it. Cho et al., Learning
    Phrase Representations (arXiv:1406.1078)."""
    net = Sketch(f"gru-{steps}", (steps, 1, features))
    state = net.input((1, 1, units))
    one, gates = range(1), [range(n * units, (n + 1) * units) for n in range(3)]
    for step in range(steps):
        now = net.part(net.start, range(step, step + 1), range(features))
        given = net.dense(now, 3 * units)
        before = net.dense(state, 3 * units)
        update, reset, fresh = (net.part(given, one, gate) for gate in gates)
        again, forget, kept = (net.part(before, one, gate) for gate in gates)
        update = net.curve(net.add(update, again))
        reset = net.curve(net.add(reset, forget))
        fresh = net.curve(net.add(fresh, net.multiply(kept, reset)))
        state = net.add(net.multiply(state, update), net.multiply(fresh, net.curve(update)))
    return net.graph(net.dense(state, 4))


def nasnet(cells: int, size: int = 32, channels: int = 12) -> Graph:
    """NASNet-A's normal cells, each reading the two before it; every third halves the image. Zoph
    et al., Learning Transferable Architectures (arXiv:1707.07012), figure 4."""
    net = Sketch(f"nasnet-{cells}", (size, size, 3))
    last = before = net.conv(net.start, channels, 3)
    for number in range(cells):
        if number and number % 3 == 0:
            channels *= 2
            last, before = (net.conv(x, channels, 3, 2) for x in (last, before))
        last, before = _cell(net, last, before, channels), last
    return net.graph(net.dense(net.mean(last), 10))


def _cell(net: Sketch, here: Tensor, before: Tensor, channels: int) -> Tensor:
    h, p = net.conv(here, channels), net.conv(before, channels)

    def twice(x: Tensor, kernel: int) -> Tensor:
        return net.separable(net.separable(x, channels, kernel), channels, kernel)

    parts = (
        net.add(twice(h, 3), h),
        net.add(twice(p, 3), twice(h, 5)),
        net.add(net.average_pool(h, 3, 1), p),
        net.add(net.average_pool(p, 3, 1), net.average_pool(p, 3, 1)),
        net.add(twice(p, 5), twice(p, 3)),
    )
    return net.conv(net.join(*parts), channels)


def densenet(layers: int, blocks: int = 3, growth: int = 6, size: int = 32) -> Graph:
    """All layers of a block read all of those before them. Huang et al., Densely Connected
    Convolutional Networks (arXiv:1608.06993), with bottlenecks."""
    net = Sketch(f"densenet-{layers}x{blocks}", (size, size, 3))
    x = net.conv(net.start, 2 * growth, 3)
    for block in range(blocks):
        for _ in range(layers):
            x = net.join(x, net.conv(net.conv(x, 4 * growth), growth, 3))
        if block < blocks - 1:
            x = net.average_pool(net.conv(x, x.shape[2] // 2), 2, 2)
    return net.graph(net.dense(net.mean(x), 10))


def ghostnet(blocks: int = 8, size: int = 64, channels: int = 8) -> Graph:
    """Half of each layer's channels are made by a depthwise layer from the other half. Han et al.,
    GhostNet (arXiv:1911.11907), figure 3."""
    net = Sketch(f"ghostnet-{blocks}", (size, size, 3))
    x = net.conv(net.start, channels, 3, 2)

    def ghost(x: Tensor, count: int) -> Tensor:
        primary = net.conv(x, count // 2)
        return net.join(primary, net.depthwise(primary))

    for block in range(blocks):
        stride = 2 if block in (2, 5) else 1
        count = x.shape[2] * stride
        y = ghost(x, 3 * x.shape[2])
        if stride == 2:
            y = net.depthwise(y, 3, 2)
            x = net.conv(net.depthwise(x, 3, 2), count)
        x = net.add(x, ghost(y, count))
    return net.graph(net.dense(net.mean(x), 10))


def detector(size: int = 96, channels: int = 8) -> Graph:
    """A backbone, features of three sizes that are joined down and up again, and three heads of
    boxes and classes. Redmon and Farhadi, YOLOv3 (arXiv:1804.02767); Liu et al., Path Aggregation
    (arXiv:1803.01534)."""
    net = Sketch("yolo-head", (size, size, 3))
    x, features = net.conv(net.start, channels, 3, 2), []
    for level in range(4):
        x = net.conv(x, channels << level, 3, 2)
        x = net.add(x, net.conv(net.conv(x, x.shape[2] // 2), x.shape[2], 3))
        features.append(x)
    small, middle, large = features[:0:-1]
    middle = net.conv(net.join(middle, net.doubled(net.conv(small, middle.shape[2]))), 16, 3)
    large = net.conv(net.join(large, net.doubled(net.conv(middle, large.shape[2]))), 16, 3)
    middle = net.conv(net.join(middle, net.conv(large, 16, 3, 2)), 24, 3)
    small = net.conv(net.join(small, net.conv(middle, 24, 3, 2)), 32, 3)
    heads = []
    for x in (large, middle, small):
        boxes, classes = (net.conv(x, x.shape[2], 3) for _ in range(2))
        heads += [net.conv(boxes, 12), net.conv(classes, 6)]
    return net.graph(*heads)


def blazeface(size: int = 128, channels: int = 24) -> Graph:
    """Single and double blocks with skips, and two heads of boxes and scores. Bazarevsky et al.,
    BlazeFace (arXiv:1907.05047), table 4."""
    net = Sketch("blazeface", (size, size, 3))
    x = net.conv(net.start, channels, 5, 2)

    def block(x: Tensor, count: int, stride: int, inner: int | None = None) -> Tensor:
        y = net.separable(x, inner or count, 3 if inner is None else 5, stride)
        y = y if inner is None else net.separable(y, count, 5)
        if stride == 2:
            x = net.max_pool(x, 2, 2) if x.shape[0] % 2 else net.max_pool(x, 3, 2)
        if count != x.shape[2]:
            x = net.conv(x, count)
        return net.add(x, y)

    for count, stride in ((24, 1), (28, 1), (32, 2), (36, 1), (42, 1)):
        x = block(x, count, stride)
    for count, stride in ((48, 2), (56, 1), (64, 1), (72, 1), (80, 1), (88, 1)):
        x = block(x, count, stride, 24)
    first = x
    for stride in (2, 1, 1, 1, 1):
        x = block(x, 96, stride, 24)
    heads = [net.conv(y, count) for y in (first, x) for count in (2, 32)]
    return net.graph(*heads)


def chain(layers: int, size: int = 32, channels: int = 8) -> Graph:
    """3 x 3 convolutions, one after the other."""
    net = Sketch(f"chain-{layers}", (size, size, 3))
    x = net.start
    for _ in range(layers):
        x = net.conv(x, channels, 3)
    return net.graph(x)


NETWORKS: dict[str, Callable[[], Graph]] = {
    "GRU, 16 steps": lambda: gru(16),
    "NASNet, 2 cells": lambda: nasnet(2),
    "NASNet, 6 cells": lambda: nasnet(6),
    "DenseNet": lambda: densenet(6),
    "GhostNet": ghostnet,
    "YOLO head": detector,
    "BlazeFace": blazeface,
    "200 convolutions, streamed": lambda: chain(200),
}
# Those that take minutes: the page is without them.
LONG = ("NASNet, 6 cells",)
# Those whose input comes in rows.
STREAMED = ("200 convolutions, streamed",)
