# SPDX-License-Identifier: Apache-2.0
"""Checks an emitted kernel by running its program on its emitted constants.

One call of a layer in the middle of its image, on random bytes: every weight, bias and factor
takes part. Its result must be the graph's meaning, and the bytes that it loads and stores must come
in the order that planner and replay take for granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import PlanError
from ..kernels.language.evaluate import Machine, run
from ..ops import NEVER, ProgramLayer

SEED = 1
# Rows that are longer are cut to their last few columns and so many: blocks and the rest.
COLUMNS = 4
# Parameters that values depend on, and the order of access does not.
VALUES = ("input_zero", "output_zero", "act_min", "act_max")
Case = tuple[str, tuple[tuple[str, int], ...]]


def some_columns(layer: ProgramLayer[Any]) -> int:
    """Columns of a call that stand for those of the layer's."""
    columns = layer.columns if layer.by_columns else layer.out.shape[1]
    return (
        columns if columns <= 2 * COLUMNS or not layer.by_columns else COLUMNS + columns % COLUMNS
    )


def case_of(layer: ProgramLayer[Any], fields: Mapping[str, int], columns: int) -> Case:
    """Returns the values on which the order of a program's accesses depends."""
    names = layer.binding.names(layer.ins, layer.out, layer.descending, 0, columns)
    names |= {f"p->{path}": value for path, value in fields.items()}
    kept = {name: value for name, value in names.items() if name.split("->")[-1] not in VALUES}
    return layer.symbol, tuple(sorted(kept.items()))


def check(
    layer: ProgramLayer[Any], fields: Mapping[str, int], stream: bytes, proven: set[Case]
) -> None:
    """Raises PlanError unless the program of a layer, with these parameters by their path in the C
    struct and this flash stream, computes its node's output in the planned order.

    proven: cases that have been run, to which this one is added; one that is in it is not run
    again, whatever its constants.
    """
    columns = some_columns(layer)
    case = case_of(layer, fields, columns)
    if case in proven:
        return
    proven.add(case)
    row = _row_that_reads(layer)
    rng = np.random.default_rng(SEED)
    data = [rng.integers(-128, 128, t.shape).astype(np.int8) for t in layer.ins]
    machine = machine_of(layer, fields, stream, data, columns)
    try:
        run(layer.binding.program, machine, row)
    except (AssertionError, IndexError, KeyError, ValueError, ZeroDivisionError) as error:
        raise PlanError(f"{_who(layer)}: the kernel cannot run: {error}") from error
    expected = layer.rows(data, row, row + 1)[0][:columns]
    differing = int(np.count_nonzero(machine.output[row][:columns] != expected))
    if differing:
        raise PlanError(f"{_who(layer)}: {differing} bytes of a row are not what its node means")
    _check_order(layer, machine, columns, row)


def _row_that_reads(layer: ProgramLayer[Any]) -> int:
    """An output row that reads every input, near the middle; the middle one if there is none."""
    middle, inputs = layer.height // 2, range(len(layer.ins))
    nearest = sorted(range(layer.height), key=lambda y: abs(y - middle))
    return next((y for y in nearest if all(layer.input_rows(i, y) for i in inputs)), middle)


def machine_of(
    layer: ProgramLayer[Any],
    fields: Mapping[str, int],
    stream: bytes,
    data: list[np.ndarray],
    columns: int,
) -> Machine:
    """The interpreter, about to compute the first columns of a row. data: int8 (H, W, C) each."""
    binding = layer.binding
    names = binding.names(layer.ins, layer.out, layer.descending, 0, columns)
    names |= {name: 0 for name in names if name.startswith("p->")}
    names |= {f"p->{path}": value for path, value in fields.items()}
    views = [x.reshape(binding.view(t)) for x, t in zip(data, layer.ins, strict=True)]
    return Machine(names, views, np.zeros(layer.out.shape, np.int8), stream)


def _check_order(layer: ProgramLayer[Any], machine: Machine, columns: int, row: int) -> None:
    """The ticks of a call's loads and stores, counted from the program's accesses."""
    reads = [np.full(t.shape[1:], NEVER, np.int64) for t in layer.ins]
    writes = np.full(layer.out.shape[1:], NEVER, np.int64)
    clock = 0
    for kind, tensor, (_, pixels, channels) in machine.log:
        if kind == "r" and isinstance(tensor, int):
            flat = layer.binding.view(layer.ins[tensor])[1:]
            reads[tensor].reshape(flat)[pixels, channels] = clock
        else:
            writes[pixels, channels] = clock
            clock += 1
    known = layer.writes_in_call(0, columns)
    same = known is not None and np.array_equal(writes[:columns], known[:columns])
    for index, ticks in enumerate(reads):
        wanted = layer.reads_in_call(index, 0, columns)
        if wanted is not None and not layer.input_rows(index, row):
            # Its windows see nothing but padding there.
            wanted = np.full_like(wanted, NEVER)
        same = same and wanted is not None and np.array_equal(ticks, wanted)
    if not same:
        raise PlanError(f"{_who(layer)}: it accesses memory in another order than planned")


def _who(layer: ProgramLayer[Any]) -> str:
    return f"layer '{layer.node.name}'"
