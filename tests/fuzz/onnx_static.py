# SPDX-License-Identifier: Apache-2.0
"""Random float networks through onnxruntime's quantize_static, with random options."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process
from raw_runtime import raw_session

Shape = tuple[int, ...]
LAYERS = 6
BATCHES = 4
FUNCTIONS = (
    *("Relu", "Relu", "LeakyRelu", "HardSwish", "Sigmoid", "Tanh", "Elu", "HardSigmoid"),
    *("Softplus", "Clip", "PRelu", "Gelu", "Silu"),
)


# Of drawn networks, most are such that onnxruntime quantises and runs them.
ATTEMPTS = 20


def static_network(rng: np.random.Generator) -> bytes:
    """A quantised network that onnxruntime runs."""
    for _ in range(ATTEMPTS):
        try:
            data = StaticNetwork(rng, LAYERS).file()
            raw_session(data)
        except Exception as error:  # onnxruntime's exceptions have no base of their own
            refused = error
        else:
            return data
    raise AssertionError("no network that onnxruntime runs") from refused


class _Samples(CalibrationDataReader):
    def __init__(self, rng: np.random.Generator, shape: Shape):
        self.rest: Iterator[dict[str, np.ndarray]] = iter(
            [{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(BATCHES)]
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.rest, None)


class StaticNetwork:
    """A float network of up to `layers` layers that grows from its input, `x`."""

    def __init__(self, rng: np.random.Generator, layers: int):
        self.rng = rng
        self.m = OnnxModel(int(rng.integers(1 << 30)), opset=self.pick(13, 15, 17, 20))
        self.spatial = self.coin(0.75)
        image = (1, self.pick(1, 2, 3, 4), self.pick(5, 8, 12), self.pick(4, 6, 9))
        sequence = (1, self.pick(3, 6), self.pick(4, 8, 12))
        self.shape: Shape = image if self.spatial else sequence
        self.given = self.shape
        # onnxruntime quantises the inputs of layers.
        x = self.conv("x") if self.spatial else self.dense("x")
        steps = self._spatial_steps() if self.spatial else self._sequence_steps()
        for _ in range(int(rng.integers(1, layers + 1))):
            x = steps[int(rng.integers(len(steps)))](x)
        if self.coin(0.7):
            x = self.head(x)
        self.output = x

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def coin(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def weights(self, *shape: int) -> str:
        fan = float(np.prod(shape[1:])) or 1.0
        return self.m.constant((self.rng.normal(size=shape) / np.sqrt(fan)).astype(np.float32))

    def node(self, op: str, inputs: list[str], **attributes) -> str:
        return self.m.node(op, inputs, **attributes)

    def _spatial_steps(self) -> list[Callable[[str], str]]:
        return [
            *(self.conv, self.conv, self.depthwise, self.function, self.function, self.pool),
            *(self.residual, self.joined, self.normalised, self.scaled, self.moved, self.excited),
        ]

    def _sequence_steps(self) -> list[Callable[[str], str]]:
        return [
            *(self.dense, self.dense, self.function, self.layer_norm, self.scaled),
            *(self.soft, self.mixed, self.added),
        ]

    def conv(self, x: str) -> str:
        count, kernel = self.pick(2, 4, 6, 8), self.pick(1, 1, 3)
        stride = self.pick(1, 1, 2) if min(self.shape[2:]) > 3 else 1
        pad = kernel // 2
        names = [self.weights(count, self.shape[1], kernel, kernel)]
        names += [self.weights(count)] if self.coin(0.7) else []
        more = {"strides": [stride] * 2, "pads": [pad] * 4}
        sizes = [(n + 2 * pad - kernel) // stride + 1 for n in self.shape[2:]]
        self.shape = (1, count, *sizes)
        y = self.node("Conv", [x, *names], **more)
        return self.node("Relu", [y]) if self.coin(0.4) else y

    def depthwise(self, x: str) -> str:
        channels = self.shape[1]
        names = [self.weights(channels, 1, 3, 3), self.weights(channels)]
        return self.node("Conv", [x, *names], group=channels, pads=[1] * 4)

    def function(self, x: str) -> str:
        name = FUNCTIONS[int(self.rng.integers(len(FUNCTIONS)))]
        if name == "Clip":
            limits = [self.m.constant(np.float32(v)) for v in (0, 6)]
            return self.node("Clip", [x, *limits])
        if name == "PRelu" and self.spatial:
            slopes = self.rng.uniform(-0.2, 0.6, self.shape[1:2] + (1,) * (len(self.shape) - 2))
            return self.node("PRelu", [x, self.m.constant(slopes.astype(np.float32))])
        if name == "Silu":
            return self.node("Mul", [x, self.node("Sigmoid", [x])])
        if name == "Gelu":
            root = self.m.constant(np.float32(2**0.5))
            inner = self.node("Erf", [self.node("Div", [x, root])])
            inner = self.node("Add", [inner, self.m.constant(np.float32(1))])
            half = self.m.constant(np.float32(0.5))
            return self.node("Mul", [self.node("Mul", [x, inner]), half])
        return self.node("Relu" if name == "PRelu" else name, [x])

    def pool(self, x: str) -> str:
        if min(self.shape[2:]) < 2:
            return x
        op = ("MaxPool", "AveragePool")[self.pick(0, 1)]
        self.shape = (*self.shape[:2], *(n // 2 for n in self.shape[2:]))
        return self.node(op, [x], kernel_shape=[2, 2], strides=[2, 2])

    def residual(self, x: str) -> str:
        channels = self.shape[1]
        y = self.node("Conv", [x, self.weights(channels, channels, 3, 3)], pads=[1] * 4)
        op = ("Add", "Add", "Sub", "Mul", "Max")[self.pick(0, 1, 2, 3, 4)]
        return self.node(op, [x, self.function(y)])

    def joined(self, x: str) -> str:
        y = self.node("Conv", [x, self.weights(3, self.shape[1], 1, 1)])
        self.shape = (1, self.shape[1] + 3, *self.shape[2:])
        return self.node("Concat", [self.function(y) if self.coin() else y, x], axis=1)

    def normalised(self, x: str) -> str:
        channels = self.shape[1]
        names = [self.weights(channels, 1) for _ in range(2)]
        names = [self.m.constant(self.rng.normal(size=channels).astype(np.float32)) for _ in "ab"]
        if self.coin(0.3) and min(self.shape[2:]) > 1:
            return self.node("InstanceNormalization", [x, *names], epsilon=1e-5)
        names.append(self.m.constant(self.rng.normal(size=channels).astype(np.float32)))
        names.append(self.m.constant(self.rng.uniform(0.3, 2, channels).astype(np.float32)))
        return self.node("BatchNormalization", [x, *names])

    def scaled(self, x: str) -> str:
        op = ("Mul", "Add", "Sub", "Div")[self.pick(0, 1, 2, 3)]
        shape = [d if self.coin() else 1 for d in self.shape]
        values = self.rng.uniform(0.3, 2, shape if self.coin() else ()).astype(np.float32)
        return self.node(op, [x, self.m.constant(values)])

    def moved(self, x: str) -> str:
        if self.coin():
            self.shape = (*self.shape[:2], *(2 * n for n in self.shape[2:]))
            sizes = self.m.constant(np.array([1, 1, 2, 2], np.float32))
            return self.node("Resize", [x, "", sizes], mode="nearest", nearest_mode="floor")
        amounts = self.m.constant(np.array([0, 0, 1, 1, 0, 0, 1, 0], np.int64))
        self.shape = (*self.shape[:2], self.shape[2] + 2, self.shape[3] + 1)
        return self.node("Pad", [x, amounts])

    def excited(self, x: str) -> str:
        channels = self.shape[1]
        y = self.node("GlobalAveragePool", [x])
        y = self.node("Conv", [y, self.weights(2, channels, 1, 1), self.weights(2)])
        y = self.node("Conv", [self.node("Relu", [y]), self.weights(channels, 2, 1, 1)])
        return self.node("Mul", [x, self.node(("Sigmoid", "HardSigmoid")[self.pick(0, 1)], [y])])

    def dense(self, x: str) -> str:
        count = self.pick(4, 8, 12)
        y = self.node("MatMul", [x, self.weights(self.shape[-1], count)])
        self.shape = (*self.shape[:-1], count)
        return self.node("Add", [y, self.weights(count)]) if self.coin(0.7) else y

    def layer_norm(self, x: str) -> str:
        if self.m.opset < 17:
            return x
        count = self.shape[-1]
        factors = [self.m.constant(np.ones(count, np.float32)), self.weights(count)]
        return self.node("LayerNormalization", [x, *factors], epsilon=1e-5)

    def soft(self, x: str) -> str:
        return self.node("Softmax", [x], axis=-1)

    def mixed(self, x: str) -> str:
        """Attention of a sequence to itself."""
        turned = self.node("Transpose", [x], perm=[0, 2, 1])
        scores = self.node("Softmax", [self.node("MatMul", [x, turned])], axis=-1)
        return self.node("MatMul", [scores, x])

    def added(self, x: str) -> str:
        count = self.shape[-1]
        return self.node("Add", [x, self.node("MatMul", [x, self.weights(count, count)])])

    def head(self, x: str) -> str:
        """A classifier behind a mean, or behind all of it."""
        way = self.pick(0, 1, 2)
        if way == 0 and self.spatial:
            x = self.node("Flatten", [self.node("GlobalAveragePool", [x])])
            depth = self.shape[1]
        elif way == 1:
            axes = [2, 3] if self.spatial else [1]
            axes_name = {"axes": axes} if self.m.opset < 18 else {}
            more = [] if axes_name else [self.m.constant(np.array(axes, np.int64))]
            x = self.node("ReduceMean", [x, *more], keepdims=0, **axes_name)
            depth = self.shape[1] if self.spatial else self.shape[2]
        else:
            x, depth = self.node("Flatten", [x]), int(np.prod(self.shape))
        count = self.pick(2, 5)
        x = self.node("Gemm", [x, self.weights(count, depth), self.weights(count)], transB=1)
        return self.node("Softmax", [x], axis=-1) if self.coin(0.4) else x

    def float_model(self) -> onnx.ModelProto:
        kind = TensorProto.FLOAT
        model = self.m.proto({"x": (kind, self.given)}, {self.output: (kind, None)})
        model.ir_version = 10
        return model

    def options(self) -> dict:
        quant_format = (QuantFormat.QDQ, QuantFormat.QDQ, QuantFormat.QOperator)
        # Of int8 activations with uint8 weights onnxruntime makes nothing.
        activations, weights = (("QInt8", "QInt8"), ("QUInt8", "QInt8"), ("QUInt8", "QUInt8"))[
            self.pick(0, 1, 1, 2)
        ]
        extra = {
            "ActivationSymmetric": self.coin(0.2),
            "WeightSymmetric": self.coin(0.85),
            "ForceQuantizeNoInputCheck": self.coin(0.2),
            "AddQDQPairToWeight": self.coin(0.1),
            "QuantizeBias": self.coin(0.9),
        }
        return {
            "quant_format": quant_format[self.pick(0, 1, 2)],
            "per_channel": self.coin(),
            "reduce_range": self.coin(0.2),
            "activation_type": QuantType[activations],
            "weight_type": QuantType[weights],
            "extra_options": extra,
        }

    def file(self) -> bytes:
        """The quantised model. Raises what onnxruntime raises where it does not quantise it."""
        with tempfile.TemporaryDirectory(prefix="vmcu-") as name:
            folder = Path(name)
            path, target = folder / "float.onnx", folder / "quantised.onnx"
            onnx.save(self.float_model(), path)
            logging.disable(logging.ERROR)
            onnxruntime.set_default_logger_severity(4)
            try:
                if self.coin():
                    quant_pre_process(path, folder / "prepared.onnx", skip_symbolic_shape=True)
                    path = folder / "prepared.onnx"
                quantize_static(path, target, _Samples(self.rng, self.given), **self.options())
            finally:
                logging.disable(logging.NOTSET)
                onnxruntime.set_default_logger_severity(2)
            return target.read_bytes()
