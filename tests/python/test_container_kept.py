# SPDX-License-Identifier: Apache-2.0
"""What a loader takes of what models that keep their rows keep: the last that is right, and counts
to their last, whatever follows them."""

from __future__ import annotations

import ctypes
import errno
import struct

import pytest
from builders.containers import changed, member_of, model_member
from online_device import load_result as load
from test_windows_anew import small
from vmcu_tools import container
from vmcu_tools.container import layout
from vmcu_tools.emit import structs
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan


@pytest.fixture(scope="module")
def image() -> bytes:
    """A small model that has layers behind those that go on."""
    return container.build(make_plan(small(), CompileOptions(hop=1)), "m")


def of_stream(image: bytes, member: str, value: int) -> bytes:
    return member_of(image, layout.STREAM_AT, structs.STREAM, member, value)


def stream_members(image: bytes, *members: str) -> list[int]:
    """Of four bytes."""
    starts = [structs.STREAM.members[member].start for member in members]
    return [struct.unpack_from("<I", image, layout.STREAM_AT + at)[0] for at in starts]


def streamed_height(image: bytes) -> int:
    """Of the input that is taken row by row."""
    io, tensor = structs.IO.members["tensor"].start, structs.TENSOR
    (number,) = struct.unpack_from("<H", image, model_member(image, "inputs") + io)
    at = model_member(image, "tensors") + tensor.size * number + tensor.members["height"].start
    return struct.unpack_from("<H", image, at)[0]


def layers_of_unbounded(image: bytes) -> int:
    """Layers of the stage that never ends."""
    at = model_member(image, "stages") + structs.STAGE.members["count"].start
    return struct.unpack_from("<H", image, at)[0]


def counts_of_unbounded(image: bytes) -> tuple[int, int]:
    """Where it counts its calls."""
    at = model_member(image, "stages") + structs.STAGE.members["progress"].start
    (start,) = struct.unpack_from("<I", image, at)
    return start, start + 2 * layers_of_unbounded(image)


@pytest.mark.slow
def test_what_is_kept_up_to_the_last_that_is_right(rows_loader: ctypes.CDLL, image: bytes) -> None:
    """Rows below those of the window; a state that ends with the pool, or with the counts."""
    (at,) = stream_members(image, "state")
    pool, counts = model_member(image, "pool_bytes"), counts_of_unbounded(image)
    height = streamed_height(image)
    cases = [
        ("rows", height - 1, ""),
        ("rows", height, "stream"),
        ("state_bytes", pool - at, ""),
        ("state_bytes", pool - at + 1, "state"),
        ("state_bytes", counts[1] - at, ""),
        ("state_bytes", counts[1] - at - 1, "state"),
    ]
    for member, value, what in cases:
        found = load(rows_loader, of_stream(image, member, value))
        assert found == (-errno.EBADMSG if what else 0, what), (member, value)
    for start, what in ((counts[0], ""), (counts[0] + 1, "state")):
        moved = of_stream(of_stream(image, "state", start), "state_bytes", pool - start)
        assert load(rows_loader, moved)[1] == what, start


@pytest.mark.parametrize("member", ["calls", "again"])
def test_nothing_behind_counts_counts(rows_loader: ctypes.CDLL, image: bytes, member: str) -> None:
    """They may end where the container does, or be followed by anything. Up to as many calls as a
    layer has; they start over in front of where they end."""
    count, wrong = layers_of_unbounded(image), (-errno.EBADMSG, "stream")
    (at,) = stream_members(image, member)
    numbers = image[at : at + 2 * count]
    front = image + bytes(-len(image) % layout.ALIGN)
    for behind, less in ((64, 0), (0, 0), (0, 1)):
        longer = front + numbers[: len(numbers) - less] + b"\xff" * behind
        longer = changed(longer, layout.FILE.members["size"].start, "<I", len(longer))
        found = load(rows_loader, of_stream(longer, member, len(front)))
        assert found == (wrong if less else (0, "")), (behind, less)
    calls = struct.unpack_from(f"<{count}H", image, stream_members(image, "calls")[0])
    for number in range(count):
        rows, width, columns = struct.unpack_from(
            "<3H",
            image,
            model_member(image, "layers")
            + structs.LAYER.size * number
            + structs.LAYER.members["rows"].start,
        )
        most = {"calls": rows * -(-width // columns), "again": calls[number] - 1}[member]
        for value in (most, most + 1):
            damaged = changed(image, at + 2 * number, "<H", value)
            assert load(rows_loader, damaged) == ((0, "") if value == most else wrong), number
