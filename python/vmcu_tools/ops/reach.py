# SPDX-License-Identifier: Apache-2.0
"""The region of an input that an output pixel reads."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph import Tensor, Window


@dataclass(frozen=True)
class Reach:
    """The part of an input that output pixel (y, x) reads, by axis (rows, columns): from
    stride * at - before to stride * at + after, both included and cut to the image."""

    stride: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]

    @staticmethod
    def everything(tensor: Tensor) -> Reach:
        height, width, _ = tensor.shape
        return Reach((0, 0), (0, 0), (height - 1, width - 1))

    @staticmethod
    def shifted(rows: int = 0, columns: int = 0) -> Reach:
        """One pixel, `rows` above and `columns` left of the output's."""
        return Reach((1, 1), (rows, columns), (-rows, -columns))

    @staticmethod
    def window(window: Window) -> Reach:
        pads = window.pad[:2]
        after = (window.extent(0) - 1 - pads[0], window.extent(1) - 1 - pads[1])
        return Reach(window.stride, pads, after)

    def span(self, axis: int, first: int, last: int, size: int) -> range:
        """Returns the indices of an axis of `size` that outputs `first` to `last`, both
        included, read."""
        start = max(first * self.stride[axis] - self.before[axis], 0)
        return range(start, max(min(last * self.stride[axis] + self.after[axis], size - 1), -1) + 1)
