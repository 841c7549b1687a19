# SPDX-License-Identifier: Apache-2.0
"""Calls of the loader with wrong arguments, and with files that end in their first bytes."""

from __future__ import annotations

import ctypes
import errno
import struct
from pathlib import Path

import online_device as device
import pytest
from builders.containers import changed, model_member, of_model, of_table
from vmcu_tools import container, frontends, passes, paths
from vmcu_tools.container import layout
from vmcu_tools.planner.registry import make_plan

HELLO = paths.root() / "samples" / "hello" / "hello.onnx"
ARENA = 1 << 14
FILE = {name: member.start for name, member in layout.FILE.members.items()}
BAD, ARGUMENT = -errno.EBADMSG, -errno.EINVAL
# Of files whose first bytes alone are read: the bytes that there are, what they say instead of what
# is right, and the object that is refused.
HEADS: dict[str, tuple[int, dict[str, int], tuple[int, str]]] = {
    "nothing": (8, {}, (BAD, "magic number")),
    "another file": (ARENA, {"magic": 7}, (BAD, "magic number")),
    "a later version": (ARENA, {"major": 9}, (-errno.ENOTSUP, "version")),
    "too short": (ARENA, {"size": layout.FILE.size - 1}, (BAD, "size")),
    "too long": (ARENA, {"size": ARENA + 1}, (BAD, "size")),
    "beyond numbers": (1 << 32, {"size": 1 << 31}, (BAD, "size")),
}


@pytest.fixture(scope="module")
def image() -> bytes:
    return container.build(make_plan(passes.optimize(frontends.load(HELLO))), "m")


@pytest.fixture(scope="module")
def weights_loader(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """`rows_loader` of a build that reads weights from elsewhere, too."""
    folder = tmp_path_factory.mktemp("loader")
    return device.library(folder, device.STREAMS, "-DVMCU_EXTERNAL_WEIGHTS")


class Call:
    """Arguments of vmcu_model_load_as(), right ones at first."""

    def __init__(self, image: bytes, size: int | None = None):
        self.kept = device.AnyModel(), device.Refusal(), *map(device.aligned, (ARENA, ARENA))
        model, refusal, (_, data), (_, arena) = self.kept
        ctypes.memmove(data, image, len(image))
        self.data, self.size, self.arena = data, len(image) if size is None else size, arena
        self.model, self.refusal = ctypes.addressof(model), ctypes.addressof(refusal)

    def load(self, shared: ctypes.CDLL) -> tuple[int, str]:
        function = shared.vmcu_model_load_as
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        function.argtypes = (pointer, pointer, size, pointer, size, pointer, pointer)
        given = self.model, self.data, self.size, self.arena, ARENA, None, self.refusal
        return function(*given), (self.kept[1].what or b"").decode()

    def release(self, shared: ctypes.CDLL, *without: int) -> int:
        """What vmcu_container_release() returns; without: numbers of arguments that are NULL."""
        function = shared.vmcu_container_release
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        function.argtypes = (pointer, size, pointer, pointer)
        numbers = (ctypes.c_uint32 * 2)()
        first = ctypes.addressof(numbers)
        given = [self.data, self.size, first, first + 4]
        return function(*(None if n in without else one for n, one in enumerate(given)))


def test_a_plain_container_is_loaded(weights_loader: ctypes.CDLL, image: bytes) -> None:
    call = Call(image)
    assert call.load(weights_loader) == (0, "")
    assert call.release(weights_loader) == 0
    call.refusal = None
    assert call.load(weights_loader)[0] == 0


@pytest.mark.parametrize(
    ("argument", "moved"),
    [("model", None), ("data", None), ("arena", None), ("data", 8), ("arena", 4)],
)
@pytest.mark.parametrize("says", [True, False])
def test_wrong_arguments(
    argument: str, moved: int | None, says: bool, weights_loader: ctypes.CDLL, image: bytes
) -> None:
    call = Call(image)
    setattr(call, argument, None if moved is None else getattr(call, argument) + moved)
    if not says:
        call.refusal = None
    assert call.load(weights_loader) == (ARGUMENT, "argument" if says else "")


@pytest.mark.parametrize("kind", HEADS)
def test_first_bytes(kind: str, weights_loader: ctypes.CDLL, image: bytes) -> None:
    size, members, refused = HEADS[kind]
    head = bytearray(image)
    for name, value in members.items():
        form = layout.FORMATS[layout.FILE.members[name].kind]
        struct.pack_into(form, head, FILE[name], value)
    call = Call(bytes(head), size)
    assert call.load(weights_loader) == refused
    if kind != "beyond numbers":
        assert call.release(weights_loader) == BAD


def test_arguments_of_a_release(weights_loader: ctypes.CDLL, image: bytes) -> None:
    for without in (0, 2, 3):
        assert Call(image).release(weights_loader, without) == ARGUMENT
    call = Call(image)
    call.data += 8
    assert call.release(weights_loader) == ARGUMENT


@pytest.mark.parametrize(
    ("major", "minor", "refused"), [(3, 0, (BAD, "weights")), (1, 1, (BAD, "tensors"))]
)
def test_no_additions(
    major: int, minor: int, refused: tuple[int, str], weights_loader: ctypes.CDLL, image: bytes
) -> None:
    """By its version something is behind the model, but the file ends there. Of planners nothing
    needs to be there."""
    end = layout.MODEL_AT + layout.MODEL.size
    head = changed(image[:end], FILE["size"], "<I", end)
    head = changed(changed(head, FILE["major"], "<H", major), FILE["minor"], "<H", minor)
    assert Call(head).load(weights_loader) == refused


@pytest.mark.parametrize(
    ("flag", "bit", "what"),
    [("FIXED", 1, "fixed-point requantiser"), ("FLOAT", 2, "float requantiser")],
)
def test_a_requantiser_that_is_left_out(
    flag: str, bit: int, what: str, image: bytes, tmp_path: Path
) -> None:
    shared = device.library(tmp_path, f"-DVMCU_NO_REQUANT_{flag}")
    other = 3 - bit
    for requantisers, wanted in ((bit, (-errno.ENOTSUP, what)), (other, (0, ""))):
        assert Call(of_model(image, "requantisers", requantisers)).load(shared) == wanted
    assert model_member(image, "requantisers") in (1, 2)


def test_a_long_name_is_cut(weights_loader: ctypes.CDLL) -> None:
    """Of a kernel that is not linked a refusal has the name, or its first characters."""
    name = "n" * 60
    image = container.build(make_plan(passes.optimize(frontends.load(HELLO))), name)
    other = of_table(image, "kernels", 0, "name", model_member(image, "name"))
    call = Call(other)
    assert call.load(weights_loader) == (-errno.ENOTSUP, "kernel")
    assert call.kept[1].name.decode() == name[: device.Refusal.name.size - 1]
