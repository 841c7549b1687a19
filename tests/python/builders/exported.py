# SPDX-License-Identifier: Apache-2.0
"""Float .onnx files in the two forms in which PyTorch exports them, and their int8 form as
onnxruntime's quantize_static makes it."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quant_pre_process,
    quantize_static,
)

FLOAT = TensorProto.FLOAT
_SPATIAL = {1: [2], 2: [2, 3]}


class Net:
    """A float graph as torch.onnx.export writes it. dynamo: by the exporter of that name, else by
    the one before it. Values are names; a value's shape is in `shapes` where a method needs it."""

    def __init__(self, dynamo: bool, seed: int = 0, opset: int = 0):
        self.dynamo, self.opset = dynamo, opset or (18 if dynamo else 17)
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.outputs: list[str] = []

    def input(self, *shape: int) -> str:
        name = "x" if not self.inputs else f"x{len(self.inputs)}"
        self.inputs[name] = shape
        return name

    def weight(self, array) -> str:
        """A parameter of the module: an initialiser in both exporters."""
        name = f"weight.{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def k(self, value, dtype=np.float32) -> str:
        """A constant in the module's code: a node of the older exporter, an initialiser of the
        newer one."""
        array = np.asarray(value, dtype)
        if self.dynamo:
            name = f"val_{len(self.initializers)}"
            self.initializers.append(numpy_helper.from_array(array, name))
            return name
        return self.op("Constant", value=numpy_helper.from_array(array))

    def ints(self, *values: int) -> str:
        return self.k(values, np.int64)

    def op(self, kind: str, *inputs: str, outputs: int = 0, **attributes):
        names = [f"{kind}_{len(self.nodes)}_{i}" for i in range(max(outputs, 1))]
        domain = attributes.pop("domain", "")
        node = helper.make_node(
            kind, inputs, names, name=f"/{kind}_{len(self.nodes)}", domain=domain, **attributes
        )
        self.nodes.append(node)
        return names if outputs else names[0]

    def drawn(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=shape) / math.sqrt(max(math.prod(shape[1:]), 1))

    def conv_weights(self, depth: int, count: int, kernel: Sequence[int], groups=1) -> list[str]:
        weights = self.drawn(count, depth // groups, *kernel)
        return [self.weight(weights), self.weight(self.rng.normal(size=count) * 0.1)]

    def conv(self, x, depth, count, kernel=(3, 3), weights=(), **given) -> str:
        """weights: those of another layer, shared."""
        axes, groups = len(kernel), given.get("groups", 1)
        pad = given.get("pad", [n // 2 * given.get("dilation", 1) for n in kernel])
        stride = given.get("stride", 1)
        return self.op(
            "Conv",
            x,
            *(weights or self.conv_weights(depth, count, kernel, groups)),
            kernel_shape=list(kernel),
            strides=list(stride) if isinstance(stride, tuple) else [stride] * axes,
            pads=[*pad, *pad],
            dilations=[given.get("dilation", 1)] * axes,
            group=groups,
        )

    def transposed_conv(self, x, depth, count, kernel=(2, 2), stride=2, pad=0, extra=0) -> str:
        axes = len(kernel)
        weights = self.weight(self.drawn(depth, count, *kernel))
        more = {"output_padding": [extra] * axes} if extra else {}
        return self.op(
            "ConvTranspose",
            x,
            weights,
            self.weight(self.rng.normal(size=count) * 0.1),
            kernel_shape=list(kernel),
            strides=[stride] * axes,
            pads=[pad] * 2 * axes,
            dilations=[1] * axes,
            group=1,
            **more,
        )

    def norm(self, x, channels) -> str:
        """Batch normalisation that neither exporter folds, as it follows no convolution."""
        parts = [self.rng.uniform(0.5, 1.5, channels), self.rng.normal(size=channels) * 0.1]
        parts += [self.rng.normal(size=channels) * 0.1, self.rng.uniform(0.5, 1.5, channels)]
        return self.op("BatchNormalization", x, *map(self.weight, parts), epsilon=1e-5)

    def linear_weights(self, depth: int, count: int) -> list[str]:
        return [self.weight(self.drawn(count, depth)), self.weight(self.rng.normal(size=count) / 9)]

    def linear(self, x, depth, count, weights=()) -> str:
        """nn.Linear of a matrix."""
        found = weights or self.linear_weights(depth, count)
        return self.op("Gemm", x, *found, alpha=1.0, beta=1.0, transB=1)

    def tokens(self, x, depth, count, bias=True) -> str:
        """nn.Linear of more than two dimensions: the older exporter has the bias first."""
        y = self.op("MatMul", x, self.weight(self.drawn(count, depth).T))
        if not bias:
            return y
        added = self.weight(self.rng.normal(size=count) * 0.1)
        return self.op("Add", y, added) if self.dynamo else self.op("Add", added, y)

    def relu(self, x) -> str:
        return self.op("Relu", x)

    def silu(self, x) -> str:
        return self.op("Mul", x, self.op("Sigmoid", x))

    def gelu(self, x) -> str:
        if self.dynamo and self.opset >= 20:
            return self.op("Gelu", x)
        root = self.op("Erf", self.op("Div", x, self.k(math.sqrt(2))))
        return self.op("Mul", self.op("Mul", x, self.op("Add", root, self.k(1))), self.k(0.5))

    def hard_swish(self, x, decomposed=False) -> str:
        if not decomposed:
            return self.op("HardSwish", x)
        clipped = self.clip(self.op("Add", x, self.k(3)), 0, 6)
        return self.op("Mul", x, self.op("Div", clipped, self.k(6)))

    def clip(self, x, low, high) -> str:
        return self.op("Clip", x, self.k(low), self.k(high))

    def layer_norm(self, x, count, decomposed=False) -> str:
        gain, offset = self.rng.uniform(0.5, 1.5, count), self.rng.normal(size=count) * 0.1
        gain, offset = self.weight(gain), self.weight(offset)
        if not decomposed:
            return self.op("LayerNormalization", x, gain, offset, axis=-1, epsilon=1e-5)
        centred = self.op("Sub", x, self.mean(x, [-1]))
        variance = self.mean(self.op("Pow", centred, self.k(2)), [-1])
        root = self.op("Sqrt", self.op("Add", variance, self.k(1e-5)))
        return self.op("Add", self.op("Mul", self.op("Div", centred, root), gain), offset)

    def reduce(self, kind, x, axes, keep=True) -> str:
        if self.opset >= 18 or kind == "ReduceSum":
            return self.op(kind, x, self.ints(*axes), keepdims=int(keep))
        return self.op(kind, x, axes=list(axes), keepdims=int(keep))

    def mean(self, x, axes, keep=True) -> str:
        return self.reduce("ReduceMean", x, axes, keep)

    def clip_norm(self, x) -> str:
        """The divisor of F.normalize()."""
        if self.opset >= 18:
            length = self.op("ReduceL2", x, self.ints(-1), keepdims=1)
        else:
            length = self.op("ReduceL2", x, axes=[-1], keepdims=1)
        length = self.op("Clip", length, self.k(1e-12))
        return self.op("Expand", length, self.op("Shape", x))

    def pool(self, x, kernel=2, stride=0, pad=0, axes=2, kind="MaxPool") -> str:
        more = {"count_include_pad": 1} if kind == "AveragePool" else {"dilations": [1] * axes}
        return self.op(
            kind,
            x,
            kernel_shape=[kernel] * axes,
            strides=[stride or kernel] * axes,
            pads=[pad] * 2 * axes,
            ceil_mode=0,
            **more,
        )

    def global_pool(self, x, axes=2) -> str:
        """nn.AdaptiveAvgPool2d(1) of both exporters."""
        return self.op("GlobalAveragePool", x)

    def flatten(self, x, count: int, batch_of="") -> str:
        """torch.flatten(x, 1); batch_of: x.view(x.size(0), -1), whose size the older exporter
        computes in the graph."""
        if self.dynamo:
            return self.op("Reshape", x, self.ints(1, count), allowzero=1)
        if not batch_of:
            return self.op("Flatten", x, axis=1)
        size = self.op("Gather", self.op("Shape", x), self.k(0, np.int64), axis=0)
        size = self.op("Unsqueeze", size, self.ints(0))
        return self.op("Reshape", x, self.op("Concat", size, self.ints(-1), axis=0))

    def reshape(self, x, *shape: int) -> str:
        more = {"allowzero": 1} if self.dynamo else {}
        return self.op("Reshape", x, self.ints(*shape), **more)

    def transpose(self, x, *perm: int) -> str:
        return self.op("Transpose", x, perm=list(perm))

    def cat(self, *values: str, axis=1) -> str:
        return self.op("Concat", *values, axis=axis)

    def cut(self, x, axis, start, end, step=1) -> str:
        return self.op("Slice", x, *(self.ints(v) for v in (start, end, axis, step)))

    def split(self, x, *sizes: int, axis=1) -> list[str]:
        return self.op("Split", x, self.ints(*sizes), outputs=len(sizes), axis=axis)

    def squeeze_excite(self, x, channels, inner, gate="HardSigmoid") -> str:
        y = self.relu(self.conv(self.global_pool(x), channels, inner, (1, 1)))
        y = self.conv(y, inner, channels, (1, 1))
        more = {"alpha": 1 / 6, "beta": 0.5} if gate == "HardSigmoid" else {}
        return self.op("Mul", x, self.op(gate, y, **more))

    def resize(self, x, factor=2.0, mode="nearest", sizes=()) -> str:
        """F.interpolate; with sizes, as it is written for size=y.shape[2:]."""
        more = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
        if mode == "linear":
            more = {"coordinate_transformation_mode": "pytorch_half_pixel", "cubic_coeff_a": -0.75}
        if sizes:
            return self.op("Resize", x, "", "", self.ints(*sizes), mode=mode, **more)
        return self.op("Resize", x, "", self.k([1, 1, factor, factor]), mode=mode, **more)

    def model(self, *outputs: str) -> onnx.ModelProto:
        values = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in self.inputs.items()]
        # The older exporter tells shapes, the newer one too; onnx finds the same.
        ends = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, "main_graph", values, ends, self.initializers)
        opset = [helper.make_opsetid("", self.opset)]
        version = 10 if self.dynamo else 8
        found = helper.make_model(graph, opset_imports=opset, ir_version=version)
        inferred = onnx.shape_inference.infer_shapes(found, data_prop=True)
        onnx.checker.check_model(inferred)
        return inferred


class _Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.left = iter(samples)

    def get_next(self):
        return next(self.left, None)


def samples_of(model: onnx.ModelProto, count: int = 8, seed: int = 1) -> list[dict]:
    rng = np.random.default_rng(seed)
    shapes = {
        v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input
    }
    return [
        {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(count)
    ]


# How users call quantize_static; the first is what its page shows.
WAYS = {
    "int8": {"activation_type": QuantType.QInt8},
    "uint8": {"activation_type": QuantType.QUInt8, "per_channel": True},
    "raw": {"activation_type": QuantType.QInt8, "per_channel": True},
    "symmetric": {
        "activation_type": QuantType.QInt8,
        "extra_options": {"ActivationSymmetric": True, "WeightSymmetric": True},
    },
}


def static(
    model: onnx.ModelProto,
    target: Path,
    way: str = "int8",
    form: QuantFormat = QuantFormat.QDQ,
) -> None:
    """Writes the model as quantize_static makes it. way "raw": without pre-processing."""
    with tempfile.TemporaryDirectory() as folder:
        source, ready = Path(folder) / "float.onnx", Path(folder) / "ready.onnx"
        onnx.save(model, source)
        logging.disable(logging.WARNING)
        try:
            if way != "raw":
                quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
            quantize_static(
                str(source if way == "raw" else ready),
                str(target),
                _Reader(samples_of(model)),
                quant_format=form,
                weight_type=QuantType.QInt8,
                **WAYS[way],
            )
        finally:
            logging.disable(logging.NOTSET)
