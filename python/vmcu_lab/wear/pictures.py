# SPDX-License-Identifier: Apache-2.0
"""Heat maps of writes by address, as PNG and SVG: one strip for each way of moving."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np

WIDTH, STRIP, GAP = 768, 28, 4
LABEL = 150
Strips = Sequence[tuple[str, np.ndarray]]
# From hardly written to most written.
COLOURS = np.array(
    [(255, 255, 250), (254, 217, 118), (253, 141, 60), (227, 26, 28), (103, 0, 13)], np.float64
)


def _shades(strips: Strips) -> list[np.ndarray]:
    """The most written address of each column, as RGB uint8 (columns, 3). Doublings are equal
    steps, on one scale for all strips, since a hot word takes fifty times the mean."""
    columns = []
    for _, writes in strips:
        edges = np.linspace(0, writes.size, min(WIDTH, writes.size) + 1).astype(int)
        columns.append(np.maximum.reduceat(writes.astype(np.float64), edges[:-1]))
    mean = float(np.mean([writes.mean() for _, writes in strips])) or 1.0
    most = max(float(column.max()) for column in columns)
    shades = []
    for column in columns:
        heat = np.log1p(column / mean) / np.log1p(most / mean) * (len(COLOURS) - 1)
        low = np.clip(heat.astype(int), 0, len(COLOURS) - 2)
        share = (heat - low)[:, None]
        shades.append(np.rint(COLOURS[low] * (1 - share) + COLOURS[low + 1] * share))
    return [shade.astype(np.uint8) for shade in shades]


def svg(title: str, strips: Strips) -> str:
    """The strips with their labels and maxima."""
    height = (len(strips) + 1) * (STRIP + GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDTH + LABEL}" '
        f'height="{height}" font-family="sans-serif" font-size="13">',
        f'<text x="{LABEL}" y="18">{escape(title)}</text>',
    ]
    for number, ((label, writes), shade) in enumerate(zip(strips, _shades(strips), strict=True)):
        top = (number + 1) * (STRIP + GAP)
        lines.append(f'<text x="4" y="{top + 18}">{escape(label)}</text>')
        scale = WIDTH / len(shade)
        for start, stop, (red, green, blue) in _spans(shade):
            lines.append(
                f'<rect x="{LABEL + start * scale:.2f}" y="{top}" '
                f'width="{(stop - start) * scale:.2f}" height="{STRIP}" '
                f'fill="#{red:02x}{green:02x}{blue:02x}"/>'
            )
        most = f"max {float(writes.max()):,.0f}"
        lines.append(f'<text x="{LABEL + WIDTH + 8}" y="{top + 18}">{most}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _spans(shade: np.ndarray) -> list[tuple[int, int, tuple[int, int, int]]]:
    """Runs of one colour: start, stop, RGB."""
    changes = np.flatnonzero((shade[1:] != shade[:-1]).any(1)) + 1
    edges = [0, *changes.tolist(), len(shade)]
    return [
        (start, stop, (int(shade[start][0]), int(shade[start][1]), int(shade[start][2])))
        for start, stop in itertools.pairwise(edges)
    ]


def png(strips: Strips) -> bytes:
    """The strips alone, from top to bottom."""
    image = np.full((len(strips) * (STRIP + GAP) - GAP, WIDTH, 3), 255, np.uint8)
    for number, shade in enumerate(_shades(strips)):
        top = number * (STRIP + GAP)
        columns = np.arange(WIDTH) * len(shade) // WIDTH
        image[top : top + STRIP] = shade[columns]
    height, width, _ = image.shape
    # Each line starts with its filter: none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
