# SPDX-License-Identifier: Apache-2.0
"""A generated kernel bound to the parameters, the flash stream and the shapes of one layer."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import Tensor
from ..kernels.language.evaluate import with_lets
from ..kernels.language.ir import COLUMN, Program
from ..kernels.language.ticks import Ticks, ticks
from .values import Array, Struct, Value


@dataclass(frozen=True, eq=False)
class Binding:
    """A generated kernel with everything it needs for one layer.

    fields: the integers of its parameter struct by their C path (`window.stride_h`); stream: its
    flash stream; scratch_bytes: of its tile; lines: words of each line of the stream for a reader,
    the last for all that follow.
    """

    program: Program
    fields: dict[str, int]
    stream: bytes = b""
    scratch_bytes: int = 0
    flat: bool = False
    lines: tuple[int, ...] = (4,)

    def members(self, role: str) -> dict[str, Value]:
        """Those of its parameter struct, the stream, if there is one, as an array of that role."""
        members: dict[str, Any] = {}
        if self.stream:
            members["stream"] = Array(role, np.frombuffer(self.stream, np.uint32), self.lines)
        for path, value in self.fields.items():
            outer, _, inner = path.rpartition(".")
            if outer:
                members.setdefault(outer, Struct("", {})).fields[inner] = value
            else:
                members[path] = value
        return members

    def view(self, tensor: Tensor) -> tuple[int, int, int]:
        """The shape in which the program sees an input."""
        return (tensor.shape[0], 1, tensor.row_bytes) if self.flat else tensor.shape

    def names(
        self,
        ins: Sequence[Tensor],
        out: Tensor,
        descending: bool = False,
        x: int = 0,
        columns: int | None = None,
    ) -> dict[str, int]:
        """Returns the names for the program when it computes columns of a row, all by default:
        parameters, shapes and its own definitions."""
        names = {f"p->{path}": value for path, value in self.fields.items()}
        names |= {"p": 0, "call": 0, "y": 0, "turn": int(descending)}
        _, names["out_w"], names["out_c"] = out.shape
        names |= {COLUMN.text: x, "columns": out.shape[1] if columns is None else columns}
        for index, tensor in enumerate(ins):
            _, names[f"in{index}_w"], names[f"in{index}_c"] = self.view(tensor)
        return with_lets(self.program, names)

    def ticks(
        self, ins: Sequence[Tensor], out: Tensor, descending: bool, x: int, columns: int
    ) -> Ticks:
        """Returns the ticks of a call for columns of a row from x on."""
        names = self.names(ins, out, descending, x, columns)
        shapes: dict[int | str, tuple[int, int, int]] = {
            i: self.view(tensor) for i, tensor in enumerate(ins)
        }
        shapes["output"] = out.shape
        return _ticks(self.program, tuple(sorted(names.items())), tuple(shapes.items()))


@functools.lru_cache(maxsize=4096)
def _ticks(
    program: Program,
    names: tuple[tuple[str, int], ...],
    shapes: tuple[tuple[int | str, tuple[int, int, int]], ...],
) -> Ticks:
    return ticks(program, dict(names), dict(shapes))
