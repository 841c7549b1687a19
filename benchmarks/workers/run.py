# SPDX-License-Identifier: Apache-2.0
"""Prints what two workers cost and save, and draws who computes what.

python benchmarks/workers/run.py [--models DIR] [--write FILE]
python benchmarks/workers/run.py --picture doc/pictures/workers.svg

Instructions are those of an inference on an emulated Cortex-M4, the busier worker's beside those
of one worker. Cycles are estimated and include the time in which a worker waits.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, show_of_models  # noqa: E402
from vmcu_bench.cycles import model  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.emit import emit  # noqa: E402
from vmcu_tools.plan.plan import Plan  # noqa: E402
from vmcu_tools.plan.workers import WorkerTask  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402

BOARD = "qemu:m4"
OWN = ("keyword", "digits")
OTHERS = (
    *("mlperf-tiny-ad", "mlperf-tiny-kws", "mlperf-tiny-vww", "mlperf-tiny-resnet8"),
    "mcunet-vww-5fps",
)
COLUMNS = (
    *("model", "RAM", "two workers, RAM", "times", "instructions", "busier worker", "share"),
    *("cycles with waits, share", "waits", "tables, bytes"),
)
# Of the picture, in pixels; a colour for each layer in turn.
WIDTH, LANE, GAP, TOP = 1000, 44, 10, 26
COLOURS = ("#4a7fb0", "#c57a2c", "#3d9161", "#8a5fa8", "#b0504a", "#5f8a8a", "#a08a3a")
PICTURE = ROOT / "doc" / "pictures" / "workers.svg"
DRAWN = ROOT / "samples" / "keyword" / "keyword.onnx"


def planned(path: Path, workers: int) -> Plan:
    """A model's plan for so many workers."""
    return compile_model(path, CompileOptions(workers=workers))


def row(path: Path) -> tuple[str, ...]:
    """A line of the table."""
    one, two = (planned(path, workers) for workers in (1, 2))
    counts = [model.bench(plan, path.stem, BOARD) for plan in (one, two)]
    team = two.team
    assert team is not None
    alone, busier = counts[0].instructions or 0, max(w.instructions for w in counts[1].workers)
    more = emit(two, "model").tables_bytes - emit(one, "model").tables_bytes
    return (
        path.stem,
        f"{one.ram_bytes:,}",
        f"{two.ram_bytes:,}",
        f"{two.ram_bytes / one.ram_bytes:.3f}",
        f"{alone:,}",
        f"{busier:,}",
        f"{busier / alone:.3f}",
        f"{team.cycles / team.alone:.3f}",
        f"{sum(team.waits):,}",
        f"{more:,}",
    )


def workers(folder: Path, names: Sequence[str] = (*OWN, *OTHERS)) -> Table:
    """A line for each model. folder: of those that are no sample's."""
    own = [ROOT / "samples" / name / f"{name}.onnx" for name in OWN if name in names]
    files = [*own, *(folder / f"{name}.tflite" for name in OTHERS if name in names)]
    behind = Behind(hashes(set(files)), (GCC, QEMU))
    return Table("Two workers", COLUMNS, tuple(map(row, files)), behind=behind)


def picture(plan: Plan) -> str:
    """Two lanes, one for each worker: its tasks from left to right, by layer."""
    team = plan.team
    assert team is not None
    high = TOP + 2 * LANE + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{high}" role="img">',
        "<style>text { font: 13px system-ui, sans-serif; fill: #1c2733; }"
        " @media (prefers-color-scheme: dark) { text { fill: #dde6ee; } }</style>",
        f'<text x="0" y="14">{escape(plan.graph.name)}: tasks of both workers, left to right over '
        "estimated cycles; a colour is a layer, a gap a wait</text>",
    ]
    for worker, entries in enumerate(team.entries):
        tasks = [one for one in entries if isinstance(one, WorkerTask)]
        top = TOP + worker * (LANE + GAP)
        for task, (begin, end) in zip(tasks, team.spans[worker], strict=True):
            x, wide = (at / team.cycles * WIDTH for at in (begin, end - begin))
            node, colour = plan.steps[task.step].node, COLOURS[task.step % len(COLOURS)]
            title = f"worker {worker}: {node.name} ({node.kind}), row {task.y}"
            lines.append(
                f'<rect x="{x:.1f}" y="{top}" width="{max(wide - 0.5, 0.5):.1f}" height="{LANE}" '
                f'fill="{colour}"><title>{escape(title)}</title></rect>'
            )
    return "\n".join([*lines, "</svg>", ""])


def command(_: str) -> str:
    return "python benchmarks/workers/run.py"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--picture"]:
        Path(sys.argv[2]).write_text(picture(planned(DRAWN, 2)), encoding="utf-8")
    else:
        show_of_models(__doc__, {"workers": workers}, command)
