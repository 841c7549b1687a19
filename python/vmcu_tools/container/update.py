# SPDX-License-Identifier: Apache-2.0
"""A container with a test vector behind it, which devices run before they use it: an update.

The vector is struct vmcu_self_test of lib/vmcu/port/zephyr/include/vmcu/self_test.h.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from .. import frontends
from ..errors import Problem, UserError
from ..graph import Graph, Shape
from ..machine import reference
from .opened import Opened, open_container

# By input, int8 (H, W, C).
Sample = Sequence[np.ndarray]

MAGIC = b"VMST"
ALIGN = 16
WHICH = "name the model that it was built from, with the same --state and --time"
# Magic, bytes of the inputs, two words that are zero.
HEAD = struct.Struct("<4sI8x")


def update(path: Path, model: Path, draw: Callable[[Graph], Sample]) -> bytes:
    """The container of a file with a vector for it: an input, by `draw`, and the model file's
    outputs for it. model: the file of the container. Raises UserError where either cannot be
    read, or the container is of another model."""
    opened, graph = open_container(path), frontends.load(model)
    _check(opened, path, model, _shapes(graph, "inputs"), graph)
    sample = draw(graph)
    results = reference.run(graph, sample)
    shapes = _shapes(opened.outline.graph, "outputs")
    outputs = [results[port.tensor] for port in graph.outputs]
    outputs = [values.reshape(shape) for values, shape in zip(outputs, shapes, strict=True)]
    return _appended(opened.image, sample, outputs)


def stream_update(
    path: Path, model: Path, graph: Graph, rows: np.ndarray, answers: Sequence[np.ndarray]
) -> bytes:
    """The same of a container with state: rows, int8 (rows, W, C), up to the last of several steps,
    and the bytes of all outputs by step. graph: of the model file, its outputs those of a step."""
    opened = open_container(path)
    own = opened.outline.graph
    first = len(rows) - (len(answers) - 1) * own.state.step_rows
    _check(opened, path, model, [(first, *rows.shape[1:])], graph)
    shapes = _shapes(own, "outputs")
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = [part for answer in answers for part in np.split(answer, ends)]
    outputs = [part.reshape(shape) for part, shape in zip(parts, itertools.cycle(shapes))]
    return _appended(opened.image, [rows], outputs)


def _appended(image: bytes, sample: Sample, outputs: Sequence[np.ndarray]) -> bytes:
    """A container with the vector of an input and these outputs."""
    inputs = b"".join(values.tobytes() for values in sample)
    vector = HEAD.pack(MAGIC, len(inputs)) + digest_of(outputs) + inputs
    return image + bytes(-len(image) % ALIGN) + vector


def digest_of(outputs: Sequence[np.ndarray]) -> bytes:
    """Computes the digest of outputs, int8 (H, W, C): rows are taken one by one."""
    digest = bytes(hashlib.sha256().digest_size)
    for output in outputs:
        for row in output:
            digest = hashlib.sha256(digest + row.astype(np.int8).tobytes()).digest()
    return digest


def _shapes(graph: Graph, what: str) -> list[Shape]:
    return [graph.tensors[port.tensor].shape for port in getattr(graph, what)]


def _in_one_column(shape: Shape) -> Shape:
    """The shape of a sequence along H, if it is one; a plan may have it along W."""
    height, width, channels = shape
    return (height * width, 1, channels) if 1 in (height, width) else shape


def _check(opened: Opened, path: Path, model: Path, inputs: list[Shape], graph: Graph) -> None:
    """Raises UserError unless a container has these inputs, and the outputs of a graph."""
    for what, wanted in (("inputs", inputs), ("outputs", _shapes(graph, "outputs"))):
        shapes = _shapes(opened.outline.graph, what)
        if list(map(_in_one_column, shapes)) != list(map(_in_one_column, wanted)):
            own, others = (
                ", ".join(" x ".join(map(str, shape)) for shape in some)
                for some in (shapes, wanted)
            )
            reason = f"the {what} are {own}; those of {model} are {others}"
            raise UserError(Problem(reason, WHICH, str(path)))
