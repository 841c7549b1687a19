# SPDX-License-Identifier: Apache-2.0
"""A container as commands work on it that take one as they take a model file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..graph import Graph, Port, Tensor
from ..machine.tables import Objects
from ..plan.plan import Plan
from .files import bytes_of
from .head import require
from .kernels import check_linkable
from .read import Facts, Side, unpack

PLANNER = "container"


@dataclass(frozen=True, eq=False)
class Opened:
    """A container and its facts. outline: a plan without steps, for its inputs, outputs and
    pool; kernels: of each layer; weights_bytes: of its weights file, 0 for none. Inputs and outputs
    have the axes of the file that the model was built from, as int8: which type they had there no
    container says."""

    image: bytes
    objects: Objects
    outline: Plan
    kernels: tuple[str, ...]
    rotates: bool
    weights_bytes: int

    @property
    def name(self) -> str:
        return self.outline.graph.name


def open_container(path: Path) -> Opened:
    """The container of a file. Raises UserError for any other file, and for a damaged one."""
    image, facts = bytes_of(path)
    objects, name = unpack(image)
    layers: Any = objects.values.get(f"{name}_layers", [])
    kernels = tuple(str(layer["kernel"]) for layer in layers)
    check_linkable(facts.kernels, path)
    model = objects.values[f"{name}_model"]
    _check_hops(facts)
    outline, rotates = _outline(facts, path), "circle" in model
    return Opened(image, objects, outline, kernels, rotates, facts.weights_bytes)


def _check_hops(facts: Facts) -> None:
    """Raises DamagedError for a model that keeps rows but gets none."""
    if facts.hops is not None:
        took = facts.hops.first > 0 and facts.hops.rows > 0 and len(facts.inputs) == 1
        require(took, "the state has no rows")


def _outline(facts: Facts, path: Path) -> Plan:
    tensors: dict[str, Tensor] = {}
    hops = facts.hops

    def port(kind: str, number: int, side: Side) -> Port:
        label = f"{kind} {number}"
        height, width, channels = side.shape
        if hops is not None and (kind == "input" or hops.streams):
            # In the tables it is as high as the proof has looked.
            height = hops.first if kind == "input" else 1
        tensors[label] = Tensor(label, (height, width, channels), side.scale, side.zero_point)
        sizes = {"n": 1, "h": height, "w": width, "c": channels}
        shape = tuple(sizes[axis] for axis in side.layout)
        return Port(label, side.name, shape, "int8", side.layout, side.half_away)

    inputs = tuple(port("input", n, side) for n, side in enumerate(facts.inputs))
    outputs = tuple(port("output", n, side) for n, side in enumerate(facts.outputs))
    graph = Graph(facts.name, str(path), tensors, (), inputs, outputs)
    if hops is not None:
        graph = graph.with_state(step_rows=hops.rows, unbounded_nodes=int(not hops.streams))
    return Plan(PLANNER, graph, (), {}, facts.pool_bytes, input_streamed=facts.streamed)
