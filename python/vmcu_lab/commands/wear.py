# SPDX-License-Identifier: Apache-2.0
"""`vmcu bench --wear`: simulates, prints, writes figures and heat maps."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from vmcu_tools.commands.options import picture_option, seed_option
from vmcu_tools.commands.parser import WEAR, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE
from vmcu_tools.values import POSITIVE, real

if TYPE_CHECKING:
    from ..wear.heap import Setting
    from ..wear.paper import Experiment
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
    seed_option(wear, "random strides")
    picture_option(parser, "heat maps, NAME.svg or NAME.png, as NAME-cnn, NAME-dsp or NAME-pool")


def run(args: argparse.Namespace) -> int:
    return paper_setting(args) if args.model is None else pool_of_model(args)


def paper_setting(args: argparse.Namespace) -> int:
    """The stack migration paper's setting: 10^6 CNN jobs, then 10^6 ticks of five DSP tasks."""
    from vmcu_tools.report.terminal import console

    from ..report import wear as report
    from ..wear.heap import Setting, seeded

    cnn, dsp = paper_runs(seeded(Setting(), args.seed))
    figures = paper_figures(cnn, dsp, args.endurance, args.rate)
    report.print_paper(cnn, dsp, args.endurance, args.rate, console())
    _write(args, figures, {"cnn": report.strips(cnn), "dsp": report.strips(dsp)})
    return EXIT_DONE


def paper_runs(base: Setting) -> tuple[Experiment, Experiment]:
    """The CNN jobs and the DSP tasks of the paper."""
    from ..wear import paper
    from ..wear.tasks import CNN_JOBS

    return paper.cnn(base, CNN_JOBS), paper.dsp(base)


def paper_figures(
    cnn: Experiment, dsp: Experiment, endurance: int = ENDURANCE, rate: float = 1.0
) -> dict[str, object]:
    """The figures of --json in the paper's setting."""
    from ..report import wear as report
    from ..wear import paper
    from ..wear.tasks import CYCLES, DEPTHS

    return {
        "table5": paper.table5(),
        "worst_case_cycles": CYCLES.worst_case(DEPTHS[-1], DEPTHS[-1]),
        "worst_case_cycles_as_printed": CYCLES.worst_case(DEPTHS[-1], DEPTHS[-1], DEPTHS[-1]),
        "cnn": report.experiment_figures(cnn, endurance, rate),
        "dsp": report.experiment_figures(dsp, endurance, rate),
    }


def pool_of_model(args: argparse.Namespace) -> int:
    """The wear of all that an inference of the model writes to on a board. The virtual MCU knows
    of the pool only, so that nothing can be said there of how long the memory lasts."""
    from vmcu_tools.commands.models import compiled
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
    result = pool.wear(writes, INFERENCES)
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
    drawn: dict[str, Strips] = {"pool": pool.strips(result)}
    if trace is None:
        print(NO_YEARS)
    else:
        base = seeded(Setting(align=STACK_ALIGN), args.seed)
        ways = paper.measured(trace.task(args.model.name), base)
        figures["stack"] = report.stack_figures(trace, ways)
        report.print_stack(trace, ways, console())
        worn = objects.objects(plan, trace, ways, objects.Cells(args.endurance, args.rate))
        figures |= report.object_figures(worn)
        mean = float(writes.mean())
        report.print_objects(worn, mean, args.endurance, args.rate, console())
        drawn["stack"] = [(name, run.writes()) for name, run in ways.items()]
    _write(args, figures, drawn)
    return EXIT_DONE


def _write(args: argparse.Namespace, figures: object, drawn: Mapping[str, Strips]) -> None:
    """Everything is made before anything is written."""
    from vmcu_tools.report.terminal import write_json

    from ..wear import pictures

    files: dict[Path, bytes] = {}
    if args.picture:
        for name, strips in drawn.items():
            path = args.picture.with_stem(f"{args.picture.stem}-{name}")
            title = f"{name}: writes by address"
            is_png = path.suffix == ".png"
            files[path] = pictures.png(strips) if is_png else pictures.svg(title, strips).encode()
    for path, data in files.items():
        path.write_bytes(data)
        print(f"wrote {path}")
    write_json(figures, args.json)
