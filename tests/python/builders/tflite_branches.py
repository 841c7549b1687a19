# SPDX-License-Identifier: Apache-2.0
"""Int8 .tflite files with IF and WHILE, most of them known before they run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

from .tflite_models import TfliteModel

SHAPE = (1, 5, 6, 4)
Body = Callable[["BranchModel", list[int]], list[int]]


class BranchModel(TfliteModel):
    """A model with inner subgraphs."""

    def subgraph(self, inputs: list[int], build: Body) -> int:
        """Adds a subgraph whose inputs are like those tensors of the main one."""
        main, self.graph = self.graph, schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.model.subgraphs.append(self.graph)
        number = len(self.model.subgraphs) - 1
        given = [self.twin(main.tensors[i]) for i in inputs]
        self.graph.outputs = build(self, given)
        self.graph.inputs = given
        self.graph = main
        return number

    def twin(self, tensor) -> int:
        """A tensor of the same shape and quantisation, without its data."""
        same = schema.TensorT()
        same.name, same.shape, same.type = f"t{len(self.graph.tensors)}", tensor.shape, tensor.type
        same.quantization, same.buffer = tensor.quantization, 0
        self.graph.tensors.append(same)
        return len(self.graph.tensors) - 1

    def choice(self, condition: int, x: int, then: Body, other: Body, count: int = 1) -> list[int]:
        """IF of so many results, all like x."""
        options = schema.IfOptionsT()
        options.thenSubgraphIndex = self.subgraph([x], then)
        options.elseSubgraphIndex = self.subgraph([x], other)
        outputs = [self.twin(self.graph.tensors[x]) for _ in range(count)]
        self.put(self.graph, "IF", [condition, x], outputs, options, "IfOptions")
        return outputs

    def loop(self, state: int, x: int, limit: int) -> int:
        """WHILE of a counter below a limit; returns what becomes of x."""
        options = schema.WhileOptionsT()
        options.condSubgraphIndex = self.subgraph([state, x], below(limit))
        options.bodySubgraphIndex = self.subgraph([state, x], step)
        outputs = [self.twin(self.graph.tensors[i]) for i in (state, x)]
        self.put(self.graph, "WHILE", [state, x], outputs, options, "WhileOptions")
        return outputs[1]

    def filled(self, index: int, values: np.ndarray) -> int:
        """The tensor, as a constant of these bytes."""
        self.graph.tensors[index].buffer = len(self.model.buffers)
        self.model.buffers.append(schema.BufferT())
        self.model.buffers[-1].data = values.astype(np.uint8)
        return index

    def number(self, *values, dtype=np.int32) -> int:
        return self.constant(np.array(values, dtype))


def below(limit: int) -> Body:
    def build(m: BranchModel, given: list[int]) -> list[int]:
        less = m.activation((1,), dtype=np.bool_)
        return [m.op("LESS", [given[0], m.number(limit)], less, "Less")]

    return build


def step(m: BranchModel, given: list[int]) -> list[int]:
    count = m.activation((1,), dtype=np.int32)
    return [m.op("ADD", [given[0], m.number(1)], count, "Add"), *scaled(2)(m, given[1:])]


def scaled(value: int) -> Body:
    """x + value, at the scale of x."""

    def build(m: BranchModel, given: list[int]) -> list[int]:
        y = m.like(given[0], SHAPE)
        other = m.constant(np.full(SHAPE, value, np.int8), [0.3])
        return [m.op("ADD", [given[0], other], y, "Add")]

    return build


def same(m: BranchModel, given: list[int]) -> list[int]:
    """The input itself."""
    return list(given)


def both(m: BranchModel, given: list[int]) -> list[int]:
    """A sum, the same again, the input, and a constant."""
    (y,) = scaled(3)(m, given)
    zero = m.filled(m.like(given[0], SHAPE), np.arange(np.prod(SHAPE)))
    return [y, y, given[0], zero]


def inner(m: BranchModel, given: list[int]) -> list[int]:
    """An IF in a branch."""
    (y,) = scaled(1)(m, given)
    return m.choice(m.number(False, dtype=np.bool_), y, same, scaled(-2))


Case = Callable[[BranchModel, int], list[int]]


def constant(value: bool) -> Case:
    return lambda m, x: m.choice(m.number(value, dtype=np.bool_), x, scaled(1), scaled(2))


def by_shape(m: BranchModel, x: int) -> list[int]:
    """The size of the input is compared."""
    sizes = m.op("SHAPE", [x], m.activation((4,), dtype=np.int32), "Shape", outType=2)
    equal = m.activation((4,), dtype=np.bool_)
    m.op("EQUAL", [sizes, m.number(*SHAPE)], equal, "Equal")
    parts = [m.number(0), m.number(1), m.number(1)]
    first = m.activation((1,), dtype=np.bool_)
    m.op("STRIDED_SLICE", [equal, *parts], first, "StridedSlice")
    return m.choice(first, x, twice, same)


def twice(m: BranchModel, given: list[int]) -> list[int]:
    return scaled(1)(m, scaled(2)(m, given))


def several(m: BranchModel, x: int) -> list[int]:
    return m.choice(m.number(True, dtype=np.bool_), x, both, both, 4)


def chained(m: BranchModel, x: int) -> list[int]:
    """One behind the other, and an operator behind both."""
    y = constant(True)(m, constant(False)(m, x)[0])[0]
    return scaled(1)(m, [y])


CASES: dict[str, Case] = {
    "then": constant(True),
    "else": constant(False),
    "by shape": by_shape,
    "same": lambda m, x: m.choice(m.number(False, dtype=np.bool_), x, scaled(1), same),
    "several": several,
    "nested": lambda m, x: m.choice(m.number(True, dtype=np.bool_), x, inner, same),
    "chained": chained,
    "no step": lambda m, x: [m.loop(m.number(3), x, 3)],
}


def of_input(m: BranchModel, x: int) -> list[int]:
    parts = [m.number(0, 0, 0, 0), m.number(1, 1, 1, 1), m.number(1, 1, 1, 1)]
    first = m.like(x, (1,))
    m.op("STRIDED_SLICE", [x, *parts], first, "StridedSlice", shrinkAxisMask=14)
    zero = m.filled(m.like(x, (1,)), np.zeros(1))
    above = m.activation((1,), dtype=np.bool_)
    m.op("GREATER", [first, zero], above, "Greater")
    return m.choice(above, x, scaled(1), scaled(2))


def other_scale(m: BranchModel, x: int) -> list[int]:
    """The branch has a result of another scale than the IF."""
    return [m.choice(m.number(True, dtype=np.bool_), x, rescaled, scaled(2))[0]]


def rescaled(m: BranchModel, given: list[int]) -> list[int]:
    y = m.activation(SHAPE, 0.5, 1)
    return [m.op("ADD", [given[0], m.constant(np.ones(SHAPE, np.int8), [0.3])], y, "Add")]


REFUSED: dict[str, tuple[Case, str]] = {
    "of input": (of_input, "(IF): the condition is not constant"),
    "other scale": (other_scale, "(IF): a branch has tensors of another shape or scale"),
    "steps": (lambda m, x: [m.loop(m.number(0), x, 3)], "not unrolled: WHILE"),
}


def build(case: Case) -> tuple[BranchModel, list[int], list[int]]:
    """The model with its inputs and outputs."""
    m = BranchModel()
    x = m.activation(SHAPE, 0.1, 3)
    y = m.like(x, SHAPE)
    m.op("ADD", [x, m.constant(np.ones(SHAPE, np.int8), [0.2])], y, "Add")
    return m, [x], case(m, y)


def float_model() -> tuple[BranchModel, list[int], list[int]]:
    """A model in float with its inputs and outputs."""

    def times(value: float) -> Body:
        def build(m: BranchModel, given: list[int]) -> list[int]:
            y = m.twin(m.graph.tensors[given[0]])
            return [m.op("MUL", [given[0], m.constant(np.float32([value]))], y, "Mul")]

        return build

    m = BranchModel()
    x = m.activation(SHAPE, dtype=np.float32)
    return m, [x], m.choice(m.number(True, dtype=np.bool_), x, times(3), times(-0.5))
