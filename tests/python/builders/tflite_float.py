# SPDX-License-Identifier: Apache-2.0
"""Small float32 .tflite files, one operator each."""

from __future__ import annotations

import numpy as np
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

from .tflite_models import Case, TfliteModel, _out_size


def real(m: TfliteModel, *shape: int) -> int:
    return m.activation(shape, 1.0, 0, np.float32)


def numbers(m: TfliteModel, *shape: int) -> int:
    return m.constant(m.rng.normal(size=shape).astype(np.float32))


def ints(m: TfliteModel, *values) -> int:
    return m.constant(np.array(values, np.int32))


def one(name, shape, kind="", to=None, constants=(), **options) -> Case:
    """An operator of one activation and constants behind it, which are int32 or float32."""

    def build(m: TfliteModel):
        x = real(m, *shape)
        arrays = [np.asarray(c) for c in constants]
        inputs = [m.constant(a if a.dtype == np.float32 else a.astype(np.int32)) for a in arrays]
        y = real(m, *(shape if to is None else to))
        m.op(name, [x, *inputs], y, kind, **options)
        return [x], [y]

    return build


def two(name, a, b, kind="", to=None, dtype=np.float32, **options) -> Case:
    """An operator of two activations; `b` is None: of one and a constant of its last axis."""

    def build(m: TfliteModel):
        x = real(m, *a)
        y = numbers(m, a[-1]) if b is None else real(m, *b)
        out = m.activation(to or np.broadcast_shapes(a, b or a), dtype=dtype)
        m.op(name, [x, y], out, kind, **options)
        return [x] if b is None else [x, y], [out]

    return build


def window(name, size, channels, kernel, stride=(1, 1), same=True, **more) -> Case:
    """CONV_2D, DEPTHWISE_CONV_2D or a pool. more: count, dilation, activation, form."""

    def build(m: TfliteModel):
        dilation, form = more.get("dilation", (1, 1)), more.get("form", "float32")
        x = real(m, 1, *size, channels)
        out = [_out_size(size[i], kernel[i], stride[i], dilation[i], same) for i in (0, 1)]
        options = {"strideH": stride[0], "strideW": stride[1], "padding": 0 if same else 1}
        options["fusedActivationFunction"] = more.get("activation", 0)
        count, inputs = channels, [x]
        if name.endswith("CONV_2D"):
            count = more["count"]
            shape = (count, *kernel, channels)
            axis = 0
            if name == "DEPTHWISE_CONV_2D":
                shape, axis = (1, *kernel, count), 3
                options["depthMultiplier"] = count // channels
            inputs += [weights(m, shape, axis, form), numbers(m, count)]
            options |= {"dilationHFactor": dilation[0], "dilationWFactor": dilation[1]}
        else:
            options |= {"filterHeight": kernel[0], "filterWidth": kernel[1]}
        kinds = {"CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D"}
        y = real(m, 1, *out, count)
        m.op(name, inputs, y, kinds.get(name, "Pool2D"), **options)
        return [x], [y]

    return build


class Twin(TfliteModel):
    """The same numbers in float32, whatever form the weights of a case have."""


def weights(m: TfliteModel, shape, axis: int, form: str) -> int:
    """Constant weights: float32; float16 or int8 behind DEQUANTIZE; int8 or int4 read directly."""
    values = m.rng.normal(size=shape).astype(np.float32)
    if form == "float32":
        return m.constant(values)
    if form == "float16":
        if isinstance(m, Twin):
            return m.constant(values.astype(np.float16).astype(np.float32))
        source = m.constant(values.astype(np.float16))
    else:
        low, high = (-7, 8) if form == "int4" else (-127, 128)
        array = m.rng.integers(low, high, shape).astype(np.int8)
        count = shape[axis] if form != "int8 tensor" else 1
        scales = m.rng.uniform(0.005, 0.02, count).astype(np.float32)
        if isinstance(m, Twin):
            sizes = [-1 if place == axis else 1 for place in range(len(shape))]
            return m.constant(array.astype(np.float32) * scales.reshape(sizes))
        source = (m.packed if form == "int4" else m.constant)(array, scales, axis)
        if form != "int8 behind":
            return source
    whole = real(m, *shape)
    m.op("DEQUANTIZE", [source], whole)
    return whole


