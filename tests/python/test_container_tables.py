# SPDX-License-Identifier: Apache-2.0
"""What a loader takes of a container's tables: each to its last entry, whatever follows it, and of
numbers the last that is right."""

from __future__ import annotations

import ctypes
import errno
import itertools
import struct
from dataclasses import dataclass

import online_device as device
import pytest
from builders.containers import changed, model_member, of_model, of_table
from random_networks import AnyNetwork
from vmcu_tools import container, passes
from vmcu_tools.container import layout
from vmcu_tools.emit import structs
from vmcu_tools.emit.model import write_tables
from vmcu_tools.ops.kernel_type import KERNEL_TYPES
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

TAKE = 255
ON_STACK = layout.CONSTANTS["VMCU_SCRATCH_ON_STACK"]


@dataclass(frozen=True)
class Changed:
    """A container that is being changed."""

    image: bytes

    def at_end(self, data: bytes, behind: int = 0) -> tuple[Changed, int]:
        """With bytes at its end, in front of so many of 0xff; and where they are."""
        front = self.image + bytes(-len(self.image) % layout.ALIGN)
        longer = front + data + b"\xff" * behind
        image = changed(longer, layout.FILE.members["size"].start, "<I", len(longer))
        return Changed(image), len(front)

    def model(self, member: str, value: int) -> Changed:
        return Changed(of_model(self.image, member, value))

    def table(self, table: str, number: int, member: str, value: int) -> Changed:
        return Changed(of_table(self.image, table, number, member, value))

    def of(self, table: str, number: int, member: str) -> int:
        """A member of an entry."""
        element = next(found.element for found in layout.TABLES if found.label == table)
        found = element.members[member]
        pointer = found.pointer or found.kind not in layout.FORMATS
        form = "<I" if pointer else layout.FORMATS[found.kind]
        at = model_member(self.image, table) + element.size * number + found.start
        return struct.unpack_from(form, self.image, at)[0]

    def count(self, member: str) -> int:
        return model_member(self.image, member)


@pytest.fixture(scope="module", params=[3, 17])
def streamed(request: pytest.FixtureRequest) -> Changed:
    """A first stage of several layers that takes its input, and others, of one or several."""
    graph = passes.optimize(AnyNetwork(request.param, 8).made)
    plan = make_plan(graph, CompileOptions(stream_input=True))
    return Changed(container.of_tables(write_tables(plan, "m").files, "m"))


def said(loader: ctypes.CDLL, one: Changed) -> str:
    """What is refused, "" for nothing."""
    made = device.load(loader, one.image, device.BUILT, 1 << 18)
    assert made.result in (0, -errno.EBADMSG), made
    return made.refusal[0]


def test_nothing_behind_a_layers_inputs_counts(loader: ctypes.CDLL, streamed: Changed) -> None:
    """Which end the container once; numbers of tensors are below their count."""
    tensors = streamed.count("tensor_count")
    for layer in range(streamed.count("layer_count")):
        start, count = (streamed.of("layers", layer, name) for name in ("inputs", "input_count"))
        inputs = streamed.image[start : start + 2 * count]
        for behind, less in ((64, 0), (0, 0), (0, 1)):
            moved, at = streamed.at_end(inputs[: len(inputs) - less], behind)
            found = said(loader, moved.table("layers", layer, "inputs", at))
            assert found == ("layer" if less else ""), layer
        for number in range(count):
            other = inputs[: 2 * number] + struct.pack("<H", tensors) + inputs[2 * number + 2 :]
            moved, at = streamed.at_end(other)
            assert said(loader, moved.table("layers", layer, "inputs", at)) == "layer"


