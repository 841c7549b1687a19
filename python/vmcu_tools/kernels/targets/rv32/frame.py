# SPDX-License-Identifier: Apache-2.0
"""Registers of the caller in assembly for RISC-V."""

from __future__ import annotations

from collections.abc import Sequence

SAVED = ("ra", *(f"s{number}" for number in range(12)))


def frame_bytes(names: Sequence[str]) -> int:
    """Of a stack that is a multiple of 16 bytes."""
    return -(-4 * len(names) // 16) * 16


def save(names: Sequence[str] = SAVED) -> list[str]:
    """Saves registers of the caller."""
    size = frame_bytes(names)
    code = [f"addi sp, sp, -{size}", f".cfi_def_cfa_offset {size}"]
    for at, name in enumerate(names):
        code += [f"sw {name}, {4 * at}(sp)", f".cfi_offset {name}, {4 * at - size}"]
    return code


def leave(names: Sequence[str] = SAVED) -> list[str]:
    """Restores what save() has saved, and returns; code may follow."""
    code = [".cfi_remember_state"]
    code += [f"lw {name}, {4 * at}(sp)" for at, name in enumerate(names)]
    code += [f"addi sp, sp, {frame_bytes(names)}", ".cfi_def_cfa_offset 0"]
    return [*code, *(f".cfi_restore {name}" for name in names), "ret", ".cfi_restore_state"]
