# SPDX-License-Identifier: Apache-2.0
"""GRU, LSTM and RNN of a float file as a Scan of the operators that they are defined by, so that
each of their tensors gets a scale (ONNX operator specification, opset 22)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from ..frontends.common import UnsupportedError, require
from ..frontends.onnx.attributes import attributes_of
from ..frontends.onnx.node_writer import NodeWriter

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


def scans(
    graph: onnx.GraphProto,
    node: NodeProto,
    shapes: dict[str, list[int]],
    alike: list[list[str]],
) -> list[NodeProto]:
    """GRU, LSTM or RNN as other operators, a Scan for each direction among them. alike: gets groups
    of tensors that are to have one scale.

    Raises UnsupportedError for a node without such a form."""
    writer = _Writer(graph, node, shapes.get(node.input[0], []))
    writer.run()
    alike += writer.alike.values()
    return writer.writer.nodes


class _Writer:
    """alike: by role, tensors that are to have one scale."""

    def __init__(self, graph: onnx.GraphProto, node: NodeProto, shape: list[int]):
        self.node, self.given = node, attributes_of(node)
        self.alike: dict[str, list[str]] = defaultdict(list)
        self.inputs = [*node.input, *[""] * 8]
        self.outputs = [*node.output, *[""] * 3]
        self.prefix = next(name for name in self.outputs if name)
        self.writer = NodeWriter(graph, self.prefix)
        self.batch_first = bool(self.given.get("layout", 0))
        require(len(shape) == 3 and min(shape) > 0, "the input has no fixed shape", _FIXED)
        self.all_steps, self.batch = shape[int(self.batch_first)], shape[1 - int(self.batch_first)]
        constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.steps = self._length(constants)
        self.directions = _directions(self.given.get("direction", b"forward").decode())
        self.arrays = self._arrays(constants)
        self.size = self.arrays[1].shape[-1]
        count = len(ACTIVATIONS[node.op_type])
        every = self._activations(count * len(self.directions))
        self.activations = [every[n : n + count] for n in range(0, len(every), count)]

    def run(self) -> None:
        """Writes all nodes."""
        x = self.inputs[0]
        if self.batch_first and self.batch > 1:
            x = self._add("Transpose", [x], "x by step", perm=[1, 0, 2])
        x = self._add("Reshape", [x, self._ints("steps", self.all_steps, self.batch, -1)], "x")
        if self.steps < self.all_steps:
            x = self._add("Gather", [x, self._ints("within", *range(self.steps))], "x within")
        sides = [self._direction(n, x) for n in range(len(self.directions))]
        self.writer.name = self.prefix
        if self.outputs[0]:
            self._all_steps([side[-1] for side in sides])
        for place, name in enumerate(self.outputs[1:3]):
            if name:
                joined = self._joined([side[place] for side in sides], f"end {place}", "hc"[place])
                self._output(joined, (len(sides), self.batch, self.size), (1, 0, 2), name)

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
        self.writer.name = at = f"{self.prefix}/{number}"
        self.functions, gates = self.activations[number], GATES[self.node.op_type]
        w, r, biases, peepholes = (array[number] for array in self.arrays)
        self.w, self.r = _by_gate(gates, w), _by_gate(gates, r)
        self.biases, self.state_biases = (_by_gate(gates, half) for half in np.split(biases, 2))
        self.peepholes = _by_gate(PEEPHOLES, peepholes) if peepholes.size else {}
        # The addend of a gate's state part behind a reset stays there.
        behind = "h" if self.given.get("linear_before_reset") else ""
        for gate in set(gates) - set(behind):
            self.biases[gate] = self.biases[gate] + self.state_biases[gate]
        roles = "hc" if self.node.op_type == "LSTM" else "h"
        first = [self._begin(5 + place, number, role) for place, role in enumerate(roles)]
        before = [f"{at}/{role} before" for role in roles]
        self.row, nodes, self.writer.nodes = f"{at}/row", self.writer.nodes, []
        after = STEPS[self.node.op_type](self, *before)
        for role, *states in zip(roles, before, after, first, strict=True):
            self._like(role, *states)
        size = self.arrays[0].shape[-1]
        rows = [*((name, self.size) for name in before), (self.row, size)]
        # The hidden state is both the next one and a result.
        results = [(name, self.size) for name in (*after, after[0])]
        inner = self.writer.nodes
        body = helper.make_graph(inner, "step", self._values(rows), self._values(results))
        ends = [f"{at}/{role} last" for role in roles] + [f"{at}/y"]
        way = [int(self.directions[number] < 0)]
        scan = helper.make_node("Scan", [*first, x], ends, body=body, num_scan_inputs=1)
        scan.attribute.extend(
            helper.make_attribute(f"scan_{end}_directions", way) for end in ("input", "output")
        )
        self.writer.nodes = [*nodes, scan]
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
            inner = self._product("h", h, self.state_biases["h"])
            inner = self._add("Mul", [r, inner], "reset")
        else:
            inner = self._product("h", self._add("Mul", [r, h], "reset"))
        new = self._active(1, self._sum([self._given("h"), inner], "new sum"), "new")
        one = self._constant("one", np.float32(1))
        kept = self._add("Mul", [z, h], "kept")
        taken = self._add("Mul", [self._add("Sub", [one, z], "rest"), new], "taken")
        return [self._add("Add", [kept, taken], "h state")]

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
        cell = self._add("Add", [kept, taken], "c state")
        o = self._gate("o", h, cell)
        return [self._add("Mul", [o, self._active(2, cell, "seen", clip=False)], "h"), cell]

    def rnn(self, h: str) -> list[str]:
        return [self._active(0, self._sum([self._given("h"), self._product("h", h)], "sum"), "h")]

    def _gate(self, gate: str, h: str, cell: str = "") -> str:
        parts = [self._given(gate), self._product(gate, h)]
        if cell and gate in self.peepholes:
            peephole = self._constant(f"p{gate}", self.peepholes[gate])
            parts.append(self._add("Mul", [cell, peephole], f"{gate} peephole"))
        return self._active(0, self._sum(parts, f"{gate} sum"), gate)

    def _given(self, gate: str) -> str:
        """The input's part of a gate."""
        constants = {"w": self.w[gate], "b": self.biases[gate]}
        names = [self._constant(f"{name}{gate}", array) for name, array in constants.items()]
        return self._add("Gemm", [self.row, *names], f"x{gate}")

    def _product(self, gate: str, h: str, bias: np.ndarray | None = None) -> str:
        bias = np.zeros(self.size, np.float32) if bias is None else bias
        weights = self._constant(f"r{gate}", self.r[gate])
        return self._add("Gemm", [h, weights, self._constant(f"rb{gate}", bias)], f"h{gate}")

    def _sum(self, parts: list[str], role: str) -> str:
        total = parts[0]
        for number, part in enumerate(parts[1:]):
            total = self._add("Add", [total, part], f"{role} {number}")
        return total

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
        group = self.alike[f"{self.writer.name}/{role}"]
        group.extend(name for name in names if name not in group)

    def _add(self, op: str, ins: list[str], name: str, **more: Any) -> str:
        return self.writer.add(op, ins, f"{self.writer.name}/{name}", **more)

    def _output(
        self, joined: str, shape: tuple[int, ...], order: tuple[int, ...], name: str
    ) -> None:
        """An output of the node: `joined` in this shape; order: of its axes, batch in front."""
        if self.batch_first and self.batch > 1:
            inputs = [joined, self._ints(f"{name} steps", *shape)]
            steps = self._add("Reshape", inputs, f"{name} steps")
            self.writer.add("Transpose", [steps], name, perm=order)
            return
        ordered = [shape[axis] for axis in order] if self.batch_first else shape
        self.writer.add("Reshape", [joined, self._ints(f"{name} shape", *ordered)], name)

    def _joined(self, rows: list[str], name: str, role: str, axis: int = 0) -> str:
        """States of one or both directions, of one scale."""
        if len(rows) == 1:
            return rows[0]
        made = self._add("Concat", rows, name, axis=axis)
        for number in range(len(self.directions)):
            self.alike[f"{self.prefix}/{number}/{role}"].append(made)
        return made

    def _constant(self, name: str, array: np.ndarray | np.float32) -> str:
        return self.writer.constant(f"{name} constant", array)

    def _ints(self, name: str, *values: int) -> str:
        return self._constant(name, np.array(values))

    def _arrays(self, constants: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The weights of the input (directions, gates * H, I), those of the state, biases of both,
        and peepholes, none of which is an empty array."""
        for place in (1, 2, 3, 7):
            known = self.inputs[place] in ("", *constants)
            require(known, f"input {place} is not constant", "freeze the model")
        w, r, biases, peepholes = (constants.get(self.inputs[place]) for place in (1, 2, 3, 7))
        if w is None or r is None:
            raise UnsupportedError("its weights are not constant")
        count, rows = len(self.directions), len(GATES[self.node.op_type]) * r.shape[-1]
        fits = w.ndim == r.ndim == 3 and w.shape[:2] == r.shape[:2] == (count, rows)
        require(fits, "its weights do not have the shapes of its gates", "export it again")
        biases = np.zeros((count, 2 * rows), np.float32) if biases is None else biases
        require(biases.size == 2 * rows * count, "its biases do not fit", "export it again")
        return [w, r, biases, np.zeros((count, 0)) if peepholes is None else peepholes]

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
        functions: list[Activation] = []
        for name in names:
            # Each takes the next of a list that still has one.
            pairs = zip(given, KNOWN[name], strict=False)
            factors = tuple(left.pop(0) if left else default for left, default in pairs)
            stated = bool(np.isfinite(factors).all())
            require(stated, f"the activation {name} has no alpha or beta", "state both")
            functions.append((name, factors))
        return functions


STEPS: dict[str, Callable[..., list[str]]] = {
    "GRU": _Writer.gru,
    "LSTM": _Writer.lstm,
    "RNN": _Writer.rnn,
}


def _by_gate(gates: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """The rows of each gate, as columns if they are a matrix."""
    parts = np.split(array.astype(np.float32), len(gates))
    return {gate: part.T for gate, part in zip(gates, parts, strict=True)}


def _directions(name: str) -> tuple[int, ...]:
    known = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}
    if name not in known:
        raise UnsupportedError(f"the direction '{name}'", "export it again")
    return known[name]
