# SPDX-License-Identifier: Apache-2.0
"""`vmcu wear`: simulates, prints, writes figures and pictures."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from .errors import Problem, UserError
from .plan.plan import SCRATCH_ALIGN, Plan
from .report import wear as report
from .report.terminal import console
from .wear import objects, paper, pictures, pool, traces
from .wear.heap import Setting, seeded
from .wear.tasks import CNN_JOBS, CYCLES, DEPTHS, WORD

VIRTUAL = "virtual"
# lib/vmcu/port/zephyr/worker.c: what is between two places of a stack on a device.
STACK_ALIGN = 8
NO_YEARS = (
    "how long it lasts is not known on the virtual MCU, which has no stack and no context and "
    "counts scratch once a call: --on qemu:m4 records every store"
)


def paper_setting(args: argparse.Namespace) -> int:
    """The stack migration paper's setting: 10^6 CNN jobs, then 10^6 ticks of five DSP tasks."""
    base = seeded(Setting(align=args.align or WORD), args.seed)
    cnn, dsp = paper.cnn(base, CNN_JOBS), paper.dsp(base)
    figures = {
        "table5": paper.table5(),
        "worst_case_cycles": CYCLES.worst_case(DEPTHS[-1], DEPTHS[-1]),
        "worst_case_cycles_as_printed": CYCLES.worst_case(DEPTHS[-1], DEPTHS[-1], DEPTHS[-1]),
        "cnn": report.experiment_figures(cnn, args.endurance, args.rate),
        "dsp": report.experiment_figures(dsp, args.endurance, args.rate),
    }
    report.print_paper(cnn, dsp, args.endurance, args.rate, console())
    drawn = {"wear-cnn": report.strips(cnn), "wear-dsp": report.strips(dsp)}
    _write(args, figures, drawn)
    return 0


def pool_of_model(args: argparse.Namespace, plan: Plan) -> int:
    """The wear of all that an inference of `plan`, the model's, writes to on a board. The virtual
    MCU knows of the pool only, so that nothing can be said there of how long the memory lasts."""
    trace = None if args.on == VIRTUAL else traces.record(plan, args.on)
    writes = pool.writes_of_inference(plan) if trace is None else trace.pool
    between = args.align if plan.rotation is None else None
    result = pool.wear(writes, args.inferences, between or SCRATCH_ALIGN)
    figures: dict[str, object] = {
        "target": args.on,
        "model": args.model.name,
        "pool_bytes": result.pool_bytes,
        "inferences": result.inferences,
        "rotation_step": result.step,
        "rotation_origins": result.origins,
        "endurance": args.endurance,
        "rate": args.rate,
        "fixed": asdict(result.fixed),
        "rotated": asdict(result.rotated),
        "writes_per_inference": result.per_inference.tolist(),
    }
    report.print_pool(args.model.name, result, console())
    drawn: dict[str, pictures.Strips] = {"wear-pool": pool.strips(result)}
    if trace is None:
        print(NO_YEARS)
    else:
        base = seeded(Setting(align=args.align or STACK_ALIGN), args.seed)
        ways = paper.measured(trace.task(args.model.name), base)
        figures["stack"] = report.stack_figures(trace, ways)
        report.print_stack(trace, ways, console())
        found = objects.objects(plan, trace, ways, objects.Cells(args.endurance, args.rate))
        figures |= report.object_figures(found)
        mean = float(writes.mean())
        report.print_objects(found, mean, args.endurance, args.rate, console())
        drawn["wear-stack"] = [(name, run.writes()) for name, run in ways.items()]
    _write(args, figures, drawn)
    return 0


def _write(args: argparse.Namespace, figures: object, drawn: Mapping[str, pictures.Strips]) -> None:
    """Everything is made before anything is written."""
    files: dict[Path, bytes] = {}
    if args.json:
        files[args.json] = (json.dumps(figures, indent=2) + "\n").encode()
    if args.pictures:
        for name, strips in drawn.items():
            title = f"{name}: writes by address"
            files[args.pictures / f"{name}.svg"] = pictures.svg(title, strips).encode()
            files[args.pictures / f"{name}.png"] = pictures.png(strips)
        if args.pictures.exists() and not args.pictures.is_dir():
            reason, remedy = "is not a folder", "give --pictures a folder"
            raise UserError(Problem(reason, remedy, str(args.pictures)))
        args.pictures.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        path.write_bytes(data)
        if path != args.json:
            print(f"wrote {path}")
