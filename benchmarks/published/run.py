# SPDX-License-Identifier: Apache-2.0
"""Modelled milliseconds beside those that MLPerf Tiny's rounds published, for doc/cycles.md.

python benchmarks/published/run.py [TABLE...] [--models DIR] [--write FILE]

serial.csv: times with weights in serial flash (tigris-bench).

cores.csv: ST's times of MLPerf Tiny's rounds 1.0 to 1.3, closed division, on three boards.

published.csv, all for a NUCLEO-L4R5ZI at 120 MHz. throughput: inferences a second of microTVM with
CMSIS-NN (MLPerf Tiny 1.0, closed division, OctoML's results.txt). predicted_ms: TensorFlow Lite
Micro with CMSIS-NN's kernels for DSP instructions, its instructions counted on an emulated
Cortex-M4 and timed by the rules of `vmcu bench --board nucleo_l4r5zi --flash-wait 5`. best_ms: the
shortest time of rounds 1.0 to 1.3, closed division.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks" / folder) for folder in ("paper", "models", "published")]

import numpy as np  # noqa: E402
import random_nets  # noqa: E402
from manifests import GCC, QEMU, Behind, hashes  # noqa: E402
from pages import Table, options, show  # noqa: E402
from rows import listed, read  # noqa: E402
from serial_flash import serial_row  # noqa: E402
from vmcu_bench.cycles.model import bench, board  # noqa: E402
from vmcu_bench.runners import RUNNERS  # noqa: E402
from vmcu_tools.boards.table import known  # noqa: E402
from vmcu_tools.cli import main as vmcu  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.model_file import name_of  # noqa: E402
from vmcu_tools.passes import optimize  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.planner.registry import make_plan  # noqa: E402
from vmcu_tools.planner.stages.costs import cycles_of  # noqa: E402
from vmcu_tools.planner.stages.fusion import front  # noqa: E402
from vmcu_tools.report.cycles import printed  # noqa: E402
from vmcu_tools.report.runs import SECONDS  # noqa: E402
from vmcu_tools.report.time import board_seconds  # noqa: E402

import build  # noqa: E402

FACTS = Path(__file__).with_name("published.csv")
SERIAL = Path(__file__).with_name("serial.csv")
CORES = Path(__file__).with_name("cores.csv")
BOARD = "nucleo_l4r5zi"
# Random networks of the table of estimates, and the most plans of each.
DRAWN, DRAWN_PLANS = 6, 4
# A Cortex-M7 with the assembly of a Cortex-M4.
PLAIN = "qemu:m7-plain"
# The board of the README's table.
NRF = "nrf52840dk/nrf52840"
# The clock of what was published, and the wait states of flash at it (RM0432); Zephyr's is lower.
MEGAHERTZ, WAITS = 120, 5
MODELS = {
    "ad": "mlperf-tiny-ad.tflite",
    "kws": "mlperf-tiny-kws.tflite",
    "ic": "mlperf-tiny-resnet8.tflite",
    "vww": "mlperf-tiny-vww.tflite",
}


# The networks of estimates(): files of the folder of models, and of benchmarks/models/build.py.
GIVEN = (
    *MODELS.values(),
    "mlperf-tiny-sww.tflite",
    "mcunet-vww-5fps.tflite",
    "mcunet-imagenet-320kb.tflite",
)
# Samples with more than one layer.
SAMPLES = ("digits", "gesture", "keyword", "wake_word")


@dataclass(frozen=True)
class Published:
    """A network's row of published.csv, times in milliseconds."""

    network: str
    predicted_ms: float
    throughput: float
    best_ms: float
    best_by: str

    @property
    def measured_ms(self) -> float:
        return 1000 / self.throughput


def published() -> list[Published]:
    return read(FACTS, Published)


def error() -> Table:
    """How far the model is off for code that is much the same."""
    found = published()
    rows = tuple(
        (
            one.network,
            f"{one.predicted_ms:g}",
            f"{one.measured_ms:.1f}",
            f"{one.predicted_ms / one.measured_ms:.2f}",
        )
        for one in found
    )
    least, most = (f(one.measured_ms / one.predicted_ms for one in found) for f in (min, max))
    columns = (
        "milliseconds",
        "TFLite Micro, modelled",
        "microTVM, published",
        "modelled/published",
    )
    note = (
        f"A board takes {least:.2f} to {most:.2f} times the modelled time, if this code is "
        "as good as that."
    )
    behind = Behind(hashes([FACTS]))
    return Table("Modelled and published", columns, rows, (note,), behind)


