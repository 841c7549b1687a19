# SPDX-License-Identifier: Apache-2.0
"""Compares the first steps of a plan with PyTorch's, on copies of all tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch

from .execution import Execution
from .refusals import refuse
from .trace import Loss, TracedStep, backward, rates_of, replica

# No script seeds with it: a step that seeds the generator itself differs.
SEED = 0x766D6375
STEPS = 3


class Reference:
    """The step in PyTorch, without a plan: copies of the model's tensors and of the optimiser."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        clip_norm: float | None,
    ) -> None:
        self.model, self.loss, self.clip_norm = model, loss, clip_norm
        parameters = dict(model.named_parameters())
        self.own = {f"model.{n}": b.detach().clone() for n, b in model.named_buffers()}
        self.leaves = {
            name: parameter.detach().clone().requires_grad_(parameter.requires_grad)
            for name, parameter in parameters.items()
        }
        self.optimizer = replica(optimizer, {p: self.leaves[n] for n, p in parameters.items()})
        for name, parameter in parameters.items():
            if parameter in optimizer.state:
                state = copy.deepcopy(optimizer.state[parameter])
                self.optimizer.state[self.leaves[name]] = state

    def run(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Executes the step and returns the loss."""
        loss, gradients = backward(self.model, self.loss, self.own, self.leaves, inputs)
        for name, leaf in self.leaves.items():
            leaf.grad = gradients[name].clone() if name in gradients else None
        if self.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.leaves.values(), self.clip_norm)
        self.optimizer.step()
        return loss.detach()

    def tensors(self) -> dict[str, torch.Tensor]:
        """The states by name."""
        states = self.own | {f"model.{name}": leaf.detach() for name, leaf in self.leaves.items()}
        for name, leaf in self.leaves.items():
            for key, value in self.optimizer.state.get(leaf, {}).items():
                states[f"model.{name}: {key}"] = value
        return states


def rehearse(step: TracedStep, reference: Reference, execution: Callable[[], Execution]) -> None:
    """Executes steps in PyTorch, then planned. UserError if they differ. Changes no tensor of the
    user."""
    theirs = executed(reference.run, step) | reference.tensors()
    if not all(theirs[f"loss {number}"].isfinite().all() for number in range(STEPS)):
        refuse("the loss is not finite in PyTorch", "give plan() inputs with a finite loss")
    planned = execution()  # Its buffer is allocated after PyTorch has freed its memory.
    for one in step.states:
        planned.views[one.name].copy_(one.tensor.detach())
    rates = [rate.item() for rate in rates_of(reference.optimizer)]
    results = planned.views | executed(lambda inputs: planned.run(inputs, rates), step)
    for name, value in theirs.items():
        if name in results and not torch.allclose(value, results[name], 0, 0, equal_nan=True):
            remedy = "execute one step in PyTorch and call plan() again, or train in PyTorch"
            refuse(f"'{name}' differs from PyTorch's in the first {STEPS} steps", remedy)
    for name, view in planned.views.items():
        if view.shape != planned.samples[name].shape:
            refuse("its operator resizes its result", "train in PyTorch", name)


def executed(
    run: Callable[[list[torch.Tensor]], torch.Tensor], step: TracedStep
) -> dict[str, torch.Tensor]:
    """The losses of some steps on one thread, since sums of several are in any order, and the
    tensors that are not the step's own, which are restored."""
    losses: dict[str, torch.Tensor] = {}
    inputs = [one.tensor.detach().clone() for one in step.inputs]
    outside = [(one.tensor.detach(), one.tensor.detach().clone()) for one in step.outside]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for number in range(STEPS):
            torch.manual_seed(SEED + number)
            losses[f"loss {number}"] = run(inputs).clone()
    finally:
        torch.set_num_threads(threads)
        losses |= {one.name: tensor for one, tensor in zip(step.inputs, inputs, strict=True)}
        for one, (tensor, value) in zip(step.outside, outside, strict=True):
            losses[one.name] = tensor.clone()
            tensor.copy_(value)
    return losses
