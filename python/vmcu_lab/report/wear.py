# SPDX-License-Identifier: Apache-2.0
"""Prints the output of `vmcu bench --wear`, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
from rich.console import Console
from vmcu_tools.report.terminal import say
from vmcu_tools.report.text import ReportTable, table

from ..wear import paper
from ..wear.heap import Run
from ..wear.objects import MOVES, STAYS, Object, worst
from ..wear.pool import SECONDS_PER_YEAR, PoolWear, Wear
from ..wear.tasks import CYCLES, DEPTHS, WORD
from ..wear.traces import StoreTrace

GRID_PARAMETERS = ("threshold_ticks", "migration_depth", "stride_depth", "stride_size")


def experiment_figures(
    experiment: paper.Experiment, endurance: int, rate: float
) -> dict[str, object]:
    """The best of vmcu's walk, and under "paper" the paper's allocator. rate: jobs per second of
    each task; lifetimes end when a word has been written `endurance` times."""
    best = paper.figures(experiment.best)
    own = asdict(best) | lifetime(best, endurance, rate)
    ratio = experiment.no_stride.writes().max() / experiment.no_migration.writes().max()
    return own | {
        "paper": {
            "best": asdict(paper.figures(experiment.paper)),
            "readings": {
                name: asdict(paper.figures(run)) for name, run in experiment.readings.items()
            },
            "no_stride": asdict(paper.figures(experiment.no_stride)),
            "no_migration": asdict(paper.figures(experiment.no_migration))
            | lifetime(paper.figures(experiment.no_migration), endurance, rate),
            "no_stride_over_no_migration": float(ratio),
            "means": {
                parameter: {
                    f"{value:g}": {"max_writes_over_ideal": most, "relative_std": std}
                    for value, (most, std) in paper.means(experiment.grid, parameter).items()
                }
                for parameter in GRID_PARAMETERS
            },
            "grid": [_point(entry) for entry in experiment.grid],
        }
    }


def _point(entry: paper.Figures) -> dict[str, object]:
    return {name: entry.parameters[name] for name in GRID_PARAMETERS} | {
        "max_writes_over_ideal": entry.max_writes_over_ideal,
        "relative_std": entry.relative_std,
        "overhead_per_tick": entry.overhead_per_tick,
        "success_rate": entry.success_rate,
        "stride_success_rate": entry.stride_success_rate,
    }


def lifetime(figures: paper.Figures, endurance: int, rate: float) -> dict[str, float]:
    """Jobs and years until a word has been written `endurance` times, at `rate` jobs per second."""
    jobs = endurance / figures.writes_per_job
    return {"lifetime_jobs": jobs, "lifetime_years": jobs / rate / SECONDS_PER_YEAR}


def strips(experiment: paper.Experiment) -> tuple[tuple[str, np.ndarray], ...]:
    """Figure 18: writes by word under each policy."""
    return (
        ("no migration", experiment.no_migration.writes()),
        ("no stride", experiment.no_stride.writes()),
        ("paper", experiment.paper.writes()),
        ("walk", experiment.best.writes()),
        ("ideal", experiment.best.ideal()),
    )


def print_paper(
    cnn: paper.Experiment, dsp: paper.Experiment, endurance: int, rate: float, console: Console
) -> None:
    """Both experiments, then the figures that need no simulation."""
    for title, experiment in (("one CNN task", cnn), ("five DSP tasks in turn", dsp)):
        say(console, f"{title}, {experiment.best.rounds:,} jobs each")
        _print_experiment(experiment, endurance, rate, console)
    grid = table("threshold", *(task.name for task in dsp.tasks), left=1)
    for threshold, ratios in paper.table5().items():
        grid.add_row(f"{threshold} ticks", *(f"{ratio:.1f}" for ratio in ratios.values()))
    say(console, "migrations of each task for one migration of SVM")
    console.print(grid)
    most = DEPTHS[-1]
    say(
        console,
        f"worst case at depths {most}/{most}: {CYCLES.worst_case(most, most):,} cycles "
        f"({CYCLES.worst_case(most, most, most):,} if each search draws its own random number, "
        "as in the paper's formula)",
    )


def _print_experiment(
    experiment: paper.Experiment, endurance: int, rate: float, console: Console
) -> None:
    columns = (
        *("most writes", "most / ideal", "relative std"),
        *("added cycles", "success", "worst cycles", "years"),
    )
    grid = table("policy", *columns, left=1)
    rows = [
        ("no migration", experiment.no_migration),
        ("no stride", experiment.no_stride),
        *((f"paper, {name}: {_where(run)}", run) for name, run in experiment.readings.items()),
        (f"walk: {_where(experiment.best)}", experiment.best),
    ]
    for label, run in rows:
        _add_row(grid, label, run, endurance, rate)
    console.print(grid)
    for parameter in GRID_PARAMETERS:
        means = paper.means(experiment.grid, parameter)
        if len(means) > 1:
            values = ", ".join(f"{v:g}: {m:.2f} {s:.3f}" for v, (m, s) in means.items())
            say(console, f"paper's grid by {parameter}, mean of most / ideal and std: {values}")


def _where(run: Run) -> str:
    setting = run.setting
    text = f"threshold {setting.threshold:g}, depth {setting.depth}"
    if setting.policy == "circular":
        text += f", stride {setting.stride_depth} x {setting.stride_size}"
    return text


def _add_row(grid: ReportTable, label: str, run: Run, endurance: int, rate: float) -> None:
    figures = paper.figures(run, ())
    grid.add_row(
        label,
        f"{figures.max_writes:,.0f}",
        f"{figures.max_writes_over_ideal:.3f}",
        f"{figures.relative_std:.3f}",
        f"{100 * figures.overhead_per_tick:.3f} %",
        f"{100 * figures.success_rate:.1f} %",
        f"{figures.worst_cycles:,}",
        f"{lifetime(figures, endurance, rate)['lifetime_years']:.3g}",
    )


def stack_figures(trace: StoreTrace, ways: Mapping[str, Run]) -> dict[str, object]:
    """JSON of `print_stack`."""
    figures: dict[str, object] = {
        "stack_bytes": WORD * trace.stack.size,
        "instructions": trace.instructions,
        "stores_per_inference": trace.stack.tolist(),
    }
    for name, run in ways.items():
        figures[name] = asdict(paper.figures(run, ()))
    return figures


def print_stack(trace: StoreTrace, ways: Mapping[str, Run], console: Console) -> None:
    """The stack of the inferences under each policy of the paper's heap."""
    columns = ("writes per inference", "most / ideal", "relative std", "success")
    grid = table("stack", *columns, left=1)
    for name, run in ways.items():
        figures = paper.figures(run, ())
        grid.add_row(
            name,
            f"{figures.writes_per_job:,.1f}",
            f"{figures.max_writes_over_ideal:.3f}",
            f"{figures.relative_std:.3f}",
            f"{100 * figures.success_rate:.1f} %",
        )
    console.print(grid)
    setting = ways["walk"].setting
    say(
        console,
        f"{trace.target}: {WORD * trace.stack.size:,} bytes of stack, {int(trace.stack.sum()):,} "
        f"words stored to it in an inference of {trace.instructions:,} instructions. Simulated "
        f"{ways['walk'].rounds:,} inferences; each moves the stack by {setting.align} bytes or "
        f"more within {setting.heap_bytes:,} bytes.",
    )


