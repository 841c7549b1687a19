# SPDX-License-Identifier: Apache-2.0
"""Layers of which one recomputes the rows that another reads: the ring between, pixel by pixel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .tables import expect


def check(
    name: str, params: Mapping[str, Any], output: tuple[int, ...], scratch: int, rotates: bool
) -> None:
    """Raises PlanError unless all pixels that a piece of a call needs are there together.

    params: a struct vmcu_recomputed_params as it was read back; output: (H, W, C); scratch: bytes
    that the layer has in the pool, which `rotates` or not. Follows lib/vmcu/kernels/recomputed.c
    and nothing else.
    """
    ring, height, width, channels, columns = (
        params.get(member, 0) for member in ("ring", "height", "width", "channels", "columns")
    )
    who = f"layer '{name}'"
    sound = ring > 0 and channels > 0 and columns > 0 and ring % channels == 0
    expect(sound, f"{who} has no ring between its layers")
    # Rows of its ring that reach around the pool's end would be elsewhere than its scratch.
    expect(not rotates, f"{who} cannot be in a pool that rotates")
    begin = params.get("scratch", 0)
    fits = ring <= (begin or scratch) and begin <= scratch
    expect(fits, f"{who}: its ring is not in its scratch")
    window, seen = params["outer"]["window"], set()
    for y in range(output[0]):
        rows = _places(window, "h", "top", y, y, height)[:: window["dilation_h"]]
        for x in range(output[1]):
            # Fewer columns than that from x on are some of these.
            last = min(x + columns, output[1]) - 1
            across = _places(window, "w", "left", x, last, width)
            shape = len(rows), len(across)
            if shape in seen or not all(shape):
                continue
            seen.add(shape)
            pixels = np.array(rows)[:, None] * width + np.array(across)
            places = pixels * channels % ring
            expect(len(np.unique(places)) == places.size, f"{who}: its ring is too small")


def _places(
    window: Mapping[str, int], axis: str, side: str, first: int, last: int, size: int
) -> range:
    """Lists the places, from the first to the last, that outputs `first` to `last` see along an
    axis of `size`; the first one is a tap's."""
    stride, dilation = window[f"stride_{axis}"], window[f"dilation_{axis}"]
    begin, end = (at * stride - window.get(f"pad_{side}", 0) for at in (first, last))
    end += (window[f"kernel_{axis}"] - 1) * dilation + 1
    begin += -(begin // dilation) * dilation if begin < 0 else 0
    return range(begin, max(min(end, size), begin))
