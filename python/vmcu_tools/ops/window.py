# SPDX-License-Identifier: Apache-2.0
"""Layers that look at their input through a window: its C struct, the rows and taps under it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from ..graph import Op, Scaled, Shape, Shapes, Window
from .layer import NEVER, OpT, ProgramLayer
from .reach import Reach
from .values import CStruct

WINDOW = CStruct(
    "vmcu_window",
    "uint16_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;"
    "int16_t pad_top, pad_left;",
)


def window_values(*pairs: tuple[int, int]) -> dict[str, int]:
    """Members of struct vmcu_window, of a kernel, stride, dilation and padding above and left."""
    values = (int(value) for pair in pairs for value in pair)
    return dict(zip(WINDOW.members, values, strict=True))


def window_fields(window: Window) -> dict[str, int]:
    """Returns the values by their path of a struct whose member `window` is a struct
    vmcu_window."""
    values = window_values(window.kernel, window.stride, window.dilation, window.pad[:2])
    return {f"window.{name}": value for name, value in values.items()}


def scaled_window(
    window: Window, was: Shape, now: Shape, out: Shape
) -> tuple[Window, tuple[int, int]] | None:
    """For an image of shape `now` in place of `was`, which made `out`: the window and the output's
    height and width. One that sees all of the image still does; padding that is not alike on both
    sides keeps the output's size what the stride makes of the input's. None if there is no
    output."""
    parts = [_scaled(window, axis, was[axis], now[axis], out[axis]) for axis in (0, 1)]
    if any(size < 1 for _, _, _, size in parts):
        return None
    (kernel_y, top, bottom, high), (kernel_x, left, right, wide) = parts
    pad = (top, left, bottom, right)
    return replace(window, kernel=(kernel_y, kernel_x), pad=pad), (high, wide)


def _scaled(window: Window, axis: int, was: int, now: int, out: int) -> tuple[int, int, int, int]:
    """Of one axis: kernel, padding in front and behind, size of the output."""
    kernel, stride = window.kernel[axis], window.stride[axis]
    before, behind = window.pad[axis], window.pad[axis + 2]
    if now == was:
        return kernel, before, behind, out
    if out == 1 and kernel == was and before == behind == 0:
        return now, 0, 0, 1
    if before != behind:
        size = -(-now // stride)
        total = max((size - 1) * stride + window.extent(axis) - now, 0)
        less, more = total // 2, total - total // 2
        before, behind = (less, more) if before < behind else (more, less)
    return kernel, before, behind, (now + before + behind - window.extent(axis)) // stride + 1


class Pooling:
    """The part of an op on one input that works channel by channel and has nothing but a window."""

    by_channel = True
    window: Window

    def scaled(self, ins: Shapes, was: Shapes, out: Shape, channels: int) -> Scaled | None:
        scaled = scaled_window(self.window, was[0], ins[0], out)
        if scaled is None:
            return None
        op: Op = replace(cast(Any, self), window=scaled[0])
        return op, (*scaled[1], ins[0][2])


class WindowLayer(ProgramLayer[OpT]):
    """A layer whose output pixels are computed from the pixels under the window of its op."""

    # One with a window; which, is the subclass's.
    op: Any

    @property
    def window(self) -> Window:
        window: Window = self.op.window
        return window

    @property
    def by_columns(self) -> bool:
        return True

    @property
    def by_rows(self) -> bool:
        return not self.window.pad[2]

    @property
    def transposed(self) -> Op | None:
        op: Op = self.op
        return replace(cast(Any, op), window=self.window.transposed) if op.windowed else op

    def input_rows(self, index: int, y: int) -> range:
        return window_rows(self.window, self.ins[0].shape[0], y)

    def reach(self, index: int) -> Reach:
        return Reach.window(self.window)


def covered(
    window: Window, image: tuple[int, ...], out: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Which taps some output pixel has inside the image, and which some has outside of it: bool
    (kh, kw) twice. image and out: shapes (H, W, ...)."""
    inside = []
    for axis in (0, 1):
        taps = np.arange(window.kernel[axis]) * window.dilation[axis]
        places = (np.arange(out[axis]) * window.stride[axis] - window.pad[axis])[:, None] + taps
        inside.append((places >= 0) & (places < image[axis]))
    some, every = ([np.asarray(f(each, axis=0)) for each in inside] for f in (np.any, np.all))
    ever = some[0][:, None] & some[1]
    outside = ~every[0][:, None] | ~every[1]
    return ever, outside


def window_rows(window: Window, height: int, y: int) -> range:
    """Input rows under output row y that lie inside the image."""
    step = window.dilation[0]
    first = window.first(0, y)
    if first < 0:
        first += -(first // step) * step
    stop = min(window.first(0, y) + window.extent(0), height)
    return range(first, stop, step)


def last_users(window: Window, axis: int, size: int, outs: int) -> np.ndarray:
    """Returns for each of so many input indices of an axis the last of the output indices that
    reads it, int64; NEVER if none does."""
    last = np.full(size, NEVER, np.int64)
    for out in range(outs):
        taps = window.first(axis, out) + np.arange(window.kernel[axis]) * window.dilation[axis]
        last[taps[(taps >= 0) & (taps < size)]] = out
    return last


def gather(
    data: np.ndarray, window: Window, out_width: int, y0: int, y1: int, fill: int
) -> tuple[np.ndarray, np.ndarray]:
    """The taps under output rows y0 .. y1-1.

    Returns int64 (rows, W, kh, kw, C) with `fill` outside the image, and a bool mask
    (rows, W, kh, kw) that is true inside.
    """
    taps_y = np.arange(window.kernel[0]) * window.dilation[0]
    taps_x = np.arange(window.kernel[1]) * window.dilation[1]
    ys = (np.arange(y0, y1) * window.stride[0] - window.pad[0])[:, None] + taps_y
    xs = (np.arange(out_width) * window.stride[1] - window.pad[1])[:, None] + taps_x
    in_y = (ys >= 0) & (ys < data.shape[0])
    in_x = (xs >= 0) & (xs < data.shape[1])
    inside = in_y[:, None, :, None] & in_x[None, :, None, :]
    values = data[
        np.clip(ys, 0, data.shape[0] - 1)[:, None, :, None],
        np.clip(xs, 0, data.shape[1] - 1)[None, :, None, :],
    ].astype(np.int64)
    values[~inside] = fill
    return values, inside
