# SPDX-License-Identifier: Apache-2.0
"""The parts of an op that a plan depends on: all but the trained ones. Ops that differ in
weights alone are alike."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass

import numpy as np

from ..graph import Op

# Of weights and their constants only shapes count.
WEIGHTS = ("weights", "bias", "requant")
Note = Callable[..., None]


def likeness(op: Op) -> bytes:
    """A digest that ops have in common which are alike."""
    digest = hashlib.sha256(type(op).__name__.encode())

    def note(*values: object) -> None:
        digest.update(repr(values).encode())

    trained = any(field.name == "weights" for field in fields(op))
    for field in fields(op):
        _note(note, field.name, getattr(op, field.name), trained and field.name in WEIGHTS)
    return digest.digest()


def _note(note: Note, name: str, value: object, shapes_only: bool) -> None:
    if isinstance(value, np.ndarray):
        note(name, value.shape, str(value.dtype))
        if not shapes_only:
            note(hashlib.sha256(np.ascontiguousarray(value).tobytes()).digest())
    elif is_dataclass(value):
        note(name, type(value).__name__)
        for field in fields(value):
            _note(note, field.name, getattr(value, field.name), shapes_only)
    elif isinstance(value, tuple):
        note(name, len(value))
        for one in value:
            _note(note, name, one, shapes_only)
    else:
        note(name, value)
