# SPDX-License-Identifier: Apache-2.0
"""GRU, LSTM and RNN of a float file as the operators that they are defined by, step by step, so
that each of their tensors gets a scale (ONNX operator specification, opset 22).

All steps share the scale of each tensor. So they share weights and tables, and a state keeps its
bytes from step to step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
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
KNOWN = {one.lower(): one for one in ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus")}
# So that a step has 30 nodes at most, see MAX_NODES.
MOST_STEPS = 100
_FIXED = "export it for sequences of a fixed length and a fixed batch"


@dataclass
class Unrolled:
    """The nodes of a recurrent node's steps. `alike`: by role, tensors that are to have one
    scale."""

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


def unrolled(node: NodeProto, constants: dict[str, np.ndarray], shape: list[int]) -> Unrolled:
    """GRU, LSTM or RNN as other operators. shape: of its input, () if unknown.

    Raises UnsupportedError for a node without such a form."""
    return _Unroller(node, constants, shape).run()


class _Unroller:
    def __init__(self, node: NodeProto, constants: dict[str, np.ndarray], shape: list[int]):
        self.node, self.given, self.found = node, attributes_of(node), Unrolled()
        self.inputs = [*node.input, *[""] * 8]
        self.outputs = [*node.output, *[""] * 3]
        self.at = self.prefix = next(name for name in self.outputs if name)
        self.batch_first = bool(self.given.get("layout", 0))
        require(len(shape) == 3 and min(shape) > 0, "the input has no fixed shape", _FIXED)
        self.steps, self.batch = shape[int(self.batch_first)], shape[1 - int(self.batch_first)]
        many = f"{self.steps} steps, at most {MOST_STEPS} are possible"
        require(self.steps <= MOST_STEPS, many, "give it shorter sequences, and keep its state")
        self._check_lengths(constants)
        arrays = [self._array(constants, place) for place in (1, 2, 3, 7)]
        require(arrays[0] is not None and arrays[1] is not None, "its weights are not constant")
        self.directions = _directions(self.given.get("direction", b"forward").decode())
        self.weights = [self._weights(n, *arrays) for n in range(len(self.directions))]
        self.size = len(next(iter(self.weights[0].r.values())))
        self.activations = self._activations()

    def run(self) -> Unrolled:
        # Rows of the batch, step by step.
        x = self.inputs[0]
        if self.batch_first and self.batch > 1:
            x = self._add("Transpose", [x], "x by step", perm=[1, 0, 2])
        x = self._add("Reshape", [x, self._ints("rows", self.steps * self.batch, -1)], "x")
        sides = [self._direction(n, x) for n in range(len(self.directions))]
        hidden = [[step[0] for step in side] for side in sides]
        if self.outputs[0]:
            # By step: each direction's state at it.
            rows = [side[t] for t in range(self.steps) for side in hidden]
            joined = self._joined(rows, "y", "h")
            shape = (self.steps, len(sides), self.batch, self.size)
            self._output(joined, shape, (2, 0, 1, 3), self.outputs[0])
        for place, name in enumerate(self.outputs[1:3]):
            if name:
                # The last step that is computed.
                ways = zip(sides, self.directions, strict=True)
                ends = [side[0 if way < 0 else -1] for side, way in ways]
                joined = self._joined([end[place] for end in ends], f"end {place}", "hc"[place])
                self._output(joined, (len(sides), self.batch, self.size), (1, 0, 2), name)
        return self.found

    def _direction(self, number: int, x: str) -> list[tuple[str, str]]:
        """Writes one direction; returns for each step the hidden state and the cell, "" where
        there is none."""
        self.at = f"{self.prefix}/{number}"
        self.parts = self.weights[number]
        inner = self.node.op_type == "GRU" and not self.given.get("linear_before_reset")
        # The addend of a gate's state part behind a reset stays there.
        behind = {"h"} if self.node.op_type == "GRU" and not inner else set()
        self.biases = {
            gate: bias + (0 if gate in behind else self.parts.rb[gate])
            for gate, bias in self.parts.wb.items()
        }
        states = [self._begin(5, number, "h")]
        if self.node.op_type == "LSTM":
            states.append(self._begin(6, number, "c"))
        made = {}
        steps = range(self.steps)
        for t in steps if self.directions[number] > 0 else reversed(steps):
            self.step = t
            self.row = self._row(x)
            states = STEPS[self.node.op_type](self, *states)
            made[t] = (states[0], states[1] if len(states) > 1 else "")
        return [made[t] for t in steps]

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
            inner = self._now("Mul", [r, inner], "reset")
        else:
            inner = self._product("h", self._now("Mul", [r, h], "reset"))
        new = self._active(1, self._sum([self._given("h"), inner], "new sum"), "new")
        one = self._constant("one", np.float32(1))
        kept = self._now("Mul", [z, h], "kept")
        taken = self._now("Mul", [self._now("Sub", [one, z], "rest"), new], "taken")
        return [self._state("h", [kept, taken])]

    def lstm(self, h: str, c: str) -> list[str]:
        i = self._gate("i", h, c)
        if self.given.get("input_forget"):
            f = self._now("Sub", [self._constant("one", np.float32(1)), i], "forget")
        else:
            f = self._gate("f", h, c)
        new = self._active(
            1, self._sum([self._given("c"), self._product("c", h)], "new sum"), "new"
        )
        kept, taken = (
            self._now("Mul", pair, name) for pair, name in (([f, c], "kept"), ([i, new], "taken"))
        )
        cell = self._state("c", [kept, taken])
        o = self._gate("o", h, cell)
        hidden = self._now("Mul", [o, self._active(2, cell, "seen", clip=False)], "h")
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
            parts.append(self._now("Mul", [cell, peephole], f"{gate} peephole"))
        return self._active(0, self._sum(parts, f"{gate} sum"), gate)

    def _row(self, x: str) -> str:
        """The input in this step."""
        if self.steps == 1:
            return x
        ends = (self.step * self.batch, (self.step + 1) * self.batch, 0)
        bounds = (self._ints(f"at {n}", n) for n in ends)
        made = self._now("Slice", [x, *bounds], "x")
        self._like("x", x, self.inputs[0])
        return made

    def _given(self, gate: str) -> str:
        """The input's part of a gate in this step."""
        constants = {"w": self.parts.w[gate], "b": self.biases[gate]}
        names = [self._constant(f"{name}{gate}", array) for name, array in constants.items()]
        return self._now("Gemm", [self.row, *names], f"x{gate}")

    def _product(self, gate: str, h: str, bias: np.ndarray | None = None) -> str:
        bias = np.zeros(self.size, np.float32) if bias is None else bias
        weights = self._constant(f"r{gate}", self.parts.r[gate])
        return self._now("Gemm", [h, weights, self._constant(f"rb{gate}", bias)], f"h{gate}")

    def _sum(self, parts: list[str], role: str) -> str:
        total = parts[0]
        for number, part in enumerate(parts[1:]):
            total = self._now("Add", [total, part], f"{role} {number}")
        return total

    def _state(self, role: str, parts: list[str]) -> str:
        made = self._now("Add", parts, f"{role} state")
        self._like(role, made)
        return made

    def _active(self, place: int, x: str, role: str, clip: bool = True) -> str:
        limit = self.given.get("clip", 0) if clip else 0
        if limit:
            bounds = [self._constant(f"clip {n}", np.float32(n)) for n in (-limit, limit)]
            x = self._now("Clip", [x, *bounds], f"{role} clipped")
        return self._now(self.activations[place], [x], role)

    def _now(self, op: str, ins: list[str], role: str, **more: Any) -> str:
        """A node of this step, whose output has the scale of that role in all steps."""
        made = self._add(op, ins, f"{self.step}/{role}", **more)
        self._like(role, made)
        return made

    def _like(self, role: str, *names: str) -> None:
        group = self.found.alike[f"{self.at}/{role}"]
        group.extend(name for name in names if name not in group)

    def _add(self, op: str, ins: list[str], name: str, **more: Any) -> str:
        made = f"{self.at}/{name}"
        self.found.nodes.append(helper.make_node(op, ins, [made], made, **more))
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

    def _joined(self, rows: list[str], name: str, role: str) -> str:
        """States of several steps or directions, all of one scale."""
        self.at = self.prefix
        if len(rows) == 1:
            return rows[0]
        made = self._add("Concat", rows, name, axis=0)
        for number in range(len(self.directions)):
            self.at = f"{self.prefix}/{number}"
            self._like(role, made)
        self.at = self.prefix
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

    def _check_lengths(self, constants: dict[str, np.ndarray]) -> None:
        name = self.inputs[4]
        whole = not name or (name in constants and (constants[name] == self.steps).all())
        require(whole, "the sequence's length is an input", _FIXED)

    def _activations(self) -> tuple[str, ...]:
        wanted = ACTIVATIONS[self.node.op_type]
        named = [one.decode() for one in self.given.get("activations", [])]
        if named == named[: len(wanted)] * len(self.directions):
            named = named[: len(wanted)]
        activations = tuple(KNOWN.get(one.lower(), "") for one in named) or wanted
        plain = "" not in activations and len(activations) == len(wanted)
        plain = plain and not any(self.given.get(f"activation_{one}") for one in ("alpha", "beta"))
        reason = f"the activations {', '.join(named)} of its gates"
        require(plain, reason, f"use {', '.join(KNOWN.values())}, alike in both directions")
        return activations

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
    "GRU": _Unroller.gru,
    "LSTM": _Unroller.lstm,
    "RNN": _Unroller.rnn,
}


def _by_gate(gates: str, array: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(gates, np.split(array.astype(np.float32), len(gates)), strict=True))


def _directions(name: str) -> tuple[int, ...]:
    known = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}
    if name not in known:
        raise UnsupportedError(f"the direction '{name}'", "export it again")
    return known[name]
