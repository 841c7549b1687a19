# SPDX-License-Identifier: Apache-2.0
"""The runtimes on a model file as it is, from the file's inputs to its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from vmcu_tools.frontends import format_of, output_names
from vmcu_tools.graph import Graph
from vmcu_tools.runtimes import one_line, required

from .ort import session_of
from .tflite_rewrite import runnable
from .tflm import arena_bytes

Values = list[np.ndarray]


class UnfitError(Exception):
    """The runtime does not run this file as it is; the text says why."""


def runner(path: Path, graph: Graph) -> tuple[Callable[[Sequence[np.ndarray]], Values], bool]:
    """Returns a function from a file's inputs to its outputs, each as the file has it and in the
    order of the graph's ports; and whether the runtime optimises the file as ever, on which exact
    results depend. Raises UnfitError."""
    if format_of(path) == "tflite":
        return _micro(path, graph), True
    return _onnxruntime(path, graph)


def _micro(path: Path, graph: Graph) -> Callable[[Sequence[np.ndarray]], Values]:
    data = path.read_bytes()
    if runnable(path, graph) != data:
        raise UnfitError("TensorFlow Lite Micro lacks kernels or shapes for it")
    # The graph has them in the file's order, without those that are float constants; states that it
    # keeps in variables come behind them.
    names = output_names(path)
    kept = [place for place, name in enumerate(names) if name not in graph.notes.dropped]
    places = kept[: len(graph.outputs)]
    runtime = required("tflite_micro", "tflite-micro", "verify .tflite models").runtime
    try:
        interpreter = runtime.Interpreter.from_bytes(data, arena_size=arena_bytes(graph, data))
    except RuntimeError as error:
        raise UnfitError(f"TensorFlow Lite Micro: {error}") from error

    def run(inputs: Sequence[np.ndarray]) -> Values:
        for index, values in enumerate(inputs):
            interpreter.set_input(values, index)
        interpreter.invoke()
        return [np.array(interpreter.get_output(place)) for place in places]

    return run


def _onnxruntime(path: Path, graph: Graph) -> tuple[Callable[[Sequence[np.ndarray]], Values], bool]:
    # Some of its fusions reject scales of one element with an axis, which PyTorch writes.
    refusals = []
    for level in ("ORT_ENABLE_EXTENDED", "ORT_DISABLE_ALL"):
        try:
            session = session_of(path, level)
        except Exception as error:  # onnxruntime's exceptions have no base of their own
            refusals.append(one_line(error))
            continue
        return _run_of(session, graph), level == "ORT_ENABLE_EXTENDED"
    raise UnfitError(f"ONNX Runtime: {refusals[0]}")


def _run_of(session: Any, graph: Graph) -> Callable[[Sequence[np.ndarray]], Values]:
    names = [port.name for port in graph.outputs]

    def run(inputs: Sequence[np.ndarray]) -> Values:
        feeds = {p.name: values for p, values in zip(graph.inputs, inputs, strict=True)}
        try:
            results: Values = session.run(names, feeds)
            return results
        except Exception as error:  # onnxruntime's exceptions have no base of their own
            raise UnfitError(f"ONNX Runtime: {one_line(error)}") from error

    return run