def dense(shape, count, to, bias=True, keep=False, form="float32", activation=0) -> Case:
    def build(m: TfliteModel):
        x, y = real(m, *shape), real(m, *to)
        depth = shape[-1] if keep or len(shape) == 2 else int(np.prod(shape[1:]))
        inputs = [x, weights(m, (count, depth), 0, form)]
        inputs.append(numbers(m, count) if bias else -1)
        options = {"keepNumDims": keep, "fusedActivationFunction": activation}
        m.op("FULLY_CONNECTED", inputs, y, "FullyConnected", **options)
        return [x], [y]

    return build


def transpose_conv(size, channels, count, kernel, stride, same) -> Case:
    def build(m: TfliteModel):
        x = real(m, 1, *size, channels)
        out = [
            s * t if same else (s - 1) * t + k for s, t, k in zip(size, stride, kernel, strict=True)
        ]
        y = real(m, 1, *out, count)
        inputs = [ints(m, 1, *out, count), numbers(m, count, *kernel, channels), x]
        options = {"strideH": stride[0], "strideW": stride[1], "padding": 0 if same else 1}
        m.op("TRANSPOSE_CONV", inputs, y, "TransposeConv", **options)
        return [x], [y]

    return build


def split(name, shape, axis, sizes) -> Case:
    """SPLIT, SPLIT_V or UNPACK, and a concatenation of the parts in reverse."""

    def build(m: TfliteModel):
        x, parts = real(m, *shape), []
        for size in sizes:
            to = [*shape[:axis], *([] if name == "UNPACK" else [size]), *shape[axis + 1 :]]
            parts.append(real(m, *to))
        inputs = {
            "SPLIT": lambda: [ints(m, axis), x],
            "SPLIT_V": lambda: [x, ints(m, *sizes), ints(m, axis)],
            "UNPACK": lambda: [x],
        }[name]()
        table = {
            "SPLIT": schema.SplitOptionsT,
            "SPLIT_V": schema.SplitVOptionsT,
            "UNPACK": schema.UnpackOptionsT,
        }[name]()
        if name == "UNPACK":
            table.num, table.axis = len(sizes), axis
        else:
            table.numSplits = len(sizes)
        m.put(m.graph, name, inputs, parts, table, type(table).__name__[:-1])
        return [x], parts[::-1]

    return build


def pack(shape, axis, join="PACK") -> Case:
    def build(m: TfliteModel):
        parts = [real(m, *shape) for _ in range(3)]
        if join == "PACK":
            to = [*shape[:axis], 3, *shape[axis:]]
            options = {"valuesCount": 3, "axis": axis}
        else:
            to = [*shape[:axis], 3 * shape[axis], *shape[axis + 1 :]]
            options = {"axis": axis, "fusedActivationFunction": 0}
        y = real(m, *to)
        m.op(join, parts, y, "Pack" if join == "PACK" else "Concatenation", **options)
        return parts, [y]

    return build


def arg(name) -> Case:
    def build(m: TfliteModel):
        x, y = real(m, 1, 4, 7), m.activation((1, 4), dtype=np.int32)
        m.graph.tensors[y].quantization = None
        kind = "ArgMax" if name == "ARG_MAX" else "ArgMin"
        m.op(name, [x, ints(m, 2)], y, kind, outputType=2)
        return [x], [y]

    return build


def compared(name, kind="") -> Case:
    """A comparison that chooses between its operands."""

    def build(m: TfliteModel):
        a, b = real(m, 2, 5), real(m, 2, 5)
        truth, y = m.activation((2, 5), dtype=np.bool_), real(m, 2, 5)
        m.op(name, [a, b], truth, kind)
        m.op("SELECT_V2", [truth, a, b], y, "SelectV2")
        return [a, b], [y]

    return build


def logical(name, select="SELECT_V2") -> Case:
    """A condition of two comparisons, or the opposite of one, that chooses."""

    def build(m: TfliteModel):
        a, b, y = real(m, 2, 5), real(m, 2, 5), real(m, 2, 5)
        less, more, truth = (m.activation((2, 5), dtype=np.bool_) for _ in range(3))
        m.op("LESS", [a, b], less, "Less")
        m.op("GREATER", [a, numbers(m, 5)], more, "Greater")
        kind = "LogicalNot" if name == "LOGICAL_NOT" else "LogicalAnd"
        kind = "LogicalOr" if name == "LOGICAL_OR" else kind
        m.op(name, [less] if name == "LOGICAL_NOT" else [less, more], truth, kind)
        m.op(select, [truth, a, b], y, "SelectV2" if select.endswith("V2") else "Select")
        return [a, b], [y]

    return build


