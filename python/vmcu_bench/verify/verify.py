# SPDX-License-Identifier: Apache-2.0
"""Compares a plan's results with those of the runtime its file was written for.

Three comparisons make a verification. The plan's own bytes, on the chosen target, must equal the
graph's meaning in numpy: always, every byte. And the meaning must equal the oracle, tensor by
tensor, within the limits of oracle/promise.py: nothing in .tflite and for Conv, Gemm and MatMul in
.onnx, 1 step in a share of the bytes for the rest of .onnx, where each node is judged by its result
for the oracle's own inputs. And the file's own values, through the target from input to output,
must equal the runtime's, see verify/end_to_end.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from vmcu_tools.frontends import runtime_of
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference, workers
from vmcu_tools.machine.rotation import machines_of
from vmcu_tools.plan.plan import Plan
from vmcu_tools.progress import bar

from .. import oracle, runners
from ..oracle import Difference, Oracle, Promise, node_differences
from ..oracle.compare import parts_of
from ..oracle.promise import EXACT, FEW_VALUES
from ..runners.samples import Sample, make_samples
from . import end_to_end
from .end_to_end import EndToEnd

Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Check:
    """One tensor over all samples. `differing` counts bytes, `largest` is in int8 steps; of
    `drawn` bytes, those of samples without a pattern and of many values, `drawn_differing` differ.
    """

    tensor: str
    node: str
    op: str
    bytes: int
    differing: int
    largest: int
    promise: Promise = EXACT
    drawn: int = 0
    drawn_differing: int = 0

    @property
    def most(self) -> int:
        """Returns the number of drawn bytes that may differ."""
        return self.promise.most(self.drawn)

    @property
    def passed(self) -> bool:
        return self.largest <= self.promise.steps and self.drawn_differing <= self.most


@dataclass(frozen=True)
class Verification:
    """`checks` compares with the file's runtime, `target_checks` the target's bytes with the
    reference semantics, `ends` the file's outputs with the runtime's. `patterned` of `samples` are
    not random."""

    model: str
    target: str
    runtime: str
    samples: int
    patterned: int
    checks: tuple[Check, ...]
    target_checks: tuple[Check, ...]
    ends: EndToEnd

    @property
    def passed(self) -> bool:
        everything = (*self.checks, *self.target_checks)
        return bool(everything) and all(one.passed for one in everything) and self.ends.passed


class Tally:
    """Checks by tensor, summed over samples."""

    def __init__(self) -> None:
        self.checks: dict[str, Check] = {}

    def add(self, check: Check) -> None:
        sum_ = self.checks.get(check.tensor)
        if sum_ is not None:
            check = replace(
                check,
                bytes=check.bytes + sum_.bytes,
                differing=check.differing + sum_.differing,
                largest=max(check.largest, sum_.largest),
                drawn=check.drawn + sum_.drawn,
                drawn_differing=check.drawn_differing + sum_.drawn_differing,
            )
        self.checks[check.tensor] = check

    def compare(self, graph: Graph, got: Values, expected: Values) -> None:
        """Every tensor that both hold, at 0 steps; of inputs those that are outputs as well."""
        made = {node.outputs[0]: (node.name, node.kind) for node in graph.nodes}
        handed_on = [p.tensor for p in graph.outputs if p.tensor not in made]
        for name in (*made, *handed_on):
            if name in got and name in expected:
                wanted = expected[name]
                # The virtual MCU masks bytes that no layer needed and that were not computed.
                off = np.ma.filled(np.abs(got[name].astype(np.int16) - wanted), 0)
                differing, largest = int(np.count_nonzero(off)), int(off.max())
                node, op = made.get(name, (name, "Input"))
                self.add(Check(name, node, op, off.size, differing, largest))


def verify(plan: Plan, target: str, random: int, structured: int, seed: int) -> Verification:
    """Runs the samples on the target, in numpy and through the oracle, and from end to end."""
    judge = oracle.open(plan.graph.origin)
    samples = make_samples(plan.graph, random, structured, seed)
    results = run_target(plan, target, samples)
    against_oracle, against_meaning = Tally(), Tally()
    pairs = list(zip(samples, results, strict=True))
    for number, (sample, result) in enumerate(bar(pairs, "comparing")):
        meaning = reference.run(plan.model, sample)
        against_meaning.compare(plan.model, result, meaning)
        expected = judge.run(sample)
        judge_sample(plan.model, judge, expected, meaning, against_oracle, drawn=number < random)
    return Verification(
        plan.graph.name,
        target,
        runtime_of(Path(plan.graph.origin)),
        len(samples),
        len(samples) - random,
        tuple(against_oracle.checks.values()),
        tuple(against_meaning.checks.values()),
        end_to_end.compare(plan, target, judge, samples, random, seed),
    )


def run_target(plan: Plan, target: str, samples: list[Sample]) -> list[Values]:
    """Returns the values that the target can show of each sample: every tensor on the virtual MCU,
    else outputs."""
    if target == "virtual":
        if plan.team is not None:
            workers.prove(plan)
        machines = machines_of(plan)
        return [next(machines).run(sample) for sample in bar(samples, "virtual MCU")]
    names = [port.tensor for port in plan.graph.outputs]
    shapes = [plan.graph.tensors[name].shape for name in names]
    return [
        {n: out.reshape(s) for n, s, out in zip(names, shapes, outputs, strict=True)}
        for outputs in runners.get(target).run(plan, samples)
    ]


def check_of(judge: Oracle, off: Difference, *, drawn: bool) -> Check:
    """Holds a node of the file to the promise; drawn: see judge_sample()."""
    node, promise = off.node, judge.promise(judge.graph, off.node)
    counts = off.share[::-1] if drawn and off.values >= FEW_VALUES else (0, 0)
    figures = (off.total, off.count, off.largest)
    return Check(node.outputs[0], node.name, node.kind, *figures, promise, *counts)


def judge_sample(
    graph: Graph, judge: Oracle, expected: Values, meaning: Values, to: Tally, *, drawn: bool
) -> None:
    """Compares the file's nodes with the oracle's values, and a graph made of them with its
    reference semantics.

    drawn: the sample has no pattern, by which many bytes may be half way between two at once.
    """
    if judge.equals(graph):
        to.compare(graph, meaning, parts_of(graph, expected))
        return
    for off in node_differences(judge.graph, expected):
        to.add(check_of(judge, off, drawn=drawn))
    whole = reference.run(judge.graph, [expected[port.tensor] for port in judge.graph.inputs])
    for name in {port.tensor for port in graph.outputs} & whole.keys():
        off_by = np.abs(meaning[name].astype(np.int16) - whole[name].reshape(meaning[name].shape))
        differing, largest = int(np.count_nonzero(off_by)), int(off_by.max())
        to.add(Check(f"{name}, optimised", name, "Output", off_by.size, differing, largest))