def benched(file: Path, words: Sequence[str]) -> dict[str, Any]:
    """What `vmcu bench` writes. Raises ValueError if it fails, which says why."""
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as null:
        report = Path(folder) / "bench.json"
        with contextlib.redirect_stdout(null):
            code = vmcu(["bench", str(file), *words, "--json", str(report)])
        if code:
            raise ValueError(f"{file} has no figures")
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return found


def modelled(file: Path) -> float:
    """Milliseconds of an inference. Raises ValueError if `vmcu bench` fails, which says why."""
    found = benched(file, ["--board", BOARD, "--flash-wait", str(WAITS)])
    return round(float(found["cycles"]) / MEGAHERTZ / 1000, 3)


def estimated(file: Path) -> float:
    """Milliseconds that `vmcu build --board` would print at that clock and those wait states."""
    place = replace(known()[BOARD], megahertz=MEGAHERTZ, waits=WAITS)
    return 1000 * board_seconds(compile_model(file), place)[0]


def engines(folder: Path, only: Sequence[str] = ()) -> Table:
    """This library's modelled times beside the shortest that were published. only: networks, all by
    default."""
    rows = [
        (
            one.network,
            f"{modelled(folder / MODELS[one.network]):.3g}",
            f"{estimated(folder / MODELS[one.network]):.3g}",
            f"{one.best_ms:g}",
            one.best_by,
        )
        for one in published()
        if one.network in (only or {one.network})
    ]
    columns = ("milliseconds", "vmcu, modelled", "vmcu, estimated", "shortest published", "of")
    files = hashes([FACTS, *(folder / name for name in MODELS.values())])
    behind = Behind(files, (GCC, QEMU), {columns[1]: SECONDS, columns[2]: SECONDS})
    return Table("Beside the fastest engines", columns, tuple(rows), behind=behind)


@dataclass(frozen=True)
class Estimate:
    """Cycles of an inference on a Cortex-M4 without wait states."""

    network: str
    estimated: int
    counted: int

    @property
    def ratio(self) -> float:
        return self.estimated / self.counted


def estimate(file: Path) -> Estimate:
    """Of one model file."""
    plan = compile_model(file)
    return Estimate(file.stem, sum(cycles_of(plan)), bench(plan, name_of(file), "qemu:m4").cycles)


def factors(ratios: Sequence[float]) -> tuple[float, float]:
    """The least and the most that a board needs of an estimate, to a tenth: the errors of the
    estimate, counted/estimated, times those of the model."""
    model = [one.measured_ms / one.predicted_ms for one in published()]
    least, most = min(model) * min(ratios), max(model) * max(ratios)
    return math.floor(10 * least) / 10, math.ceil(10 * most) / 10


def estimates(folder: Path) -> Table:
    """What `vmcu build --board` estimates beside what `vmcu bench` counts."""
    nrf = known()[NRF]
    assert nrf.megahertz is not None
    with tempfile.TemporaryDirectory() as text:
        own = [build.write(name, Path(text)) for name in build.MODELS]
        samples = [ROOT / "samples" / name / f"{name}.onnx" for name in SAMPLES]
        files = [*(folder / name for name in GIVEN), *own, *samples]
        found = [estimate(file) for file in files]
        behind = Behind(hashes(files), (GCC, QEMU), {"estimated/counted": ""})
    rows = tuple(
        (
            one.network,
            f"{one.estimated:,}",
            f"{one.counted:,}",
            f"{one.ratio:.2f}",
            printed(one.counted / nrf.megahertz / 1000),
        )
        for one in found
    )
    columns = (
        "network",
        "estimated cycles",
        "counted cycles",
        "estimated/counted",
        f"modelled, ms on {NRF}",
    )
    return Table("Estimates", columns, rows, behind=behind)


@dataclass(frozen=True)
class Drawn:
    """Counted cycles for estimated ones of a random network, for each of its plans."""

    network: str
    macs: int
    ratios: tuple[float, ...]


def drawn_network(seed: int) -> Drawn:
    """All choices of --pareto, at most DRAWN_PLANS of them."""
    graph = optimize(random_nets.DrawnNetwork(seed).draw())
    limits = sorted({choice.pool_bytes for choice in front(graph, CompileOptions())})
    picked = sorted({round(n) for n in np.linspace(0, len(limits) - 1, DRAWN_PLANS)})
    plans = [make_plan(graph, CompileOptions(ram=limits[n]), prove=False) for n in picked]
    reports = [bench(plan, "drawn", "qemu:m4") for plan in plans]
    ratios = [one.cycles / sum(cycles_of(p)) for one, p in zip(reports, plans, strict=True)]
    return Drawn(f"random {seed}", min(one.macs for one in reports), tuple(ratios))


