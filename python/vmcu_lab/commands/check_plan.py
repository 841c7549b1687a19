# SPDX-License-Identifier: Apache-2.0
"""`vmcu check-plan`: overlaps in memory plans of other tools, and what these plans waste."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path

from vmcu_check import plans, readers
from vmcu_tools.commands.options import Subparsers, json_option
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE, EXIT_PROBLEM

EXAMPLES = (
    ("PLAN.csv", "columns id,lower,upper,size,offset"),
    ("model_vela.tflite", "metadata OfflineMemoryAllocation"),
    ("program.pte --json overlaps.json", "of ExecuTorch"),
)
# Of the search for a lower plan.
SECONDS = 10.0
# A plan with more overlaps is wrong throughout.
MOST_OVERLAPS, MOST_PRINTED = 10_000, 20


def add(commands: Subparsers) -> argparse.ArgumentParser:
    check = commands.add_parser(
        "check-plan",
        help="find overlaps in the memory plan of another tool",
        description="Exit 1 if two living buffers share a byte: prints both names, the bytes and "
        "the steps. Then prints the height of the plan, of vmcu's plan for the same buffers, and "
        "the most living bytes. Reads a .csv with the columns id,lower,upper,size,offset "
        "(minimalloc), a .tflite with metadata OfflineMemoryAllocation (TensorFlow Lite Micro, "
        "Vela), an ExecuTorch .pte, or a log of TensorFlow Lite Micro's PrintMemoryPlan.",
    )
    check.add_argument("plan", type=Path, metavar="FILE", help="file with a memory plan")
    json_option(check, "overlaps and heights")
    return check


def run(args: argparse.Namespace) -> int:
    from vmcu_tools.report.terminal import console, say, write_json

    plan = read(args.plan)
    shared = list(islice(plans.overlaps(plan.buffers), MOST_OVERLAPS))
    lines = [f"overlap: {sentence(overlap, plan.steps)}" for overlap in shared[:MOST_PRINTED]]
    if len(shared) > MOST_PRINTED:
        more = " or more" if len(shared) == MOST_OVERLAPS else ""
        lines.append(f"... {len(shared):,}{more} overlaps")
    lines += [f"note: {note}" for note in plan.notes]
    if not shared:
        lines.append(f"no overlap of {len(plan.buffers):,} buffers ({plan.format})")
    heights = {} if plan.is_partial else compared(plan.buffers)
    for memory, use in heights.items():
        lines.append(
            f"{memory}: {use['plan']:,} bytes, vmcu {use['vmcu']:,}, most living bytes "
            f"{use['living']:,}: {use['wasted']:,} bytes wasted"
        )
    for line in lines:
        say(console(), line)
    figures = {
        **{"plan": str(args.plan), "format": plan.format, "buffers": len(plan.buffers)},
        "overlaps": [overlap._asdict() for overlap in shared],
        **{"memories": heights, "notes": plan.notes, "steps": plan.steps},
    }
    write_json(figures, args.json)
    return EXIT_PROBLEM if shared else EXIT_DONE


def read(path: Path) -> plans.MemoryPlan:
    """Reads a plan in any of the formats. Raises UserError."""
    from ..placement.complaints import InputError

    try:
        return readers.read(path.read_bytes(), path.suffix) or _table(path)
    except plans.PlanFileError as error:
        raise UserError(Problem(error.reason, error.remedy, str(path))) from error
    except InputError as error:
        problems = [Problem(c.reason, c.remedy, c.file) for c in error.complaints]
        raise UserError(*problems) from error


def _table(path: Path) -> plans.MemoryPlan:
    """The plan of a CSV file."""
    from ..placement import files

    planned = []
    for buffer in files.read(path).buffers:
        at = buffer.offset
        if at is None:
            remedy = "`vmcu place FILE --output PLAN.csv` writes a plan"
            raise plans.PlanFileError(f"no memory plan: buffer '{buffer.id}' has no offset", remedy)
        spans = (plans.LiveSpan(p.lower, p.upper, at + p.low, at + p.high) for p in buffer.parts())
        planned.append(plans.PlannedBuffer(buffer.id, "memory", tuple(spans), buffer.alignment))
    if not planned:
        raise plans.PlanFileError("no memory plan: no buffer", "write a line for each buffer")
    return plans.MemoryPlan("CSV", tuple(planned))


def sentence(overlap: plans.Overlap, steps: Sequence[str]) -> str:
    """Says which buffers share which bytes, and when."""
    one, other = overlap.names
    times = dict.fromkeys((overlap.first, overlap.until - 1))
    when = " to ".join(f"'{steps[time]}'" if steps else f"time {time}" for time in times)
    where = " to ".join(f"{byte:,}" for byte in dict.fromkeys((overlap.low, overlap.high - 1)))
    return f"'{one}' and '{other}' share bytes {where} of {overlap.memory} at {when}"


def compared(buffers: Sequence[plans.PlannedBuffer]) -> dict[str, dict[str, int]]:
    """Returns bytes by memory: the height of the plan, of vmcu's for the same buffers, and the most
    living bytes, below which there is no plan."""
    from vmcu_tools import progress

    from ..placement import Buffer, Gap, Instance, place

    heights = {}
    for memory, (peak, living) in plans.peaks(buffers).items():
        free = []
        for number, one in enumerate(buffers):
            if one.memory != memory or not one.spans:
                continue
            spans = sorted(one.spans)
            base = min(span.low for span in spans)
            size = max(span.high for span in spans) - base
            gaps = [Gap(a.until, b.first) for a, b in pairwise(spans) if a.until < b.first]
            for first, until, low, high in spans:
                gaps += [Gap(first, until, low - base, high - base)] if high - low < size else []
            gaps.sort(key=lambda gap: gap.lower)
            life = (spans[0].first, spans[-1].until)
            free.append(Buffer(str(number), *life, size, one.alignment, tuple(gaps)))
        with progress.clock("placing", SECONDS) as watch:
            height = place(Instance(tuple(free)), seconds=SECONDS, watch=watch).height
        wasted = max(0, peak - height)
        heights[memory] = {"plan": peak, "vmcu": height, "living": living, "wasted": wasted}
    return heights
