# SPDX-License-Identifier: Apache-2.0
"""What initialisers are made of, and the fields that many kernels' parameters share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import Problem, UserError
from ..graph import Graph, Node, Op
from ..quant import INT8_MAX, INT8_MIN, FixedPoint


@dataclass(frozen=True, eq=False)
class Array:
    """Constants that C refers to by name; `role` becomes part of that name. `lines`: for words of
    a stream, how many make a line each, the last for all that follow."""

    role: str
    values: np.ndarray
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Struct:
    """An initialiser. `type` may be empty for a member whose type the outer struct fixes."""

    type: str
    fields: dict[str, Value]


@dataclass(frozen=True, eq=False)
class StructArray:
    """An array of structs that C refers to by name."""

    role: str
    items: tuple[Struct, ...]


Value = int | bool | str | Array | Struct | StructArray


@dataclass(frozen=True, eq=False)
class Kernel:
    """The entry point of a layer, and its parameters if it takes any."""

    symbol: str
    params: Struct | None


def factor(requant: FixedPoint) -> Struct:
    """One factor for a whole tensor."""
    return Struct(
        "",
        {
            "multiplier": int(np.ravel(requant.multiplier)[0]),
            "shift": int(np.ravel(requant.shift)[0]),
        },
    )


def activation(op: Op) -> dict[str, Value]:
    return {"act_min": op.act_min, "act_max": op.act_max}


def zeros(graph: Graph, node: Node) -> dict[str, Value]:
    return {
        "input_zero": graph.tensors[node.inputs[0]].zero_point,
        "output_zero": graph.tensors[node.outputs[0]].zero_point,
    }


def refuse_activation(graph: Graph, node: Node) -> None:
    """For kernels that only move bytes."""
    if (node.op.act_min, node.op.act_max) != (INT8_MIN, INT8_MAX):
        raise UserError(
            Problem(
                "a fused activation is not supported here",
                "make the activation a layer of its own",
                graph.origin,
                node.name,
                node.kind,
            )
        )
