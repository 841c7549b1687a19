# SPDX-License-Identifier: Apache-2.0
"""A layer as the checks of lib/vmcu/container have it, and the check of its kernel."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence

import online_device as device
from vmcu_tools.container import layout
from vmcu_tools.ops.values import STRUCTS, CStruct


class Check(ctypes.Structure):
    """struct vmcu_check of lib/vmcu/container/check.h."""

    _fields_ = (
        *(("data", ctypes.c_void_p), ("size", ctypes.c_uint32)),
        *(("model", ctypes.POINTER(device.Model)), ("layer", ctypes.POINTER(device.Layer))),
        *(("params", ctypes.c_void_p), ("scratch", ctypes.POINTER(ctypes.c_uint32))),
    )


class Kernel(ctypes.Structure):
    """Of struct vmcu_kernel, as far as it is needed here."""

    _fields_ = (*(("name", ctypes.c_char_p), ("run", ctypes.c_void_p)), ("check", ctypes.c_void_p))


class FloatSum(ctypes.Structure):
    """struct vmcu_float_sum."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("a", "b", "constant")),
        *((name, ctypes.c_int32) for name in ("a_scale", "b_scale", "bias", "fraction")),
        *(("shift", ctypes.c_uint8), ("offset", ctypes.c_uint8)),
    )


Fields = Mapping[str, "int | Fields"]


def whole(height: int, width: int, channels: int) -> device.Tensor:
    """In a ring of its own size."""
    return device.Tensor(0, height * width * channels, 0, height, width, channels)


def native(name: str, fields: Fields) -> bytes:
    """Parameters as this core has them: pointers first, of eight bytes."""
    kind = STRUCTS[name]
    image = bytearray(kind.size)
    _fill(kind, image, 0, fields)
    pointers = [member.start for member in kind.members.values() if member.pointer]
    first = min((m.start for m in kind.members.values() if not m.pointer), default=kind.size)
    wide = [struct.unpack_from("<I", image, at)[0] for at in pointers]
    return struct.pack(f"<{len(wide)}Q", *wide) + (image[first:] if wide else image)


def _fill(kind: CStruct, image: bytearray, at: int, fields: Fields) -> None:
    for name, value in fields.items():
        member = kind.members[name]
        if isinstance(value, Mapping):
            _fill(STRUCTS[member.kind], image, at + member.start, value)
        else:
            form = "<I" if member.pointer else layout.FORMATS[member.kind]
            struct.pack_into(form, image, at + member.start, value)


class One:
    """A layer from tensors to one, with what a check needs; it keeps what the struct points to."""

    def __init__(
        self,
        tensors: list[device.Tensor],
        pool: int = 1 << 16,
        constants: bytes = b"",
        **layer: int,
    ):
        """tensors: the output, then the inputs; constants: the container, to its last byte."""
        self.tensors = (device.Tensor * len(tensors))(*tensors)
        self.inputs = (ctypes.c_uint16 * len(tensors))(*range(1, len(tensors)))
        self.layer = device.Layer(
            inputs=ctypes.addressof(self.inputs), input_count=len(tensors) - 1, **layer
        )
        self.model = device.Model(pool_bytes=pool, tensors=self.tensors)
        self.room, at = device.aligned(len(constants))
        ctypes.memmove(at, constants, len(constants))
        self.check = Check(
            at, len(constants), ctypes.pointer(self.model), ctypes.pointer(self.layer)
        )

    def __call__(self) -> object:
        return ctypes.byref(self.check)


class Checks:
    """The checks of all kernels."""

    def __init__(self, loader: ctypes.CDLL):
        self.found = {}
        for entry in (ctypes.POINTER(Kernel) * 128).in_dll(loader, "vmcu_kernels"):
            if not entry:
                break
            check = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(entry.contents.check)
            self.found[entry.contents.name.decode()] = check

    def __call__(self, kernel: str, one: One, params: str, fields: Fields) -> bool:
        """Whether a layer is taken. params: the name of their struct without vmcu_ and _params."""
        buffer = ctypes.create_string_buffer(native(f"vmcu_{params}_params", fields) + bytes(8))
        one.check.params = ctypes.addressof(buffer)
        return self.found[f"vmcu_{kernel}"](ctypes.addressof(one.check))


# The first and the last shift of a requantiser, and what is beyond them.
SHIFTS = {-32: False, -31: True, 30: True, 31: False}


def rows_of(tensors: Sequence[device.Tensor], constants: bytes = b"", **changes: int) -> One:
    """A layer that is called for rows of its output."""
    out = tensors[0]
    usual = {"rows": out.height, "width": out.width, "columns": out.width, "scratch": 0}
    return One(list(tensors), constants=constants, **(usual | changes))


def shapes(sizes: Sequence[int] = (1, 2, 3)) -> Iterator[tuple[int, ...]]:
    return itertools.product(sizes, repeat=3)


def expect_limits(
    takes: Checks, kernel: str, one: One, params: str, good: Fields, limits: dict[str, dict]
) -> None:
    """limits: by member, which of its values are taken; of the others all are as in `good`."""
    assert takes(kernel, one, params, good)
    for path, values in limits.items():
        outer, _, inner = path.partition(".")
        for value, taken in values.items():
            changed = {**good.get(outer, {}), inner: value} if inner else value
            found = takes(kernel, one, params, {**good, outer: changed})
            assert found == taken, (kernel, path, value)
