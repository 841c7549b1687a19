# SPDX-License-Identifier: Apache-2.0
"""The fast requantiser in assembly, see vmcu_fixed() in tile.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def fixed(acc: str, multiplier: str, bias: str, shift: str, free: Sequence[str]) -> Iterator[str]:
    """A sum to its byte, which may be beyond int8, in the first of three free registers, and 128
    more in the second one. bias: twice what it is in C; shift: two more."""
    high, low, sign = free
    yield f"slli {low}, {acc}, 2"
    yield f"mulh {high}, {low}, {multiplier}"
    yield f"srai {sign}, {acc}, 31"
    yield f"ori {sign}, {sign}, 1"
    yield f"add {sign}, {sign}, {bias}"
    yield f"add {high}, {high}, {sign}"
    yield f"sra {high}, {high}, {shift}"
    yield f"addi {low}, {high}, 128"


def saturated(label: str, high: str) -> Iterator[str]:
    """Behind a function: what `high` is next to, from <over_label> back to <store_label>."""
    yield f"<over_{label}>:"
    yield f"srai {high}, {high}, 31"
    yield f"xori {high}, {high}, 127"
    yield f"j <store_{label}>"