def random() -> Table:
    """What `vmcu build --board` estimates of random networks beside what `vmcu bench` counts."""
    found = [drawn_network(seed) for seed in range(DRAWN)]
    rows = tuple(
        (
            one.network,
            f"{one.macs:,}",
            str(len(one.ratios)),
            f"{min(one.ratios):.2f}",
            f"{max(one.ratios):.2f}",
        )
        for one in found
    )
    columns = ("network", "MACs", "plans", "least counted/estimated", "most")
    kinds = dict.fromkeys(columns[3:], "")
    files = hashes([Path(random_nets.__file__)])
    return Table("Random networks", columns, rows, behind=Behind(files, (GCC, QEMU), kinds))


def cores() -> Table:
    """How many cycles other cores need for what takes a Cortex-M4 one."""
    facts = listed(CORES)
    base = {row["network"]: cycles(row) for row in facts if row["core"] == "cortex-m4"}
    rows = tuple(
        (
            f"{row['network']} on {row['core']}",
            row["ms"],
            row["mhz"],
            f"{cycles(row):.3g}",
            f"{cycles(row) / base[row['network']]:.2f}",
        )
        for row in facts
    )
    columns = ("ST, published", "milliseconds", "MHz", "million cycles", "to Cortex-M4")
    kinds = dict.fromkeys(columns[2:], "")
    behind = Behind(hashes([CORES]), kinds={columns[1]: SECONDS, **kinds})
    return Table("Cores", columns, rows, behind=behind)


def dual(folder: Path, only: Sequence[str] = ()) -> Table:
    """What the model of a core that issues two instructions a cycle says beside a Cortex-M4, and
    what one engine's published times say. only: networks, all by default."""
    facts = {(row["network"], row["core"]): cycles(row) for row in listed(CORES)}
    flags = tuple(flag for flag in board("qemu:m7").flags if flag != "-DVMCU_CORTEX_M7")
    RUNNERS[PLAIN] = replace(board("qemu:m7"), name=PLAIN, flags=flags)
    rows = []
    for network in only or MODELS:
        plan = compile_model(folder / MODELS[network])
        m4, plain, m7 = (
            bench(plan, name_of(Path(network)), on) for on in ("qemu:m4", PLAIN, "qemu:m7")
        )
        known_cycles = facts.get((network, "cortex-m7"))
        measured = known_cycles / facts[network, "cortex-m4"] if known_cycles else None
        rows.append(
            (
                network,
                *(f"{one.cycles_per_mac:.2f}" for one in (m4, plain, m7)),
                f"{m7.cycles / m4.cycles:.2f}",
                "" if measured is None else f"{measured:.2f}",
            )
        )
    columns = ("cycles/MAC", "M4", "M7, order of M4", "M7", "M7/M4", "M7/M4, ST")
    files = hashes([CORES, *(folder / name for name in MODELS.values())])
    return Table("Cortex-M7", columns, tuple(rows), behind=Behind(files, (GCC, QEMU)))


def serial(folder: Path) -> Table:
    """The model of serial flash, beside times that were published for another engine."""
    facts = {row["network"]: row for row in listed(SERIAL)}
    rows = [serial_row(name, folder / MODELS[name], facts.get(name, {})) for name in MODELS]
    rows.insert(1, serial_row("ad", folder / MODELS["ad"], {}, int4=True))
    columns = (
        *("milliseconds", "without waiting for flash", "bytes read", "modelled", "estimated"),
        *("estimated, external weights", "published", "modelled/published"),
    )
    files = hashes([SERIAL, *(folder / name for name in MODELS.values())])
    return Table("Serial flash", columns, tuple(rows), behind=Behind(files, (GCC, QEMU)))


def cycles(row: Mapping[str, str]) -> float:
    """Millions, of a row of cores.csv."""
    return float(row["ms"]) * float(row["mhz"]) / 1000


def command(name: str) -> str:
    models = " --models DIR" * (name in ("engines", "estimates", "dual", "serial"))
    return f"python benchmarks/published/run.py {name}{models}"


def main() -> None:
    parser = options(
        __doc__, ("error", "engines", "estimates", "random", "cores", "dual", "serial")
    )
    parser.add_argument("--models", type=Path, metavar="DIR", help="folder of MLPerf Tiny's files")
    args = parser.parse_args()
    tables = {"error": error, "cores": cores, "random": random}
    if args.models is not None:
        tables["engines"] = partial(engines, args.models)
        tables["estimates"] = partial(estimates, args.models)
        tables["dual"] = partial(dual, args.models)
        tables["serial"] = partial(serial, args.models)
    show(parser, args, tables, command)


if __name__ == "__main__":
    main()
