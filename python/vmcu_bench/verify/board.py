# SPDX-License-Identifier: Apache-2.0
"""Compares each layer that firmware computes with the reference semantics, over a serial port."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vmcu_tools.emit import emit
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends.npz import LABELS, read_arrays
from vmcu_tools.plan.plan import Plan
from vmcu_tools.progress import bar

from .. import runners
from ..oracle import whole
from ..probe.link import opened_port, started
from ..probe.locate import Board, Fault, inspect
from ..probe.session import Firmware, Session, outputs_of
from ..runners.base import split_outputs
from ..runners.borders import to_file, to_memory
from ..runners.compiled import MODEL_NAME
from ..runners.qemu import QemuRunner
from ..runners.samples import Sample, make_samples
from ..runners.zephyr import PREFIX, ZephyrRunner
from .stream import stream_of

ZEPHYR, EMULATED = PREFIX, "emulated"


@dataclass(frozen=True)
class BoardVerification:
    """`samples` inputs, for a stream hops, on `target`: `layers` layers were compared of each.
    `fault`: the first wrong byte; `sample`: the number of its input."""

    model: str
    target: str
    samples: int
    layers: int
    fault: Fault | None = None
    sample: int = 0

    @property
    def passed(self) -> bool:
        return self.fault is None and self.samples > 0


@dataclass(frozen=True)
class BoardAccuracy:
    """Answers to `samples` labelled inputs: how many were right on the board and in the file's own
    runtime, and how many were the same in both."""

    samples: int
    board: int
    runtime: int
    same: int


def verify(
    plan: Plan, firmware: Firmware, target: str, random: int, structured: int, seed: int
) -> BoardVerification:
    """Runs samples, or one stream of `random` hops, until a layer differs. Raises UserError if the
    firmware does not answer."""
    step = plan.graph.state.step_rows
    samples: list[Sample]
    if step:
        samples = [[stream_of(plan.model, step, random, seed)]]
    else:
        samples = make_samples(plan.graph, random, structured, seed)
    count = random if step else len(samples)
    layers = 0
    with Board(plan, firmware) as board:
        for number, sample in enumerate(bar(samples, "board")):
            outcome = inspect(board, sample)
            layers = outcome.layers
            if outcome.fault is not None:
                fault = outcome.fault
                return BoardVerification(plan.graph.name, target, count, layers, fault, number)
    return BoardVerification(plan.graph.name, target, count, layers)


@contextmanager
def firmware_of(plan: Plan, target: str | None, port: str) -> Iterator[Firmware]:
    """Firmware that serves a probe of the plan: built for `target`, a machine of QEMU or a board of
    Zephyr, and emulated or flashed; with None, the firmware that runs at `port` already."""
    if target is None:
        yield lambda: opened_port(port)
        return
    runner = runners.get(target)
    if isinstance(runner, ZephyrRunner):
        board = ZephyrRunner(runner.board, port=None if port == EMULATED else port)
        with board.firmware(plan) as firmware:
            yield firmware
        return
    if not isinstance(runner, QemuRunner) or port != EMULATED:
        reason = f"'{target}' has no serial port"
        hint = f"choose --on qemu:m4 --serial {EMULATED}, or --board NAME --serial PORT"
        raise UserError(Problem(reason, hint, plan.graph.origin))
    probing = runner.suited(plan).probing()
    with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
        image = probing.build(emit(plan, MODEL_NAME).all_files, MODEL_NAME, Path(folder))
        yield lambda: started(probing.command(image), probing.seconds, folder=folder)


def accuracy(plan: Plan, firmware: Firmware, data: Path) -> BoardAccuracy:
    """Classifies labelled samples on the board. data: an .npz file with an array (N, ...) for each
    input, and N integers "labels"."""
    graph = plan.graph
    inputs, labels = _labelled(plan, data)
    run, _ = whole.runner(Path(graph.origin), plan.model)
    board = runtime = same = 0
    with firmware() as link:
        session = Session(link, plan)
        for number in bar(range(len(labels)), "board"):
            given = [values[number : number + 1] for values in inputs]
            sample = [to_memory(v, graph, p) for v, p in zip(given, graph.inputs, strict=True)]
            out = split_outputs(outputs_of(session, sample), plan, 1, "the board")[0][0]
            ours = int(np.argmax(to_file(out, graph, graph.outputs[0])))
            theirs = int(np.argmax(run(given)[0]))
            board += ours == labels[number]
            runtime += theirs == labels[number]
            same += ours == theirs
    return BoardAccuracy(len(labels), board, runtime, same)


def _labelled(plan: Plan, data: Path) -> tuple[list[np.ndarray], Sequence[int]]:
    """The arrays of all inputs, in the types of the file, and the labels."""
    hint = 'save it with numpy.savez(FILE, labels=classes, NAME=array), "NAME" for each input'
    names = [port.name for port in plan.graph.inputs]
    arrays = read_arrays(data, (LABELS, *names))
    labels = arrays.pop(LABELS, None)
    if labels is None or labels.ndim != 1 or sorted(arrays) != sorted(names):
        reason = f"it has {', '.join(sorted(arrays)) or 'no inputs'}; expected labels, {names}"
        raise UserError(Problem(reason, hint, str(data)))
    inputs = []
    for port in plan.graph.inputs:
        array = arrays[port.name]
        shape = (len(labels), *port.file_shape[1:])
        if array.shape != shape:
            reason = f"'{port.name}' has the shape {array.shape}, expected {shape}"
            raise UserError(Problem(reason, hint, str(data)))
        inputs.append(array.astype(port.dtype))
    return inputs, [int(label) for label in labels]
