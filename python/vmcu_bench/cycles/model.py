# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of a plan. `asdict` of a BenchReport is the JSON of `vmcu bench MODEL --json`."""

from __future__ import annotations

import subprocess
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
from vmcu_tools.boards.counts import Counts
from vmcu_tools.boards.flash import Flash
from vmcu_tools.boards.table import Board
from vmcu_tools.emit import emit
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.machine import reference
from vmcu_tools.ops import bind
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.pools import Region
from vmcu_tools.plan.workers import WORKERS

from .. import runners
from ..cores.instructions import Spent, disassembled
from ..runners.base import RunnerError
from ..runners.compiled import COMMON_FLAGS, MODEL_NAME
from ..runners.counting import (
    Block,
    CountingRunner,
    PoolCounts,
    blocks_of,
    calls_in,
    markers_of,
    pool_counts,
    pools_in,
)
from ..runners.qemu import QemuRunner
from ..runners.samples import Sample, make_samples
from .energy import Energy, estimate
from .spread import Spread, inputs_of, instructions_of, spread_of
from .timing import PER_INSTRUCTION, said_of, timing_of

# Of the cores whose table of layers the plugin of runners/counting.py reads.
POINTER_BYTES = 4


@dataclass(frozen=True)
class LayerBench:
    """`calls` of the kernel, usually one for each output row. Figures per MAC are None for layers
    without multiply-accumulates. `cycles` are those of the timing rules, `spent` their kinds,
    `flash_waits`, part of `cycles`, the waits for flash behind its caches, and `flash_bytes` the
    bytes read past them; see timing.py. A board that was measured tells cycles alone, the rest is
    None; a core without rules has no cycles."""

    name: str
    op: str
    macs: int
    calls: int
    cycles: int | None
    cycles_per_mac: float | None
    instructions: int | None = None
    instructions_per_mac: float | None = None
    loads_ram: int | None = None
    loads_flash: int | None = None
    stores: int | None = None
    spent: Spent | None = None
    flash_waits: int | None = None
    flash_bytes: int | None = None


@dataclass(frozen=True)
class Time:
    """The time of an inference on a board, and its source."""

    board: str
    megahertz: float
    milliseconds: float
    known: str

    @staticmethod
    def of(board: str, cycles: int, megahertz: float, known: str) -> Time:
        """Converts that many cycles, in microseconds' steps."""
        return Time(board, megahertz, round(cycles / megahertz / 1000, 3), known)


@dataclass(frozen=True)
class MemoryBench:
    """Loads and stores in one of several memories, counted; their part of those in all pools, and
    the cycles that they wait, which are no part of `cycles`."""

    name: str
    loads: int
    stores: int
    share: float
    waits: float


@dataclass(frozen=True)
class WorkerBench:
    """Instructions of one of two workers, the steps of its waits included; tasks and waits."""

    instructions: int
    tasks: int
    waits: int


@dataclass(frozen=True)
class BenchReport:
    """One inference, from the call of vmcu_invoke to its return. The totals are the sum of the
    layers and `executor`, the code between kernels; stack_bytes includes everything below the
    caller's frame. Figures that only an emulator counts are None where a board was measured."""

    model: str
    target: str
    planner: str
    macs: int
    cycles: int | None
    cycles_per_mac: float | None
    timing: str
    layers: tuple[LayerBench, ...]
    executor: LayerBench
    compiler: str | None = None
    instructions: int | None = None
    instructions_per_mac: float | None = None
    loads_ram: int | None = None
    loads_flash: int | None = None
    stores: int | None = None
    stack_bytes: int | None = None
    spent: Spent | None = None
    flash_waits: int | None = None
    flash_bytes: int | None = None
    energy: Energy | None = None
    time: Time | None = None
    memories: tuple[MemoryBench, ...] = ()
    workers: tuple[WorkerBench, ...] = ()
    inputs: Spread | None = None


def on_board(report: BenchReport, part: Board, flash: Flash | None, source: str) -> BenchReport:
    """The report, with the time on a board; source: of the figures of its flash."""
    assert part.megahertz is not None
    memory = "flash wait states not included" if flash is None else f"{flash.said}{source}"
    known, cycles = f"model, not measured; {memory}", report.cycles
    if cycles is None:
        ratios = PER_INSTRUCTION[part.cpu]
        rows = (*report.layers, report.executor)
        each = ((row.instructions or 0) * ratios.get(row.op, ratios[""]) for row in rows)
        cycles = round(sum(each)) + (report.flash_waits or 0)
        known = f"by cycles an instruction of CMSIS-NN on such a board; {memory}"
    return replace(report, time=Time.of(part.name, cycles, part.megahertz, known))


