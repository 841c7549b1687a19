# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of doc/endurance.md from what was measured.

    python benchmarks/endurance/tables.py [--write]

Prints the page, or writes it. run.py measures jobs under Zephyr, measure.py everything else.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

from pages import insert  # noqa: E402

PAGE = ROOT / "doc" / "endurance.md"
FIGURES = Path(__file__).parent / "figures.json"
SUPERVISED = ROOT / "python" / "vmcu_lab" / "wear" / "supervised.json"
WAYS = {"no migration": "stays", "no stride": "no stride", "paper": "paper's", "walk": "walk"}

Rows = Sequence[Sequence[str]]


def markdown(columns: Sequence[str], rows: Rows, note: str = "") -> str:
    lines = ["| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, *(["", note] if note else [])])


def short(value: float) -> str:
    """Three figures, and all in front of the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f} %"


def pools(models: dict, _: dict) -> str:
    rows = []
    for name, one in models["models"].items():
        sizes = (one["plain"]["ram_bytes"], one["rotated"]["ram_bytes"], *one["streamed_ram_bytes"])
        added = one["rotated"]["instructions"] / one["plain"]["instructions"] - 1
        rows.append([name, *(f"{size:,}" for size in sizes), percent(added)])
    columns = ("model", "pool, bytes", "rotated", "streamed", "rotated", "instructions added")
    return markdown(columns, rows)


def lifetimes(models: dict, _: dict) -> str:
    rows = []
    for name, one in models["models"].items():
        fixed = [part for part in one["rotated"]["objects"] if part["name"].startswith("context")]
        rows.append(
            [
                name,
                f"{one['pool_bytes']:,}",
                short(one["mean_writes"]),
                f"{one['fixed']['max_writes_over_ideal']:.3f}",
                f"{one['turned']['max_writes_over_ideal']:.3f}",
                f"{max(part['writes'] for part in fixed):.2f}",
            ]
        )
    columns = (
        *("model", "circle, bytes", "writes a byte", "over ideal, fixed", "rotated"),
        "most written byte of the context",
    )
    return markdown(columns, rows)


def years(models: dict, _: dict) -> str:
    def cell(lasts: dict) -> str:
        return f"{lasts['lifetime_years']:.3g} ({lasts['name']})"

    rows = []
    for name, one in models["models"].items():
        settings = (
            *((one["plain"], "stack stays"), (one["plain"], "stack moves")),
            *((one["rotated"], "stack stays"), (one["rotated"], "stack moves")),
        )
        pool = next(part for part in one["rotated"]["objects"] if part["name"] == "pool")
        cells = [cell(build["lasts"][setting]) for build, setting in settings]
        rows.append([name, cells[0], cells[1], cells[3], f"{pool['lifetime_years']:.3g}"])
    columns = ("model", "as it is", "stack moves", "stack moves, pool rotates", "that pool alone")
    return markdown(columns, rows)


def objects(models: dict, _: dict) -> str:
    one = models["models"]["mlperf-tiny-kws"]["rotated"]["objects"]
    rows = [
        [
            part["name"],
            f"{part['bytes']:,}",
            f"{part['writes']:,.2f}",
            f"{part['lifetime_years']:.3g}",
        ]
        for part in one
    ]
    return markdown(("mlperf-tiny-kws, rotated", "bytes", "writes an inference", "years"), rows)


def stacks(models: dict, _: dict) -> str:
    rows = []
    for name, one in models["models"].items():
        stack = one["rotated"]["stack"]
        writes = [short(stack[way]["writes"]) for way in WAYS]
        over = [f"{stack[way]['over_ideal']:.3f}" for way in ("paper", "walk")]
        hot = percent(one["rotated"]["stack_mean_over_max"], 0)
        rows.append([name, f"{one['rotated']['stack_bytes']:,}", *writes, *over, hot])
    columns = (
        *("model", "stack, bytes", *WAYS.values(), "over ideal: paper's", "walk"),
        "mean over maximum",
    )
    return markdown(columns, rows)


def boards(_: dict, found: dict) -> str:
    def row(label: str, get: Callable[[dict, str], str]) -> list[str]:
        return [label, *(get(one, way) for one in found.values() for way in ("staying", "moving"))]

    def memory(kind: str, key: str, form: str) -> Callable[[dict, str], str]:
        return lambda one, way: f"{one[f'{kind}_{way}'][key]:{form}}"

    def added(one: dict, way: str) -> str:
        if way == "moving":
            return f"{percent(one['added'], 3)} more"
        return f"{one['instructions_staying']:,}"

    rows = [
        row("jobs", lambda one, way: f"{one['jobs']:,}"),
        row("outputs that are wrong, of both", lambda one, way: f"{one['wrong']}"),
        row("instructions", added),
        row("most written word of the stacks", memory("stack", "max_writes", ",")),
        row("over ideal", memory("stack", "over_ideal", ".3f")),
        row("over the mean of the heap", memory("stack", "over_mean", ".3f")),
        row("most written byte of the pool", memory("pool", "max_writes", ",")),
        row("over ideal", memory("pool", "over_ideal", ".3f")),
        row("over the mean of pool and overhang", memory("pool", "over_mean", ".3f")),
    ]
    columns = [text for board, one in found.items() for text in (f"`{board}`", "moving")]
    return markdown(("", *columns), rows)


def jobs(_: dict, found: dict) -> str:
    names = list(dict.fromkeys(part["name"] for one in found.values() for part in one["per_job"]))
    rows = []
    for name in names:
        parts = [
            next((p for p in one["per_job"] if p["name"] == name), None) for one in found.values()
        ]
        size = max(part["bytes"] for part in parts if part)
        rows.append([name, f"{size:,}", *(f"{p['writes']:.2f}" if p else "-" for p in parts)])
    means = [one["pool_moving"]["writes"] / one["jobs"] for one in found.values()]
    circles = [one["pool_staying"]["bytes"] for one in found.values()]
    wholes = [one["pool_moving"]["bytes"] for one in found.values()]
    rows.append(["context", "", *(f"{one['context_writes']:.2f}" for one in found.values())])
    for label, sizes in (("mean byte of the pool", circles), ("with its overhang", wholes)):
        cells = [f"{mean / size:.2f}" for mean, size in zip(means, sizes, strict=True)]
        rows.append([label, f"{sizes[0]:,}", *cells])
    return markdown(("most written byte, a job", "bytes", *(f"`{name}`" for name in found)), rows)


def cnn(models: dict, _: dict) -> str:
    found = models["paper"]
    one, stride = found["cnn"], found["cnn"]["no_stride_over_no_migration"]
    best = one["readings"]["largest"]
    return markdown(
        ("", "paper", "here"),
        [
            ["no stride, maximum writes over those without migration", "9.1 %", percent(stride)],
            [
                *("no stride, maximum writes over ideal", "about 4.8"),
                f"{one['no_stride']['max_writes_over_ideal']:.2f}",
            ],
            [
                *("paper's allocator, maximum writes over ideal", "1.196"),
                f"{best['max_writes_over_ideal']:.3f}",
            ],
            [
                *("vmcu's walk, maximum writes over ideal", "-"),
                f"{one['walk']['max_writes_over_ideal']:.3f}",
            ],
            [
                *("cycles added, paper's allocator", "about 0.2 %"),
                percent(best["overhead_per_tick"]),
            ],
            ["cycles added, vmcu's walk", "-", percent(one["walk"]["overhead_per_tick"])],
            [
                *("worst case of one tick at depths 6/6, paper's allocator", "2,550"),
                f"{found['worst_case_cycles']:,}",
            ],
            [
                *("the same by the formula that the paper prints", "-"),
                f"{found['worst_case_cycles_as_printed']:,}",
            ],
            ["worst seen of one tick, vmcu's walk", "-", f"{one['walk']['worst_cycles']:,}"],
        ],
    )


def where(figures: dict) -> str:
    chosen = figures["parameters"]
    text = f"threshold {chosen['threshold_ticks']:g}, depth {chosen['migration_depth']}"
    if chosen["policy"] == "circular":
        text += f", stride {chosen['stride_depth']} x {chosen['stride_size']}"
    return text


READINGS = {
    "plain": "first fit, one random number, freed pieces apart",
    "merged": "freed stacks join freed neighbours in the queue",
    "redrawn": "each search for a stride draws a new size",
    "largest": "the largest free piece instead of the lowest",
}


def readings(models: dict, _: dict) -> str:
    found = models["paper"]["cnn"]["readings"]
    rows = [
        [
            f"{name}: {what}",
            where(found[name]),
            f"{found[name]['max_writes_over_ideal']:.3f}",
            percent(found[name]["success_rate"], 1),
        ]
        for name, what in READINGS.items()
    ]
    return markdown(("reading", "best at", "over ideal", "success"), rows)


def dsp(models: dict, _: dict) -> str:
    found = models["paper"]["dsp"]
    labels = {
        "no stride": found["no_stride"],
        f"paper's allocator, {where(found['best'])}": found["best"],
        f"vmcu's walk, {where(found['walk'])}": found["walk"],
    }
    rows = [
        [
            label,
            f"{one['max_writes_over_ideal']:.3f}",
            f"{one['relative_std']:.3f}",
            percent(one["overhead_per_tick"], 3),
            percent(one["success_rate"], 1),
        ]
        for label, one in labels.items()
    ]
    return markdown(("", "over ideal", "relative std", "cycles added", "success"), rows)


def table5(models: dict, _: dict) -> str:
    found = models["paper"]["table5"]
    names = list(next(iter(found.values())))
    rows = [
        [f"{ticks} tick{'s' if ticks != '1' else ''}", *(f"{row[name]:.1f}" for name in names)]
        for ticks, row in sorted(found.items(), key=lambda item: int(item[0]))
    ]
    return markdown(("threshold", *names), rows)


def orderings(models: dict, _: dict) -> str:
    cnn, dsp = models["paper"]["cnn"], models["paper"]["dsp"]

    def of(found: dict, parameter: str, measure: str, keys: Sequence[str], digits: int) -> str:
        means = found["means"][parameter]
        return ", ".join(f"{means[key][measure]:.{digits}f}" for key in keys)

    def listed(values: dict, keys: Sequence[str]) -> str:
        return ", ".join(percent(values[key], 1) for key in keys)

    depths, ticks = ("1", "2", "3"), ("1", "5", "10", "50", "100")
    sizes = ("200", "400", "600", "800", "1000")
    over, std = "max_writes_over_ideal", "relative_std"

    def strides(found: dict, measure: str) -> str:
        return ", ".join(f"{found['by_stride_at_depth_1'][s][measure]:.3f}" for s in sizes)

    deeper = ", ".join(f"{value:.2f}" for value in dsp["over_ideal_by_depth_at_threshold_1"])
    rows = [
        [
            "CNN: migration depth 1 is best (16a, 16b)",
            f"over ideal {of(cnn, 'migration_depth', over, depths, 2)}, "
            f"std {of(cnn, 'migration_depth', std, depths, 3)} at depths 1, 2, 3",
        ],
        [
            "CNN: depth 1 succeeds least (17)",
            ", ".join(percent(rate, 0) for rate in cnn["success_by_depth"]) + " at depths 1, 2",
        ],
        [
            "CNN: stride depth beyond 2 is of no use",
            f"std {of(cnn, 'stride_depth', std, depths, 3)} at stride depths 1, 2, 3",
        ],
        [
            "CNN: larger strides are better; at depth 1 only up to a size",
            f"over ideal {strides(cnn, over)} at 200, 400, 600, 800, 1000",
        ],
        [
            "DSP: threshold 100 is 5 to 10 % worse in std than 10 or 50",
            f"{of(dsp, 'threshold_ticks', std, ('100', '10', '50'), 3)} at 100, 10, 50",
        ],
        [
            "DSP: stride depth beyond 2 is of little use",
            f"std {of(dsp, 'stride_depth', std, depths, 3)} at stride depths 1, 2, 3",
        ],
        [
            "DSP: at migration depth 1, threshold 1 succeeds most (20b)",
            f"{listed(dsp['success_at_depth_1'], ticks)} at 1, 5, 10, 50, 100",
        ],
        [
            "DSP: higher thresholds cost less",
            ", ".join(percent(dsp["overhead"][key], 3) for key in ticks) + " at 1, 5, 10, 50, 100",
        ],
        [
            "DSP: larger strides lower the std",
            f"{strides(dsp, std)} at 200, 400, 600, 800, 1000, depth 1",
        ],
        [
            "DSP, threshold 1: deeper migration lowers the maximum; it does not here",
            f"over ideal {deeper} at depths 1, 2, 3",
        ],
    ]
    return markdown(("the paper says", "mean over the grid"), rows)


def patterns(models: dict, _: dict) -> str:
    found = models["paper"]["cnn"]
    ways = {**{name: found["readings"][name] for name in ("redrawn", "largest")}}
    ways["walk"] = found["walk"]
    names = list(found["walk"]["by_pattern"])
    rows = [[name, *(f"{way['by_pattern'][name]:.3f}" for way in ways.values())] for name in names]
    return markdown(("pattern", *ways), rows)


def aligns(models: dict, _: dict) -> str:
    found = models["paper"]["by_align"]
    rows = [
        [f"{align} bytes", f"{one['paper']:.2f}", f"{one['walk']:.2f}"]
        for align, one in sorted(found.items(), key=lambda item: int(item[0]))
    ]
    return markdown(("over ideal", "paper's allocator, redrawn", "walk"), rows)


TABLES: dict[str, Callable[[dict, dict], str]] = {
    "pools": pools,
    "boards": boards,
    "jobs": jobs,
    "cnn": cnn,
    "readings": readings,
    "dsp": dsp,
    "table5": table5,
    "orderings": orderings,
    "patterns": patterns,
    "aligns": aligns,
    "stacks": stacks,
    "lifetimes": lifetimes,
    "years": years,
    "objects": objects,
}


def rendered(page: str) -> str:
    """The page with every table made anew. ValueError where a table's markers are missing."""
    models, found = (json.loads(path.read_text()) for path in (FIGURES, SUPERVISED))
    for name, table in TABLES.items():
        page = insert(page, name, table(models, found))
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    args = parser.parse_args()
    page = rendered(PAGE.read_text(encoding="utf-8"))
    if args.write:
        PAGE.write_text(page, encoding="utf-8")
    else:
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
