# SPDX-License-Identifier: Apache-2.0
"""Files whose batch was left open: every case is built twice, as TensorFlow's converter writes it
then and as it writes it for a batch of one; Micro runs the latter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from builders.networks import random_inputs
from builders.tflite_models import TfliteModel, weights
from builders.tflite_ops import coin, draw, ints
from tflite_micro import runtime
from vmcu_bench import oracle
from vmcu_bench.verify.verify import Tally
from vmcu_tools import frontends
from vmcu_tools.errors import UserError
from vmcu_tools.machine import reference

Case = Callable[[TfliteModel, bool], tuple[list[int], list[int]]]


def open_up(m: TfliteModel, index: int, shape) -> int:
    """A tensor whose first dimension the converter does not know."""
    m.graph.tensors[index].shapeSignature = [-1, *shape[1:]]
    return index


def whole(m: TfliteModel, shape=()) -> int:
    index = m.activation(shape, dtype=np.int32)
    m.graph.tensors[index].quantization = None
    return index


def flattened(m: TfliteModel, is_open: bool):
    """What Flatten and Reshape become: the batch is cut out of the shape and packed again."""
    shape = (1, draw(m, 1, 5), draw(m, 1, 5), draw(m, 1, 6))
    size = int(np.prod(shape))
    x = m.activation(shape)
    y = m.like(x, (1, size))
    to = ints(m, 1, size)
    if is_open:
        open_up(m, x, shape)
        open_up(m, y, (1, size))
        found = m.op("SHAPE", [x], whole(m, (4,)), "Shape", outType=2)
        cuts = [ints(m, 0), ints(m, 1), ints(m, 1)]
        options = {"shrinkAxisMask": 1, "beginMask": 0, "endMask": 0, "ellipsisMask": 0}
        batch = m.op(
            "STRIDED_SLICE", [found, *cuts], whole(m), "StridedSlice", **options, newAxisMask=0
        )
        rest = m.constant(np.array(size, np.int32))
        to = m.op("PACK", [batch, rest], whole(m, (2,)), "Pack", valuesCount=2, axis=0)
    m.op("RESHAPE", [x, to], y, "Reshape", newShape=[])
    return [x], [y]


def dense_on_lines(m: TfliteModel, is_open: bool, keep: bool = False):
    """A dense layer on three dimensions: Tensordot reshapes by products of parts of the shape,
    each of which may keep its axis."""
    lines, depth, count = draw(m, 2, 6), draw(m, 1, 8), draw(m, 2, 7)
    x = m.activation((1, lines, depth))
    flat = m.like(x, (1, 1) if is_open else (lines, depth))
    constants, scale = weights(m, x, (count, depth), count, 0, coin(m), True)
    made = m.activation((1 if is_open else lines, count), scale)
    y = m.like(made, (1, lines, count))
    before, after = ints(m, lines, depth), ints(m, 1, lines, count)
    if is_open:
        open_up(m, x, (1, lines, depth))
        m.graph.tensors[flat].shapeSignature = [-1, -1]
        open_up(m, made, (1, count))
        found = m.op("SHAPE", [x], whole(m, (3,)), "Shape", outType=2)
        options = {"axis": 0, "batchDims": 0}
        free = m.op("GATHER", [found, ints(m, 0, 1)], whole(m, (2,)), "Gather", **options)
        bound = m.op("GATHER", [found, ints(m, 2)], whole(m, (1,)), "Gather", **options)
        axes = ints(m, 0)
        shape = (1,) if keep else ()
        sizes = [
            m.op("REDUCE_PROD", [part, axes], whole(m, shape), "Reducer", keepDims=keep)
            for part in (free, bound)
        ]
        if keep:
            before = m.op("CONCATENATION", sizes, whole(m, (2,)), "Concatenation", axis=0)
        else:
            before = m.op("PACK", sizes, whole(m, (2,)), "Pack", valuesCount=2, axis=0)
        after = m.op(
            "CONCATENATION", [free, ints(m, count)], whole(m, (3,)), "Concatenation", axis=0
        )
    m.op("RESHAPE", [x, before], flat, "Reshape", newShape=[])
    m.op("FULLY_CONNECTED", [flat, *constants], made, "FullyConnected", keepNumDims=False)
    m.op("RESHAPE", [made, after], y, "Reshape", newShape=[])
    return [x], [y]


def dense_of_three(m: TfliteModel, is_open: bool):
    """A dense layer that keeps the dimensions of its input."""
    lines, depth, count = draw(m, 2, 6), draw(m, 1, 8), draw(m, 2, 7)
    x = m.activation((1, lines, depth))
    constants, scale = weights(m, x, (count, depth), count, 0, coin(m), True)
    y = m.activation((1, 1, count) if is_open else (1, lines, count), scale)
    if is_open:
        open_up(m, x, (1, lines, depth))
        m.graph.tensors[y].shapeSignature = [-1, -1, count]
    m.op("FULLY_CONNECTED", [x, *constants], y, "FullyConnected", keepNumDims=True)
    return [x], [y]


def _convolution(m: TfliteModel, depthwise: bool, x: int, kernel, channels: int):
    """Constants, output channels, output scale."""
    count = channels if depthwise else draw(m, 1, 6)
    shape = (1, *kernel, count) if depthwise else (count, *kernel, channels)
    constants, scale = weights(m, x, shape, count, 3 if depthwise else 0, coin(m), True)
    return constants, count, scale


# The axes of H and W that tensors of a file have.
IMAGE, SEQUENCE, COLUMN = slice(0, 2), slice(1, 2), slice(0, 1)


class _Dilated:
    """A dilated convolution, drawn; sizes, dilations, kernels and explicit padding are those of H
    and W, and 1 along an axis that the file's tensors have not."""

    def __init__(self, m: TfliteModel, axes: slice):
        self.m, self.axes = m, axes
        there = range(2)[axes]
        least = 1 if axes == IMAGE else 2
        self.size = [draw(m, 6, 13) if axis in there else 1 for axis in range(2)]
        self.rate = [draw(m, max(least, axis + 1), 3) if axis in there else 1 for axis in range(2)]
        self.kernel = [draw(m, 1, 3) if axis in there else 1 for axis in range(2)]
        self.pad = [(draw(m, 0, 3), draw(m, 0, 3)) if d > 1 else (0, 0) for d in self.rate]
        self.channels, self.depthwise = draw(m, 1, 5), coin(m)
        self.x = m.activation(self.shape(self.size, self.channels))
        self.constants, self.count, scale = _convolution(
            m, self.depthwise, self.x, self.kernel, self.channels
        )
        self.padded = [n + sum(p) for n, p in zip(self.size, self.pad, strict=True)]
        sizes = zip(self.padded, self.kernel, self.rate, strict=True)
        self.out = [n - (k - 1) * d for n, k, d in sizes]
        self.y = m.activation(self.shape(self.out, self.count), scale)

    def shape(self, size, channels: int):
        return (1, *size[self.axes], channels)

    def convolve(self, x: int, y: int, dilation) -> None:
        options = {"padding": 1, "strideH": 1, "strideW": 1}
        options |= {"dilationHFactor": dilation[0], "dilationWFactor": dilation[1]}
        if self.depthwise:
            options["depthMultiplier"] = 1
        name = "DEPTHWISE_CONV_2D" if self.depthwise else "CONV_2D"
        kind = "DepthwiseConv2D" if self.depthwise else "Conv2D"
        self.m.op(name, [x, *self.constants], y, kind, **options)

    def closed(self) -> None:
        m, pairs = self.m, np.array([(0, 0), *self.pad, (0, 0)], np.int32)
        image = m.like(self.x, (1, *self.size, self.channels))
        first = m.like(self.x, (1, *self.padded, self.channels))
        last = m.like(self.y, (1, *self.out, self.count))
        to = ints(m, 1, *self.size, self.channels)
        m.op("RESHAPE", [self.x, to], image, "Reshape", newShape=[])
        m.op("PAD", [image, m.constant(pairs)], first, "Pad")
        self.convolve(first, last, self.rate)
        to = ints(m, *self.shape(self.out, self.count))
        m.op("RESHAPE", [last, to], self.y, "Reshape", newShape=[])

    def open(self) -> None:
        m, flat = self.m, self.axes != IMAGE
        full = [-(-n // d) * d for n, d in zip(self.padded, self.rate, strict=True)]
        extra = [f - n for f, n in zip(full, self.padded, strict=True)]
        pads = [(a, b + e) for (a, b), e in zip(self.pad, extra, strict=True)][self.axes]
        inner = [f // d for f, d in zip(full, self.rate, strict=True)]
        parts = [n - k + 1 for n, k in zip(inner, self.kernel, strict=True)]
        block = ints(m, *self.rate[self.axes])
        crops = np.array([(0, e) for e in extra][self.axes], np.int32)
        image = split = self.unknown(self.x, self.shape(inner, self.channels))
        inputs = [self.x, block, m.constant(np.array(pads, np.int32))]
        m.op("SPACE_TO_BATCH_ND", inputs, split, "SpaceToBatchND")
        if flat:
            image = self.unknown(self.x, (1, *inner, self.channels))
            m.op(
                "EXPAND_DIMS",
                [split, ints(m, 1 if self.axes == SEQUENCE else 2)],
                image,
                "ExpandDims",
            )
        joined = part = self.unknown(self.y, (1, *parts, self.count))
        self.convolve(image, part, (1, 1))
        if flat:
            joined = self.unknown(self.y, self.shape(parts, self.count))
            to = ints(m, -1, *parts[self.axes], self.count)
            m.op("RESHAPE", [part, to], joined, "Reshape", newShape=[])
        m.op("BATCH_TO_SPACE_ND", [joined, block, m.constant(crops)], self.y, "BatchToSpaceND")
        for index in (self.x, self.y):
            open_up(m, index, m.graph.tensors[index].shape)

    def unknown(self, like: int, shape) -> int:
        return open_up(self.m, self.m.like(like, shape), shape)


def dilated(axes: slice) -> Case:
    def build(m: TfliteModel, is_open: bool):
        drawn = _Dilated(m, axes)
        if is_open:
            drawn.open()
        else:
            drawn.closed()
        return [drawn.x], [drawn.y]

    return build


CASES: dict[str, Case] = {
    "flattened": flattened,
    "dense on lines": dense_on_lines,
    "dense on lines, axes kept": lambda m, is_open: dense_on_lines(m, is_open, True),
    "dense of three dimensions": dense_of_three,
    "dilated image": dilated(IMAGE),
    "dilated sequence": dilated(SEQUENCE),
    "dilated column": dilated(COLUMN),
}


@pytest.mark.parametrize("case", CASES)
def test_open_batch_computes_what_a_batch_of_one_does(tmp_path, case):
    for seed in range(20):
        files = []
        for is_open in (True, False):
            m = TfliteModel(seed)
            path = tmp_path / f"{seed}{is_open}.tflite"
            files.append(m.save(path, *CASES[case](m, is_open)))
        graph = frontends.load(files[0])
        (x,) = random_inputs(graph, seed)
        micro = runtime.Interpreter.from_file(str(files[1]), arena_size=1 << 20)
        micro.set_input(np.ascontiguousarray(x).reshape(graph.inputs[0].file_shape), 0)
        micro.invoke()
        wanted = micro.get_output(0)
        got = reference.run(graph, [x])[graph.outputs[0].tensor]
        np.testing.assert_array_equal(got.ravel(), wanted.ravel(), err_msg=f"seed {seed}")


@pytest.mark.parametrize("case", CASES)
def test_open_batch_is_verified(tmp_path, case):
    for seed in range(5):
        m = TfliteModel(seed)
        judge = oracle.open(m.save(tmp_path / f"{seed}.tflite", *CASES[case](m, True)))
        inputs = random_inputs(judge.graph, seed)
        tally = Tally()
        tally.compare(judge.graph, reference.run(judge.graph, inputs), judge.run(inputs))
        assert judge.graph.outputs[0].tensor in tally.checks
        assert all(check.differing == 0 for check in tally.checks.values())


def test_micro_runs_a_flattened_file_as_it_is(tmp_path):
    """No rewriting by the oracle between the two."""
    m = TfliteModel(3)
    path = m.save(tmp_path / "m.tflite", *flattened(m, True))
    graph = frontends.load(path)
    (x,) = random_inputs(graph, 3)
    micro = runtime.Interpreter.from_file(str(path), arena_size=1 << 20)
    micro.set_input(np.ascontiguousarray(x).reshape(graph.inputs[0].file_shape), 0)
    micro.invoke()
    got = reference.run(graph, [x])[graph.outputs[0].tensor]
    np.testing.assert_array_equal(got.ravel(), micro.get_output(0).ravel())


def test_only_a_convolution_between_the_two(tmp_path):
    m = TfliteModel()
    x = m.activation((1, 6, 6, 2))
    block, none = ints(m, 2, 2), m.constant(np.zeros((2, 2), np.int32))
    y = m.op("SPACE_TO_BATCH_ND", [x, block, none], m.like(x, (4, 3, 3, 2)), "SpaceToBatchND")
    z = m.op("BATCH_TO_SPACE_ND", [y, block, none], m.like(x, (1, 6, 6, 2)), "BatchToSpaceND")
    with pytest.raises(UserError, match="0 convolutions follow"):
        frontends.load(m.save(tmp_path / "m.tflite", [x], [z]))