def emulated(core: str) -> str:
    """The first target that emulates a core."""
    able = runners.RUNNERS.items()
    return next(n for n, t in able if isinstance(t, QemuRunner) and t.core == core)


def board(name: str) -> QemuRunner:
    """The target of that name if it can count; UserError lists those that can."""
    target = runners.get(name)
    if not isinstance(target, QemuRunner) or target.pointer_bytes != POINTER_BYTES:
        able = ", ".join(
            n
            for n, t in runners.RUNNERS.items()
            if isinstance(t, QemuRunner) and t.pointer_bytes == POINTER_BYTES
        )
        raise UserError(Problem(f"'{name}' cannot count instructions", f"choose one of: {able}"))
    return target


def bench(
    plan: Plan,
    name: str,
    target: str,
    seed: int = 0,
    flash: Flash | None = None,
    keep: Path | None = None,
    inputs: int = 0,
) -> BenchReport:
    """Counts one inference on one random input, and the instructions on so many `inputs`.

    flash: where code and constants are, None for a memory without wait states. keep: a folder for
    the image that was counted. Raises RunnerError if the outputs are not the model's:
    the cost of wrong bytes is no figure.
    """
    machine = board(target).suited(plan)
    sample = make_samples(plan.graph, 1, 0, seed)[0]
    files = emit(plan, MODEL_NAME).all_files
    subject = Subject(plan, tuple(rows(plan)), lambda at: machine.build(files, MODEL_NAME, at))
    report, outputs = counted(subject, machine, name, sample, flash, keep, inputs)
    check_outputs(plan, sample, outputs, target)
    return report


@dataclass(frozen=True, eq=False)
class Subject:
    """The counted image, which `build` makes in a folder. plan: for its inputs, outputs and
    memories; rows: see rows()."""

    plan: Plan
    rows: tuple[tuple[str, str, int], ...]
    build: Callable[[Path], Path]


def counted(
    subject: Subject,
    machine: QemuRunner,
    name: str,
    sample: Sample,
    flash: Flash | None,
    keep: Path | None,
    inputs: int,
) -> tuple[BenchReport, list[np.ndarray]]:
    """The counts of one inference, and its outputs. keep, inputs: as in bench()."""
    plan = subject.plan
    with tempfile.TemporaryDirectory(prefix="vmcu-") as text:
        folder = Path(text)
        image = subject.build(folder)
        markers = markers_of(image, MODEL_NAME)
        markers = replace(markers, pools=pools_in(image, len(plan.regions)))
        if flash is not None:
            markers = replace(markers, caches=flash.caches)
        counting = CountingRunner.of(machine, markers)
        results, counts = counting.count(folder, lambda t: t.execute(image, plan, [sample]))
        spent = cycles_of(machine, image, blocks_of(folder), len(counts))
        pools, team = pool_counts(folder), workers(plan, calls_in(folder))
        if keep is not None:
            machine.keep(image, keep, name)
        spread = None
        if inputs:
            samples = inputs_of(plan.graph, inputs)
            each = instructions_of(machine, image, MODEL_NAME, plan, samples)
            spread = spread_of(each, subject.rows)
    made = report(subject, name, machine, counts, spent, flash)
    made = replace(made, memories=memories(plan.regions, pools), workers=team, inputs=spread)
    return made, results[0]


def workers(plan: Plan, calls: np.ndarray) -> tuple[WorkerBench, ...]:
    """Returns the counts of each worker. calls: instructions of each step, int64 (steps, rows),
    which alternate as image/team.h makes them."""
    if plan.team is None:
        return ()
    return tuple(
        WorkerBench(int(calls[n::WORKERS].sum()), plan.team.count(n), plan.team.waits[n])
        for n in range(WORKERS)
    )


def memories(regions: Sequence[Region], counts: Sequence[PoolCounts]) -> tuple[MemoryBench, ...]:
    """Returns the counts of each of several memories."""
    total = max(sum(one.loads + one.stores for one in counts), 1)
    return tuple(
        MemoryBench(
            region.name,
            one.loads,
            one.stores,
            round((one.loads + one.stores) / total, 4),
            region.wait * (one.loads + one.stores),
        )
        for region, one in zip(regions, counts, strict=True)
    )


