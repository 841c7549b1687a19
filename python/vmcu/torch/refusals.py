# SPDX-License-Identifier: Apache-2.0
"""Raises UserError for steps whose plan would differ from PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NoReturn

import torch
from torch._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    unset_fake_temporarily,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.optim import optimizer as optimizers
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from vmcu_tools.errors import Problem, UserError

from .schema import StepTensor, span_bytes

# Functions that turn a tensor's values into Python's.
READS = "item tolist numpy equal allclose is_nonzero bool float int index array contains"


def refuse(reason: str, remedy: str = "", node: str = "", op: str = "") -> NoReturn:
    """Raises UserError."""
    raise UserError(Problem(reason, remedy, node=node, op=op))


@contextmanager
def one_error(node: str = "", op: str = "") -> Iterator[None]:
    """Raises errors of PyTorch as UserError. node, op: the executed node."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if isinstance(error, (GuardOnDataDependentSymNode, DynamicOutputShapeException)):
            reason = f"the step depends on values of tensors: {line}"
            remedy = "use torch.where() instead of if and while, and an optimizer without fused="
        else:
            reason = f"vmcu.torch cannot plan or execute the step: {line}"
            remedy = "if the step works in PyTorch, train it there"
        raise UserError(Problem(reason, remedy, node=node, op=op)) from error


class OutsideTensors(TorchFunctionMode):  # type: ignore[misc]
    """Refuses Python values of tensors from outside of the step: they would be constants. Restores
    those of one element, in which PyTorch executes operators that it traces."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function of PyTorch."""
        name = getattr(func, "__name__", "").strip("_")
        for one in tree_leaves((args, kwargs)):
            if not isinstance(one, torch.Tensor) or isinstance(one, FakeTensor):
                continue
            if name in READS.split():
                reason = f"the step calls {name}() of a tensor that is no state and no input"
                refuse(reason, "pass the tensor as an input of the loss")
            if one.numel() == 1 and id(one) not in self.before:
                with unset_fake_temporarily():
                    self.before[id(one)] = one, one.detach().clone()
        return func(*args, **(kwargs or {}))

    def __exit__(self, *error: Any) -> None:
        """Restores tensors."""
        super().__exit__(*error)
        with unset_fake_temporarily():
            for tensor, value in self.before.values():
                tensor.detach().copy_(value)


def refuse_hooks(
    parameters: dict[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer
) -> None:
    """UserError if something of the user's is called between backward() and the end of step()."""
    step = vars(optimizer).get("step")
    if (
        *(*optimizers._global_optimizer_pre_hooks, *optimizers._global_optimizer_post_hooks),
        *(*optimizer._optimizer_step_pre_hooks, *optimizer._optimizer_step_post_hooks),
    ) or (step and not hasattr(step, "_wrapped_by_lr_sched")):
        remedy = "remove it; vmcu.torch.plan(..., clip_norm=) clips gradients"
        refuse("the optimizer has a hook or another step()", remedy)
    for name, parameter in parameters.items():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            refuse(f"the parameter '{name}' has a hook", "remove it")


def refuse_shared(states: Sequence[StepTensor]) -> None:
    """UserError if tensors are not on the CPU, or share memory."""
    for one in states:
        if one.tensor.device.type != "cpu":
            reason = f"'{one.name}' is on the device {one.tensor.device}"
            refuse(reason, "move the model to the CPU")
    real_states = [one for one in states if not isinstance(one.tensor, FakeTensor)]
    real_states.sort(key=lambda one: one.tensor.data_ptr())
    for before, after in pairwise(one for one in real_states if one.tensor.numel()):
        if after.tensor.data_ptr() < before.tensor.data_ptr() + span_bytes(before.tensor):
            reason = f"'{before.name}' and '{after.name}' share memory"
            refuse(reason, "give one of them a copy (clone())")


def refuse_outside(states: Sequence[StepTensor], outside: Sequence[StepTensor]) -> None:
    """UserError if a tensor from outside cannot be read before each step.

    A gradient that goes through it would be lost. A plan moves its states into its buffer: other
    tensors that share their memory do not follow.
    """
    refuse_shared((*states, *outside))
    for one in outside:
        what = f"the step reads a tensor {tuple(one.tensor.shape)} that"
        if one.tensor.grad_fn is not None:
            remedy = "compute it in the loss, or give tensor.detach().clone()"
            refuse(f"{what} was computed outside with gradients", remedy)
        storage: Any = one.tensor.untyped_storage()
        # The tensor and `storage` count as one each.
        count: int = torch._C._storage_Use_Count(storage._cdata)
        if count > 2 and not one.tensor.requires_grad and not isinstance(one.tensor, FakeTensor):
            remedy = "give a copy (clone()), or read it from its module"
            refuse(f"{what} shares memory with another one", remedy)
