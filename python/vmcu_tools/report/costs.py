# SPDX-License-Identifier: Apache-2.0
"""What was counted and measured, for a terminal: benchmarks and sizes of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields

from rich.console import Console
from rich.markup import escape

from ..bench.energy import Energy
from ..bench.kernels import KernelBench
from ..bench.model import BenchReport, LayerBench
from ..bench.timing import Spent
from ..image.size import PARTS, SizeReport
from .terminal import say
from .text import table

COUNTS = ("instructions", "per MAC", "loads RAM", "loads flash", "stores")
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
    """Spent, and how many of them a multiply-accumulate."""
    return [f"{entry.cycles:,}", number(entry.cycles_per_mac, 3)]


def layer_cells(entry: LayerBench | BenchReport) -> list[str]:
    """The figures of a layer, with where its cycles go."""
    parts = [None] * len(SPENT) if entry.spent is None else astuple(entry.spent)
    shares = (None if part is None else 100 * part / max(entry.cycles, 1) for part in parts)
    macs = number(entry.macs or None, 0)
    return [macs, *cells(entry), *modelled(entry), *(number(share, 0) for share in shares)]


def print_bench(report: BenchReport, console: Console) -> None:
    """One line per layer, the executor's own, the sum, then the energy estimate."""
    grid = table("", "layer", "op", "MACs", *COUNTS, "cycles", "per MAC", *SPENT, left=3)
    rows = [*report.layers, report.executor]
    for index, entry in enumerate(rows):
        last = entry is report.executor
        label = "" if last else str(index)
        grid.add_row(label, escape(entry.name), entry.op, *layer_cells(entry), end_section=last)
    grid.add_row("", "total", "", *layer_cells(report))
    console.print(grid)
    say(console, f"{report.model} on {report.target}, planner {report.planner}: one inference")
    for memory in report.memories:
        waits = f", {memory.waits:,.0f} cycles of waiting besides" if memory.waits else ""
        counted = f"{memory.loads:,} loads and {memory.stores:,} stores"
        say(console, f"{memory.name}: {counted}, {memory.share:.1%} of those in pools{waits}")
    if report.spent is not None:
        say(console, f"cycles, modelled, not measured; {', '.join(SPENT)} in percent of them")
    say(console, f"  {report.timing}")
    if report.flash_waits:
        say(console, f"  {report.flash_waits:,} of them wait for flash behind caches, modelled")
    if report.time is not None:
        time = report.time
        taken = f"{time.milliseconds:,.2f} ms at {time.megahertz:g} MHz on {time.board}"
        say(console, f"{taken}: {time.known}")
    if report.compiler is not None:
        say(console, f"compiled by {report.compiler}")
    if report.energy is not None:
        print_energy(report.energy, console)


def print_energy(energy: Energy, console: Console) -> None:
    """The estimate, in microjoule, with what it assumes."""
    say(console, f"energy, {energy.scope}, estimated: {energy.microjoule:,.2f} uJ, assuming")
    for assumption in energy.assumptions:
        say(console, f"  {assumption.picojoule:g} pJ per {assumption.event}: {assumption.source}")
    say(console, f"  {energy.caveat}")


def print_kernels(results: Sequence[KernelBench], console: Console) -> None:
    """One line per kernel, beside what CMSIS-NN takes and what is aimed at."""
    counts = (*COUNTS[:2], "CMSIS-NN", *COUNTS[2:])
    grid = table("layer", "MACs", *counts, "cycles", "per MAC", "CMSIS-NN", "goal", left=1)
    for result in results:
        instructions, per_mac, *accesses = cells(result.report, 3)
        counted = instructions, per_mac, number(result.cmsis_nn), *accesses
        cycles = *modelled(result.report), number(result.cmsis_nn_cycles), number(result.goal)
        grid.add_row(result.name, f"{result.report.macs:,}", *counted, *cycles)
    console.print(grid)
    first = results[0].report
    say(console, f"{first.target}; CMSIS-NN per MAC: compiled at -O3, counted on the same emulator")
    say(console, f"cycles, modelled, not measured: {first.timing}")
    say(console, f"compiled by {first.compiler}")


def print_kernel_costs(report: SizeReport, console: Console) -> None:
    """What the image would be smaller without a kernel, and what it shares with others."""
    grid = table("kernel", "alone", "shared", "models", left=1)
    for cost in report.kernels:
        grid.add_row(cost.name, f"{cost.alone:,}", f"{cost.shared:,}", ", ".join(cost.models))
    console.print(grid)


def print_size(report: SizeReport, console: Console) -> None:
    """Every symbol with its part and section, then the parts."""
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
    grid.add_section()
    grid.add_row("total", f"{report.flash:,}", f"{report.ram:,}")
    console.print(grid)
    if report.kernels:
        print_kernel_costs(report, console)
    say(console, f"{report.elf}: models {', '.join(report.models)}; bytes")
    for model, depth in report.stacks.items():
        say(console, f"{model}: an inference takes {depth:,} bytes of its thread's stack")
    for model, state in report.states.items():
        say(
            console,
            f"{model}: keeps its state in its pool; vmcu_state_save() takes {state:,} bytes",
        )
    for note in report.notes:
        say(console, note)
