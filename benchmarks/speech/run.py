# SPDX-License-Identifier: Apache-2.0
"""Quantises the networks of make.py, runs them call by call and prints what a call needs.

    python benchmarks/speech/run.py [NETWORK...] [--write FILE]

RAM is the pool, with the state in it. Instructions and cycles are those of a call on an emulated
Cortex-M4. Of 100 calls each is compared with ONNX Runtime, which is given its states by hand. The
task of trained networks is that of scores.py, by ONNX Runtime.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks" / name) for name in ("paper", "speech")]

import onnx  # noqa: E402
from calls import Arrays, calibration, frames_of  # noqa: E402
from make import NETWORKS, RANDOM  # noqa: E402
from manifests import GCC, QEMU, Behind  # noqa: E402
from pages import Table, show_one  # noqa: E402
from scores import score  # noqa: E402
from vmcu_bench.cycles import stream  # noqa: E402
from vmcu_bench.verify.stream import verify  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.quantize.calibration import quantize_and_judge  # noqa: E402
from vmcu_tools.report.model import hop_of  # noqa: E402

NAME = "speech"
CALLS = 100
SEEDS = range(10)  # of sounds for calibration
COLUMNS = ("network", "states", "RAM", "of it state", "MACs", "instructions", "cycles")
COLUMNS += ("output, dB", "bytes that differ", "at most, steps", "task, float", "task, int8")
NOTE = (
    "Task: SI-SDR improvement in dB (enhancer), frame accuracy in % (vad), on sounds that training "
    "and calibration did not use. A mean of squares may be a step off; states keep the difference."
)


def samples(model: onnx.ModelProto) -> list[Arrays]:
    """Calibration data of CALLS calls for each sound."""
    each = [calibration(model, frames_of(model, CALLS, seed)) for seed in SEEDS]
    return [{name: array[n] for name, array in one.items()} for one in each for n in range(CALLS)]


def row(name: str) -> tuple[str, ...]:
    """A line of the table."""
    model = NETWORKS[name]()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / f"{name}.onnx"
        source.write_bytes(model.SerializeToString())
        quality = quantize_and_judge(source, target, samples(model))
        tasks: tuple[str, ...] = ("", "")
        if name not in RANDOM:
            tasks = tuple(f"{score(one):.1f}" for one in (model, onnx.load(target)))
        plan = compile_model(target, CompileOptions(state=None))
        checked = verify(plan, "host", CALLS, 0)
    kept = hop_of(plan)
    assert kept is not None and checked.passed
    counted = stream.bench(plan, name, "qemu:m4")
    against = next(one for one in checked.judged if not one.strict)
    output = model.graph.output[0].name
    decibel = next(one.signal_to_noise for one in quality.layers if one.tensor == output)
    figures = (len(plan.model.state.recurrent), plan.pool_bytes, kept.state_bytes, counted.macs)
    costs = (round(counted.instructions), round(counted.cycles or 0))
    words = [f"{figure:,}" for figure in (*figures, *costs)]
    differing = f"{against.differing:,} of {against.bytes:,}"
    return name, *words, f"{decibel:.1f}", differing, f"{against.largest}", *tasks


def table(names: Sequence[str]) -> Table:
    rows = tuple(row(name) for name in names)
    behind = Behind(tools=(GCC, QEMU))
    return Table("Speech networks, a call", COLUMNS, rows, [NOTE], behind)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--write", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    command = "python benchmarks/speech/run.py --write doc/streaming.md"
    show_one(table(args.networks or list(NETWORKS)), NAME, command, args.write)


if __name__ == "__main__":
    main()
