# SPDX-License-Identifier: Apache-2.0
"""Rows of the emitted tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerRow:
    """One entry of the layer table."""

    comment: str
    kernel: str
    params: str
    first_input: int
    input_count: int
    descending: bool
    output: int
    scratch: str
    rows: int
    columns: int
    width: int
    splits: int


@dataclass(frozen=True)
class StageRow:
    """One entry of the stage table; `schedule` and `parts` are the places of its first entries in
    theirs, None for a layer on its own."""

    schedule: int | None
    parts: int
    part_count: int
    progress: int
    first: int
    count: int
    taken: int = 0


@dataclass(frozen=True)
class TensorRow:
    """One entry of the tensor table: base, ring and phase in bytes of the pool; a ring of none for
    a tensor that is elsewhere."""

    comment: str
    base: int
    ring: int
    phase: int
    height: int
    width: int
    channels: int


@dataclass(frozen=True)
class IoRow:
    """A graph input or output; `macro` is the stem of its macros in the header, `table_zero` and
    `element_bytes` are those of Tensor and Port."""

    macro: str
    name: str
    scale: str
    zero_point: int
    table_zero: int
    element_bytes: int
    flags: str
    tensor: int
    height: int
    width: int
    channels: int
    bytes: int


@dataclass(frozen=True)
class FieldRow:
    """An input that is a field of a row, from byte `first` on."""

    macro: str
    name: str
    dtype: str
    first: int
    bytes: int
    scale: str
    zero_point: int
