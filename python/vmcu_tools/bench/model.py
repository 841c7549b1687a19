# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of a plan. `asdict` of a BenchReport is the JSON of `vmcu bench MODEL --json`."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np

from .. import runners
from ..emit import emit
from ..errors import Problem, UserError
from ..machine import reference
from ..ops import bind
from ..plan.plan import Plan
from ..runners.base import RunnerError
from ..runners.compiled import COMMON_FLAGS, MODEL_NAME
from ..runners.counting import CountingRunner, Counts, markers_of
from ..runners.qemu import QemuRunner
from ..runners.samples import Sample, make_samples
from .energy import Energy, estimate


@dataclass(frozen=True)
class LayerBench:
    """`calls` of the kernel, usually one for each output row. `instructions_per_mac` is None for
    layers without multiply-accumulates."""

    name: str
    op: str
    macs: int
    calls: int
    instructions: int
    instructions_per_mac: float | None
    loads_ram: int
    loads_flash: int
    stores: int


@dataclass(frozen=True)
class BenchReport:
    """One inference, from the call of vmcu_invoke to its return. The totals are the sum of the
    layers and `executor`, which is what runs between kernels; stack_bytes includes everything
    below the caller's frame."""

    model: str
    target: str
    planner: str
    compiler: str
    macs: int
    instructions: int
    instructions_per_mac: float | None
    loads_ram: int
    loads_flash: int
    stores: int
    stack_bytes: int
    layers: tuple[LayerBench, ...]
    executor: Counts
    energy: Energy


def board(name: str) -> QemuRunner:
    """The target of that name if it can count; UserError lists those that can."""
    target = runners.get(name)
    if not isinstance(target, QemuRunner):
        able = ", ".join(n for n, t in runners.RUNNERS.items() if isinstance(t, QemuRunner))
        raise UserError(Problem(f"'{name}' cannot count instructions", f"choose one of: {able}"))
    return target


def bench(plan: Plan, name: str, target: str, seed: int = 0) -> BenchReport:
    """Counts one inference on one random input.

    Raises RunnerError if the outputs are not the model's: the cost of wrong bytes is no figure.
    """
    machine = board(target).suited(plan)
    sample = make_samples(plan.graph, 1, 0, seed)[0]
    with tempfile.TemporaryDirectory(prefix="vmcu-") as text:
        folder = Path(text)
        image = machine.build(emit(plan, MODEL_NAME).files, MODEL_NAME, folder)
        counting = CountingRunner.of(machine, markers_of(image, MODEL_NAME))
        results, counts = counting.count(folder, lambda t: t.execute(image, plan, [sample]))
    check_outputs(plan, sample, results[0], target)
    return report(plan, name, machine, counts)


def check_outputs(plan: Plan, sample: Sample, got: Sequence[np.ndarray], target: str) -> None:
    meaning = reference.run(plan.graph, sample)
    for port, output in zip(plan.graph.outputs, got, strict=True):
        wrong = np.count_nonzero(output != meaning[port.tensor])
        if wrong:
            raise RunnerError(f"{target}: {wrong} bytes of output '{port.name}' are wrong")


def report(plan: Plan, name: str, machine: QemuRunner, counts: Sequence[Counts]) -> BenchReport:
    """Counts are the executor's, then each layer's."""
    executor, *rest = counts
    if (executor.calls != 1 and not plan.input_streamed) or len(rest) != len(plan.steps):
        raise RunnerError(f"{machine.name}: not one inference of {len(plan.steps)} layers")
    layers = []
    for step, count in zip(plan.steps, rest, strict=True):
        if not count.calls:
            raise RunnerError(f"{machine.name}: layer '{step.node.name}' was not seen running")
        macs = bind(plan.graph, step.node).macs
        layers.append(layer(step.node.name, step.node.kind, macs, count))
    total = reduce(add, rest, executor)
    macs = sum(entry.macs for entry in layers)
    return BenchReport(
        model=name,
        target=machine.name,
        planner=plan.planner,
        compiler=compiler(machine),
        macs=macs,
        instructions=total.instructions,
        instructions_per_mac=per_mac(total.instructions, macs),
        loads_ram=total.loads_ram,
        loads_flash=total.loads_flash,
        stores=total.stores,
        stack_bytes=total.stack_bytes,
        layers=tuple(layers),
        executor=executor,
        energy=estimate(total),
    )


def layer(name: str, op: str, macs: int, counts: Counts) -> LayerBench:
    return LayerBench(
        name,
        op,
        macs,
        counts.calls,
        counts.instructions,
        per_mac(counts.instructions, macs),
        counts.loads_ram,
        counts.loads_flash,
        counts.stores,
    )


def per_mac(instructions: int, macs: int) -> float | None:
    return round(instructions / macs, 4) if macs else None


def compiler(machine: QemuRunner) -> str:
    """What the counted code was compiled with, as far as it matters for its speed."""
    gcc = machine.toolchain.tool("gcc")
    version = subprocess.run([gcc, "-dumpfullversion"], capture_output=True, text=True, check=True)
    level = next(flag for flag in COMMON_FLAGS if flag.startswith("-O"))
    return " ".join([Path(gcc).name, version.stdout.strip(), level, *machine.flags])
