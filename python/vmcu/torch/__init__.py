# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch in one buffer: `vmcu.torch.plan(model, inputs, loss, optimizer)`."""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError(
        "vmcu.torch needs PyTorch. hint: pip install 'vmcu-tools[torch]'", name="torch"
    ) from error

from .planning import StepFigures as StepFigures
from .planning import StepPlan as StepPlan
from .planning import plan as plan

del _torch
