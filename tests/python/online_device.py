# SPDX-License-Identifier: Apache-2.0
"""The loader of containers in this process and on boards, and the plans that it makes."""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from vmcu_bench import runners
from vmcu_bench.image.elf import Elf
from vmcu_bench.runners.base import sample_bytes
from vmcu_bench.runners.compiled import CompiledRunner
from vmcu_bench.runners.counting import CountingRunner, Markers
from vmcu_bench.runners.host import HostRunner
from vmcu_tools import container, paths
from vmcu_tools.boards.counts import Counts
from vmcu_tools.plan.plan import Placement, Plan, Step

BUILT, GREEDY, SEGMENTS = range(3)
ALIGN = 16
# Of a context, at most, and of what is around a pool.
CONTEXT_BYTES, GUARD, GUARDED = 4096, 64, 0x5A
DEFINES = ("-DVMCU_ONLINE_PLANNER", "-DVMCU_CONTAINER_REPLAY")
OPTIONS = ("-std=gnu11", *DEFINES)
# Few instructions of these libraries are executed, so they are compiled fast.
FAST = ("-O1", "-g0")
STREAMS, ROTATES = "-DVMCU_STREAMS", "-DVMCU_POOL_ROTATE"
# Lists all kernels for the loader.
KERNELS = paths.runtime() / "container/all.c"
IMAGE = Path(__file__).with_name("online_image.c")


class Refusal(ctypes.Structure):
    _fields_ = (("what", ctypes.c_char_p), ("index", ctypes.c_uint32), ("name", ctypes.c_char * 40))


class Tensor(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("base", "ring", "phase")),
        *((name, ctypes.c_uint16) for name in ("height", "width", "channels")),
    )


BEHIND_POINTERS = (
    *(("input_count", ctypes.c_uint8), ("descending", ctypes.c_uint8)),
    *(("output", ctypes.c_uint16), ("scratch", ctypes.c_uint32)),
    *((name, ctypes.c_uint16) for name in ("rows", "width", "columns")),
    ("splits", ctypes.c_uint8),
)


class Layer(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("kernel", "params", "inputs")),
        *BEHIND_POINTERS,
    )


class BoardLayer(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("kernel", "params", "inputs")),
        *BEHIND_POINTERS,
    )


class Model(ctypes.Structure):
    _fields_ = (
        *(("name", ctypes.c_void_p), ("pool_bytes", ctypes.c_uint32)),
        *(("tensors", ctypes.POINTER(Tensor)), ("layers", ctypes.POINTER(Layer))),
        *((name, ctypes.c_void_p) for name in ("stages", "inputs", "outputs")),
        *((f"{name}_count", ctypes.c_uint16) for name in ("tensor", "layer", "stage")),
        *((f"{name}_count", ctypes.c_uint8) for name in ("input", "output")),
        *(("streamed", ctypes.c_bool), ("elsewhere", ctypes.c_bool)),
        *(("base", ctypes.c_void_p), ("kernels", ctypes.c_void_p), ("tail", ctypes.c_uint32)),
    )


class AnyModel(ctypes.Structure):
    """Room for struct vmcu_model of a build with whatever options."""

    _fields_ = (("room", ctypes.c_uint64 * 32),)


