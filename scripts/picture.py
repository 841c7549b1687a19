# SPDX-License-Identifier: Apache-2.0
"""Draws doc/pictures/architecture.svg, the way of a model through the rooms of the compiler:

python scripts/picture.py
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "doc" / "pictures" / "architecture.svg"

WIDTH, MARGIN, GAP = 1120, 24, 22
HIGH, THING_HIGH, LINE = 78, 34, 17
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1c2733; }
  .name { font-weight: 600; font-size: 14px; }
  .label { font-style: italic; fill: #5a6b7b; }
  .room { fill: #eef4fa; stroke: #4a7fb0; }
  .proof { fill: #fdf1e4; stroke: #c57a2c; }
  .device { fill: #e9f6ee; stroke: #3d9161; }
  .thing { fill: none; stroke: #8a99a8; stroke-dasharray: 4 3; }
  .way { fill: none; stroke: #4a7fb0; stroke-width: 1.6; marker-end: url(#tip); }
  #tip path { fill: #4a7fb0; }
  @media (prefers-color-scheme: dark) {
    text { fill: #dde6ee; }
    .label { fill: #9fb0c0; }
    .room { fill: #1b2a3a; }
    .proof { fill: #3a2a18; }
    .device { fill: #16301f; }
  }
"""


@dataclass(frozen=True)
class Box:
    """A room, or something that is handed on (`style` "thing"): its name and lines of text."""

    name: str
    lines: tuple[str, ...] = ()
    style: str = "room"

    @property
    def high(self) -> int:
        return THING_HIGH if self.style == "thing" else HIGH


# What hands a model on, and what is handed on between them.
WAY = (
    (
        Box(".onnx or .tflite", style="thing"),
        Box("frontends/", ("onnx/, tflite/:", "a rule an operator")),
        Box("Graph", style="thing"),
        Box("passes/", ("Graph to Graph:", "pads, clamps, tables")),
        Box("Graph", style="thing"),
    ),
    (
        Box("planner/", ("stages/ what runs together", "places/ order and addresses")),
        Box("Plan", style="thing"),
        Box("emit/, container/", ("C tables, applications;", "one file to load")),
        Box("model.c, model.h", style="thing"),
        Box("machine/", ("reads the C back and", "replays every call"), "proof"),
    ),
    (
        Box("proven model.c", style="thing"),
        Box("lib/vmcu", ("executor and kernels,", "in one circular pool"), "device"),
    ),
)
# What these stand on, from the bottom up, and what stands around them.
SHELVES = (
    (
        "they stand on",
        (
            Box("quant, graph", ("both requantisers;", "tensors, nodes, ports")),
            Box("boards/, kernels/", ("language/, programs/,", "a row a target")),
            Box("ops/", ("a file an op: meaning,", "access, C parameters")),
            Box("plan/", ("rings, calls,", "rotation")),
            Box("ordering/", ("the order of", "anybody's tasks")),
        ),
    ),
    (
        "they are tried by",
        (
            Box("runners/, probe/", ("host, boards, Zephyr:", "build, run, count")),
            Box("oracle/", ("TFLite Micro,", "ONNX Runtime")),
            Box("verify/", ("each tensor, and the", "file end to end")),
            Box("cycles/, cores/, image/", ("instructions;", "what an ELF holds")),
            Box("fit/", ("what fits,", "and what would")),
        ),
    ),
    (
        "people meet",
        (
            Box("entry, cli, commands/", ("a file a command",)),
            Box("report/", ("text, JSON, pages",)),
            Box("quantize/", ("float .onnx to int8",)),
            Box("audio/", ("from sound to features,", "as the device has them")),
            Box("compiler, api", ("file to Plan to report,", "for whoever imports it")),
        ),
    ),
    (
        "and beside them",
        (
            Box("placement/", ("buffers and graphs", "of anybody")),
            Box("planners/, distances/", ("of other tools,", "of the paper")),
            Box("wear/", ("where writes go", "in NVM")),
        ),
    ),
)


def draw(box: Box, x: float, y: float, wide: float) -> list[str]:
    middle = x + wide / 2
    parts = [
        f'<rect class="{box.style}" x="{x:g}" y="{y:g}" width="{wide:g}" height="{box.high}" '
        f'rx="{15 if box.style == "thing" else 4}"/>'
    ]
    first = y + box.high / 2 + 5 - LINE * len(box.lines) / 2
    for number, (text, style) in enumerate(
        [(box.name, "name"), *((line, "text") for line in box.lines)]
    ):
        parts.append(
            f'<text class="{style}" x="{middle:g}" y="{first + LINE * number:g}" '
            f'text-anchor="middle">{escape(text)}</text>'
        )
    return parts


def row(boxes: tuple[Box, ...], y: float, arrows: bool) -> list[str]:
    """Boxes side by side, all as wide as those of the fullest row."""
    wide = (WIDTH - 2 * MARGIN - 4 * GAP) / 5
    parts = []
    for number, box in enumerate(boxes):
        x = MARGIN + number * (wide + GAP)
        parts += draw(box, x, y + (HIGH - box.high) / 2, wide)
        if arrows and number:
            parts.append(arrow((x - GAP, y + HIGH / 2), (x - 2, y + HIGH / 2)))
    return parts


def arrow(*points: tuple[float, float]) -> str:
    return f'<polyline class="way" points="{" ".join(f"{x:g},{y:g}" for x, y in points)}"/>'


def back(y: float, above: tuple[Box, ...], below: tuple[Box, ...]) -> str:
    """From the end of a row to the start of the next."""
    wide = (WIDTH - 2 * MARGIN - 4 * GAP) / 5
    end = MARGIN + (len(above) - 1) * (wide + GAP) + wide / 2
    start = MARGIN + wide / 2
    leaves, between = y + (HIGH + above[-1].high) / 2, y + HIGH + GAP / 2
    arrives = y + HIGH + GAP + (HIGH - below[0].high) / 2 - 2
    return arrow((end, leaves), (end, between), (start, between), (start, arrives))


def picture() -> str:
    parts, y = [], float(MARGIN)
    for number, boxes in enumerate(WAY):
        parts += row(boxes, y, True)
        if number < len(WAY) - 1:
            parts.append(back(y, boxes, WAY[number + 1]))
        y += HIGH + GAP
    for label, boxes in SHELVES:
        y += LINE
        parts.append(f'<text class="label" x="{MARGIN}" y="{y - 5:g}">{escape(label)}</text>')
        parts += row(boxes, y, False)
        y += HIGH + GAP / 2
    high = y + MARGIN - GAP / 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high:g}" '
        'role="img" aria-label="The way of a model through vmcu">'
    )
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker>'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", f"<defs>{tip}</defs>", *parts, "</svg>\n"])


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
