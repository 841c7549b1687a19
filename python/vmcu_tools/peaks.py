# SPDX-License-Identifier: Apache-2.0
"""Bytes of RAM of a model's pool, for callers that ask often, such as an architecture search.

The result is the exact number of the default planner. A plan depends on shapes, operators and their
parameters, but not on weights: networks that differ only in weights are planned once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import OrderedDict
from pathlib import Path

from .compiler import compile_model
from .frontends import load
from .graph import Graph
from .ops.likeness import likeness
from .passes import optimize
from .planner.options import CompileOptions
from .planner.registry import DEFAULTS, make_plan

MOST_KEPT = 4096
_known: OrderedDict[str, int] = OrderedDict()


def peak(
    model: str | Path | Graph, cache: str | Path | None = None, options: CompileOptions = DEFAULTS
) -> int:
    """Returns the pool's bytes of RAM, as `vmcu build` computes them.

    model: a .tflite or .onnx file, or an optimised graph. cache: a folder that stores results.
    Several threads and processes can use it at the same time.

    Raises UserError if the file is not a model or has an unsupported operator.
    """
    if isinstance(model, Graph):
        graph = model
    elif (written := load(Path(model))).state.names:
        # Its preparation has several steps, and its plan needs no search.
        return compile_model(Path(model)).ram_bytes
    else:
        graph = optimize(written)
    key = f"{structure(graph)}-{_digest(options)}"
    known = _known.get(key)
    entry = None if cache is None else Path(cache) / key
    if known is None and entry is not None:
        known = _remembered(entry)
    if known is None:
        known = make_plan(graph, options, prove=False).ram_bytes
        if entry is not None:
            entry.parent.mkdir(parents=True, exist_ok=True)
            # Threads and processes have one each.
            partly = entry.with_suffix(f".{os.getpid():x}-{id(graph):x}")
            partly.write_text(str(known), encoding="utf-8")
            partly.replace(entry)
    _known[key] = known
    if len(_known) > MOST_KEPT:
        _known.popitem(last=False)
    return known


def _remembered(entry: Path) -> int | None:
    """Reads the peak that a program has written down, None if there is none."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int(entry.read_text(encoding="utf-8")) or None
    return None


def _digest(options: CompileOptions) -> str:
    return hashlib.sha256(repr(options).encode()).hexdigest()[:8]


def structure(graph: Graph) -> str:
    """Computes a digest of all that a plan of a graph depends on: the same for other names and
    weights."""
    digest = hashlib.sha256()
    numbers = {name: number for number, name in enumerate(graph.tensors)}

    def note(*values: object) -> None:
        digest.update(repr(values).encode())

    for tensor in graph.tensors.values():
        note(tensor.shape)
    for node in graph.nodes:
        ends = [numbers[name] for name in (*node.inputs, *node.outputs)]
        note(node.kind, ends, likeness(node.op))
    for ports in (graph.inputs, graph.outputs):
        note([numbers[port.tensor] for port in ports])
    note(graph.target, sorted(graph.elsewhere), graph.state.step_rows, graph.state.names)
    return digest.hexdigest()
