# SPDX-License-Identifier: Apache-2.0
"""Bytes of scratch memory that a kernel uses, from its parameters."""

from __future__ import annotations

from .tables import VECTOR, ImageLayer

# Rows of a window are copied where they have at most so many bytes together.
COPIED = 256


def scratch_bytes(layer: ImageLayer) -> int:
    """Returns the bytes from the beginning of a layer's scratch memory that its calls may write."""
    kind, form, p, out = layer.kind, layer.form, layer.p, layer.out
    is_vector = layer.lanes == VECTOR
    if kind in ("conv", "pointwise"):
        pixels = min(2 if form == "_narrow" else 4, out.width)
        return int(pixels * p["steps"] * (16 if is_vector else 8))
    if kind == "depthwise" and form == "_any":
        taps = p["kernel_h"] * p["kernel_w"]
        vectors = -(-4 * taps // 16) * 16 + 4 * p["kernel_h"] + p["steps"]
        return int(vectors if is_vector else 4 * taps)
    if kind == "depthwise":
        is_paired = layer.packing.startswith("_pairs")
        return strip_bytes(p["kernel_w"], p["stride_w"], p["steps"], is_paired)
    if kind == "dense":
        rows, run = p["kernel_h"], p["run"]
        if rows > 1 and rows * run <= COPIED:
            return int(-(-rows * run // 4) * 4)
        return int(run) if p["pad_top"] or p["pad_left"] else 0
    if kind == "average_pool_sum":
        return (2 if layer.ins[0].height * layer.ins[0].width <= 256 else 4) * out.channels
    if kind == "attention":
        return int(p["kernel_h"]) * (2 if p["mask_rows"] else 1)
    if kind == "recomputed":
        most = max(map(scratch_bytes, layer.within)) if p["scratch"] else 0
        return max(int(p["ring"]), int(p["scratch"]) + most)
    return out.channels if kind == "lstm" else 0


def strip_bytes(taps: int, stride: int, wide: int, is_paired: bool) -> int:
    """Bytes of the tile of a strip of `wide` pixels: words of two pixels, four channels in two
    planes. Each two rows have the columns that each phase of the stride meets; the last row is
    alone. Cores compute a strip in blocks, which hang over its end."""
    block = 6 if taps == 3 and stride == 2 and not is_paired else 4
    row = sum(wide + len(range(phase, taps, stride)) - 1 for phase in range(stride))
    plane = row * (taps // 2) + (wide * stride + taps + 1 - stride) // 2
    words = 2 * plane + -wide % block * stride // 2
    if is_paired:
        over = -wide % (2 if taps == 3 else 4)
        words = max(words, ((wide + over - 1) * stride + taps) * taps)
    return 4 * words
