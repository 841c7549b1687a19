# SPDX-License-Identifier: Apache-2.0
"""Kernels of what models keep from one answer to the next: each byte of a pool after a call."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

import numpy as np
import online_device as device
from layer_checks import native

POOL = 96


class Pool(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_uint32))


class Call(ctypes.Structure):
    """struct vmcu_call of a build with containers."""

    _fields_ = (
        *(("pool", ctypes.POINTER(Pool)), ("tensors", ctypes.POINTER(device.Tensor))),
        *(("layer", ctypes.POINTER(device.Layer)), ("scratch", ctypes.c_void_p)),
        *(("input", ctypes.c_void_p), ("y", ctypes.c_uint16), ("x", ctypes.c_uint16)),
        *(("columns", ctypes.c_uint16), ("base", ctypes.c_size_t)),
    )


def place(t: device.Tensor, y: int, x: int) -> np.ndarray:
    """Where a pixel's bytes are."""
    first = ((y * t.width + x) * t.channels + t.phase) % t.ring
    return (t.base + first + np.arange(t.channels)) % POOL


def after(
    loader: ctypes.CDLL,
    kernel: str,
    pool: np.ndarray,
    tensors: Sequence[device.Tensor],
    at: tuple[int, int, int],
    params: bytes = b"",
) -> np.ndarray:
    """The pool behind a call. tensors: the output, then the inputs; at: row, column, columns."""
    memory = ctypes.create_string_buffer(pool.tobytes(), POOL)
    numbers = (ctypes.c_uint16 * len(tensors))(*range(1, len(tensors)))
    words = ctypes.create_string_buffer(params + bytes(8))
    layer = device.Layer(params=ctypes.addressof(words), inputs=ctypes.addressof(numbers))
    call = Call(
        ctypes.pointer(Pool(ctypes.addressof(memory), POOL)),
        (device.Tensor * len(tensors))(*tensors),
        ctypes.pointer(layer),
        *(None, None, *at, 0),
    )
    getattr(loader, f"vmcu_{kernel}")(ctypes.byref(call))
    return np.frombuffer(memory.raw[:POOL], np.int8)


def drawn(rng: np.random.Generator, hop: int) -> tuple[np.ndarray, device.Tensor]:
    """A pool with the number of a hop in it, and that number's tensor."""
    pool = rng.integers(-128, 128, POOL).astype(np.int8)
    base = int(rng.integers(84, POOL - 1))
    pool[base : base + 2] = np.frombuffer(struct.pack("<H", hop), np.int8)
    return pool, device.Tensor(base, 2, 0, 1, 1, 2)


def test_states_are_remembered_and_recalled(loader: ctypes.CDLL) -> None:
    """Of the first hop all is zero; columns beside the call's are left alone."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        hop = int(rng.choice([0, 1, 256, 65535]))
        pool, number = drawn(rng, hop)
        height, width, channels = (int(n) for n in rng.integers(1, (4, 4, 4)))
        kept = device.Tensor(0, height * width * channels, 0, height, width, channels)
        out = device.Tensor(40, kept.ring, 0, height, width, channels)
        y, x = int(rng.integers(0, height)), int(rng.integers(0, width))
        columns, zero = int(rng.integers(1, width - x + 1)), int(rng.integers(-128, 128))
        params = native("vmcu_recall_params", {"zero": zero})
        recalled, copied = pool.copy(), pool.copy()
        for n in range(x, x + columns):
            copied[place(out, y, n)] = pool[place(kept, y, n)]
            recalled[place(out, y, n)] = pool[place(kept, y, n)] if hop else zero
        at = (y, x, columns)
        found = after(loader, "recall", pool, [out, kept, number], at, params)
        np.testing.assert_array_equal(found, recalled)
        np.testing.assert_array_equal(after(loader, "remember", pool, [out, kept], at), copied)


def test_windows_are_looked_back_at(loader: ctypes.CDLL) -> None:
    """From a ring that may split a row, at the hop's row; rows that are none are not read."""
    rng = np.random.default_rng(8)
    split = beside = 0
    for _ in range(1500):
        hop, step = int(rng.integers(0, 3)), int(rng.integers(1, 3))
        pool, number = drawn(rng, hop)
        height, width, channels = (int(n) for n in rng.integers(1, (9, 4, 3)))
        pixels = int(rng.integers(1, height * width + 1))
        ring = device.Tensor(0, pixels * channels, 0, height, width, channels)
        out = device.Tensor(60, 4 * width * channels, 0, 4, width, channels)
        if ring.ring > 60 or out.ring > 24:
            continue
        y, x = int(rng.integers(0, 4)), int(rng.integers(0, width))
        columns = int(rng.integers(1, width - x + 1))
        wanted, row = pool.copy(), hop * step + y
        for n in range(x, x + columns if row < height else x):
            wanted[place(out, y, n)] = pool[place(ring, row, n)]
        params = native("vmcu_look_back_params", {"step": step})
        found = after(loader, "look_back", pool, [out, ring, number], (y, x, columns), params)
        np.testing.assert_array_equal(found, wanted)
        starts = [place(ring, row, n)[0] for n in range(x, x + columns)]
        split += row < height and starts != sorted(starts)
        beside += row >= height
    assert split > 10 and beside > 50


def test_hops_are_counted(loader: ctypes.CDLL) -> None:
    for hop in (0, 1, 255, 256, 65535):
        pool = np.zeros(POOL, np.int8)
        found = after(loader, "hop_count", pool, [device.Tensor(6, 2, 0, 1, 1, 2)], (hop, 0, 1))
        wanted = bytes(6) + struct.pack("<H", hop) + bytes(POOL - 8)
        assert found.tobytes() == wanted
