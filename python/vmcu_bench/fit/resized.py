# SPDX-License-Identifier: Apache-2.0
"""The largest image, or the most channels, with which a network fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vmcu_tools.emit import emit
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.graph import Graph, Shape
from vmcu_tools.ops import bind
from vmcu_tools.passes.scaled import scaled
from vmcu_tools.peaks import peak
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

from .figures import Footprint, Limits, Remedy

IMAGE, CHANNELS = "image", "width"
# Sizes that are tried are multiples of one of these, the first that leaves enough of them.
GRAINS = (16, 8, 4, 2, 1)
FEWEST_STEPS, WIDTH_STEPS = 8, 16
# The largest factor that is tried.
MOST_TIMES = 4


@dataclass(frozen=True)
class Scale:
    """One way to scale a graph, which is then planned with the same options: `make` scales it to
    `number` of `whole` parts. name: of its tables in C."""

    name: str
    kind: str
    whole: int
    make: Callable[[int], Graph]
    options: CompileOptions


def scale_of(name: str, kind: str, graph: Graph, options: CompileOptions) -> Scale:
    """Returns the way in which a graph can be scaled; `name`: of Scale. Raises UserError if it
    cannot."""
    if graph.state.names or options.hop:
        raise _refused("the model keeps state from call to call", graph)
    if kind == CHANNELS:
        steps = WIDTH_STEPS
        return Scale(name, kind, steps, lambda number: scaled(graph, None, number / steps), options)
    if len(graph.inputs) != 1:
        raise _refused("the model has several inputs", graph)
    sides = graph.tensors[graph.inputs[0].tensor].shape[:2]
    if max(sides) == 1:
        raise _refused("the input is not an image", graph)
    fitting = (grain for grain in GRAINS if all(side % grain == 0 for side in sides if side > 1))
    grain = next((one for one in fitting if max(sides) // one >= FEWEST_STEPS), 1)
    whole = max(sides) // grain

    def make(number: int) -> Graph:
        height, width = (max(round(side * number / whole), 1) for side in sides)
        return scaled(graph, (height, width))

    return Scale(name, kind, whole, make, options)


def _refused(reason: str, graph: Graph) -> UserError:
    return UserError(Problem(reason, "change the network itself", graph.origin))


def measured(plan: Plan, name: str) -> Footprint:
    """Measures a plan, which is proven and emitted for that. name: of its tables in C, which flash
    holds too."""
    emitted = emit(plan, name, "")
    macs = sum(step.bind(plan.graph).macs for step in plan.steps) - plan.macs_extra
    ram = plan.ram_bytes + plan.buffer_bytes
    return Footprint(ram, emitted.flash_bytes, macs, plan.macs_extra)


def largest(
    scale: Scale, limits: Limits, low: int, high: int, tables: int
) -> tuple[Remedy | None, UserError | None]:
    """The largest number of parts in [low, high) with which it fits; None if there is none, with
    the last refusal. tables: bytes of flash beside weights, about."""
    refusal: UserError | None = None

    def fits(number: int) -> bool:
        nonlocal refusal
        try:
            graph = scale.make(number)
        except UserError as error:
            refusal = error
            return False
        weights = sum(bind(graph, node).weight_bytes for node in graph.nodes)
        if limits.flash is not None and weights + tables > limits.flash:
            return False
        return limits.ram is None or peak(graph, None, scale.options) <= limits.ram

    below, above = low - 1, high
    while above - below > 1:
        middle = (below + above) // 2
        if fits(middle):
            below = middle
        else:
            above = middle
    while below >= low:
        graph = scale.make(below) if fits(below) else None
        way = None if graph is None else _way(scale, below, graph, limits)
        if way is not None and way.fits:
            return way, refusal
        below -= 1
    return None, refusal


def _way(scale: Scale, number: int, graph: Graph, limits: Limits) -> Remedy:
    footprint = measured(make_plan(graph, scale.options, prove=False), scale.name)
    factor, shape = round(number / scale.whole, 4), _shape(graph)
    said = f"{shape[0]} x {shape[1]}" if scale.kind == IMAGE else f"{factor:g} times the channels"
    what = f"an image of {said}" if scale.kind == IMAGE else said
    return Remedy.of(scale.kind, what, "", footprint, limits, (factor, shape))


def _shape(graph: Graph) -> Shape:
    return graph.tensors[graph.inputs[0].tensor].shape
