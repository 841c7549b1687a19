# SPDX-License-Identifier: Apache-2.0
"""A model from the file's inputs to the file's outputs, on a target and in the file's own runtime.

One array in the file's own type, shape and order of axes goes both ways: through vmcu/convert.h
into the target and out of it, and through the runtime on the file as it is. Nothing on the one side
knows how the other permutes, so that a wrong order of axes cannot cancel out.

Where every node equals the runtime's in every byte, so must the outputs. Where nodes may be a step
off, steps add up on the way, by how much depends on the network, and no count of steps tells such a
network from a broken one. What does: a wrong order of axes makes of an input another input, drawn
from the same distribution. The outputs are then as far from the runtime's as the runtime's outputs
for two different inputs are from each other. So the bound is a share of that, see FAR.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends.common import REPORT_DEFECT
from vmcu_tools.graph import Graph, Port, Tensor
from vmcu_tools.plan.plan import Plan
from vmcu_tools.progress import bar

from .. import runners
from ..oracle import Oracle, whole
from ..runners.borders import to_file, to_memory
from ..runners.compiled import CompiledRunner
from ..runners.samples import Sample, random_values

# The largest error of one input between target and runtime, as a share of the mean square between
# two different inputs' outputs. A wrong order of axes makes about 1.
FAR = 1 / 3
# In steps, as the root of the mean square of the values that differ: outputs that hardly depend on
# the input may be so far off.
NEAR = 2.0
# Samples of one mean a channel, row and column each: sums over the whole image do not hide a wrong
# order of axes in these.
STRIPED = 4
# Real results that the file does not quantise lie so far from a step at most.
HALF = 0.5
# Share of a step by which real values may differ before they are counted as different.
ROUNDING = 1e-3

Values = list[np.ndarray]


@dataclass(frozen=True)
class Border:
    """One output over all samples. `differing` of `values` differ, by at most `largest` steps of
    the output. `spread`: their mean square as a share of that between different inputs. `agreeing`
    of `samples` have their largest value in the same place; 0 samples where it is no vector."""

    output: str
    values: int
    differing: int
    largest: float
    spread: float
    passed: bool
    agreeing: int = 0
    samples: int = 0


@dataclass(frozen=True)
class EndToEnd:
    """`exact`: no value may differ. `unfit`: why the runtime does not run the file as it is;
    nothing was compared then."""

    borders: tuple[Border, ...]
    exact: bool = False
    unfit: str = ""

    @property
    def passed(self) -> bool:
        return all(border.passed for border in self.borders)


def compare(
    plan: Plan, target: str, judge: Oracle, samples: Sequence[Sample], random: int, seed: int
) -> EndToEnd:
    """Runs the samples, int8 (H, W, C), and a few of its own in the file's form both ways. random:
    so many of the samples, the first ones, have no pattern."""
    ports, rng = judge.graph.inputs, np.random.default_rng(seed)
    striped = [
        [_striped(judge.graph.tensors[port.tensor], port, rng) for port in ports]
        for _ in range(STRIPED)
    ]
    given = [
        [_drawn(values, judge.graph, port, rng) for port, values in zip(ports, sample, strict=True)]
        for sample in (*striped, *samples)
    ]
    try:
        run, optimised = whole.runner(Path(judge.graph.origin), judge.graph)
        wanted = [run(values) for values in bar(given, "runtime")]
    except whole.UnfitError as error:
        return EndToEnd((), unfit=str(error))
    exact = optimised and judge.equals(judge.graph)
    target_outputs = outputs(
        plan, target, [_as_planned(values, judge.graph, plan) for values in given]
    )
    graph, drawn = plan.graph, STRIPED + random
    return EndToEnd(
        tuple(
            border_of(
                [f[i] for f in target_outputs], [w[i] for w in wanted], graph, port, exact, drawn
            )
            for i, port in enumerate(graph.outputs)
        ),
        exact,
    )


def outputs(plan: Plan, target: str, samples: Sequence[Values]) -> list[Values]:
    """Runs a plan on samples in the file's form; the results are in the file's form, too: through
    the converters in C where the target is compiled for it, else through those of
    runners/borders.py."""
    runner, graph = runners.get(target), plan.graph
    if isinstance(runner, CompiledRunner):
        return runner.run_values(plan, samples)
    inside = [
        [to_memory(values, graph, port) for values, port in zip(sample, graph.inputs, strict=True)]
        for sample in samples
    ]
    return [
        [to_file(values, graph, port) for values, port in zip(results, graph.outputs, strict=True)]
        for results in runner.run(plan, inside)
    ]


def _striped(tensor: Tensor, port: Port, rng: np.random.Generator) -> np.ndarray:
    """int8 (H, W, C): a mean for each row, column and channel, and some noise; any numbers."""
    if port.below:
        return random_values(rng, port, tensor.shape)
    lines = [rng.integers(-60, 61, shape) for shape in _lines(tensor.shape)]
    noise = rng.integers(-20, 21, tensor.shape)
    return np.clip(sum(lines, noise), -128, 127).astype(np.int8)


def _lines(shape: tuple[int, int, int]) -> list[tuple[int, ...]]:
    return [tuple(n if i == axis else 1 for i, n in enumerate(shape)) for axis in range(3)]


def _drawn(values: np.ndarray, graph: Graph, port: Port, rng: np.random.Generator) -> np.ndarray:
    """int8 (H, W, C) in the file's form; real values anywhere in the range of that byte."""
    data = to_file(values, graph, port)
    if port.dtype != "float32":
        return data
    # Quarters, so that there are ties.
    step = np.float32(graph.tensors[port.tensor].scale)
    return data + rng.integers(-2, 3, data.shape).astype(np.float32) / 4 * step


