# SPDX-License-Identifier: Apache-2.0
"""`vmcu bench --wear`: simulates, prints, writes figures and pictures."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from vmcu_tools.commands.parser import WEAR, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE
from vmcu_tools.values import POSITIVE, count, real

if TYPE_CHECKING:
    from ..wear.pictures import Strips

ENDURANCE = 100_000_000
INFERENCES = 1_000_000
VIRTUAL = "virtual"
# lib/vmcu/port/zephyr/worker.c: what is between two places of a stack on a device.
STACK_ALIGN = 8
NO_YEARS = (
    "The lifetime is not known on the virtual MCU, which has no stack and no context and counts "
    "scratch once a call. `--on qemu:m4` records every store."
)


def whole(text: str) -> int:
    """'1000', '1e8' to a positive count."""
    value = positive(text)
    if value != int(value):
        raise argparse.ArgumentTypeError(f"'{text}' is not a count")
    return int(value)


def positive(text: str) -> float:
    return real(text, "positive number", POSITIVE)


def alignment(text: str) -> int:
    """Bytes between places: a power of two from 4 on."""
    value = whole(text)
    if value < 4 or value & (value - 1):
        raise argparse.ArgumentTypeError(f"'{text}' is not a power of two from 4 on")
    return value


def options(parser: argparse.ArgumentParser) -> None:
    """Those of --wear."""
    wear = titled(parser, WEAR)
    wear.add_argument(
        "--endurance",
        type=whole,
        default=ENDURANCE,
        metavar="N",
        help=f"writes that a cell survives (default {ENDURANCE:.0e})",
    )
    wear.add_argument(
        "--rate",
        type=positive,
        default=1.0,
        metavar="HZ",
        help="inferences, or jobs, per second (default 1)",
    )
    wear.add_argument(
        "--inferences",
        type=whole,
        default=INFERENCES,
        metavar="N",
        help=f"inferences to simulate for the pool (default {INFERENCES:.0e})",
    )
    wear.add_argument(
        "--align",
        type=alignment,
        metavar="BYTES",
        help="distance between positions of a stack, and between origins of a pool built without "
        "--rotate (default 4; 8 for a model's stack, as in CONFIG_VMCU_STACK_MIGRATION)",
    )
    wear.add_argument("--seed", type=count, default=0, help="seed of random strides (default 0)")
    wear.add_argument(
        "--pictures", type=Path, metavar="DIR", help="write heat maps into DIR, .png and .svg"
    )


def run(args: argparse.Namespace) -> int:
    return paper_setting(args) if args.model is None else pool_of_model(args)


def paper_setting(args: argparse.Namespace) -> int:
    """The stack migration paper's setting: 10^6 CNN jobs, then 10^6 ticks of five DSP tasks."""
    from vmcu_tools.report.terminal import console

    from ..report import wear as report
    from ..wear import paper
    from ..wear.heap import Setting, seeded
    from ..wear.tasks import CNN_JOBS, CYCLES, DEPTHS, WORD

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
    return EXIT_DONE


def pool_of_model(args: argparse.Namespace) -> int:
    """The wear of all that an inference of the model writes to on a board. The virtual MCU knows
    of the pool only, so that nothing can be said there of how long the memory lasts."""
    from vmcu_tools.commands.models import compiled
    from vmcu_tools.plan.plan import SCRATCH_ALIGN
    from vmcu_tools.report.terminal import console

    from ..report import wear as report
    from ..wear import objects, paper, pool, traces
    from ..wear.heap import Setting, seeded

    if len(args.memory) > 1:
        reason = "wear is simulated in one pool, not in those of --memory"
        raise UserError(Problem(reason, "leave out --memory", str(args.model)))
    plan = compiled(args)
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
    drawn: dict[str, Strips] = {"wear-pool": pool.strips(result)}
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
    return EXIT_DONE


def _write(args: argparse.Namespace, figures: object, drawn: Mapping[str, Strips]) -> None:
    """Everything is made before anything is written."""
    from vmcu_tools.report.terminal import write_json

    from ..wear import pictures

    files: dict[Path, bytes] = {}
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
        print(f"wrote {path}")
    write_json(figures, args.json)
