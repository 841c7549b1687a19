# SPDX-License-Identifier: Apache-2.0
"""Reports on model files for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.columns import Columns
from rich.console import Console

from .inspection import Coverage, Inspection, PortRow
from .terminal import say
from .text import table

if TYPE_CHECKING:
    # What it needs of onnx takes long to load, and only reports on such files are about it.
    from ..quantize.calibration import QuantizationReport


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)


def print_inspection(found: Inspection, console: Console) -> None:
    """Ports, a line per node, then totals."""
    for kind, ports in (("input", found.inputs), ("output", found.outputs)):
        for port in ports:
            say(console, f"{kind} {_port(port)}")
    if found.supported:
        grid = table("node", "op", "H x W x C", "scale", "zero", "MACs", "weights")
        for node in found.nodes:
            figures = f"{node.scale:.6g}", str(node.zero_point)
            costs = f"{node.macs:,}", f"{node.weight_bytes:,}"
            grid.add_row(node.name, node.op, _shape(node.shape), *figures, *costs)
        console.print(grid)
        flash = "" if found.flash_bytes is None else f", {found.flash_bytes:,} bytes of flash"
        totals = f"{len(found.nodes)} nodes, {found.macs:,} MACs{flash}"
        say(console, f"{found.model}: supported; {totals}")
        return
    grid = table("node", "op", "problem", left=3)
    for node in found.nodes:
        grid.add_row(node.name, node.op, node.problem)
    console.print(grid)
    say(console, f"{found.model}: not supported, {len(found.problems)} problems")


def _port(port: PortRow) -> str:
    layout = f" {port.layout.upper()}" if len(port.shape) > 2 else ""
    real = f"real = {port.scale:.6g} * (q - {port.zero_point})"
    return f"{port.name}: {port.dtype} {_shape(port.shape)}{layout}, {real}"


def print_coverage(found: tuple[Coverage, ...], console: Console) -> None:
    """The operators of each format, in columns."""
    for entry in found:
        say(console, f"{entry.format}: {len(entry.supported)} operators")
        console.print(Columns(entry.supported, column_first=True, padding=(0, 2)))
        if entry.folded:
            names = ", ".join(entry.folded)
            say(console, f"computed while reading, where all inputs are constant: {names}")
        if entry.tabulated:
            names = ", ".join(entry.tabulated)
            say(console, f"of single elements of one tensor, in float or as conditions: {names}")
        say(console, "")


def print_quantization(report: QuantizationReport, layers: int, console: Console) -> None:
    """The worst layers, then the whole."""
    grid = table("tensor", "op", "shape", "SNR, dB", left=3)
    for layer in report.layers[:layers]:
        row = layer.tensor, layer.op, _shape(layer.shape)
        grid.add_row(*row, f"{layer.signal_to_noise:.1f}")
    console.print(grid)
    worst = report.layers[0].signal_to_noise if report.layers else 0.0
    say(
        console,
        f"wrote {report.target}: {report.samples} samples, the same largest output in "
        f"{report.top1:.1%} of them, {len(report.layers)} tensors compared, the worst at "
        f"{worst:.1f} dB",
    )
