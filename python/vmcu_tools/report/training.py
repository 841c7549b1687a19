# SPDX-License-Identifier: Apache-2.0
"""The costs of training on the device, beside those of inference."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from ..emit import Emitted
from ..plan.plan import Plan
from ..training_compiler import TrainingPlan
from .terminal import say
from .text import table


@dataclass(frozen=True)
class TrainingReport:
    """Bytes of RAM of both plans, those of the training plan that weights have, and a call's
    multiply-accumulates. flash_bytes: tables, constants and the first weights of training."""

    model: str
    classes: int
    layers: int
    rate: float
    inference_pool_bytes: int
    pool_bytes: int
    state_bytes: int
    inference_macs: int
    macs: int
    flash_bytes: int

    @property
    def ratio(self) -> float:
        """RAM of training over RAM of inference."""
        return self.pool_bytes / self.inference_pool_bytes


def training_report(name: str, training: TrainingPlan, emitted: Emitted) -> TrainingReport:
    """The figures of a training plan."""
    state = sum(one.size for one in training.weights)
    graph = training.plan.graph
    return TrainingReport(
        name,
        graph.tensors[graph.outputs[0].tensor].bytes,
        training.training.layers,
        training.training.rate,
        training.inference.pool_bytes,
        training.plan.pool_bytes,
        state,
        _macs(training.inference),
        _macs(training.plan),
        emitted.weights_bytes + emitted.tables_bytes + state,
    )


def _macs(plan: Plan) -> int:
    return sum(step.bind(plan.graph).macs for step in plan.steps)


def print_training(report: TrainingReport, console: Console) -> None:
    """The table of both plans, then how the device calls the model."""
    grid = table("", "RAM", "of it weights", "MACs")
    grid.add_row("inference", f"{report.inference_pool_bytes:,}", "0", f"{report.inference_macs:,}")
    figures = f"{report.pool_bytes:,}", f"{report.state_bytes:,}", f"{report.macs:,}"
    grid.add_row("training", *figures)
    console.print(grid)
    say(
        console,
        f"{report.model}: {report.classes} classes; training needs {report.ratio:.2f} times the "
        f"RAM of inference, and {report.flash_bytes:,} bytes of flash without code",
    )