def test_members_of_layers(loader: ctypes.CDLL, streamed: Changed) -> None:
    """Of each layer one more than is right."""
    for layer in range(streamed.count("layer_count")):
        width = streamed.of("layers", layer, "width")
        wrong = [
            *(("output", streamed.count("tensor_count")), ("input_count", 0), ("rows", 0)),
            *(("columns", 0), ("columns", width + 1), ("descending", 2), ("inputs", 0)),
        ]
        for member, value in wrong:
            damaged = streamed.table("layers", layer, member, value)
            assert said(loader, damaged) == "layer", (layer, member)
        kernels = streamed.count("kernel_count")
        assert said(loader, streamed.table("layers", layer, "kernel", kernels)) == "kernel of layer"


def entries_of(one: Changed, stage: int) -> bytes:
    """A schedule without its loops."""
    words = [one.of("stages", stage, name) for name in ("parts", "part_count", "schedule")]
    found = b""
    for n in range(words[1]):
        start, length, times = struct.unpack_from(
            "<IHH", one.image, words[0] + structs.PART.size * n
        )
        found += one.image[words[2] + start : words[2] + start + length] * times
    return found


def scheduled(
    one: Changed, stage: int, entries: bytes, parts: list[tuple], behind: int = 8
) -> Changed:
    """With a schedule, of parts of its own: start, length, times."""
    at_end, at = one.at_end(entries, behind)
    data = b"".join(struct.pack("<IHH", *part) for part in parts)
    moved, parts_at = Changed(at_end.image).at_end(data, behind)
    found = moved.table("stages", stage, "schedule", at).table("stages", stage, "parts", parts_at)
    return found.table("stages", stage, "part_count", len(parts))


