# SPDX-License-Identifier: Apache-2.0
"""One random operator of an .onnx file between its own DequantizeLinear and QuantizeLinear.

Every operator with an import rule is drawn, with random attributes and operands. In front of it
there may be a Transpose, a Reshape or a Flatten, which change how its input lies in memory, or a
function that is left in float. ONNX Runtime computes the range of the float result; the output's
scale is drawn from that.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
from builders.onnx_models import OnnxModel
from onnx import TensorProto, helper
from raw_runtime import raw_session
from vmcu_tools.frontends.onnx.qoperator import FORMS

Shape = tuple[int, ...]
# Names of the results of an operator, of which a domain and a name are given.
Drawer = Callable[["OperatorNetwork", str, str], list[str]]
# The first version of ONNX that has the operator, where it is above 17.
OPSETS = {
    **{"Gelu": 20, "Mish": 18, "GroupNormalization": 21, "Swish": 24, "RMSNormalization": 23},
}
LOOSE = ("Elu", "HardSwish", "Relu", "Tanh", "LeakyRelu", "Abs")
QOPERATORS = {name: form.op for name, form in FORMS.items()}
RANGE_SAMPLES = 6


def split_name(name: str) -> tuple[str, str]:
    """Domain and operator."""
    domain, _, op = name.rpartition(".")
    return domain, op


class OperatorNetwork:
    """`file()` is the model; `op` the operator that is drawn, by `draw`, of those that have an
    import rule. Raises what onnxruntime raises where it does not run what was drawn."""

    def __init__(self, rng: np.random.Generator, op: str, draw: Drawer):
        self.rng, self.op = rng, op
        self.form = self.op if self.op in QOPERATORS else ""
        dtype = (np.int8, np.uint8)[int(rng.integers(2))]
        drawn = QOPERATORS.get(self.op, self.op)
        opset = max(OPSETS.get(drawn, 13), self.pick(13, 17, 19, 21))
        self.m = OnnxModel(int(rng.integers(1 << 30)), dtype, opset=opset)
        self.domain = "com.microsoft" if self.op in OWN_DOMAIN else ""
        self.given: dict[str, Shape] = {}
        self.shapes: dict[str, Shape] = {}
        self.quantisations: dict[str, list[str]] = {}
        self.loose = not self.form and self.coin(0.12)
        self.plain = False
        self.results = draw(self, *split_name(drawn))
        self.outputs: dict[str, int] = {}
        self._finish()
        raw_session(self.file())

    # What is drawn.

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def coin(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def of(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def image(self) -> Shape:
        return 1, self.pick(1, 2, 3, 4, 6, 8), self.pick(1, 2, 3, 5, 7, 8), self.pick(1, 2, 4, 6, 9)

    def line(self) -> Shape:
        return 1, self.pick(1, 2, 3, 6), self.pick(1, 2, 5, 12, 17)

    def spatial(self) -> Shape:
        return self.line() if self.coin(0.25) else self.image()

    def any_shape(self, least: int = 1) -> Shape:
        sizes = (1, 2, 3, 4, 5, 7, 12, 33)
        rank = max(least, self.pick(1, 2, 2, 3, 3, 4, 4, 4, 5))
        if rank == 4 and self.coin(0.7):
            return self.image()
        first = 1 if self.coin(0.7) else self.pick(2, 3)
        small = sizes if rank < 4 else sizes[:5]
        return (first, *(self.pick(*small) for _ in range(rank - 1)))

    def axis(self, rank: int) -> int:
        axis = int(self.rng.integers(rank))
        return axis - rank if self.coin() else axis

    def constant(self, array) -> str:
        return self.m.constant(array)

    def node(self, op: str, inputs, domain: str = "", **attributes) -> str:
        return self.m.node(op, inputs, domain, **attributes)

    def qdq(self, value: str, quantisation: list[str]) -> str:
        q = self.node("QuantizeLinear", [value, *quantisation], self.domain)
        found = self.node("DequantizeLinear", [q, *quantisation], self.domain)
        self.quantisations[found] = [q, *quantisation]
        return found

    def scale(self) -> float:
        return float(np.exp(self.rng.uniform(np.log(0.004), np.log(0.3))))

    def scale_of(self, value: str) -> float:
        return self.m.scales[self.quantisations[value][1]] if value in self.quantisations else 0.05

    def input(self, shape: Shape) -> str:
        """A value of a shape: an input, or what a move makes of one."""
        name = f"x{len(self.given)}"
        way = self.pick(0, 0, 0, 1, 2, 2)
        ahead, perm = shape, None
        if way == 1 and len(shape) > 1:
            perm = [int(a) for a in self.rng.permutation(len(shape))]
            ahead = tuple(shape[perm.index(a)] for a in range(len(shape)))
        elif way == 2:
            ahead = self.regrouped(math.prod(shape))
        self.given[name] = ahead
        zero = self.m.zero_point() if self.coin(0.7) else int(np.iinfo(self.m.dtype).min)
        quantisation = self.m.stated(self.scale(), zero)
        x = self.qdq(name, quantisation)
        if perm is not None:
            x = self.qdq(self.node("Transpose", [x], perm=perm), quantisation)
        elif ahead != shape:
            flat = len(shape) == 2 and shape[0] == ahead[0]
            if flat and self.coin():
                y = self.node("Flatten", [x])
            else:
                y = self.node("Reshape", [x, self.constant(np.array(shape, np.int64))])
            x = self.qdq(y, quantisation)
        if self.loose and len(self.given) == 1:
            scale = self.scale_of(x)
            x = self.node(self.of(*LOOSE), [x])
            self.m.scales[x] = scale
        self.shapes[x] = shape
        return x

    def regrouped(self, count: int) -> Shape:
        """(1, C, H, W) or (1, C, L) of so many elements."""
        sizes = []
        for _ in range(self.pick(1, 2)):
            divisors = [d for d in range(1, count + 1) if count % d == 0]
            sizes.append(self.pick(*divisors))
            count //= sizes[-1]
        return (1, *sizes, count)

    # The end.

    def _finish(self) -> None:
        ranges = self._ranges()
        for name, found in ranges.items():
            if found.dtype in (np.int64, np.int32):
                self.outputs[name] = TensorProto.INT64
                continue
            if found.dtype == np.bool_:
                name = self.node("Cast", [name], to=TensorProto.FLOAT)
            quantisation = self._quantisation(found.astype(np.float64))
            if self.form:
                q = self._qoperator(quantisation)
                self.outputs[q] = helper.np_dtype_to_tensor_dtype(self.m.dtype)
            elif self.coin():
                q = self.node("QuantizeLinear", [name, *quantisation], self.domain)
                self.outputs[q] = helper.np_dtype_to_tensor_dtype(self.m.dtype)
            else:
                self.outputs[self.qdq(name, quantisation)] = TensorProto.FLOAT

    def _ranges(self) -> dict[str, np.ndarray]:
        """What ONNX Runtime makes of a few random inputs, by name of the result."""
        inputs = {name: (TensorProto.FLOAT, shape) for name, shape in self.given.items()}
        model = self.m.proto(inputs, {})
        model.ir_version = 10
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.results)
        session = raw_session(model.SerializeToString())
        found: dict[str, list[np.ndarray]] = {name: [] for name in self.results}
        for _ in range(RANGE_SAMPLES):
            feeds = {
                name: self.rng.uniform(-20, 20, shape).astype(np.float32)
                for name, shape in self.given.items()
            }
            for name, values in zip(self.results, session.run(self.results, feeds), strict=True):
                found[name].append(np.ravel(values))
        return {name: np.concatenate(values) for name, values in found.items()}

    def _quantisation(self, values: np.ndarray) -> list[str]:
        info = np.iinfo(self.m.dtype)
        kept = next(iter(self.quantisations.values()))[1:]
        if self.coin(0.25) and not self.plain:
            return kept
        values = values[np.isfinite(values) & (np.abs(values) < 1e20)]
        low = min(float(values.min(initial=0)), 0.0)
        high = max(float(values.max(initial=0)), 0.0)
        scale = (high - low) / 255 or 0.02
        zero = round(info.min - low / scale)
        if not self.plain:
            scale *= 2 ** self.of(0, 0, 0, self.rng.uniform(-0.5, 0.5), self.rng.uniform(-6, 4))
        if self.coin(0.15):
            zero = self.m.zero_point()
        return self.m.stated(scale, int(np.clip(zero, info.min, info.max)))

    def _qoperator(self, quantisation: list[str]) -> str:
        """The drawn operator as a QOperator, in place of itself."""
        node = self.m.nodes.pop()
        domain, op = split_name(self.form)
        triples = {n.output[0]: list(n.input) for n in self.m.nodes if n.op_type in _DEQUANTISE}
        form = FORMS[self.form]
        inputs = list(node.input)
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if not form.operands:
            args = [*quantisation, *(name for x in inputs for name in triples[x])]
        else:
            operands = [name for x in inputs[: len(form.operands)] for name in triples[x]]
            bias = [triples[x][0] for x in inputs[len(form.operands) :]]
            last = form.bias is not None and form.bias > form.result
            args = [*operands, *([] if last else bias or [""] * (form.bias is not None))]
            args += [*quantisation, *(bias if last else [])]
        if op == "QLinearSoftmax":
            attributes["opset"] = self.m.opset
        return self.node(op, args, domain, **attributes)

    def file(self) -> bytes:
        inputs = {name: (TensorProto.FLOAT, shape) for name, shape in self.given.items()}
        outputs = {name: (kind, None) for name, kind in self.outputs.items()}
        model = self.m.proto(inputs, outputs)
        model.ir_version = 10
        return model.SerializeToString()


_DEQUANTISE = ("DequantizeLinear",)
OWN_DOMAIN = ("com.microsoft.QuantizeLinear", "com.microsoft.DequantizeLinear")
