# SPDX-License-Identifier: Apache-2.0
"""Prints the output of `vmcu bench`, and of `vmcu inspect` of a linked image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields

from rich.console import Console
from vmcu_tools.report.page.names import short_names
from vmcu_tools.report.terminal import say
from vmcu_tools.report.text import ReportTable, table

from ..cores.instructions import Spent
from ..cycles.energy import MORE
from ..cycles.kernels import KernelBench
from ..cycles.model import BenchReport, LayerBench
from ..cycles.spread import Spread
from ..image.size import PARTS, SizeReport

COUNTS = ("instructions", "instructions per MAC", "RAM loads", "flash loads", "stores")
CYCLES = ("cycles", "cycles per MAC")
# Layers whose instructions depend on the input that a report lists.
SPREAD_LAYERS = 5
SPENT = tuple(field.name for field in fields(Spent))


def number(value: float | None, digits: int = 2) -> str:
    """A figure with so many digits, "-" where there is none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def cells(entry: LayerBench | BenchReport, digits: int = 2) -> list[str]:
    """Instructions, how many of them a multiply-accumulate, and accesses."""
    accesses = (entry.loads_ram, entry.loads_flash, entry.stores)
    per_mac = number(entry.instructions_per_mac, digits)
    return [number(entry.instructions, 0), per_mac, *(number(count, 0) for count in accesses)]


def modelled(entry: LayerBench | BenchReport) -> list[str]:
    """Cycles, and how many of them a multiply-accumulate."""
    return [number(entry.cycles, 0), number(entry.cycles_per_mac, 3)]


def layer_cells(entry: LayerBench | BenchReport) -> list[str]:
    """The figures of a layer, with where its cycles go."""
    parts = [None] * len(SPENT) if entry.spent is None else astuple(entry.spent)
    shares = (None if part is None else 100 * part / max(entry.cycles or 0, 1) for part in parts)
    macs = number(entry.macs or None, 0)
    return [macs, *cells(entry), *modelled(entry), *(number(share, 0) for share in shares)]


def layer_table(
    layers: Sequence[LayerBench], executor: LayerBench, console: Console
) -> ReportTable:
    """A line for each layer, then the executor's own."""
    shares = (f"{part} %" for part in SPENT)
    grid = table("", "layer", "op", "MACs", *COUNTS, *CYCLES, *shares, left=3, keys=2)
    names = short_names(layer.name for layer in layers)
    for index, layer in enumerate(layers):
        grid.add_row(str(index), names[layer.name], layer.op, *layer_cells(layer))
    grid.add_row("", executor.name, executor.op, *layer_cells(executor), end_section=True)
    return grid


def print_bench(report: BenchReport, console: Console) -> None:
    """The layers and their sum, then time and energy."""
    say(console, f"{report.model} on {report.target}, planner {report.planner}: one inference")
    grid = layer_table(report.layers, report.executor, console)
    grid.add_row("", "total", "", *layer_cells(report))
    console.print(grid)
    for memory in report.memories:
        waits = f"; {memory.waits:,.0f} wait cycles are not included" if memory.waits else ""
        counted = f"{memory.loads:,} loads and {memory.stores:,} stores"
        say(console, f"{memory.name}: {counted}, {memory.share:.1%} of all pool accesses{waits}")
    for number, worker in enumerate(report.workers):
        counted = f"{worker.instructions:,} instructions in {worker.tasks:,} tasks"
        say(console, f"worker {number}: {counted}, {worker.waits:,} waits")
    say(console, f"cycles: {report.timing}")
    if report.flash_waits:
        read = f"for {report.flash_bytes:,} bytes read past its caches"
        say(
            console,
            f"The cycles include {report.flash_waits:,} flash wait cycles {read}, modelled.",
        )
    if report.time is not None:
        time = report.time
        taken = f"{time.milliseconds:,.2f} ms at {time.megahertz:g} MHz on {time.board}"
        say(console, f"{taken}: {time.known}")
    if report.inputs is not None:
        print_spread(report.inputs, console)
    if report.compiler is not None:
        say(console, f"compiler: {report.compiler}")
    if report.energy is not None:
        energy = f"energy, {report.energy.scope}, estimated: {report.energy.microjoule:,.2f} uJ"
        say(console, f"{energy}; a whole microcontroller needs {MORE} (`vmcu help cycles.md`)")


def print_spread(spread: Spread, console: Console) -> None:
    """The instructions over several inputs, and the layers whose instructions differ most."""
    figures = f"most {spread.most:,} instructions, spread {spread.spread:,}"
    say(console, f"{spread.inputs} inputs: {figures} ({spread.percent:g} %)")
    for layer in spread.layers[:SPREAD_LAYERS]:
        say(console, f"  {layer.name} ({layer.op}): {layer.least:,} to {layer.most:,}")


def print_kernels(results: Sequence[KernelBench], console: Console) -> None:
    """A line for each kernel, beside CMSIS-NN's figures and our goal."""
    counts = (*COUNTS[:2], "CMSIS-NN instructions per MAC", *COUNTS[2:])
    cycles = (*CYCLES, "CMSIS-NN cycles per MAC", "goal, cycles per MAC")
    grid = table("layer", "MACs", *counts, *cycles, left=1)
    for result in results:
        instructions, per_mac, *accesses = cells(result.report, 3)
        counted = instructions, per_mac, number(result.cmsis_nn), *accesses
        others = number(result.cmsis_nn_cycles), number(result.goal)
        figures = f"{result.report.macs:,}", *counted, *modelled(result.report), *others
        grid.add_row(result.name, *figures)
    console.print(grid)
    first = results[0].report
    say(console, f"{first.target}; CMSIS-NN: compiled at -O3, counted on the same emulator")
    say(console, f"cycles: {first.timing}")
    say(console, f"compiler: {first.compiler}")


def print_kernel_costs(report: SizeReport, console: Console) -> None:
    """Bytes of each kernel: only its own code, and code that it shares with others."""
    grid = table("kernel", "models", "own bytes", "shared bytes", left=2)
    for cost in report.kernels:
        grid.add_row(cost.name, ", ".join(cost.models), f"{cost.alone:,}", f"{cost.shared:,}")
    console.print(grid)


def print_size(report: SizeReport, console: Console) -> None:
    """Each symbol with its part and section, then the parts."""
    grid = table("symbol", "part", "section", "flash", "RAM", left=3)
    for symbol in report.symbols:
        grid.add_row(
            symbol.name, symbol.part, symbol.section, f"{symbol.flash:,}", f"{symbol.ram:,}"
        )
    console.print(grid)
    grid = table("part", "flash", "RAM", left=1)
    for part in PARTS:
        sizes = report.parts[part]
        grid.add_row(part, f"{sizes['flash']:,}", f"{sizes['ram']:,}")
    grid.sections.add(len(PARTS) - 1)
    grid.add_row("total", f"{report.flash:,}", f"{report.ram:,}")
    console.print(grid)
    if report.kernels:
        print_kernel_costs(report, console)
    say(console, f"{report.elf}: models {', '.join(report.models)}; all sizes in bytes")
    for model, depth in report.stacks.items():
        say(console, f"{model}: an inference needs {depth:,} bytes of its thread's stack")
    for model, state in report.states.items():
        say(console, f"{model}: vmcu_state_save() needs {state:,} bytes for the state of the pool")
    for note in report.notes:
        say(console, note)
