# SPDX-License-Identifier: Apache-2.0
"""Benchmarks by a board's own cycle counter, under Zephyr."""

from __future__ import annotations

from vmcu_tools.plan.plan import Plan

from ..runners.samples import make_samples
from ..runners.zephyr import ZephyrRunner
from .model import BenchReport, LayerBench, Time, check_outputs, per_mac, rows


def measure(plan: Plan, name: str, runner: ZephyrRunner, seed: int = 0) -> BenchReport:
    """One inference on one random input. The layers were timed in inferences of their own, so the
    executor's share is less by the time for timing them.

    Raises RunnerError if the outputs are not the model's, UserError as ZephyrRunner.measure().
    """
    sample = make_samples(plan.graph, 1, 0, seed)[0]
    outputs, counted = runner.measure(plan, sample)
    check_outputs(plan, sample, outputs, runner.name)
    between = max(counted.cycles - sum(cycles for _, cycles in counted.layers), 0)
    executor, *layers = (
        LayerBench(label, op, macs, calls, cycles, per_mac(cycles, macs))
        for (label, op, macs), (calls, cycles) in zip(
            rows(plan), [(1, between), *counted.layers], strict=True
        )
    )
    macs = sum(layer.macs for layer in layers)
    known = "measured by its own counter"
    return BenchReport(
        model=name,
        target=runner.name,
        planner=plan.planner,
        macs=macs,
        cycles=counted.cycles,
        cycles_per_mac=per_mac(counted.cycles, macs),
        timing=f"{runner.board}, {known}",
        layers=tuple(layers),
        executor=executor,
        time=Time.of(runner.board, counted.cycles, counted.hertz / 1e6, known),
    )
