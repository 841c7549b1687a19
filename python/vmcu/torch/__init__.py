# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch in one buffer: `vmcu.torch.plan(model, inputs, loss, optimizer)`."""

from vmcu_tools.errors import message, pip_line

try:
    import torch as _torch
except ImportError as error:
    raise ImportError(
        message("vmcu.torch needs PyTorch", pip_line("torch", "torch")), name="torch"
    ) from error

from .planning import StepFigures as StepFigures
from .planning import StepPlan as StepPlan
from .planning import plan as plan

del _torch, message, pip_line
