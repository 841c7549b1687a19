# SPDX-License-Identifier: Apache-2.0
"""Prints the output of `vmcu build`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from ..plan.choice import Choice
from . import terminal
from .model import AnewReport, HopReport, MemoryReport, ModelReport, StepReport
from .page.names import short_names
from .terminal import say
from .text import counted, table
from .weights import sentences

BAR = 20
# Layers in the table, those with the most pool bytes, unless all are asked for.
LISTED = 10
# Layers that a sentence names beside the first.
MOST_NAMED = 3
ALL = "--all"


def print_report(
    report: ModelReport, console: Console, every: bool = False, time: str = ""
) -> None:
    """Totals, layers, the peak, then further facts; every: lists all layers; time: a sentence on
    an inference's milliseconds."""
    say(console, f"{report.model}\n")
    for name, text in [*totals(report), *([("time", time)] if time else [])]:
        say(console, f"{name:6} {text}")
    print_layers(report, console, every)
    say(console, report.peak)
    if report.hop is not None:
        print_hop(report.hop, report.macs, console)
    if report.memories:
        print_memories(report.memories, console)
    for note in (*facts(report), *report.notes):
        say(console, note)


def print_brief(
    name: str, ram: int, flash: int, time: str, path: Path, whole: Callable[[Console], None]
) -> None:
    """Three lines for the output of a build; `whole` prints the report, into a file."""
    with path.open("w", encoding="utf-8") as file:
        whole(terminal.Terminal(file=file, width=terminal.PIPE_COLUMNS))
    where = min(os.path.relpath(path), str(path), key=len)
    lines = f"{name}: RAM {ram:,} bytes", f"  flash {flash:,} bytes", f"  {time}; report: {where}"
    for line in lines:
        say(terminal.console(), line)


def totals(report: ModelReport) -> list[tuple[str, str]]:
    """Returns the main figures: a name and a text for each line."""
    flash = report.weights_bytes + report.tables_bytes
    extra = f", {report.macs_extra:,} more by recomputation" if report.macs_extra else ""
    seconds = f"{report.solve_seconds:.2f} s"
    weights = report.weights
    pool = f"the pools in {len(report.memories)} memories" if report.memories else "the pool"
    holds = "all activations and kernel scratch"
    if weights is not None:
        held = report.pool_bytes - weights.ram_bytes
        pool, holds = f"{held:,} the pool", f"{holds}; {weights.ram_bytes:,} the buffer for weights"
    return [
        ("RAM", f"{report.pool_bytes:,} bytes, {pool}: {holds}"),
        (
            "flash",
            f"{flash:,} bytes: weights {report.weights_bytes:,}, tables {report.tables_bytes:,}; "
            "without code",
        ),
        *([] if weights is None else [("file", f"{weights.file_bytes:,} bytes of weights")]),
        ("MACs", f"{report.macs:,} {'a hop' if report.hop else 'an inference'}{extra}"),
        ("plan", f"planner {report.planner}, {seconds}; replayed byte by byte without an error"),
    ]


def print_layers(report: ModelReport, console: Console, every: bool) -> None:
    """The layers in the order in which they run, the peak marked."""
    numbered = list(enumerate(report.steps))
    shown = numbered if every else _largest(numbered, report.peak_step)
    tensors = [tensor.name for tensor in report.tensors]
    names = short_names([*tensors, *(step.name for step in report.steps)])
    grid = table("", "layer", "op", "pool bytes", "MACs", "", left=3, keys=2)
    for number, step in shown:
        figures = f"{step.pool_bytes:,}", f"{step.macs:,}"
        mark = "< peak" if number == report.peak_step else ""
        grid.add_row(str(number), names[step.name], step.op, *figures, mark)
    console.print(grid)
    if len(shown) < len(numbered):
        which = f"{len(shown)} of {len(numbered)} layers, those with the most pool bytes"
        say(console, f"{which}; {ALL} lists all.\n")


def _largest(
    numbered: Sequence[tuple[int, StepReport]], peak_step: int
) -> list[tuple[int, StepReport]]:
    """The layers with the most pool bytes, the peak among them, in their own order."""
    by_size = sorted(numbered, key=lambda one: (one[0] != peak_step, -one[1].pool_bytes, one[0]))
    return sorted(by_size[:LISTED], key=lambda one: one[0])


