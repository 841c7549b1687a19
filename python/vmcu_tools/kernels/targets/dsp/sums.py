# SPDX-License-Identifier: Apache-2.0
"""Sums with the DSP extension: SMLAWB and SMLAWT take a byte that is the upper half of 16 bits."""

from __future__ import annotations

from ..portable.sums import ADD_LINE
from ..thumb import asm

# Bytes 0 and 2 of both tensors, then 1 and 3.
CODE = [
    "ldr %[x], [%[a]], #4",
    "ldr %[y], [%[b]], #4",
    "and %[even], %[mask], %[x], lsl #8",
    "and %[x], %[mask], %[x]",
    "smlawb %[s0], %[fa], %[even], %[bias]",
    "smlawt %[s2], %[fa], %[even], %[bias]",
    "smlawb %[s1], %[fa], %[x], %[bias]",
    "smlawt %[s3], %[fa], %[x], %[bias]",
    "and %[even], %[mask], %[y], lsl #8",
    "and %[y], %[mask], %[y]",
    "smlawb %[s0], %[fb], %[even], %[s0]",
    "smlawt %[s2], %[fb], %[even], %[s2]",
    "smlawb %[s1], %[fb], %[y], %[s1]",
    "smlawt %[s3], %[fb], %[y], %[s3]",
]


def add_line() -> str:
    sums = ", ".join(f'[s{n}] "=&r"(acc[{n}])' for n in range(4))
    return (
        "uint32_t x, y, even;\n\n"
        f"__asm__({asm(CODE, 1)}\n\t: {sums},\n"
        '\t  [x] "=&r"(x), [y] "=&r"(y), [even] "=&r"(even), [a] "+&r"(*a), [b] "+&r"(*b)\n'
        '\t: [mask] "r"(UINT32_C(0xff00ff00)), [fa] "r"(a_scale), [fb] "r"(b_scale),\n'
        '\t  [bias] "r"(bias)\n\t: "memory");'
    )


OWN = {ADD_LINE[4]: add_line()}
