# SPDX-License-Identifier: Apache-2.0
"""Registers of the caller in assembly for RISC-V."""

from __future__ import annotations

SAVED = ("ra", *(f"s{number}" for number in range(12)))


def frame_bytes(words: int) -> int:
    """Returns the bytes of a stack frame, a multiple of 16: `words` for code, then the caller's
    registers."""
    return -(-4 * (words + len(SAVED)) // 16) * 16


def save(words: int = 0) -> list[str]:
    """Saves registers of the caller; code has some words from the stack pointer on."""
    size = frame_bytes(words)
    code = [f"addi sp, sp, -{size}", f".cfi_def_cfa_offset {size}"]
    for at, name in enumerate(SAVED, words):
        code += [f"sw {name}, {4 * at}(sp)", f".cfi_offset {name}, {4 * at - size}"]
    return code


def leave(words: int = 0) -> list[str]:
    """Restores the registers that save() has saved, and returns; code may follow."""
    code = [".cfi_remember_state"]
    code += [f"lw {name}, {4 * at}(sp)" for at, name in enumerate(SAVED, words)]
    code += [f"addi sp, sp, {frame_bytes(words)}", ".cfi_def_cfa_offset 0"]
    return [*code, *(f".cfi_restore {name}" for name in SAVED), "ret", ".cfi_restore_state"]
