# SPDX-License-Identifier: Apache-2.0
"""A container with a test vector behind it, which devices run before they use it: an update.

The vector is struct vmcu_self_test of lib/vmcu/port/zephyr/include/vmcu/self_test.h.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from .. import frontends
from ..errors import Problem, UserError
from ..graph import Graph, Port
from ..machine import reference
from .files import bytes_of
from .read import Side

# By input, int8 (H, W, C).
Sample = Sequence[np.ndarray]

MAGIC = b"VMST"
ALIGN = 16
# Magic, bytes of the inputs, two words that are zero.
HEAD = struct.Struct("<4sI8x")


def update(path: Path, model: Path, draw: Callable[[Graph], Sample]) -> bytes:
    """The container of a file with a vector for it: an input, by `draw`, and the outputs that the
    model file means for it. model: what the container was built from. Raises UserError where either
    cannot be read, or the container is of another model."""
    image, facts = bytes_of(path)
    graph = frontends.load(model)
    _check(path, model, "inputs", facts.inputs, graph, graph.inputs)
    _check(path, model, "outputs", facts.outputs, graph, graph.outputs)
    return image + bytes(-len(image) % ALIGN) + vector(graph, draw(graph))


def vector(graph: Graph, sample: Sample) -> bytes:
    """The vector of a graph with this input."""
    found = reference.run(graph, sample)
    digest = digest_of([found[port.tensor] for port in graph.outputs])
    inputs = b"".join(values.tobytes() for values in sample)
    return HEAD.pack(MAGIC, len(inputs)) + digest + inputs


def digest_of(outputs: Sequence[np.ndarray]) -> bytes:
    """What outputs, int8 (H, W, C), are known by: rows are taken one by one."""
    digest = bytes(hashlib.sha256().digest_size)
    for output in outputs:
        for row in output:
            digest = hashlib.sha256(digest + row.astype(np.int8).tobytes()).digest()
    return digest


def _check(
    path: Path,
    model: Path,
    what: str,
    sides: Sequence[Side],
    graph: Graph,
    ports: Sequence[Port],
) -> None:
    shapes = [graph.tensors[port.tensor].shape for port in ports]
    if [side.shape for side in sides] != shapes:
        held = ", ".join(" x ".join(map(str, side.shape)) for side in sides)
        wanted = ", ".join(" x ".join(map(str, shape)) for shape in shapes)
        reason = f"the {what} are {held}; those of {model} are {wanted}"
        raise UserError(Problem(reason, "name the model that it was built from", str(path)))