def cycles_of(
    machine: QemuRunner, image: Path, blocks: Sequence[Block], rows: int
) -> list[Spent] | None:
    """Cycles by row of the counts, as the core's timing rules have them; None without rules."""
    timing = timing_of(machine)
    if timing is None:
        return None
    code = disassembled(machine.toolchain.tool("objdump"), image)
    addresses = sorted(code)
    spent = [Spent()] * rows
    for block in blocks:
        first, last = (bisect_left(addresses, at) for at in (block.start, block.stop))
        once = timing.block([code[address] for address in addresses[first:last]])
        spent[block.row] += once.times(block.executed) + timing.taken(block.taken)
    return spent


def check_outputs(plan: Plan, sample: Sample, got: Sequence[np.ndarray], target: str) -> None:
    """Raises RunnerError where outputs are not the graph's meaning."""
    meaning = reference.run(plan.graph, sample)
    compare(plan, [meaning[port.tensor] for port in plan.graph.outputs], got, target)


def compare(
    plan: Plan, wanted: Sequence[np.ndarray], got: Sequence[np.ndarray], target: str
) -> None:
    """Raises RunnerError where outputs differ."""
    for port, right, output in zip(plan.graph.outputs, wanted, got, strict=True):
        wrong = np.count_nonzero(output != right)
        if wrong:
            raise RunnerError(f"{target}: {wrong} bytes of output '{port.name}' are wrong")


def report(
    subject: Subject,
    name: str,
    machine: QemuRunner,
    counts: Sequence[Counts],
    spent: Sequence[Spent] | None,
    flash: Flash | None,
) -> BenchReport:
    """Counts and cycles are the executor's, then each layer's."""
    plan = subject.plan
    whole = not (plan.input_streamed or plan.team)
    if (counts[0].calls != 1 and whole) or len(counts) != len(subject.rows):
        raise RunnerError(f"{machine.name}: not one inference of {len(subject.rows) - 1} layers")
    each: Sequence[Spent | None] = spent or [None] * len(counts)
    executor, *layers = (
        row(label, op, macs, count, where, flash)
        for (label, op, macs), count, where in zip(subject.rows, counts, each, strict=True)
    )
    unseen = next((entry.name for entry in layers if not entry.calls), None)
    if unseen is not None:
        raise RunnerError(f"{machine.name}: layer '{unseen}' was not seen running")
    macs = sum(entry.macs for entry in layers)
    total = row("", "", macs, reduce(add, counts), reduce(add, spent) if spent else None, flash)
    same = {key: value for key, value in vars(total).items() if key not in ("name", "op", "calls")}
    return BenchReport(
        model=name,
        target=machine.name,
        planner=plan.planner,
        compiler=compiler(machine),
        stack_bytes=counts[0].stack_bytes,
        timing=said_of(machine),
        layers=tuple(layers),
        executor=executor,
        energy=estimate(reduce(add, counts)),
        **same,
    )


def rows(plan: Plan) -> Iterator[tuple[str, str, int]]:
    """Name, op and multiply-accumulates of the executor and of each layer."""
    yield "(between layers)", "executor", 0
    for step in plan.steps:
        yield step.node.name, step.node.kind, bind(plan.graph, step.node).macs


def row(
    name: str, op: str, macs: int, counts: Counts, spent: Spent | None, flash: Flash | None
) -> LayerBench:
    stalls = 0 if flash is None else flash.stalls(counts)
    cycles = None if spent is None else round(spent.total) + stalls
    return LayerBench(
        name,
        op,
        macs,
        counts.calls,
        cycles,
        per_mac(cycles, macs),
        counts.instructions,
        per_mac(counts.instructions, macs),
        counts.loads_ram,
        counts.loads_flash,
        counts.stores,
        spent,
        stalls,
        None if flash is None else flash.fetched(counts),
    )


def per_mac(count: int | None, macs: int) -> float | None:
    return None if count is None or not macs else round(count / macs, 4)


def compiler(machine: QemuRunner) -> str:
    """Names the compiler of the counted code, with the flags that matter for its speed."""
    gcc = machine.toolchain.compiler
    version = subprocess.run(
        [gcc, "-dumpfullversion"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    level = next(flag for flag in COMMON_FLAGS if flag.startswith("-O"))
    return " ".join([Path(gcc).name, version.stdout.strip(), level, *machine.flags])
