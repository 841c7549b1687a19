# SPDX-License-Identifier: Apache-2.0
"""The table of float operators that tests run over."""

from __future__ import annotations

import math

import numpy as np

from .tflite_float import (
    arg,
    behind_square,
    cast,
    compared,
    dense,
    dilated,
    embedding,
    logical,
    lstm,
    one,
    pack,
    resize,
    sliced,
    split,
    transpose_conv,
    two,
    window,
)
from .tflite_models import Case

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
    "floor div": two("FLOOR_DIV", (1, 3, 4), (1, 3, 4), "FloorDiv"),
    "cast": cast(),
    **{name.lower(): logical(name) for name in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT")},
    **{name.lower(): behind_square(name) for name in ("SQRT", "RSQRT", "LOG")},
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
    "gather points": one("GATHER_ND", (4, 3), "GatherNd", (2, 3), [[[2], [0]]]),
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
    "select": (logical("LOGICAL_NOT", "SELECT"), np.maximum),
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
