# SPDX-License-Identifier: Apache-2.0
"""Float files of one recurrent layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


@dataclass(frozen=True)
class Cell:
    """`given`: attributes. `begins`: the states before the first step are inputs h0 and c0, and
    those behind the last one outputs hn and cn; else the output is that of all steps. `length`: of
    all sequences, where they have fewer steps than there are."""

    op: str
    steps: int = 4
    inputs: int = 5
    size: int = 6
    both: bool = False
    begins: bool = False
    biased: bool = True
    peepholes: bool = False
    given: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    batch: int = 1
    length: int = 0

    @property
    def batch_first(self) -> bool:
        return bool(self.given.get("layout"))

    @property
    def states(self) -> list[str]:
        return ["h", "c"] if self.op == "LSTM" else ["h"]

    def model(self) -> onnx.ModelProto:
        rng, ways = np.random.default_rng(self.seed), 1 + self.both
        rows = GATES[self.op] * self.size
        shapes = {"W": (ways, rows, self.inputs), "R": (ways, rows, self.size)}
        shapes["B"] = (ways, 2 * rows)
        arrays = {
            name: rng.normal(size=shape, scale=0.5).astype(np.float32)
            for name, shape in shapes.items()
        }
        arrays["P"] = rng.normal(size=(ways, 3 * self.size)).astype(np.float32)
        names = ["x", "W", "R", "B" if self.biased else "", "lengths" if self.length else ""]
        arrays["lengths"] = np.full(self.batch, self.length, np.int32)
        names += [f"{state}0" if self.begins else "" for state in self.states]
        names += ["P"] if self.peepholes else []
        attributes = dict(self.given, hidden_size=self.size)
        if "direction" not in attributes and self.both:
            attributes["direction"] = "bidirectional"
        outputs = ["y", *(f"{state}n" for state in self.states)]
        node = helper.make_node(self.op, names, outputs, "cell", **attributes)
        x = (self.steps, self.batch, self.inputs)
        y, state = (self.steps, ways, self.batch, self.size), (ways, self.batch, self.size)
        if self.batch_first:
            x, state = (x[1], x[0], x[2]), (state[1], state[0], state[2])
            y = (y[2], y[0], y[1], y[3])
        ins = {"x": x} | ({f"{s}0": state for s in self.states} if self.begins else {})
        outs = {"y": y} | {f"{s}n": state for s in self.states}
        infos = [
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in sides.items()]
            for sides in (ins, outs)
        ]
        constants = [numpy_helper.from_array(a, n) for n, a in arrays.items() if n in names]
        graph = helper.make_graph([node], "cell", *infos, constants)
        opset = helper.make_opsetid("", 14 if "layout" in attributes else 13)
        return helper.make_model(graph, opset_imports=[opset], ir_version=8)