def print_pool(name: str, result: PoolWear, console: Console) -> None:
    """A fixed and a rotating pool, side by side."""
    columns = ("most writes", "most / ideal", "relative std")
    grid = table("origin", *columns, left=1)
    for label, wear in (("fixed", result.fixed), ("rotated", result.rotated)):
        grid.add_row(label, *_cells(wear))
    console.print(grid)
    say(
        console,
        f"{name}: pool of {result.pool_bytes:,} bytes, {int(result.per_inference.sum()):,} writes "
        f"per inference. Simulated {result.inferences:,} inferences; the origin advances by "
        f"{result.step:,} bytes after each and has {result.origins:,} positions.",
    )


def _cells(wear: Wear) -> tuple[str, ...]:
    return (
        f"{wear.max_writes:,}",
        f"{wear.max_writes_over_ideal:.3f}",
        f"{wear.relative_std:.3f}",
    )


def object_figures(written: Sequence[Object]) -> dict[str, object]:
    """JSON of `print_objects`."""
    return {
        "objects": [asdict(one) for one in written],
        "lasts": {setting: asdict(worst(written, setting)) for setting in (STAYS, MOVES)},
    }


def print_objects(
    written: Sequence[Object], mean: float, endurance: int, rate: float, console: Console
) -> None:
    """Each object that an inference writes to, and the first that wears out. mean: writes to a
    byte of the pool."""
    columns = "bytes", "most writes per inference", "lifetime, inferences", "years"
    grid = table("memory", *columns, left=1)
    for one in written:
        lasts = f"{one.lifetime_inferences:,}"
        grid.add_row(
            one.name, f"{one.bytes:,}", f"{one.writes:,.2f}", lasts, f"{one.lifetime_years:.3g}"
        )
    console.print(grid)
    still = max((one for one in written if not one.moves and one.name != "stack"), key=_writes)
    say(
        console,
        f"Writes are those of the byte with the most. The mean byte of the pool has {mean:,.2f}. "
        f"Of the objects that do not move, except the stack, {still.name} has the most: "
        f"{still.writes:,.2f}.",
    )
    for setting in (STAYS, MOVES):
        first = worst(written, setting)
        say(
            console,
            f"{setting}: {first.name} wears out first, after {first.lifetime_years:.3g} years at "
            f"{endurance:,} writes per cell and {rate:g} inferences per second",
        )


def _writes(one: Object) -> float:
    return one.writes
