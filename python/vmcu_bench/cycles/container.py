# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of a container."""

from __future__ import annotations

from pathlib import Path

from vmcu_tools.boards.flash import Flash
from vmcu_tools.container import Opened

from ..runners.samples import make_samples
from ..verify.container import answers, expected
from . import stream
from .model import BenchReport, Subject, board, compare, counted
from .stream import StreamBench


def bench_stream(
    opened: Opened, name: str, target: str, keep: Path | None = None, seed: int = 0
) -> StreamBench:
    """bench() of bench/stream.py, of a container that the target loads, as bench() here."""
    plan = opened.outline
    machine = board(target).suited(plan)
    window = plan.graph.tensors[plan.graph.inputs[0].tensor].shape[0]
    subject = stream.StreamSubject(
        plan,
        window,
        tuple((f"layer {n}", kernel, 0) for n, kernel in enumerate(opened.kernels)),
        lambda folder: machine.build_container(opened, folder),
        lambda rows: answers(opened, machine, rows),
    )
    return stream.counted(subject, machine, name, target, seed, keep)


def bench(
    opened: Opened,
    name: str,
    target: str,
    flash: Flash | None = None,
    keep: Path | None = None,
    inputs: int = 0,
    seed: int = 0,
) -> BenchReport:
    """Runs bench() of bench/model.py for a container that the target loads; its layers have no
    names and no multiply-accumulates. Raises RunnerError if the outputs are not those of its tables
    compiled in."""
    machine, plan = board(target), opened.outline
    sample = make_samples(plan.graph, 1, 0, seed)[0]
    rows = [(f"layer {n}", kernel, 0) for n, kernel in enumerate(opened.kernels)]
    subject = Subject(
        plan,
        (("(between layers)", "executor", 0), *rows),
        lambda folder: machine.build_container(opened, folder),
    )
    report, outputs = counted(subject, machine, name, sample, flash, keep, inputs)
    compare(plan, expected(opened, machine, [sample])[0], outputs, target)
    return report
