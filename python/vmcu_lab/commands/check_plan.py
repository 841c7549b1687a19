# SPDX-License-Identifier: Apache-2.0
"""`vmcu check-plan`: overlaps in memory plans of other tools, and what these plans waste."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vmcu_tools.commands.options import Subparsers, json_option
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE, EXIT_PROBLEM

if TYPE_CHECKING:
    from vmcu_check.plans import MemoryPlan, Overlap, PlannedBuffer

    from ..placement import Buffer

EXAMPLES = (
    ("PLAN.csv", "columns id,lower,upper,size,offset"),
    ("model_vela.tflite", "metadata OfflineMemoryAllocation"),
    ("program.pte --json overlaps.json", "of ExecuTorch"),
)
# Of the search for a lower plan.
SECONDS = 10.0
# A plan with more overlaps is wrong throughout.
MOST_OVERLAPS, MOST_PRINTED = 10_000, 20


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of a memory: of the plan, of vmcu's plan for the same buffers, and the most living
    bytes, below which there is no plan."""

    memory: str
    peak: int
    vmcu: int
    bound: int


def add(commands: Subparsers) -> argparse.ArgumentParser:
    check = commands.add_parser(
        "check-plan",
        help="find overlaps in the memory plan of another tool",
        description="Exit 1 if two living buffers share a byte: each overlap is printed with both "
        "names, bytes and steps. Then prints the height of the plan, of vmcu's plan for the same "
        "buffers, and the most living bytes. FILE: a .csv with the columns "
        "id,lower,upper,size,offset (minimalloc), a .tflite with metadata OfflineMemoryAllocation "
        "(TensorFlow Lite Micro, Vela), an ExecuTorch .pte, or a log with the lines of TensorFlow "
        "Lite Micro's PrintMemoryPlan.",
    )
    check.add_argument("plan", type=Path, metavar="FILE", help="file with a memory plan")
    json_option(check, "overlaps and heights")
    return check


def run(args: argparse.Namespace) -> int:
    from vmcu_check.plans import overlaps
    from vmcu_tools.report.terminal import console, say, write_json

    plan = read(args.plan)
    shared = list(islice(overlaps(plan.buffers), MOST_OVERLAPS))
    for overlap in shared[:MOST_PRINTED]:
        say(console(), f"overlap: {_sentence(overlap, plan.steps)}")
    if len(shared) > MOST_PRINTED:
        more = " or more" if len(shared) == MOST_OVERLAPS else ""
        say(console(), f"... {len(shared):,}{more} overlaps")
    for note in plan.notes:
        say(console(), f"note: {note}")
    uses = [] if plan.is_partial else list(compared(plan.buffers))
    if not shared:
        say(console(), f"no overlap of {len(plan.buffers):,} buffers ({plan.format})")
    for use in uses:
        say(
            console(),
            f"{use.memory}: {use.peak:,} bytes, vmcu {use.vmcu:,}, most living bytes {use.bound:,}:"
            f" {max(0, use.peak - use.vmcu):,} bytes wasted",
        )
    write_json(figures(args.plan, plan, shared, uses), args.json)
    return EXIT_PROBLEM if shared else EXIT_DONE


def read(path: Path) -> MemoryPlan:
    """Reads a plan in any of the formats. Raises UserError."""
    from vmcu_check import readers
    from vmcu_check.plans import PlanFileError

    from ..placement.complaints import InputError

    try:
        return readers.read(path.read_bytes(), path.suffix) or _table(path)
    except PlanFileError as error:
        raise UserError(Problem(error.reason, error.remedy, str(path))) from error
    except InputError as error:
        problems = [Problem(c.reason, c.remedy, c.file) for c in error.complaints]
        raise UserError(*problems) from error


def _table(path: Path) -> MemoryPlan:
    """The plan of a CSV file."""
    from vmcu_check.plans import MemoryPlan, PlanFileError, PlannedBuffer, Span

    from ..placement import files

    problem, planned = files.read(path), []
    for buffer in problem.buffers:
        at = buffer.offset
        if at is None:
            remedy = "`vmcu place FILE --output PLAN.csv` writes a plan"
            raise PlanFileError(f"no memory plan: buffer '{buffer.id}' has no offset", remedy)
        spans = (Span(p.lower, p.upper, at + p.low, at + p.high) for p in buffer.parts())
        planned.append(PlannedBuffer(buffer.id, "memory", tuple(spans), buffer.alignment))
    if not planned:
        raise PlanFileError("no memory plan: no buffer", "write a line for each buffer")
    return MemoryPlan("CSV", tuple(planned))


def _sentence(overlap: Overlap, steps: Sequence[str]) -> str:
    one, other = overlap.names
    count = overlap.high - overlap.low
    many = f"bytes {overlap.low:,} to {overlap.high - 1:,} of {overlap.memory}"
    where = many if count > 1 else f"byte {overlap.low:,} of {overlap.memory}"
    when = _time(overlap.first, steps)
    if overlap.until > overlap.first + 1:
        when += f" to {_time(overlap.until - 1, steps)}"
    return f"'{one}' and '{other}' share {where} at {when}"


def _time(step: int, steps: Sequence[str]) -> str:
    return f"'{steps[step]}'" if steps else f"time {step}"


def compared(buffers: Sequence[PlannedBuffer]) -> list[MemoryUse]:
    """Compares each memory of a plan with a placement of vmcu's own for the same buffers."""
    from vmcu_check.plans import peaks
    from vmcu_tools import progress

    from ..placement import Instance, place

    uses = []
    for memory, (peak, bound) in peaks(buffers).items():
        here = [one for one in buffers if one.memory == memory and one.spans]
        free = [_free(str(number), one) for number, one in enumerate(here)]
        with progress.clock("placing", SECONDS) as watch:
            best = place(Instance(tuple(free)), seconds=SECONDS, watch=watch)
        uses.append(MemoryUse(memory, peak, best.height, bound))
    return uses


def _free(name: str, planned: PlannedBuffer) -> Buffer:
    """A buffer of the same lifetime and bytes that may be anywhere."""
    from ..placement import Buffer, Gap

    spans = sorted(planned.spans)
    base = min(span.low for span in spans)
    size = max(span.high for span in spans) - base
    gaps, at = [], spans[0].first
    for span in spans:
        if at < span.first:
            gaps.append(Gap(at, span.first))
        if span.high - span.low < size:
            gaps.append(Gap(span.first, span.until, span.low - base, span.high - base))
        at = span.until
    return Buffer(name, spans[0].first, at, size, planned.alignment, tuple(gaps))


def figures(
    path: Path, plan: MemoryPlan, shared: Sequence[Overlap], uses: Sequence[MemoryUse]
) -> dict[str, Any]:
    """JSON of `vmcu check-plan`; `first` and `last` are steps, `low` and `high` the first byte and
    the one behind the last."""
    return {
        "plan": str(path),
        "format": plan.format,
        "buffers": len(plan.buffers),
        "overlaps": [_overlap_figures(overlap, plan.steps) for overlap in shared],
        "memories": [{**vars(use), "wasted": max(0, use.peak - use.vmcu)} for use in uses],
        "notes": list(plan.notes),
    }


def _overlap_figures(overlap: Overlap, steps: Sequence[str]) -> Mapping[str, Any]:
    times = (overlap.first, overlap.until - 1)
    return {
        "memory": overlap.memory,
        "buffers": list(overlap.names),
        "low": overlap.low,
        "high": overlap.high,
        "first": steps[times[0]] if steps else times[0],
        "last": steps[times[1]] if steps else times[1],
    }
