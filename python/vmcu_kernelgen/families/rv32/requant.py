# SPDX-License-Identifier: Apache-2.0
"""The fast requantiser in assembly, see vmcu_fixed() in tile.py.

A byte within int8, one below and one above take as many instructions: the count tells nothing of
the value. Code without a branch would take four more.
"""

from __future__ import annotations

from collections.abc import Iterator


def fixed(acc: str, multiplier: str, bias: str, shift: str, high: str) -> Iterator[str]:
    """A sum to its byte, which may be beyond int8, in `high`. bias: twice its value in C; shift:
    two more."""
    yield f"slli {high}, {acc}, 2"
    yield f"mulh {high}, {high}, {multiplier}"
    yield f"srai {acc}, {acc}, 31"
    yield f"ori {acc}, {acc}, 1"
    yield f"add {acc}, {acc}, {bias}"
    yield f"add {high}, {high}, {acc}"
    yield f"sra {high}, {high}, {shift}"


def stored(label: str, high: str, bounds: tuple[str, str], place: str) -> Iterator[str]:
    """Stores `high`, or the next of the bounds -128 and 127, in four instructions."""
    low, most = bounds
    yield f"blt {high}, {low}, <under_{label}>"
    yield f"blt {most}, {high}, <over_{label}>"
    yield "nop"
    yield f"<store_{label}>:"
    yield f"sb {high}, {place}"
    yield f"<stored_{label}>:"


def beyond(label: str, high: str, bounds: tuple[str, str], place: str) -> Iterator[str]:
    """Behind a function: the rest of stored()."""
    low, most = bounds
    yield f"<under_{label}>:"
    yield f"mv {high}, {low}"
    yield f"j <store_{label}>"
    yield f"<over_{label}>:"
    yield f"sb {most}, {place}"
    yield f"j <stored_{label}>"


def stored_alone(label: str, high: str, spare: str, place: str) -> Iterator[str]:
    """Calls stored() without registers for the bounds, in six instructions."""
    yield f"li {spare}, 127"
    yield f"blt {spare}, {high}, <over_{label}>"
    yield f"not {spare}, {spare}"
    yield f"blt {high}, {spare}, <under_{label}>"
    yield f"sb {high}, {place}"
    yield "nop"
    yield f"<stored_{label}>:"


def beyond_alone(label: str, spare: str, place: str) -> Iterator[str]:
    """Behind a function: the rest of stored_alone()."""
    yield f"<over_{label}>:"
    yield from ["nop"] * 2
    yield f"<under_{label}>:"
    yield f"sb {spare}, {place}"
    yield f"j <stored_{label}>"