def _as_planned(values: Values, graph: Graph, plan: Plan) -> Values:
    """Moves the channels last where the plan takes them so and the file does not."""
    return [
        np.ascontiguousarray(np.moveaxis(v, 1, -1)) if theirs.layout != ours.layout else v
        for v, theirs, ours in zip(values, graph.inputs, plan.graph.inputs, strict=True)
    ]


def border_of(
    values: Values, wanted: Values, graph: Graph, port: Port, exact: bool, drawn: int
) -> Border:
    """Compares an output of the target with the runtime's, a value a sample in the file's form;
    the first `drawn` samples have no pattern. Raises UserError if the shapes differ."""
    shape, made = np.shape(wanted[0]), values[0].shape
    if math.prod(shape) != math.prod(made):
        reason = f"output '{port.name}' has the shape {list(made)}, in the runtime {list(shape)}"
        raise UserError(Problem(reason, REPORT_DEFECT, graph.origin))
    ours, theirs = (np.stack([np.reshape(v, -1) for v in vs]) for vs in (values, wanted))
    tensor = graph.tensors[port.tensor]
    off = _steps(ours, theirs, tensor, port)
    # A pattern may be the same in any order of axes.
    between = _steps(theirs[:drawn], np.roll(theirs[:drawn], 1, axis=0), tensor, port)
    mean, usual = float((off[:drawn] ** 2).mean()), float((between**2).mean())
    of_differing = float((off**2).sum()) / max(1, int(np.count_nonzero(off > ROUNDING)))
    near = mean <= FAR * usual or (of_differing <= NEAR**2 and not port.is_wide)
    vector = max(shape, default=1) == ours.shape[1] > 1 and not port.is_wide
    agreeing = _same_top(ours, theirs) if vector else 0
    differing = int(np.count_nonzero(off > (ROUNDING if exact else HALF + ROUNDING)))
    return Border(
        port.name,
        off.size,
        differing,
        float(off.max()),
        mean / usual if usual else float(mean > 0),
        passed=shape == made and (differing == 0 if exact else near),
        agreeing=agreeing,
        samples=len(values) if vector else 0,
    )


def _steps(ours: np.ndarray, theirs: np.ndarray, tensor: Tensor, port: Port) -> np.ndarray:
    """Measures the distance of values, in steps of the output; 1 for any two indices."""
    if port.is_wide:
        other: np.ndarray = np.not_equal(ours, theirs).astype(np.float64)
        return other
    off: np.ndarray = ours.astype(np.float64) - theirs
    if port.dtype != "float32":
        off = np.abs(off)
        return off
    # Beyond all numbers, int8 has its last ones: there is no distance to speak of.
    off = np.abs(np.nan_to_num(off / tensor.scale, nan=0.0, posinf=0.0, neginf=0.0))
    return off


def _same_top(ours: np.ndarray, theirs: np.ndarray) -> int:
    """Samples whose largest value of ours is one of the largest of theirs."""
    rows = np.arange(len(ours))
    return int(np.count_nonzero(theirs[rows, ours.argmax(axis=1)] == theirs.max(axis=1)))