class LoadOptions(ctypes.Structure):
    _fields_ = (
        ("planner", ctypes.c_int),
        ("replay", ctypes.c_bool),
        ("product", ctypes.c_uint32),
        ("minimum", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class Made:
    """A model that vmcu_model_load_as() loaded, and what it returned; outputs: those of an
    inference, if there was one. model: where it is, 0 if it was not loaded. memory: keeps what it
    and its tables are in."""

    result: int
    refusal: tuple[str, int]
    pool_bytes: int = 0
    tail: int = 0
    tensors: Sequence[Tensor] = ()
    layers: Sequence[Layer | BoardLayer] = ()
    outputs: bytes = b""
    model: int = 0
    memory: tuple[object, ...] = ()


def host(flags: Sequence[str], loads: bool, target: str = "host:sanitize") -> CompiledRunner:
    """This computer with flags of a test's own. Of its archive() a program links the runtime, which
    is compiled once for all tests with the same flags; loads: with the loader."""
    found = runners.get(target)
    assert isinstance(found, CompiledRunner)
    found = replace(found, flags=(*found.flags, *flags))
    return found.loading() if loads else found


class Everything(HostRunner):
    """This computer with a runtime that has all options that plans of its tests need."""

    def _defining(self, wanted: Mapping[str, object]) -> Everything:
        return self


def unchecked(*flags: str) -> CompiledRunner:
    """This computer with the objects of a library(), without sanitizers."""
    return Everything(**vars(host((*OPTIONS, "-fPIC", *FAST, *flags), True, "host")))


def library(folder: Path, *flags: str) -> ctypes.CDLL:
    """The runtime in this process, with all kernels and the loader. Attributes have the names of
    the headers, which VMCU_CONFIGURED() changes."""
    made, target = folder / "libvmcu.so", unchecked(*flags)
    whole = ["-Wl,--whole-archive", str(target.archive()), "-Wl,--no-whole-archive"]
    target.gcc(["-shared", str(KERNELS), *whole, "-o", str(made)], folder)
    loaded = ctypes.CDLL(str(made))
    for name in configured_names(made):
        plain = re.sub(r"_with(out)?_.*", "", name)
        setattr(loaded, plain, getattr(loaded, name))
    return loaded


def configured_names(made: Path) -> list[str]:
    """The configured names that a shared library exports."""
    command = ["nm", "-D", "--defined-only", str(made)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.findall(r"\bvmcu_\w+?_with\w+", text)


def sanitized(*flags: str) -> CompiledRunner:
    """This computer under the sanitizers, loading containers, with planners and streams. Without
    more flags it links the archive of tests/fuzz/containers.py."""
    return Everything(**vars(host((*OPTIONS, STREAMS, *flags), True)))


def damager(folder: Path, *flags: str) -> Path:
    """tests/fuzz/container.c under the sanitizers, with planners and streams."""
    made, target = folder / "container", sanitized(*flags)
    sources = (paths.root() / "tests/fuzz/container.c", KERNELS, target.archive())
    target.gcc([*map(str, sources), "-o", str(made)], folder)
    return made


def damaged(harness: Path, image: bytes, folder: Path, mutants: int, seed: int) -> int:
    """How many mutants of a container damager() accepts; it fails where one touches what it must
    not."""
    file = folder / "m.vmcu"
    file.write_bytes(image)
    command = [str(harness), str(file), str(mutants), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout.split()[0])


def aligned(size: int) -> tuple[ctypes.Array, int]:
    """A block of bytes, and where in it so many begin that are aligned."""
    block = ctypes.create_string_buffer(size + ALIGN)
    return block, -(-ctypes.addressof(block) // ALIGN) * ALIGN


def load_into(
    shared: ctypes.CDLL, model: ctypes.Structure, image: bytes, arena: int, options: LoadOptions
) -> tuple[int, Refusal, tuple[object, ...]]:
    """What vmcu_model_load_as() returns, what it refuses, and the memory that the model is in."""
    refusal = Refusal()
    room, start = aligned(len(image))
    ctypes.memmove(start, image, len(image))
    memory, pool = aligned(arena)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    function = shared.vmcu_model_load_as
    function.argtypes = (pointer, pointer, size, pointer, size, pointer, pointer)
    how = ctypes.addressof(options), ctypes.addressof(refusal)
    result = function(ctypes.addressof(model), start, len(image), pool, arena, *how)
    return result, refusal, (model, room, memory)


def load_result(
    shared: ctypes.CDLL, image: bytes, replay: bool = False, product: int = 0, minimum: int = 0
) -> tuple[int, str]:
    """What vmcu_model_load_as() returns for a container of any build, and what it refuses."""
    model, options = AnyModel(), LoadOptions(BUILT, replay, product, minimum)
    result, refusal, _ = load_into(shared, model, image, 1 << 18, options)
    return result, (refusal.what or b"").decode()


def load(
    shared: ctypes.CDLL, image: bytes, planner: int, arena: int = 1 << 21, replay: bool = False
) -> Made:
    """Loads a container as a planner has it."""
    model = Model()
    result, refusal, kept = load_into(shared, model, image, arena, LoadOptions(planner, replay))
    said = ((refusal.what or b"").decode(), refusal.index)
    if result < 0:
        return Made(result, said)
    tensors = [model.tensors[number] for number in range(model.tensor_count)]
    layers = [model.layers[number] for number in range(model.layer_count)]
    at = ctypes.addressof(model)
    return Made(result, said, model.pool_bytes, model.tail, tensors, layers, b"", at, kept)


def outputs(shared: ctypes.CDLL, made: Made, inputs: Sequence[np.ndarray]) -> bytes:
    """Those of an inference of a model that load() loaded in this process, in a pool of its size
    between bytes that it must not change."""
    pointer, number, size = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
    calls = {
        "init": (ctypes.c_int, pointer, pointer, pointer, size),
        "input": (pointer, pointer, number),
        "invoke": (ctypes.c_int, pointer),
        "output": (pointer, pointer, number),
        "output_size": (size, pointer, number),
    }
    for name, (result, *arguments) in calls.items():
        function = getattr(shared, f"vmcu_{name}")
        function.restype, function.argtypes = result, arguments
    context = ctypes.create_string_buffer(CONTEXT_BYTES)
    memory, start = aligned(made.pool_bytes + 2 * GUARD)
    ctypes.memset(start, GUARDED, made.pool_bytes + 2 * GUARD)
    pool = start + GUARD
    assert shared.vmcu_init(context, made.model, pool, made.pool_bytes) == 0
    for index, values in enumerate(inputs):
        ctypes.memmove(shared.vmcu_input(context, index), values.tobytes(), values.nbytes)
    assert shared.vmcu_invoke(context) == 0
    count = Model.from_address(made.model).output_count
    found = [
        ctypes.string_at(shared.vmcu_output(context, n), shared.vmcu_output_size(context, n))
        for n in range(count)
    ]
    for guard in (start, pool + made.pool_bytes):
        assert ctypes.string_at(guard, GUARD) == bytes([GUARDED]) * GUARD
    del memory
    return b"".join(found)


def plan_of(made: Made, plan: Plan) -> Plan:
    """The plan that a model runs by. plan: the one that its container was built from."""
    placements = {}
    for (name, before), one in zip(plan.placements.items(), made.tensors, strict=True):
        assert (one.height, one.width, one.channels) == plan.graph.tensors[name].shape
        found = Placement(name, one.base, one.ring, before.first, before.last, one.phase)
        placements[name] = found
    stages: list[tuple[Step, ...]] = []
    for step, one in zip(plan.steps, made.layers, strict=True):
        at = one.scratch if step.scratch_bytes else 0
        stages.append((replace(step, scratch=at, descending=bool(one.descending)),))
    return replace(
        plan, stages=tuple(stages), placements=placements, pool_bytes=made.pool_bytes, progress=()
    )


def on_board(
    target: str,
    plan: Plan,
    planner: int,
    sample: Sequence[np.ndarray],
    folder: Path,
    arena: int,
    counted: str = "vmcu_online_plan",
    replay: bool = False,
) -> tuple[Made, Counts]:
    """Loads a plan's container on an emulated board, runs it, and counts a function."""
    board = runners.get(f"{target}+container")
    board = replace(board, flags=(*board.flags, *DEFINES))
    image, source = folder / "online.elf", folder / "container.c"
    source.write_text(container.as_c(container.build(plan, "m", online=True)))
    defines = (f"-DARENA_BYTES={arena}", f"-DPLANNER={planner}", f"-DREPLAY={int(replay)}")
    parts = (IMAGE, *board.sources(), source)
    files = map(str, (*parts, board.archive(parts)))
    board.gcc([*defines, *files, *board.link_flags(), "-o", str(image)], folder)
    function = Elf(image).find(counted)
    assert function is not None
    markers = Markers((function.address & ~1,))
    (folder / "inputs.bin").write_bytes(sample_bytes(plan, [sample]))
    counting = CountingRunner.of(board, markers)
    _, counts = counting.count(folder, lambda one: one._start(image))
    return _read((folder / "outputs.bin").read_bytes(), plan), counts[0]


def _read(data: bytes, plan: Plan) -> Made:
    result, pool_bytes, tail = struct.unpack_from("<iII", data)
    tensors = (Tensor * len(plan.placements)).from_buffer_copy(data, 12)
    at = 12 + ctypes.sizeof(tensors)
    layers = (BoardLayer * len(list(plan.steps))).from_buffer_copy(data, at)
    outputs = data[at + ctypes.sizeof(layers) :]
    return Made(result, ("", 0), pool_bytes, tail, list(tensors), list(layers), outputs)
