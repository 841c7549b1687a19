# SPDX-License-Identifier: Apache-2.0
"""A container as commands work on it that take one as they take a model file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..graph import Graph, Port, Tensor
from ..machine.tables import Objects
from ..plan.plan import Plan
from .files import bytes_of
from .read import Facts, Side, require, unpack

PLANNER = "container"
_KERNEL = re.compile(r"vmcu_\w+", re.ASCII)


@dataclass(frozen=True, eq=False)
class Opened:
    """A container and what is in it. outline: a plan without steps, for its inputs, outputs and
    pool; kernels: of each layer. Inputs and outputs have the axes of the file that the model was
    built from, as int8: which type they had there no container says."""

    image: bytes
    objects: Objects
    outline: Plan
    kernels: tuple[str, ...]
    rotates: bool

    @property
    def name(self) -> str:
        return self.outline.graph.name


def open_container(path: Path) -> Opened:
    """The container of a file. Raises UserError for what is none, or is damaged."""
    image, facts = bytes_of(path)
    objects, name = unpack(image)
    layers: Any = objects.values.get(f"{name}_layers", [])
    kernels = tuple(str(layer["kernel"]) for layer in layers)
    # They go into C.
    require(all(map(_KERNEL.fullmatch, facts.kernels)), "a kernel's name is none of vmcu's")
    model = objects.values[f"{name}_model"]
    return Opened(image, objects, _outline(facts, path), kernels, "circle" in model)


def _outline(facts: Facts, path: Path) -> Plan:
    tensors: dict[str, Tensor] = {}

    def port(kind: str, number: int, side: Side) -> Port:
        label = f"{kind} {number}"
        tensors[label] = Tensor(label, side.shape, side.scale, side.zero_point)
        height, width, channels = side.shape
        shape = (1, height, width, channels)
        if side.layout == "nchw":
            shape = (1, channels, height, width)
        return Port(label, side.name, shape, "int8", side.layout, side.half_away)

    inputs = tuple(port("input", n, side) for n, side in enumerate(facts.inputs))
    outputs = tuple(port("output", n, side) for n, side in enumerate(facts.outputs))
    graph = Graph(facts.name, str(path), tensors, (), inputs, outputs)
    return Plan(PLANNER, graph, (), {}, facts.pool_bytes, input_streamed=facts.streamed)
