# SPDX-License-Identifier: Apache-2.0
"""The Python values that a step depends on. They are constants of its plan.

They are attributes of the model's modules, variables and modules that the loss reads from around
it, and settings of the optimiser. Of a tensor it is which one it is, and whether it requires a
gradient.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import torch

Settings = dict[str, Any]

PLAIN = (bool, int, float, complex, str, bytes, type(None))
# Of a group of parameters: each step reads them. Of modules: PyTorch renews them.
SKIPPED = ("params", "lr", "initial_lr", "_flat_weights", "_flat_weight_refs")


def settings_of(**roots: Any) -> Settings:
    """The Python values that some values consist of, by name."""
    settings: Settings = {}
    seen: dict[int, Any] = {}
    for name, value in roots.items():
        collect(settings, name, value, seen)
    return settings


def numbers_of(optimizer: torch.optim.Optimizer) -> Settings:
    """The Python numbers of an optimiser."""
    settings = settings_of(optimizer=vars(optimizer))
    return {
        name: value
        for name, value in settings.items()
        if type(value) in (int, float) and not name.endswith(".size")
    }


def changed_name(before: Settings, after: Settings) -> str:
    """The name of a value that is another one, or empty."""
    names = (*before, *(name for name in after if name not in before))
    name = next((n for n in names if not same(before.get(n, dis), after.get(n, dis))), "")
    return re.sub(r"\._(modules|parameters|buffers)\b|\.size$", "", name)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same: the same object if they are tensors."""
    return one is other or (isinstance(one, PLAIN) and type(one) is type(other) and one == other)


def collect(settings: Settings, name: str, value: Any, seen: dict[int, Any]) -> None:
    """Adds the parts of a value, by name."""
    if isinstance(value, PLAIN):
        settings[name] = value
    elif isinstance(value, torch.Tensor):
        settings |= {name: value, f"{name}.requires_grad": value.requires_grad}
    elif id(value) not in seen:
        seen[id(value)] = value
        for key, part in parts(value):
            if key not in SKIPPED:
                collect(settings, f"{name}.{key}", part, seen)


def parts(value: Any) -> Iterable[tuple[Any, Any]]:
    """Lists the parts of a value, by name."""
    if isinstance(value, torch.nn.Module):
        return list(vars(value).items())
    if isinstance(value, dict):
        return (*value.items(), ("size", len(value.keys() - set(SKIPPED)))) if value else ()
    if isinstance(value, (list, tuple)):
        return (*enumerate(value), ("size", len(value)))
    if not isinstance(value, FunctionType) or "-packages" in value.__code__.co_filename:
        return ()
    loaded = {one.argval for one in dis.get_instructions(value) if one.opname == "LOAD_GLOBAL"}
    around = {name: value.__globals__[name] for name in loaded & value.__globals__.keys()}
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    return (*sorted(around.items()), *((name, cell.cell_contents) for name, cell in cells))
