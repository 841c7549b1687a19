# SPDX-License-Identifier: Apache-2.0
"""One arena: models that share its head, and all that stays in its tail."""

from __future__ import annotations

import ctypes
import errno

import numpy as np
import online_device as device
import pytest
from vmcu_bench.runners.samples import make_samples
from vmcu_tools import container, paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.machine import reference
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions

SAMPLES = paths.runtime().parents[1] / "samples"
MODELS = ("digits/digits.onnx", "hello/hello.onnx")
ARENA, CONTEXT, ROUNDS = 1 << 16, 512, 3


class Report(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in ("head", "free", "tail", "needed"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = device.library(tmp_path_factory.mktemp("library"))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.vmcu_arena_take.argtypes = (pointer, ctypes.POINTER(size), size)
    library.vmcu_arena_take.restype = pointer
    library.vmcu_model_load.argtypes = (pointer, pointer, size, pointer, size)
    library.vmcu_arena_head.argtypes = (pointer, size)
    library.vmcu_arena_head.restype = size
    library.vmcu_arena_report.argtypes = (pointer, size, pointer)
    library.vmcu_init.argtypes = (pointer, pointer, pointer, size)
    library.vmcu_invoke.argtypes = (pointer,)
    for side in (library.vmcu_input, library.vmcu_output):
        side.argtypes, side.restype = (pointer, ctypes.c_uint), pointer
    return library


def test_models_share_the_head_and_keep_all_else_in_the_tail(shared: ctypes.CDLL) -> None:
    """Contexts, containers and what models keep: nothing is outside of one buffer."""
    plans = [compile_model(SAMPLES / name, CompileOptions(online=True)) for name in MODELS]
    images = [container.build(plan, "m", online=True) for plan in plans]
    block, arena = device.aligned(ARENA)
    left = ctypes.c_size_t(ARENA)
    contexts = [shared.vmcu_arena_take(arena, ctypes.byref(left), CONTEXT) for _ in plans]
    models = [device.Model() for _ in plans]
    for image, model in zip(images, models, strict=True):
        place = shared.vmcu_arena_take(arena, ctypes.byref(left), len(image))
        assert place % 16 == 0
        ctypes.memmove(place, image, len(image))
        at = ctypes.addressof(model)
        assert shared.vmcu_model_load(at, place, len(image), arena, left) == 0
        report = Report()
        assert shared.vmcu_arena_report(at, left, ctypes.addressof(report)) == 0
        assert report.head + report.free + report.tail == left.value & ~7
        assert (report.head, report.needed) == (model.pool_bytes, report.head + report.tail)
        left = ctypes.c_size_t(shared.vmcu_arena_head(at, left))
    for context, model in zip(contexts, models, strict=True):
        assert shared.vmcu_init(context, ctypes.addressof(model), arena, left) == 0
    for turn in range(ROUNDS):
        for plan, context in zip(plans, contexts, strict=True):
            _check(shared, plan, context, turn)
    assert block


def _check(shared: ctypes.CDLL, plan: Plan, context: int, seed: int) -> None:
    sample = make_samples(plan.graph, 1, 2, seed)[0]
    for number, values in enumerate(sample):
        ctypes.memmove(shared.vmcu_input(context, number), values.tobytes(), values.nbytes)
    assert shared.vmcu_invoke(context) == 0
    wanted = reference.run(plan.graph, sample)
    for number, port in enumerate(plan.graph.outputs):
        values = wanted[port.tensor]
        found = ctypes.string_at(shared.vmcu_output(context, number), values.nbytes)
        np.testing.assert_array_equal(np.frombuffer(found, np.int8), values.ravel())


def test_no_more_is_taken_than_there_is(shared: ctypes.CDLL) -> None:
    _, arena = device.aligned(256)
    left = ctypes.c_size_t(100)
    assert shared.vmcu_arena_take(arena, ctypes.byref(left), 101) is None and left.value == 100
    assert shared.vmcu_arena_take(arena, ctypes.byref(left), 10) == arena + 80
    assert left.value == 80
    assert shared.vmcu_arena_take(arena, ctypes.byref(left), 80) == arena and left.value == 0
    assert shared.vmcu_arena_take(arena, ctypes.byref(left), 1) is None
    # No word of an arena that begins between two is in front of it.
    left = ctypes.c_size_t(12)
    assert shared.vmcu_arena_take(arena + 8, ctypes.byref(left), 11) is None and left.value == 12
    assert shared.vmcu_arena_take(None, ctypes.byref(left), 1) is None
    assert shared.vmcu_arena_take(arena, None, 1) is None


def test_no_head_of_what_is_not_loaded(shared: ctypes.CDLL) -> None:
    """No model, one whose container was refused, and an arena that is smaller than the tail."""
    plan = compile_model(SAMPLES / MODELS[0], CompileOptions(online=True))
    made = device.load(shared, container.build(plan, "m"), device.BUILT)
    refused, report = device.AnyModel(), Report()
    at, pool = ctypes.addressof(report), made.pool_bytes
    assert shared.vmcu_arena_head(None, ARENA) == 0
    assert shared.vmcu_arena_head(ctypes.addressof(refused), ARENA) == 0
    assert shared.vmcu_arena_head(made.model, made.tail - 8) == 0
    assert shared.vmcu_arena_report(made.model, made.tail, at) == -errno.EINVAL
    assert shared.vmcu_arena_report(made.model, ARENA, None) == -errno.EINVAL
    for head in (pool // 8 * 8, (pool // 8 + 1) * 8, ARENA):
        assert shared.vmcu_arena_report(made.model, head + made.tail, at) == 0
        assert report.free == max(head - pool, 0)
