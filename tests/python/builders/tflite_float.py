# SPDX-License-Identifier: Apache-2.0
"""Small float32 .tflite files, one operator each."""

from __future__ import annotations

import math

import numpy as np

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
        from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

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


_PLAIN = ("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU")
_PLAIN += ("RELU6", "ROUND", "SIN", "SQUARE", "TANH")
_OPTIONS = {"ABS": "Abs", "COS": "Cos", "EXP": "Exp", "NEG": "Neg", "SQUARE": "Square"}
_OPTIONS |= {"HARD_SWISH": "HardSwish"}
_RESIZES = {"plain": {}, "corners": {"alignCorners": True}, "half": {"halfPixelCenters": True}}
_FORMS = ("float16", "int8 behind", "int8", "int8 tensor", "int4")

ACTIVATED = {
    f"{name.lower()} {activation}": two(
        name, (1, 3, 4), other, kind, fusedActivationFunction=activation
    )
    for name, kind in (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div"))
    for activation, other in ((0, None), (1, (1, 3, 4)), (3, (1, 1, 4)))
}
ELEMENTS = {name.lower(): one(name, (1, 6, 5), _OPTIONS.get(name, "")) for name in _PLAIN}
ELEMENTS |= {
    "leaky relu": one("LEAKY_RELU", (1, 6, 5), "LeakyRelu", alpha=0.2),
    "prelu": one("PRELU", (1, 3, 4, 5), constants=[np.linspace(-1, 1, 5, dtype=np.float32)]),
    "maximum": two("MAXIMUM", (1, 3, 4), (1, 3, 4), "MaximumMinimum"),
    "minimum": two("MINIMUM", (1, 3, 4), None, "MaximumMinimum"),
    "squared difference": two("SQUARED_DIFFERENCE", (1, 3, 4), (1, 1, 4), "SquaredDifference"),
    "softmax": one("SOFTMAX", (2, 9), "Softmax", beta=1.0),
    "softmax beta": one("SOFTMAX", (1, 4, 9), "Softmax", beta=0.5),
    "log softmax": one("LOG_SOFTMAX", (2, 9), "LogSoftmax"),
    "l2 norm": one("L2_NORMALIZATION", (2, 9), "L2Norm"),
    "arg max": arg("ARG_MAX"),
    "arg min": arg("ARG_MIN"),
    "cumsum": one("CUMSUM", (2, 5), "Cumsum", None, [1]),
    "cumsum back": one("CUMSUM", (2, 5), "Cumsum", None, [1], exclusive=True, reverse=True),
    **{
        name.lower(): compared(name, kind)
        for name, kind in (
            ("EQUAL", "Equal"),
            ("NOT_EQUAL", "NotEqual"),
            ("GREATER", "Greater"),
            ("GREATER_EQUAL", "GreaterEqual"),
            ("LESS", "Less"),
            ("LESS_EQUAL", "LessEqual"),
        )
    },
}
REDUCED = {
    f"{name.lower()} {keep}": one(
        name, (1, 4, 5, 3), "Reducer", (1, 1, 1, 3) if keep else (1, 3), [[1, 2]], keepDims=keep
    )
    for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
    for keep in (True, False)
}
LAYERS = {
    "conv same": window("CONV_2D", (7, 6), 3, (3, 3), (2, 2), count=4, activation=1),
    "conv valid": window("CONV_2D", (7, 6), 3, (3, 2), (1, 2), False, count=4, activation=3),
    "conv dilated": window("CONV_2D", (9, 8), 2, (3, 3), count=3, dilation=(2, 2)),
    "depthwise": window("DEPTHWISE_CONV_2D", (7, 6), 3, (3, 3), count=3, activation=3),
    "depthwise twice": window("DEPTHWISE_CONV_2D", (6, 7), 3, (3, 3), (2, 2), count=6),
    "average pool": window("AVERAGE_POOL_2D", (7, 6), 3, (3, 3), (2, 2)),
    "max pool": window("MAX_POOL_2D", (7, 6), 3, (3, 2), (2, 2), activation=1),
    "max pool valid": window("MAX_POOL_2D", (7, 6), 3, (3, 2), (1, 1), False),
    "dense": dense((1, 12), 5, (1, 5), activation=1),
    "dense flat": dense((1, 3, 4), 5, (1, 5), bias=False),
    "dense rows": dense((1, 3, 4), 5, (1, 3, 5), keep=True),
    "transpose conv": transpose_conv((4, 5), 3, 2, (3, 3), (2, 2), True),
    "transpose conv valid": transpose_conv((4, 5), 3, 2, (3, 2), (2, 3), False),
    "dilated conv": dilated(),
    "batch matmul": two("BATCH_MATMUL", (1, 3, 4), (1, 4, 5), "BatchMatMul", (1, 3, 5)),
    "batch matmul adj": two(
        "BATCH_MATMUL", (1, 3, 4), (1, 5, 4), "BatchMatMul", (1, 3, 5), adjY=True
    ),
    "embedding": embedding(),
    "lstm": lstm(5, 3, 4),
    "lstm time major": lstm(5, 3, 4, True),
    **{f"conv {form}": window("CONV_2D", (5, 6), 3, (3, 3), count=4, form=form) for form in _FORMS},
    **{
        f"depthwise {form}": window("DEPTHWISE_CONV_2D", (5, 6), 3, (3, 3), count=3, form=form)
        for form in _FORMS
    },
    **{f"dense {form}": dense((1, 12), 5, (1, 5), form=form) for form in _FORMS},
    **{f"lstm {form}": lstm(3, 4, 5, form=form) for form in ("float16", "int8")},
}
MOVES = {
    "reshape": one("RESHAPE", (1, 3, 4), "Reshape", (1, 12), [[1, 12]], newShape=[1, 12]),
    "squeeze": one("SQUEEZE", (1, 1, 5), "Squeeze", (1, 5), squeezeDims=[1]),
    "expand dims": one("EXPAND_DIMS", (1, 5), "ExpandDims", (1, 1, 5), [1]),
    "transpose": one("TRANSPOSE", (1, 3, 4, 5), "Transpose", (1, 5, 3, 4), [[0, 3, 1, 2]]),
    "concat": pack((1, 3, 4), 2, "CONCATENATION"),
    "concat rows": pack((1, 3, 4), 1, "CONCATENATION"),
    "pack": pack((1, 4), 1),
    "split": split("SPLIT", (1, 3, 6), 2, (3, 3)),
    "split v": split("SPLIT_V", (1, 3, 6), 2, (1, 3, 2)),
    "unpack": split("UNPACK", (1, 3, 4), 1, (1, 1, 1)),
    "slice": one("SLICE", (1, 5, 6), "Slice", (1, 3, 4), [[0, 1, 2], [1, 3, -1]]),
    "strided slice": sliced(
        (1, 7, 6), [0, 1, -1], [1, 6, 0], [1, 2, -1], (1, 3, 6), endMask=4, beginMask=0
    ),
    "strided slice shrink": sliced(
        (1, 7, 6), [0, -2, 0], [1, 0, 4], [1, 1, 1], (1, 4), shrinkAxisMask=2
    ),
    "gather": one("GATHER", (1, 6, 3), "Gather", (1, 4, 3), [[5, 0, 0, 2]], axis=1),
    "gather nd": one("GATHER_ND", (4, 3), "GatherNd", (2, 3), [[[2], [0]]]),
    "pad": one("PAD", (1, 3, 4, 2), "Pad", (1, 5, 7, 2), [[[0, 0], [1, 1], [2, 1], [0, 0]]]),
    "pad value": one(
        "PADV2",
        (1, 3, 4, 2),
        "PadV2",
        (1, 5, 7, 2),
        [[[0, 0], [1, 1], [2, 1], [0, 0]], np.float32(0.5)],
    ),
    "mirror pad": one("MIRROR_PAD", (1, 4, 3), "MirrorPad", (1, 7, 5), [[[0, 0], [2, 1], [1, 1]]]),
    "mirror pad twice": one(
        "MIRROR_PAD", (1, 4, 3), "MirrorPad", (1, 7, 5), [[[0, 0], [2, 1], [1, 1]]], mode=1
    ),
    "broadcast to": one("BROADCAST_TO", (1, 1, 3), "BroadcastTo", (1, 4, 3), [[1, 4, 3]]),
    "depth to space": one(
        "DEPTH_TO_SPACE", (1, 2, 3, 8), "DepthToSpace", (1, 4, 6, 2), blockSize=2
    ),
    "space to depth": one(
        "SPACE_TO_DEPTH", (1, 4, 6, 2), "SpaceToDepth", (1, 2, 3, 8), blockSize=2
    ),
    "reverse": one("REVERSE_V2", (1, 4, 3), "ReverseV2", None, [[1]]),
    **{
        f"{name.lower()} {flag}": resize(name, (3, 4), (6, 7), **flags)
        for name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
        for flag, flags in _RESIZES.items()
    },
}
CASES: dict[str, Case] = LAYERS | ACTIVATED | ELEMENTS | REDUCED | MOVES
# Operators without a float kernel in TensorFlow Lite Micro, and what they compute.
BY_NUMPY = {
    "tile": (
        one("TILE", (1, 2, 3), "Tile", (1, 4, 9), [[1, 2, 3]]),
        lambda x: np.tile(x, (1, 2, 3)),
    ),
    "gelu": (
        one("GELU", (1, 6, 5), "Gelu"),
        np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    ),
    "gelu approximate": (
        one("GELU", (1, 6, 5), "Gelu", approximate=True),
        lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    ),
    "relu n1 to 1": (one("RELU_N1_TO_1", (1, 9)), lambda x: np.clip(x, -1, 1)),
    "sign": (one("SIGN", (1, 9), "Sign"), np.sign),
    "pow": (
        one("POW", (1, 3), "Pow", None, [np.full(3, 2, np.float32)]),
        np.square,
    ),
    "reduce prod": (
        one("REDUCE_PROD", (1, 4, 3), "Reducer", (1, 3), [[1]], keepDims=False),
        lambda x: x.prod(axis=1),
    ),
}