def facts(report: ModelReport) -> list[str]:
    """Sentences on the changes by options and the file's constants."""
    lines = []
    if report.left_out:
        lines.append(
            f"Removed {report.left_out:,} of {report.channels:,} constant or unused channels. "
            f"The file has {report.macs_file:,} MACs."
        )
    if report.input_streamed:
        lines.append("You push the input row by row: vmcu_push_row().")
    if report.fields:
        fields = ", then ".join(f"{size:,} of '{name}'" for name, size in report.fields)
        lines.append(f"The bytes of a row are {fields}.")
    if report.input_elsewhere:
        lines.append("The input is not in the pool: vmcu_set_input() sets its address.")
    if report.rotation_step:
        lines.append(
            f"The origin of the pool advances by {report.rotation_step:,} bytes after each "
            f"inference. {report.rotation_overhang:,} bytes of the pool are rotation overhead."
        )
    return lines + ([] if report.weights is None else sentences(report.weights))


def print_hop(hop: HopReport, macs: int, console: Console) -> None:
    """The state that the model keeps between calls, a line for each tensor."""
    grid = table("state", "rows", "bytes", left=1)
    names = short_names(one.tensor for one in hop.kept)
    for one in hop.kept:
        grid.add_row(names[one.tensor], f"{one.rows:,}", f"{one.bytes:,}")
    console.print(grid)
    state = f"The state has {hop.state_bytes:,} bytes of the pool."
    if hop.variables:
        kind = "each call recomputes" if hop.computed else "vmcu keeps in ring buffers"
        some = f"The file has {counted(hop.variables, 'state')}, which {kind}."
        say(console, f"A call needs {counted(hop.rows, 'row')}. {some} {state}")
        return
    say(
        console,
        f"Each hop of {counted(hop.rows, 'row')} gives a result over a window of {hop.window} "
        f"rows, the first after {hop.first} rows. A hop has {macs:,} MACs, a whole window "
        f"{hop.macs_window:,}. {state}",
    )
    if hop.anew is not None:
        print_anew(hop.anew, macs, console)


def print_anew(anew: AnewReport, macs: int, console: Console) -> None:
    """Which layers compute their whole window in each hop, and why."""
    names = short_names((anew.first, *anew.others))
    others = "".join(f", '{names[name]}'" for name in anew.others[:MOST_NAMED])
    others += " and others" if len(anew.others) > MOST_NAMED else ""
    say(
        console,
        f"{counted(anew.layers, 'layer')} recompute the window in each hop: {anew.macs:,} of its "
        f"{macs:,} MACs. The first is '{names[anew.first]}' ({anew.op}){others}: {anew.reason}. "
        f"hint: {anew.remedy}",
    )


def print_memories(memories: Sequence[MemoryReport], console: Console) -> None:
    """A line for each of several memories."""
    columns = "pool bytes", "capacity", "bytes accessed", "share", "wait cycles"
    grid = table("memory", *columns, left=1)
    for memory in memories:
        sizes = f"{memory.pool_bytes:,}", f"{memory.capacity:,}", f"{memory.accesses:,}"
        grid.add_row(memory.name, *sizes, f"{memory.share:.1%}", f"{memory.wait:g}")
    console.print(grid)


def print_front(choices: Sequence[Choice], console: Console) -> None:
    """A line for each choice, with a bar as long as its RAM."""
    grid = table("--ram", "extra cycles", "extra MACs", "stages", "", left=0, keys=1)
    most = max(choice.pool_bytes for choice in choices)
    for choice in choices:
        size = max(1, round(BAR * choice.pool_bytes / most))
        grid.add_row(
            f"{choice.pool_bytes:,}",
            f"{100 * choice.extra_cycles:.1f} %",
            f"{choice.extra_macs:,}",
            str(choice.stages),
            "#" * size + " " * (BAR - size),
        )
    console.print(grid)
    say(
        console,
        "`vmcu build --ram SIZE` makes the plan of a line. Cycles are estimated, relative to "
        "layers that run one by one.",
    )
