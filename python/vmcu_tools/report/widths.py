# SPDX-License-Identifier: Apache-2.0
"""Prints the output of `vmcu quantize` for int4 weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from .page.names import short_names
from .terminal import say
from .text import counted, table

if TYPE_CHECKING:
    # As in models.py.
    from ..quantize.widths import LayerWidth, WidthReport


def print_widths(report: WidthReport, console: Console) -> None:
    """The layers in the order in which they get int4 weights, then the whole."""
    columns, ratios = ("int8, bytes", "int4, bytes"), ("int8, dB", "int4, dB", "outputs, dB")
    grouped = any(layer.group for layer in report.layers)
    grid = table("layer", "op", "weights", *["group"] * grouped, *columns, *ratios)
    names = short_names(layer.node for layer in report.layers)
    for layer in report.layers:
        group = [str(layer.group or "")] * grouped
        grid.add_row(names[layer.node], layer.op, f"int{layer.bits}", *group, *_figures(layer))
    console.print(grid)
    say(
        console,
        "Layers get int4 weights in this order: the least error for each byte saved first. int8, "
        "int4, dB: signal-to-noise ratio of the layer's output with int8 weights in all layers, "
        "and with int4 weights in this layer. outputs, dB: the same of the model's outputs.",
    )
    for reason in dict.fromkeys(layer.reason for layer in report.layers if layer.reason):
        which = [names[layer.node] for layer in report.layers if layer.reason == reason]
        say(console, f"{reason}: {', '.join(which)}")
    changed = sum(layer.bits == 4 for layer in report.layers)
    sizes = f"their constants {report.constants_int8:,} -> {report.constants:,} bytes"
    if report.flash_limit is not None:
        sizes = f"flash {report.flash_int8:,} -> {report.flash:,} bytes"
        sizes += f", limit {report.flash_limit:,}"
    say(
        console,
        f"int4 weights in {changed} of {counted(len(report.layers), 'layer')}; {sizes}; "
        f"signal-to-noise ratio of the outputs {report.snr_int8:.1f} -> {report.snr:.1f} dB",
    )


def _figures(layer: LayerWidth) -> list[str]:
    sizes = [f"{size:,}" for size in (layer.bytes_int8, layer.bytes_int4)]
    ratios = (layer.snr_int8, layer.snr_int4, layer.output_snr)
    return [*sizes, *("" if ratio is None else f"{ratio:.1f}" for ratio in ratios)]
