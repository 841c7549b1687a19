# SPDX-License-Identifier: Apache-2.0
"""Prints the output of `vmcu inspect` and `vmcu quantize` for model files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from ..quantize.ranges import RANDOM_NOTE
from .inspection import Coverage, Inspection, PortRow
from .page.names import short_names
from .terminal import say
from .text import counted, table
from .widths import print_widths

# Layers in the table of errors, unless all are asked for.
LISTED = 12

if TYPE_CHECKING:
    # Its part of onnx takes long to load, and only reports on such files are about it.
    from ..quantize.calibration import QuantizationReport


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)


def print_inspection(inspection: Inspection, console: Console) -> None:
    """Inputs and outputs, a line for each node, then totals."""
    for kind, ports in (("input", inspection.inputs), ("output", inspection.outputs)):
        for port in ports:
            say(console, f"{kind} {_port(port)}")
    if inspection.supported:
        columns = "H x W x C", "scale", "zero point", "MACs", "weight bytes"
        grid = table("node", "op", *columns)
        names = short_names(node.name for node in inspection.nodes)
        for node in inspection.nodes:
            figures = f"{node.scale:.6g}", str(node.zero_point)
            costs = f"{node.macs:,}", f"{node.weight_bytes:,}"
            grid.add_row(names[node.name], node.op, _shape(node.shape), *figures, *costs)
        console.print(grid)
        flash = (
            "" if inspection.flash_bytes is None else f", {inspection.flash_bytes:,} bytes of flash"
        )
        totals = f"{counted(len(inspection.nodes), 'layer')}, {inspection.macs:,} MACs{flash}"
        say(console, f"{inspection.model}: supported; {totals}")
        return
    grid = table("node", "op", "problem", left=3)
    for node in inspection.nodes:
        grid.add_row(node.name, node.op, node.problem)
    console.print(grid)
    say(
        console,
        f"{inspection.model}: not supported, {counted(len(inspection.problems), 'problem')}",
    )


def _port(port: PortRow) -> str:
    layout = f" {port.layout.upper()}" if len(port.shape) > 2 else ""
    real = f"real = {port.scale:.6g} * (q - {port.zero_point})"
    return f"{port.name}: {port.dtype} {_shape(port.shape)}{layout}, {real}"


def print_coverage(coverage: tuple[Coverage, ...], console: Console) -> None:
    """The operators of each format."""
    for entry in coverage:
        say(console, f"{entry.format}: {len(entry.supported)} operators")
        say(console, ", ".join(entry.supported))
        if entry.folded:
            say(console, f"with constant inputs only: {', '.join(entry.folded)}")
        if entry.tabulated:
            names = ", ".join(entry.tabulated)
            say(console, f"in float, on single elements of one int8 tensor: {names}")
        if entry.rewritten:
            say(console, f"`vmcu quantize` also accepts {', '.join(entry.rewritten)}")
        say(console, "")


def print_quantization(report: QuantizationReport, every: bool, console: Console) -> None:
    """The layers with the largest error, or every one, then the whole."""
    grid = table("tensor", "op", "shape", "SNR, dB")
    shown = report.layers if every else report.layers[:LISTED]
    names = short_names(layer.tensor for layer in shown)
    for layer in shown:
        row = names[layer.tensor], layer.op, _shape(layer.shape)
        grid.add_row(*row, f"{layer.signal_to_noise:.1f}")
    console.print(grid)
    if len(shown) < len(report.layers):
        which = f"{len(shown)} of {len(report.layers)} tensors, those with the largest error"
        say(console, f"{which}; --all lists all.")
    if report.calibration:
        say(console, RANDOM_NOTE)
    if report.losses:
        lost = (f"{one.tensor} ({one.op}, {one.after:.1f} dB)" for one in report.losses)
        say(console, f"the most noise comes from {', '.join(lost)}")
    if report.widths is not None:
        print_widths(report.widths, console)
    if report.accuracy is not None:
        real, quantised = report.accuracy.real, report.accuracy.quantized
        say(console, f"accuracy: {quantised:.1%}; float model: {real:.1%}")
    worst = report.layers[0].signal_to_noise if report.layers else 0.0
    say(
        console,
        f"wrote {report.target}: the largest output is the same for {report.top1:.1%} of "
        f"{report.samples} samples; the lowest signal-to-noise ratio of {len(report.layers)} "
        f"tensors is {worst:.1f} dB",
    )
