# SPDX-License-Identifier: Apache-2.0
"""Measures what doc/endurance.md says of `vmcu bench --wear`, into figures.json.

    python benchmarks/endurance/measure.py [paper] [models] [--models DIR]

Minutes for the paper's setting, half an hour for the models, each on an emulated Cortex-M4 with its
pool fixed and rotated. tables.py makes the tables; tests measure the smaller ones again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from vmcu_bench.cycles.model import board, compiler  # noqa: E402
from vmcu_lab.commands.wear import (  # noqa: E402
    ENDURANCE,
    INFERENCES,
    STACK_ALIGN,
    paper_figures,
    paper_runs,
)
from vmcu_lab.report.wear import object_figures  # noqa: E402
from vmcu_lab.wear import objects, paper, pool, traces  # noqa: E402
from vmcu_lab.wear.heap import Setting  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402

FIGURES = Path(__file__).parent / "figures.json"
MODELS = Path(os.environ.get("VMCU_MODELS", ROOT.parent / "shared" / "models"))
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"
NAMES = (
    *("mlperf-tiny-ad", "mlperf-tiny-kws", "mlperf-tiny-resnet8", "mlperf-tiny-vww"),
    *("mcunet-vww-5fps", "mcunet-imagenet-320kb"),
)
TARGET = "qemu:m4"
RATE = 1.0
ALIGNS = (4, 8, 32)

Json = dict[str, object]


def paths(models: Path) -> dict[str, Path]:
    """The models by name, digits first."""
    return {"digits": DIGITS} | {name: models / f"{name}.tflite" for name in NAMES}


def experiment(found: dict) -> Json:
    """What the page says of an experiment of `vmcu bench --wear --json`."""
    theirs, keep = found["paper"], ("max_writes_over_ideal", "relative_std", "overhead_per_tick")
    grid = theirs["grid"]

    def mean(measure: str, **chosen: float) -> float:
        own = [one for one in grid if all(one[key] == value for key, value in chosen.items())]
        return float(np.mean([one[measure] for one in own]))

    def values(key: str) -> list[float]:
        return sorted({one[key] for one in grid})

    short = (*keep, "success_rate", "worst_cycles", "parameters", "by_pattern")
    return {
        "walk": {key: found[key] for key in short},
        "best": {key: theirs["best"][key] for key in short},
        "readings": {
            name: {key: one[key] for key in short} for name, one in theirs["readings"].items()
        },
        "no_stride": {key: theirs["no_stride"][key] for key in short},
        "no_stride_over_no_migration": theirs["no_stride_over_no_migration"],
        "means": theirs["means"],
        "success_by_depth": [mean("success_rate", migration_depth=d) for d in (1, 2)],
        "success_at_depth_1": {
            f"{t:g}": mean("success_rate", migration_depth=1, threshold_ticks=t)
            for t in values("threshold_ticks")
        },
        "overhead": {
            f"{t:g}": mean("overhead_per_tick", threshold_ticks=t)
            for t in values("threshold_ticks")
        },
        "by_stride_at_depth_1": {
            f"{s:g}": {
                key: mean(key, migration_depth=1, stride_size=s)
                for key in ("max_writes_over_ideal", "relative_std")
            }
            for s in values("stride_size")
        },
        "over_ideal_by_depth_at_threshold_1": [
            mean("max_writes_over_ideal", migration_depth=d, threshold_ticks=1) for d in (1, 2, 3)
        ],
    }


def setting(found: dict) -> Json:
    """What the page says of one `vmcu bench --wear --json`."""
    rest = {key: value for key, value in found.items() if key not in ("cnn", "dsp")}
    return rest | {name: experiment(found[name]) for name in ("cnn", "dsp")}


def run_paper(align: int) -> Json:
    return json.loads(json.dumps(paper_figures(*paper_runs(Setting(align=align)))))


def measure_paper() -> Json:
    """At the paper's alignment, and what others make of one CNN task."""
    runs = {align: run_paper(align) for align in ALIGNS}
    over = {
        str(align): {
            "paper": found["cnn"]["paper"]["best"]["max_writes_over_ideal"],
            "walk": found["cnn"]["max_writes_over_ideal"],
        }
        for align, found in runs.items()
    }
    return {**setting(runs[ALIGNS[0]]), "by_align": over}


def lasting(model: Path, rotated: bool) -> tuple[Json, traces.Trace, pool.PoolWear]:
    """What `vmcu bench --wear MODEL [--rotate]` says. What a job costs besides is the same for all
    models, and not repeated."""
    plan = compile_model(model, CompileOptions(rotate=rotated))
    trace = traces.record(plan, TARGET)
    ways = paper.measured(trace.task(model.name), Setting(align=STACK_ALIGN))
    found = objects.objects(plan, trace, ways, objects.Cells(ENDURANCE, RATE))
    stack = {
        name: {
            "writes": float(run.writes().max()) / run.rounds,
            "over_ideal": run.over_ideal(),
        }
        for name, run in ways.items()
    }
    per_job = {one.name for one in objects.supervised(TARGET)}
    figures = {
        "objects": [asdict(one) for one in found if one.name not in per_job],
        "lasts": object_figures(found)["lasts"],
        "instructions": trace.instructions,
        "ram_bytes": plan.ram_bytes,
        "stack_bytes": 4 * trace.stack.size,
        "stack_mean_over_max": float(trace.stack.mean() / trace.stack.max()),
        "stack": stack,
    }
    return figures, trace, pool.wear(trace.pool, INFERENCES)


def measure_model(model: Path) -> Json:
    plain, _, _ = lasting(model, rotated=False)
    rotated, trace, wear = lasting(model, rotated=True)
    streamed = [
        compile_model(model, CompileOptions(stream_input=True, rotate=r)).ram_bytes
        for r in (False, True)
    ]
    return {
        "plain": plain,
        "rotated": rotated,
        "streamed_ram_bytes": streamed,
        "pool_bytes": wear.pool_bytes,
        "mean_writes": float(trace.pool.mean()),
        "fixed": asdict(wear.fixed),
        "turned": asdict(wear.rotated),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", nargs="*", metavar="paper, models or a model's name")
    parser.add_argument("--models", type=Path, default=MODELS)
    args = parser.parse_args()
    what = args.what or ["paper", "models"]
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"models": {}}
    if "paper" in what:
        figures["paper"] = measure_paper()
    # Stores to a stack are its compiler's.
    figures["compiler"] = compiler(board(TARGET))
    for name, path in paths(args.models).items():
        if "models" in what or name in what:
            figures["models"][name] = measure_model(path)
        FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