def test_schedules(loader: ctypes.CDLL, streamed: Changed) -> None:
    """No more calls than there are columns, no more of the input than there is, and no entry that
    is neither; each as often as its part is run."""
    refused, seen = "schedule of stage", 0
    for stage in range(streamed.count("stage_count")):
        if streamed.of("stages", stage, "schedule") == 0:
            continue
        seen += 1
        entries, count = entries_of(streamed, stage), streamed.of("stages", stage, "count")
        takes = stage == 0
        assert set(entries) == {*range(count), *([TAKE] if takes else [])}
        size = len(entries)
        assert said(loader, scheduled(streamed, stage, entries, [(0, size, 1)])) == ""
        halves = [(0, size // 2, 1), (size // 2, size - size // 2, 1)]
        assert said(loader, scheduled(streamed, stage, entries, halves)) == ""
        fewer = scheduled(streamed, stage, entries[:-1], [(0, size - 1, 1)])
        assert said(loader, fewer) == ""
        for more in (*range(count + 1), TAKE - 1, TAKE):
            longer = scheduled(streamed, stage, entries + bytes((more,)), [(0, size + 1, 1)])
            assert said(loader, longer) == refused, more
        for kind in set(entries):
            times = entries.count(kind)
            once = bytes((kind,))
            for factor, wanted in ((times, ""), (times + 1, refused), (65535, refused)):
                assert said(loader, scheduled(streamed, stage, once, [(0, 1, factor)])) == wanted
        assert said(loader, scheduled(streamed, stage, entries, [(0, size, 0)])) == ""
        end = Changed(scheduled(streamed, stage, b"", []).image)
        last, at = end.at_end(bytes(1))
        parts, where = last.at_end(struct.pack("<IHH", 0, 1, 1))
        short = parts.table("stages", stage, "parts", where).table("stages", stage, "part_count", 1)
        for place, wanted in ((at, ""), (len(parts.image) - 1, ""), (len(parts.image), refused)):
            # The container's last byte is a count's: it is 0, as the first layer's number.
            found = said(loader, short.table("stages", stage, "schedule", place))
            assert found == wanted, place
    assert seen


def test_where_calls_are_counted(loader: ctypes.CDLL, streamed: Changed) -> None:
    """In the pool, in words of it, not where the stage's layers write, nor its input."""
    pool, seen = streamed.count("pool_bytes"), 0
    for stage in range(streamed.count("stage_count")):
        if streamed.of("stages", stage, "schedule") == 0:
            continue
        first, count = (streamed.of("stages", stage, name) for name in ("first", "count"))
        taken = [streamed.of("inputs", 0, "tensor")] if stage == 0 else []
        taken += [streamed.of("layers", n, "output") for n in range(first, first + count)]
        written = {
            (streamed.of("tensors", t, "base") + n) % pool
            for t in taken
            for n in range(streamed.of("tensors", t, "ring"))
        }
        # Scratch is only looked at where there is none in the pool.
        scratch = [streamed.of("layers", n, "scratch") for n in range(first, first + count)]
        if set(scratch) - {ON_STACK}:
            continue
        for larger in (0, 64):
            size = pool + larger
            one = streamed.model("pool_bytes", size)
            if said(loader, one):
                # A tensor goes around the pool's end.
                continue
            for at in range(size + 4):
                place = set(range(at, at + 2 * count))
                right = at % 4 == 0 and max(place) < size and not place & written
                found = said(loader, one.table("stages", stage, "progress", at))
                assert found == ("" if right else "schedule of stage"), (at, size, written)
                seen += right
    assert seen


def test_stages(loader: ctypes.CDLL, streamed: Changed) -> None:
    """All layers once, in their order; a layer on its own for whole rows."""
    last = streamed.count("stage_count") - 1
    single = [n for n in range(last + 1) if streamed.of("stages", n, "schedule") == 0]
    assert single
    for stage in range(last + 1):
        first = streamed.of("stages", stage, "first")
        left = streamed.count("layer_count") - first
        for member, value in (("first", first + 1), ("count", 0), ("count", left + 1)):
            damaged = streamed.table("stages", stage, member, value)
            assert said(loader, damaged) == "stage", (stage, member, value)
    for stage in single:
        layer = streamed.of("stages", stage, "first")
        assert said(loader, streamed.table("layers", layer, "splits", 1)) == "stage"
        width = streamed.of("layers", layer, "width")
        if width > 1:
            found = said(loader, streamed.table("layers", layer, "columns", width - 1))
            assert found in ("stage", "parameters of layer")
    assert said(loader, streamed.model("stage_count", last)) == "layers"
    assert said(loader, streamed.model("streamed", 0)) == "schedule of stage"


def test_members_of_inputs_and_outputs(loader: ctypes.CDLL, streamed: Changed) -> None:
    """A scale is a number above zero and no infinity; a name ends in the container."""
    last = struct.unpack("<f", struct.pack("<I", 0x7F7FFFFF))[0]
    scales = {0.0: False, -1.0: False, 1e-45: True, last: True, float("inf"): False}
    for table, what in (("inputs", "input"), ("outputs", "output")):
        for scale, taken in {**scales, float("nan"): False}.items():
            found = said(loader, streamed.table(table, 0, "scale", scale))
            assert found == ("" if taken else what), scale
        count = streamed.count("tensor_count")
        assert said(loader, streamed.table(table, 0, "tensor", count)) == what
        assert said(loader, streamed.table(table, 0, "flags", 15)) == ""
        assert said(loader, streamed.table(table, 0, "flags", 16)) == what
        for text, taken in ((b"x\0", True), (b"\0", True), (b"x", False)):
            named, at = streamed.at_end(text)
            found = said(loader, named.table(table, 0, "name", at))
            assert found == ("" if taken else what), text
        first = layout.MODEL_AT
        assert said(loader, streamed.table(table, 0, "name", first - 1)) == what
        assert said(loader, streamed.table(table, 0, "name", len(streamed.image))) == what


class Loading(ctypes.Structure):
    """struct vmcu_loading of lib/vmcu/container/load.h."""

    _fields_ = (
        *(("data", ctypes.c_void_p), ("size", ctypes.c_uint32)),
        *((name, ctypes.c_void_p) for name in ("tables", "online", "stream", "arena")),
        *((name, ctypes.c_size_t) for name in ("arena_size", "tail")),
        ("refusal", device.Refusal),
    )


def is_tensor(t: device.Tensor, pool: int) -> bool:
    """No ring splits a pixel; the pool's end splits a row only where the ring starts over."""
    inside = t.height * t.width * t.channels > 0 and 0 < t.ring <= pool and t.base < pool
    for y in range(t.height if inside else 0):
        before = None
        for x in range(t.width):
            place = ((y * t.width + x) * t.channels + t.phase) % t.ring
            at = (t.base + place) % pool
            if place + t.channels > t.ring or at + t.channels > pool:
                return False
            if before is not None and place and at != before:
                return False
            before = at + t.channels
    return inside


def test_tensors_are_in_the_pool(loader: ctypes.CDLL) -> None:
    """All small ones, in a small pool."""
    pool, numbers = 8, (ctypes.c_uint32 * 64)()
    loading = Loading(tables=ctypes.addressof(numbers))
    model = device.Model(pool_bytes=pool, tensor_count=1)
    counts = [0, 0]
    sizes = itertools.product(range(3), range(4), range(3), range(10), range(10), (0, 1, 3))
    for height, width, channels, base, ring, phase in sizes:
        one = (device.Tensor * 1)(device.Tensor(base, ring, phase, height, width, channels))
        model.tensors = one
        found = loader.vmcu_check_tensors(ctypes.byref(model), ctypes.byref(loading))
        wanted = is_tensor(one[0], pool)
        assert found == (0 if wanted else -errno.EBADMSG), (
            height,
            width,
            channels,
            base,
            ring,
            phase,
        )
        counts[wanted] += 1
    assert min(counts) > 1000
    half, most = (2**31 - 1) // 2, 2**28 - 1
    right = device.Tensor(0, most, 0, 1, 1, 1)
    for member, value, taken in (("phase", half - 1, True), ("phase", half, False)):
        one = (device.Tensor * 1)(right)
        setattr(one[0], member, value)
        model.tensors = one
        for size, fits in ((most, taken), (most + 1, False), (0, False)):
            model.pool_bytes = size
            found = loader.vmcu_check_tensors(ctypes.byref(model), ctypes.byref(loading))
            assert found == (0 if fits else -errno.EBADMSG), (member, value, size)


class Kernel(ctypes.Structure):
    """struct vmcu_kernel"""

    _fields_ = (
        *((label, ctypes.c_void_p) for label in ("name", "run", "check")),
        ("bytes", ctypes.c_uint16),
        *((label, ctypes.c_uint8) for label in ("pointers", "behind", "native")),
        ("size", ctypes.c_uint16),
        ("reads", ctypes.c_uint8),
    )


def test_kernels_know_what_their_parameters_are_made_of(loader: ctypes.CDLL) -> None:
    """Pointers first, of which a container has 32 bits and this computer its own, then the rest."""
    for symbol, declared in KERNEL_TYPES.items():
        kind = declared.params
        # Some are in builds with VMCU_STREAMS alone.
        if kind is None or not hasattr(loader, f"{symbol}_kernel"):
            continue
        kernel = Kernel.in_dll(loader, f"{symbol}_kernel")
        members = list(kind.members.values())
        pointers = list(itertools.takewhile(lambda member: member.pointer, members))
        rest = members[len(pointers)].start if len(pointers) < len(members) else kind.size
        tail, own = kind.size - rest, ctypes.sizeof(ctypes.c_void_p) * len(pointers)
        # Its own structs end where the next one's pointers may begin.
        align = ctypes.alignment(ctypes.c_void_p) if pointers else kind.align
        size = -(-(own + tail) // align) * align
        assert not any(member.pointer for member in members[len(pointers) :]), symbol
        assert (kernel.pointers, kernel.bytes) == (len(pointers), kind.size), symbol
        # Others are used in place.
        wanted = (rest, own, size) if pointers else (0, 0, 0)
        assert (kernel.behind, kernel.native, kernel.size) == wanted, symbol
        assert tail <= size - own, symbol
