# SPDX-License-Identifier: Apache-2.0
"""Float functions of one value as ONNX Runtime computes them on a CPU with fused multiply-add.

Those of its own library (core/mlas/lib) are the same to the bit; others are the float32 nearest to
the true value, on every machine, where ONNX Runtime's may be off by a few of its last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..tables import Function, in_double
from .file import FileNode

# Numerator (odd powers) and denominator (even powers) of rational functions, highest power first:
# core/mlas/lib/tanh.cpp and logistic.cpp. Beyond the limits they are constant.
_TANH: tuple[float, ...] = (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11)
_TANH += (5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03)
_TANH_BELOW: tuple[float, ...] = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03)
_TANH_BELOW += (4.89352518554385e-03,)
_TANH_LIMIT = 9
_LOGISTIC: tuple[float, ...] = (4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05)
_LOGISTIC += (8.51377133304701e-03, 2.48287947061529e-01)
_LOGISTIC_BELOW: tuple[float, ...] = (6.10247389755681e-13, 5.76102136993427e-09)
_LOGISTIC_BELOW += (6.29106785017040e-06, 1.70198817374094e-03)
_LOGISTIC_BELOW += (1.16817656904453e-01, 9.93151921023180e-01)
_LOGISTIC_LIMIT = 18


def _polynomial(x: np.ndarray, factors: tuple[float, ...]) -> np.ndarray:
    """Evaluates in float32, each step rounded once, as fused multiply-add does. A double holds
    the product of two float32 as it is."""
    result = np.full_like(x, np.float32(factors[0]))
    for factor in factors[1:]:
        exact = result.astype(np.float64) * x + np.float64(np.float32(factor))
        result = exact.astype(np.float32)
    return result


def _rational(
    x: np.ndarray, above: tuple[float, ...], below: tuple[float, ...], limit: int
) -> np.ndarray:
    value = np.clip(np.asarray(x, np.float32), np.float32(-limit), np.float32(limit))
    square = value * value
    quotient: np.ndarray = _polynomial(square, above) * value / _polynomial(square, below)
    return quotient


def tanh(x: np.ndarray) -> np.ndarray:
    return _rational(x, _TANH, _TANH_BELOW, _TANH_LIMIT)


def sigmoid(x: np.ndarray) -> np.ndarray:
    half = _rational(x, _LOGISTIC, _LOGISTIC_BELOW, _LOGISTIC_LIMIT) + np.float32(0.5)
    return np.maximum(half, np.float32(0))


_erf = in_double(np.vectorize(math.erf, otypes=[np.float64]))
_softplus = in_double(lambda x: np.logaddexp(x, 0))
_expm1 = in_double(np.expm1)


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * np.float32(0.5) * (np.float32(1) + _erf(x * np.float32(math.sqrt(0.5))))


def _gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    """contrib_ops/cpu/bert/bias_gelu_helper.h."""
    root = math.sqrt(2 / math.pi)
    inner = x * (np.float32(0.044715 * root) * x * x + np.float32(root))
    return np.float32(0.5) * x * (tanh(inner) + np.float32(1))


def _gelu_of(node: FileNode) -> Function:
    by_tanh = node.attributes.get("approximate", b"none") == b"tanh"
    return _gelu_by_tanh if by_tanh else _gelu


def _number(node: FileNode, name: str, default: float) -> np.float32:
    return np.float32(node.attributes.get(name, default))


def _hard_sigmoid(x: np.ndarray, alpha: np.float32, beta: np.float32) -> np.ndarray:
    clipped: np.ndarray = np.clip(alpha * x + beta, 0, 1)
    return clipped


def _celu(x: np.ndarray, alpha: np.float32) -> np.ndarray:
    return np.where(x < 0, alpha * _expm1(np.minimum(x, 0) / alpha), x)


def _exponential(x: np.ndarray, alpha: np.float32) -> np.ndarray:
    return np.where(x < 0, alpha * _expm1(np.minimum(x, 0)), x)


def _shrink(x: np.ndarray, limit: np.float32, bias: np.float32) -> np.ndarray:
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0))


def _plain(function: Function) -> Callable[[FileNode, np.ndarray], np.ndarray]:
    """A function without parameters as one of a node and values."""
    return lambda node, x: function(x)


# Functions without parameters.
_PLAIN: dict[str, Function] = {
    "Abs": np.abs,
    "Acos": in_double(np.arccos),
    "Acosh": in_double(np.arccosh),
    "Asin": in_double(np.arcsin),
    "Asinh": in_double(np.arcsinh),
    "Atan": in_double(np.arctan),
    "Atanh": in_double(np.arctanh),
    "Ceil": np.ceil,
    "com.microsoft.Gelu": _gelu,
    "Cos": in_double(np.cos),
    "Cosh": in_double(np.cosh),
    "Erf": _erf,
    "Exp": in_double(np.exp),
    "Floor": np.floor,
    "HardSwish": lambda x: x * _hard_sigmoid(x, np.float32(1 / 6), np.float32(0.5)),
    "IsNaN": np.isnan,
    "Log": in_double(np.log),
    "Mish": lambda x: x * tanh(_softplus(x)),
    "Neg": np.negative,
    "Reciprocal": np.reciprocal,
    "Round": np.rint,
    "Sigmoid": sigmoid,
    "Sign": np.sign,
    "Sin": in_double(np.sin),
    "Sinh": in_double(np.sinh),
    "Softplus": _softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Sqrt": np.sqrt,
    "Tan": in_double(np.tan),
    "Tanh": tanh,
}

# By operator: its function of float32 values, which may be of any shape.
UNARY: dict[str, Callable[[FileNode, np.ndarray], np.ndarray]] = {
    **{op: _plain(function) for op, function in _PLAIN.items()},
    "Celu": lambda node, x: _celu(x, _number(node, "alpha", 1)),
    "Elu": lambda node, x: _exponential(x, _number(node, "alpha", 1)),
    "Gelu": lambda node, x: _gelu_of(node)(x),
    "HardSigmoid": lambda node, x: _hard_sigmoid(
        x, _number(node, "alpha", 0.2), _number(node, "beta", 0.5)
    ),
    "LeakyRelu": lambda node, x: np.where(x >= 0, x, _number(node, "alpha", 0.01) * x),
    "Selu": lambda node, x: (
        _number(node, "gamma", 1.05070102214813)
        * _exponential(x, _number(node, "alpha", 1.67326319217681))
    ),
    "Shrink": lambda node, x: _shrink(x, _number(node, "lambd", 0.5), _number(node, "bias", 0)),
    "Swish": lambda node, x: x * sigmoid(_number(node, "alpha", 1) * x),
    "ThresholdedRelu": lambda node, x: np.where(x > _number(node, "alpha", 1), x, 0),
    "com.microsoft.QuickGelu": lambda node, x: x * sigmoid(_number(node, "alpha", 1.702) * x),
}
