# SPDX-License-Identifier: Apache-2.0
"""The way of a model whose last layers are trained on the device: file -> graph -> two plans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .compiler import load_prepared
from .passes.trained_head import trained_head
from .plan.plan import Plan
from .planner.options import CompileOptions
from .planner.registry import DEFAULTS, make_plan
from .training import Training


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """A plan that trains the last layers, and the plan of inference alone. weights: by trained
    layer the first value of its input, int8."""

    training: Training
    plan: Plan
    inference: Plan
    weights: tuple[np.ndarray, ...]


def compile_training(
    path: Path, training: Training, options: CompileOptions = DEFAULTS
) -> TrainingPlan:
    """Reads a model file and returns a plan that trains its last dense layers.

    Raises UserError for a model that cannot be trained, and as compile_model() does.
    """
    graph = load_prepared(path, options)
    head = trained_head(graph, training)
    plan = make_plan(head.graph, options, prove=False)
    # A limit is for training, which needs more.
    inference = make_plan(graph, replace(options, ram=None), prove=False)
    return TrainingPlan(training, plan, inference, head.weights)
