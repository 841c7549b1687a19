# SPDX-License-Identifier: Apache-2.0
"""GRU, LSTM and RNN of a float file as a Scan of the operators that they are defined by, so that
each of their tensors gets a scale (ONNX operator specification, opset 22)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from ..frontends.common import UnsupportedError, require
from ..frontends.onnx.attributes import attributes_of

# Gates in the order of the files, and activations by default.
GATES = {"GRU": "zrh", "LSTM": "iofc", "RNN": "h"}
PEEPHOLES = "iof"
ACTIVATIONS = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)}
# The values of alpha and beta by default, for those that have them (ONNX Runtime, rnn_helpers.cc);
# not a number where there is no default.
KNOWN: dict[str, tuple[float, ...]] = dict.fromkeys(
    ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus"), ()
) | {"LeakyRelu": (0.01,), "ThresholdedRelu": (1.0,), "Elu": (1.0,), "HardSigmoid": (0.2, 0.5)}
KNOWN |= dict.fromkeys(("Affine", "ScaledTanh"), (math.nan, math.nan))
_FIXED = "export it for sequences of a fixed length and a fixed batch"
# A function with its factors, as KNOWN has them.
Activation = tuple[str, tuple[float, ...]]


@dataclass
class Scans:
    """The nodes of a recurrent node, a Scan for each direction among them. `alike`: by role,
    tensors that are to have one scale."""

    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    alike: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True)
class _Weights:
    """The weights of one direction: by gate w (I, H), r (H, H) and biases (H,); peepholes (H,)
    by gate."""

    w: dict[str, np.ndarray]
    r: dict[str, np.ndarray]
    wb: dict[str, np.ndarray]
    rb: dict[str, np.ndarray]
    peepholes: dict[str, np.ndarray]


def scans(node: NodeProto, constants: dict[str, np.ndarray], shape: list[int]) -> Scans:
    """GRU, LSTM or RNN as other operators. shape: of its input, () if unknown.

    Raises UnsupportedError for a node without such a form."""
    return _Writer(node, constants, shape).run()


class _Writer:
    def __init__(self, node: NodeProto, constants: dict[str, np.ndarray], shape: list[int]):
        self.node, self.given, self.found = node, attributes_of(node), Scans()
        self.nodes = self.found.nodes
        self.inputs = [*node.input, *[""] * 8]
        self.outputs = [*node.output, *[""] * 3]
        self.at = self.prefix = next(name for name in self.outputs if name)
        self.batch_first = bool(self.given.get("layout", 0))
        require(len(shape) == 3 and min(shape) > 0, "the input has no fixed shape", _FIXED)
        self.all_steps, self.batch = shape[int(self.batch_first)], shape[1 - int(self.batch_first)]
        self.steps = self._length(constants)
        arrays = [self._array(constants, place) for place in (1, 2, 3, 7)]
        require(arrays[0] is not None and arrays[1] is not None, "its weights are not constant")
        self.directions = _directions(self.given.get("direction", b"forward").decode())
        self.weights = [self._weights(n, *arrays) for n in range(len(self.directions))]
        self.size = len(next(iter(self.weights[0].r.values())))
        count = len(ACTIVATIONS[node.op_type])
        every = self._activations(count * len(self.directions))
        self.activations = [every[n : n + count] for n in range(0, len(every), count)]

    def run(self) -> Scans:
        x = self.inputs[0]
        if self.batch_first and self.batch > 1:
            x = self._add("Transpose", [x], "x by step", perm=[1, 0, 2])
        x = self._add("Reshape", [x, self._ints("steps", self.all_steps, self.batch, -1)], "x")
        if self.steps < self.all_steps:
            x = self._add("Gather", [x, self._ints("within", *range(self.steps))], "x within")
        sides = [self._direction(n, x) for n in range(len(self.directions))]
        self.at = self.prefix
        if self.outputs[0]:
            self._all_steps([side[-1] for side in sides])
        for place, name in enumerate(self.outputs[1:3]):
            if name:
                joined = self._joined([side[place] for side in sides], f"end {place}", "hc"[place])
                self._output(joined, (len(sides), self.batch, self.size), (1, 0, 2), name)
        return self.found

    def _all_steps(self, sides: list[str]) -> None:
        """Writes the hidden states of all steps."""
        each = self._ints("each", self.steps, 1, self.batch, self.size)
        rows = [self._add("Reshape", [side, each], f"{n} y") for n, side in enumerate(sides)]
        joined = self._joined(rows, "y", "h", axis=1)
        if self.steps < self.all_steps:
            ends = [0] * 4 + [self.all_steps - self.steps] + [0] * 3
            joined = self._add("Pad", [joined, self._ints("rest", *ends)], "y of all")
        shape = (self.all_steps, len(sides), self.batch, self.size)
        self._output(joined, shape, (2, 0, 1, 3), self.outputs[0])

    def _direction(self, number: int, x: str) -> list[str]:
        """Writes one direction; returns the states behind the last step, and the hidden ones of all
        steps."""
        self.at = f"{self.prefix}/{number}"
        self.parts, self.functions = self.weights[number], self.activations[number]
        inner = self.node.op_type == "GRU" and not self.given.get("linear_before_reset")
        # The addend of a gate's state part behind a reset stays there.
        behind = {"h"} if self.node.op_type == "GRU" and not inner else set()
        self.biases = {
            gate: bias + (0 if gate in behind else self.parts.rb[gate])
            for gate, bias in self.parts.wb.items()
        }
        roles = "hc" if self.node.op_type == "LSTM" else "h"
        first = [self._begin(5 + place, number, role) for place, role in enumerate(roles)]
        before = [f"{self.at}/{role} before" for role in roles]
        self.row, self.nodes = f"{self.at}/row", []
        after = STEPS[self.node.op_type](self, *before)
        for role, *states in zip(roles, before, after, first, strict=True):
            self._like(role, *states)
        size = len(next(iter(self.parts.w.values())))
        rows = [*((name, self.size) for name in before), (self.row, size)]
        # The hidden state is both the next one and a result.
        results = [(name, self.size) for name in (*after, after[0])]
        body = helper.make_graph(self.nodes, "step", self._values(rows), self._values(results))
        self.nodes = self.found.nodes
        ends = [f"{self.at}/{role} last" for role in roles] + [f"{self.at}/y"]
        way = [int(self.directions[number] < 0)]
        scan = helper.make_node("Scan", [*first, x], ends, body=body, num_scan_inputs=1)
        scan.attribute.extend(
            helper.make_attribute(f"scan_{end}_directions", way) for end in ("input", "output")
        )
        self.nodes.append(scan)
        return ends

    def _values(self, sizes: Sequence[tuple[str, int]]) -> list[onnx.ValueInfoProto]:
        kind = onnx.TensorProto.FLOAT
        return [helper.make_tensor_value_info(n, kind, (self.batch, size)) for n, size in sizes]

    def _begin(self, place: int, number: int, role: str) -> str:
        """The state before the first step: an input of the node, or zeros."""
        name, shape = self.inputs[place], self._ints("state", self.batch, self.size)
        if not name:
            return self._constant(f"{role} begins", np.zeros((self.batch, self.size), np.float32))
        axis = 1 if self.batch_first else 0
        if len(self.directions) > 1:
            picked = self._constant(f"pick {place}", np.array(number))
            name = self._add("Gather", [name, picked], f"{role} of all", axis=axis)
        made = self._add("Reshape", [name, shape], f"{role} begins")
        self._like(role, made, self.inputs[place])
        return made

    # One step of each, to the states behind it.

    def gru(self, h: str) -> list[str]:
        z, r = (self._gate(gate, h) for gate in "zr")
        if self.given.get("linear_before_reset"):
            inner = self._product("h", h, self.parts.rb["h"])
            inner = self._add("Mul", [r, inner], "reset")
        else:
            inner = self._product("h", self._add("Mul", [r, h], "reset"))
        new = self._active(1, self._sum([self._given("h"), inner], "new sum"), "new")
        one = self._constant("one", np.float32(1))
        kept = self._add("Mul", [z, h], "kept")
        taken = self._add("Mul", [self._add("Sub", [one, z], "rest"), new], "taken")
        return [self._state("h", [kept, taken])]

    def lstm(self, h: str, c: str) -> list[str]:
        i = self._gate("i", h, c)
        if self.given.get("input_forget"):
            f = self._add("Sub", [self._constant("one", np.float32(1)), i], "forget")
        else:
            f = self._gate("f", h, c)
        new = self._active(
            1, self._sum([self._given("c"), self._product("c", h)], "new sum"), "new"
        )
        kept, taken = (
            self._add("Mul", pair, name) for pair, name in (([f, c], "kept"), ([i, new], "taken"))
        )
        cell = self._state("c", [kept, taken])
        o = self._gate("o", h, cell)
        hidden = self._add("Mul", [o, self._active(2, cell, "seen", clip=False)], "h")
        self._like("h", hidden)
        return [hidden, cell]

    def rnn(self, h: str) -> list[str]:
        hidden = self._active(0, self._sum([self._given("h"), self._product("h", h)], "sum"), "h")
        self._like("h", hidden)
        return [hidden]

    def _gate(self, gate: str, h: str, cell: str = "") -> str:
        parts = [self._given(gate), self._product(gate, h)]
        if cell and gate in self.parts.peepholes:
            peephole = self._constant(f"p{gate}", self.parts.peepholes[gate])
            parts.append(self._add("Mul", [cell, peephole], f"{gate} peephole"))
        return self._active(0, self._sum(parts, f"{gate} sum"), gate)

    def _given(self, gate: str) -> str:
        """The input's part of a gate."""
        constants = {"w": self.parts.w[gate], "b": self.biases[gate]}
        names = [self._constant(f"{name}{gate}", array) for name, array in constants.items()]
        return self._add("Gemm", [self.row, *names], f"x{gate}")

    def _product(self, gate: str, h: str, bias: np.ndarray | None = None) -> str:
        bias = np.zeros(self.size, np.float32) if bias is None else bias
        weights = self._constant(f"r{gate}", self.parts.r[gate])
        return self._add("Gemm", [h, weights, self._constant(f"rb{gate}", bias)], f"h{gate}")

    def _sum(self, parts: list[str], role: str) -> str:
        total = parts[0]
        for number, part in enumerate(parts[1:]):
            total = self._add("Add", [total, part], f"{role} {number}")
        return total

    def _state(self, role: str, parts: list[str]) -> str:
        made = self._add("Add", parts, f"{role} state")
        self._like(role, made)
        return made

    def _active(self, place: int, x: str, role: str, clip: bool = True) -> str:
        limit = self.given.get("clip", 0) if clip else 0
        if limit:
            bounds = [self._constant(f"clip {n}", np.float32(n)) for n in (-limit, limit)]
            x = self._add("Clip", [x, *bounds], f"{role} clipped")
        name, factors = self.functions[place]
        if name not in ("Affine", "ScaledTanh"):
            given = dict(zip(("alpha", "beta"), factors, strict=False))
            return self._add(name, [x], role, **given)
        alpha, beta = (self._constant(f"{role} {n}", np.float32(n)) for n in factors)
        if name == "Affine":
            return self._add("Add", [self._add("Mul", [x, alpha], f"{role} times"), beta], role)
        x = self._add("Tanh", [self._add("Mul", [x, beta], f"{role} times")], f"{role} tanh")
        return self._add("Mul", [x, alpha], role)

    def _like(self, role: str, *names: str) -> None:
        group = self.found.alike[f"{self.at}/{role}"]
        group.extend(name for name in names if name not in group)

    def _add(self, op: str, ins: list[str], name: str, **more: Any) -> str:
        made = f"{self.at}/{name}"
        self.nodes.append(helper.make_node(op, ins, [made], made, **more))
        return made

    def _output(
        self, joined: str, shape: tuple[int, ...], order: tuple[int, ...], name: str
    ) -> None:
        """An output of the node: `joined` in this shape; order: of its axes, batch in front."""
        if self.batch_first and self.batch > 1:
            steps = self._add(
                "Reshape", [joined, self._ints(f"{name} steps", *shape)], f"{name} steps"
            )
            self.found.nodes.append(
                helper.make_node("Transpose", [steps], [name], name, perm=order)
            )
            return
        ordered = [shape[axis] for axis in order] if self.batch_first else shape
        inputs = [joined, self._ints(f"{name} shape", *ordered)]
        self.found.nodes.append(helper.make_node("Reshape", inputs, [name], name))

    def _joined(self, rows: list[str], name: str, role: str, axis: int = 0) -> str:
        """States of one or both directions, of one scale."""
        if len(rows) == 1:
            return rows[0]
        made = self._add("Concat", rows, name, axis=axis)
        for number in range(len(self.directions)):
            self.found.alike[f"{self.prefix}/{number}/{role}"].append(made)
        return made

    def _constant(self, name: str, array: np.ndarray | np.float32) -> str:
        name = f"{self.at}/{name} constant"
        if all(one.name != name for one in self.found.constants):
            self.found.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _ints(self, name: str, *values: int) -> str:
        return self._constant(name, np.array(values))

    def _array(self, constants: dict[str, np.ndarray], place: int) -> np.ndarray | None:
        name = self.inputs[place]
        require(not name or name in constants, f"input {place} is not constant", "freeze the model")
        return constants[name] if name else None

    def _length(self, constants: dict[str, np.ndarray]) -> int:
        """The steps that are computed: of all, or as many as `sequence_lens` says."""
        name = self.inputs[4]
        lengths = {self.all_steps} if not name else set(constants.get(name, np.zeros(0)).tolist())
        require(len(lengths) == 1, "the sequence's length is an input, or differs", _FIXED)
        (length,) = lengths
        require(0 < length <= self.all_steps, f"a sequence of {length} steps", _FIXED)
        return int(length)

    def _activations(self, count: int) -> list[Activation]:
        """The functions of all directions, with their factors."""
        named = [one.decode() for one in self.given.get("activations", [])]
        wanted = named or [*ACTIVATIONS[self.node.op_type]] * len(self.directions)
        known = {one.lower(): one for one in KNOWN}
        names = [known.get(one.lower(), "") for one in wanted]
        reason = f"the activations {', '.join(named)} of its gates"
        require(all(names) and len(names) == count, reason, f"use some of {', '.join(KNOWN)}")
        given = [[*self.given.get(f"activation_{one}", ())] for one in ("alpha", "beta")]
        # Each takes the next of a list that still has one.
        functions = [
            (
                name,
                tuple(
                    factors.pop(0) if factors else default
                    for factors, default in zip(given, KNOWN[name], strict=False)
                ),
            )
            for name in names
        ]
        missing = next((name for name, factors in functions if not np.isfinite(factors).all()), "")
        require(not missing, f"the activation {missing} has no alpha or beta", "state both")
        return functions

    def _weights(
        self,
        number: int,
        w: np.ndarray | None,
        r: np.ndarray | None,
        bias: np.ndarray | None,
        peepholes: np.ndarray | None,
    ) -> _Weights:
        assert w is not None and r is not None
        gates = GATES[self.node.op_type]
        size = r.shape[-1]
        fits = w.ndim == r.ndim == 3 and w.shape[1] == r.shape[1] == len(gates) * size
        fits = fits and len(w) == len(r) == len(self.directions)
        require(fits, "its weights do not have the shapes of its gates", "export it again")
        biases = np.zeros(2 * len(gates) * size, np.float32) if bias is None else bias[number]
        require(biases.size == 2 * len(gates) * size, "its biases do not fit", "export it again")
        halves = np.split(biases, 2)
        return _Weights(
            {gate: part.T for gate, part in _by_gate(gates, w[number]).items()},
            {gate: part.T for gate, part in _by_gate(gates, r[number]).items()},
            _by_gate(gates, halves[0]),
            _by_gate(gates, halves[1]),
            {} if peepholes is None else _by_gate(PEEPHOLES, peepholes[number]),
        )


STEPS: dict[str, Callable[..., list[str]]] = {
    "GRU": _Writer.gru,
    "LSTM": _Writer.lstm,
    "RNN": _Writer.rnn,
}


def _by_gate(gates: str, array: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(gates, np.split(array.astype(np.float32), len(gates)), strict=True))


def _directions(name: str) -> tuple[int, ...]:
    known = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}
    if name not in known:
        raise UnsupportedError(f"the direction '{name}'", "export it again")
    return known[name]
