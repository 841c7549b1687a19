# SPDX-License-Identifier: Apache-2.0
"""Models whose pool rotates, from containers: the bytes of their meaning at every origin, and
nothing that leaves the circle or its overhang is taken."""

from __future__ import annotations

import ctypes
import errno
import itertools
import struct
from pathlib import Path

import numpy as np
import online_device as device
import pytest
from builders.containers import model_member, of_model, of_table
from random_graphs import random_inputs
from test_rotation import DIGITS, TINY, compiled
from vmcu_bench import runners
from vmcu_tools import container
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import structs
from vmcu_tools.emit.model import write_tables
from vmcu_tools.machine import reference
from vmcu_tools.planner.options import CompileOptions

TURNS = 12
ON_STACK = 0xFFFFFFFF


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return device.library(tmp_path_factory.mktemp("library"), device.ROTATES)


@pytest.fixture(scope="module")
def image() -> bytes:
    return container.of_tables(write_tables(compiled(DIGITS), "m").files, "m")


class Model(ctypes.Structure):
    """struct vmcu_model of such a build, as far as a circle's checks look at it."""

    _fields_ = (
        *(("name", ctypes.c_void_p), ("pool_bytes", ctypes.c_uint32)),
        *((name, ctypes.c_void_p) for name in ("tensors", "layers", "stages", "inputs", "outputs")),
        *((f"{name}_count", ctypes.c_uint16) for name in ("tensor", "layer", "stage")),
        *((f"{name}_count", ctypes.c_uint8) for name in ("input", "output")),
        *(("streamed", ctypes.c_bool), ("elsewhere", ctypes.c_bool)),
        *(("circle", ctypes.c_uint32), ("step", ctypes.c_uint32)),
    )


def refused(library: ctypes.CDLL, image: bytes) -> str:
    """What a load with a replay refuses, "" for nothing."""
    result, what = device.load_result(library, image, True)
    assert result in (0, -errno.EBADMSG)
    return what


@pytest.mark.parametrize("is_sanitized", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stream_input", [False, True])
@pytest.mark.parametrize("model", [TINY, DIGITS], ids=lambda path: path.stem)
def test_bytes_at_every_origin(
    library: ctypes.CDLL, model: Path, stream_input: bool, is_sanitized: bool
) -> None:
    """And a replay of the calls passes. `./test slow` compiles this runtime under sanitizers, too;
    test_rotation.py has them for the same models without a loader."""
    plan = compiled(model, stream_input)
    sample = random_inputs(plan.graph, 3)
    wanted = reference.run(plan.graph, sample)
    usual, sanitized = device.unchecked(device.ROTATES), runners.get("host:sanitize+container")
    results = (sanitized if is_sanitized else usual).run(plan, [sample] * TURNS)
    for outputs in results:
        for port, got in zip(plan.graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(got, wanted[port.tensor])
    made = container.of_tables(write_tables(plan, "m").files, "m")
    assert refused(library, made) == ""


def test_circles(library: ctypes.CDLL, image: bytes) -> None:
    """In words, no larger than the pool; a step is less."""
    circle, step, pool = (model_member(image, name) for name in ("circle", "step", "pool_bytes"))
    assert step % 4 == circle % 4 == 0 and step < circle <= pool
    for wrong in (circle, circle + 4, step + 1, step + 2, ON_STACK - 3):
        assert refused(library, of_model(image, "step", wrong)) == "circle", wrong
    for wrong in (circle + 1, circle + 2, (pool + 4) // 4 * 4):
        assert refused(library, of_model(image, "circle", wrong)) == "circle", wrong
    assert refused(library, of_model(image, "step", circle - 4)) == ""
    assert refused(library, of_model(image, "step", 0)) == ""


def test_a_model_that_does_not_rotate_has_no_step(library: ctypes.CDLL) -> None:
    made = container.of_tables(write_tables(compile_model(TINY), "m").files, "m")
    assert refused(library, made) == ""
    for step in (4, 8):
        assert refused(library, of_model(made, "step", step)) == "circle"


def test_a_stream_does_not_rotate(tmp_path_factory: pytest.TempPathFactory, image: bytes) -> None:
    """Where a build takes both kinds."""
    both = device.library(tmp_path_factory.mktemp("both"), device.ROTATES, device.STREAMS)
    hop = write_tables(compile_model(TINY, CompileOptions(hop=3)), "m")
    made = container.of_tables(hop.files, "m")
    assert refused(both, made) == refused(both, image) == ""
    circle = model_member(made, "pool_bytes") // 4 * 4
    assert refused(both, of_model(made, "circle", circle)) == "circle"


def test_runs_end_in_the_overhang(library: ctypes.CDLL) -> None:
    """Wherever the origin is, which is a word's: from in front of the circle's end as far as the
    pool goes."""
    function = library.vmcu_check_run
    function.restype = ctypes.c_bool
    for circle, pool in itertools.product((8, 12), (12, 15, 16)):
        model = Model(pool_bytes=pool, circle=circle)
        assert library.vmcu_check_circle(ctypes.byref(model)) == circle
        for at, count in itertools.product(range(2 * circle), range(pool + 2)):
            found = function(ctypes.byref(model), at, count)
            begins = [(at + origin) % circle for origin in range(0, circle, 4)]
            wanted = all(begin + count <= pool for begin in begins)
            assert found == wanted, (circle, pool, at, count)


def has_schedule(image: bytes, stage: int) -> bool:
    at = model_member(image, "stages") + structs.STAGE.size * stage
    return struct.unpack_from("<I", image, at + structs.STAGE.members["schedule"].start)[0] != 0


def test_places_are_in_the_circle(library: ctypes.CDLL, image: bytes) -> None:
    """Of tensors and of counts."""
    circle = model_member(image, "circle")
    for number in range(model_member(image, "tensor_count")):
        assert refused(library, of_table(image, "tensors", number, "base", circle)) == "tensor"
        assert refused(library, of_table(image, "tensors", number, "ring", circle + 1)) == "tensor"
    together = [n for n in range(model_member(image, "stage_count")) if has_schedule(image, n)]
    assert together
    for stage in together:
        damaged = of_table(image, "stages", stage, "progress", circle)
        assert refused(library, damaged) == "schedule of stage"
