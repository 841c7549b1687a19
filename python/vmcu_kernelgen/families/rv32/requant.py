# SPDX-License-Identifier: Apache-2.0
"""The fast requantiser in assembly, see vmcu_fixed() in tile.py."""

from __future__ import annotations

from collections.abc import Iterator


def fixed(acc: str, multiplier: str, bias: str, shift: str, high: str) -> Iterator[str]:
    """A sum to its byte, which may be beyond int8, in `high`; 128 more takes the sum's place. bias:
    twice its value in C; shift: two more."""
    yield f"slli {high}, {acc}, 2"
    yield f"mulh {high}, {high}, {multiplier}"
    yield f"srai {acc}, {acc}, 31"
    yield f"ori {acc}, {acc}, 1"
    yield f"add {acc}, {acc}, {bias}"
    yield f"add {high}, {high}, {acc}"
    yield f"sra {high}, {high}, {shift}"
    yield f"addi {acc}, {high}, 128"


def saturated(label: str, high: str) -> Iterator[str]:
    """Behind a function: the limit next to `high`, from <over_label> back to <store_label>."""
    yield f"<over_{label}>:"
    yield f"srai {high}, {high}, 31"
    yield f"xori {high}, {high}, 127"
    yield f"j <store_{label}>"
