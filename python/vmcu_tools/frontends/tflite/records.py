# SPDX-License-Identifier: Apache-2.0
"""What a .tflite file holds, read but not yet understood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from ..common import UnsupportedError


def names_of(enum: type) -> dict[int, str]:
    """The names of a schema's enumeration by their numbers."""
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


OPERATORS = names_of(tflite.BuiltinOperator)
OPTIONS = names_of(tflite.BuiltinOptions)
# Options tables that do not have their operator's name.
_SHARED = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimumOptions"),
    **dict.fromkeys(("MEAN", "SUM"), "ReducerOptions"),
    **{name: "ReducerOptions" for name in OPERATORS.values() if name.startswith("REDUCE_")},
    "L2_NORMALIZATION": "L2NormOptions",
}
_NAMESAKES = {name.lower(): name for name in OPTIONS.values()}


@dataclass(frozen=True, eq=False)
class FileTensor:
    """A tensor as the file has it. `data` is None for activations; `type` a schema name."""

    name: str
    shape: tuple[int, ...]
    dynamic: bool
    type: str
    scales: np.ndarray
    zero_points: np.ndarray
    axis: int
    data: np.ndarray | None


@dataclass(frozen=True, eq=False)
class FileOp:
    """An operator: schema name of its op, tensor indices (-1: absent), its options table and the
    schema class that the file says it is of; None and "" where there is none."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: Any
    table_class: str = ""

    def check_options(self) -> None:
        """Raises UnsupportedError for the options of another operator. A class that the schema
        here does not know is that of a newer one."""
        own = options_class(self.op)
        if self.table_class not in ("", own) and self.table_class in _NAMESAKES.values():
            raise UnsupportedError(
                f"its options are those of another operator, {self.table_class}"
                + (f" and not {own}" if own else ""),
                "The file is damaged, or what wrote it is wrong: export it again.",
            )

    def options(self, kind: Callable[[], Any]) -> Any:
        """The options, read as the schema class `kind`."""
        self.check_options()
        if self.table is None or self.table_class != kind.__name__:
            raise UnsupportedError("its options are missing", "Export the file again.")
        options = kind()
        options.Init(self.table.Bytes, self.table.Pos)
        return options


def options_class(op: str) -> str:
    """The schema class of an operator's options, "" if it has none."""
    return _SHARED.get(op) or _NAMESAKES.get(f"{op.replace('_', '').lower()}options", "")


@dataclass(frozen=True, eq=False)
class FileModel:
    """The one subgraph of a .tflite file. states: variables that keep the latest rows of tensors
    from call to call, which are written as padding, see states.py."""

    tensors: tuple[FileTensor, ...]
    ops: tuple[FileOp, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[str, ...] = ()