def behind_square(name, kind="") -> Case:
    """A function of values that are not negative."""

    def build(m: TfliteModel):
        x, square, y = (real(m, 1, 6, 5) for _ in range(3))
        m.op("SQUARE", [x], square, "Square")
        m.op(name, [square], y, kind)
        return [x], [y]

    return build


def cast() -> Case:
    """Whole numbers of values, as values again."""

    def build(m: TfliteModel):
        x, y = real(m, 1, 9), real(m, 1, 9)
        whole = m.activation((1, 9), dtype=np.int32)
        m.graph.tensors[whole].quantization = None
        m.op("CAST", [x], whole, "Cast", inDataType=0, outDataType=2)
        m.op("CAST", [whole], y, "Cast", inDataType=2, outDataType=0)
        return [x], [y]

    return build


def embedding() -> Case:
    def build(m: TfliteModel):
        x, y = m.activation((4,), dtype=np.int32), real(m, 4, 6)
        m.graph.tensors[x].quantization = None
        m.op("EMBEDDING_LOOKUP", [x, numbers(m, 9, 6)], y)
        return [x], [y]

    return build


def dilated() -> Case:
    """SPACE_TO_BATCH_ND, CONV_2D, BATCH_TO_SPACE_ND. The first float kernel in TensorFlow Lite
    Micro pads with a number that it does not initialise: the twin is one CONV_2D."""

    def build(m: TfliteModel):
        if isinstance(m, Twin):
            return window("CONV_2D", (8, 8), 3, (3, 3), count=4, dilation=(2, 2))(m)
        x, y = real(m, 1, 8, 8, 3), real(m, 1, 8, 8, 4)
        blocks, pads = ints(m, 2, 2), ints(m, [2, 2], [2, 2])
        inner, out = real(m, 4, 6, 6, 3), real(m, 4, 4, 4, 4)
        m.op("SPACE_TO_BATCH_ND", [x, blocks, pads], inner, "SpaceToBatchND")
        inputs = [inner, numbers(m, 4, 3, 3, 3), numbers(m, 4)]
        options = {"padding": 1, "strideH": 1, "strideW": 1}
        options |= {"dilationHFactor": 1, "dilationWFactor": 1}
        m.op("CONV_2D", inputs, out, "Conv2D", **options)
        crops = ints(m, [0, 0], [0, 0])
        m.op("BATCH_TO_SPACE_ND", [out, blocks, crops], y, "BatchToSpaceND")
        return [x], [y]

    return build


def lstm(steps, inputs, units, major=False, form="float32") -> Case:
    def build(m: TfliteModel):
        order = (lambda n: (steps, 1, n)) if major else (lambda n: (1, steps, n))
        x, y = real(m, *order(inputs)), real(m, *order(units))
        tensors = [x, *(weights(m, (units, inputs), 0, form) for _ in range(4))]
        tensors += [weights(m, (units, units), 0, form) for _ in range(4)]
        tensors += [-1, -1, -1, *(numbers(m, units) for _ in range(4)), -1, -1]
        for _ in range(2):
            tensors.append(real(m, 1, units))
            m.graph.tensors[tensors[-1]].isVariable = True
        tensors += [-1] * 4
        options = {"fusedActivationFunction": 4, "timeMajor": major}
        m.op(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            tensors,
            y,
            "UnidirectionalSequenceLSTM",
            **options,
        )
        return [x], [y]

    return build


def resize(name, size, to, **flags) -> Case:
    kind = "ResizeBilinear" if name == "RESIZE_BILINEAR" else "ResizeNearestNeighbor"
    return one(name, (1, *size, 3), kind, (1, *to, 3), [to], **flags)


def sliced(shape, begin, end, steps, to, **masks) -> Case:
    return one("STRIDED_SLICE", shape, "StridedSlice", to, [begin, end, steps], **masks)
