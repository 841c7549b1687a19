# SPDX-License-Identifier: Apache-2.0
"""Checks of depthwise layers in containers: streams to their last byte, windows, rings, scratch."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Sequence

import online_device as device
import pytest
from block_checks import Takes, given
from builders.any_core import PACKED, Core
from layer_checks import Fields, whole
from vmcu_tools.kernels.programs.depthwise import tile_bytes
from vmcu_tools.kernels.targets import TARGETS, Target
from vmcu_tools.kernels.targets.portable.depthwise import (
    SQUARE_TAPS,
    STRIDES,
    TAPS,
    channel_bytes,
    pair_counts,
)
from vmcu_tools.kernels.targets.portable.strips import meetings
from vmcu_tools.kernels.targets.portable.vectors import ALONE, LINES
from vmcu_tools.ops.depthwise import blocks_of

OF_SQUARES, OF_VECTORS = (
    pytest.mark.parametrize("core", names, indirect=True)
    for names in (
        ["", *(name for name, packing in PACKED.items() if not packing.vector)],
        [name for name, packing in PACKED.items() if packing.vector],
    )
)
EXACT = 0x80
# No tensor is there.
APART = 4096


@pytest.fixture
def takes(core: Core, core_loader: ctypes.CDLL) -> Takes:
    return Takes(core_loader, core.packing)


def any_fits(takes: Takes, channels: int, stream: bytes, fields: Fields) -> bool:
    """True if the kernel of any window supports a layer of so many channels."""
    one = given("depthwise_any", channels, channels, stream, scratch=APART)
    return takes("depthwise_any", one, "mac", fields)


def square(taps: int, stride: int, **changes: int) -> dict:
    window = {"kernel_h": taps, "kernel_w": taps, "stride_h": stride, "stride_w": stride}
    return {
        "groups": 1,
        "run": 1,
        "stream": 8,
        "steps": 4,
        "window": window | {"dilation_h": 1, "dilation_w": 1} | changes,
    }


@pytest.mark.parametrize("taps", TAPS)
@pytest.mark.parametrize("stride", STRIDES)
@OF_SQUARES
def test_tiles_of_depthwise(takes: Takes, taps: int, stride: int) -> None:
    """As many bytes as the planner gives a strip."""
    kernel = f"depthwise_{taps}_{stride}"
    stream = bytes(8 + 2 * channel_bytes(taps, stride, takes.packing))
    for wide in range(1, 14):
        size = tile_bytes(taps, stride, wide, takes.packing)
        for less in range(2):
            one = given(kernel, 2, 2, stream, 1, scratch=APART)
            one.model.pool_bytes = APART + size - less
            found = takes(kernel, one, "mac", square(taps, stride) | {"steps": wide})
            assert found == (not less), wide


@pytest.mark.parametrize(
    "target", [one for one in TARGETS.values() if not one.packing.vector], ids=lambda one: one.name
)
def test_tiles_hold_what_blocks_read(target: Target) -> None:
    """Of strips of any width, which blocks of pixels may hang over."""
    for taps, stride, wide in itertools.product(TAPS, STRIDES, range(1, 26)):
        first, *others = (wide - 1 + count for count in pair_counts(taps, stride))
        row = first + sum(others)
        plane = row * (taps // 2) + (wide * stride + taps + 1 - stride) // 2
        pixels = sum(blocks_of(target, taps, stride, wide))
        met = meetings(target.packing, taps, stride, first, row, pixels)
        read = 4 * (plane + int(met.words.max()) + 1)
        if target.packing.paired and taps != SQUARE_TAPS:
            # Rows of words, see families/rv32.
            columns = (wide - 1) * stride + taps
            read = max(read, 4 * ((taps - 1) * columns + (pixels - 1) * stride + taps))
        assert read <= tile_bytes(taps, stride, wide, target.packing), (taps, stride, wide)


@pytest.mark.parametrize("taps", TAPS)
@pytest.mark.parametrize("stride", STRIDES)
@OF_SQUARES
def test_channels_of_depthwise(takes: Takes, taps: int, stride: int) -> None:
    """In twos, to the last byte; what an exact one has behind them all, too."""
    kernel, size = f"depthwise_{taps}_{stride}", channel_bytes(taps, stride, takes.packing)
    fields = square(taps, stride)

    def found(stream: bytes, channels: int) -> bool:
        return takes(kernel, given(kernel, channels, channels, bytes(8) + stream, 1), "mac", fields)

    for channels in range(1, 5):
        whole_of = (channels + 1) // 2 * 2 * size
        assert found(bytes(whole_of), channels) and not found(bytes(whole_of - 1), channels)
        for number in range(channels + 1):

            def stream(word: int, behind: bytes = b"") -> bytes:
                words = bytearray(max(whole_of, number * size + 4))  # noqa: B023
                struct.pack_into("<i", words, number * size, word)  # noqa: B023
                return bytes(words) + behind

            looked_at = number < channels
            # A fast one's shift is in its lowest bits.
            most = takes.shift
            assert found(stream(most), channels)
            assert found(stream(most + 1), channels) != looked_at
            word = EXACT | len(stream(0)) // 4 << 8
            for shift, taken in ((30, True), (31, False), (-31, True), (-32, False)):
                rest = struct.pack("<ii", 0, shift)
                assert found(stream(word, rest), channels) == (taken or not looked_at)
            assert found(stream(word, bytes(7)), channels) != looked_at
            assert found(stream(EXACT | -1 << 8, bytes(8)), channels) != looked_at


@OF_SQUARES
def test_windows_of_depthwise(takes: Takes) -> None:
    """The kernel's own, of which none lies beside the image."""
    kernel = "depthwise_3_1"
    for member, value in itertools.product(
        ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "pad_left"),
        range(1, 5),
    ):
        fields = square(3, 1, **{member: value})
        found = takes(kernel, given(kernel, 2, 2, bytes(8 + 40)), "mac", fields)
        right = {"kernel_h": value == 3, "kernel_w": value == 3, "stride_w": value == 1}
        right |= {"dilation_w": value == 1, "pad_left": value < 3}
        # The strip's rows are the ring's whatever they are.
        assert found == right.get(member, True), (member, value)
    for steps in range(3):
        one = given(kernel, 2, 2, bytes(8 + 40))
        assert takes(kernel, one, "mac", square(3, 1) | {"steps": steps}) == (steps > 0)
    assert not takes(kernel, given(kernel, 3, 2, bytes(99)), "mac", square(3, 1))
    for width, pad in itertools.product(range(1, 6), range(3)):
        one = given(kernel, 2, 2, bytes(8 + 40), width)
        one.tensors[1] = whole(2, 2, 2)
        # The last window begins in the image.
        found = takes(kernel, one, "mac", square(3, 1, pad_left=pad))
        assert found == (width - 1 - pad < 2), (width, pad)


@OF_SQUARES
def test_groups_of_strips(takes: Takes) -> None:
    """All channels are one group, or a channel has an even number of outputs, unless pixels are
    paired."""
    kernel = "depthwise_3_1"
    stream = bytes(8 + 4 * channel_bytes(3, 1, takes.packing))
    for run, groups, cin, cout in itertools.product(range(3), range(4), (1, 2), (1, 2, 3, 4)):
        right = run == 1 and groups == 1 and cin == cout
        is_even = cout % (2 * cin) == 0 and not takes.packing.paired
        right = right or (run == 0 and groups == cin and is_even)
        one = given(kernel, cin, cout, stream)
        found = takes(kernel, one, "mac", square(3, 1) | {"groups": groups, "run": run})
        assert found == right, (run, groups, cin, cout)


@OF_SQUARES
def test_rings_of_depthwise(takes: Takes) -> None:
    """A ring holds all rows under a strip, up to the strip's last column, or the tensor."""
    kernel, width, channels, height = "depthwise_3_2", 9, 2, 8
    for steps, columns, dilation, ring in itertools.product(
        range(1, 6),
        range(1, 5),
        (1, 2),
        range(2 * width * channels, (height + 1) * width * channels),
    ):
        if ring % (width * channels) not in (0, *range(0, 18, 2)):
            continue
        one = given(kernel, channels, channels, bytes(8 + 40), 4, columns=columns)
        one.tensors[1] = device.Tensor(0, ring, 0, height, width, channels)
        fields = square(3, 2, dilation_h=dilation) | {"steps": steps}
        pixels = min(steps, columns)
        seen = 2 * dilation * width + min((pixels - 1) * 2 + 3, width)
        right = ring >= min(seen, height * width) * channels
        assert takes(kernel, one, "mac", fields) == right, (steps, columns, dilation, ring)


def fours(
    channels: int, taps: int, exact: Sequence[int], wrong: int | None = None, shift: int = 0
) -> bytes:
    """exact: by four channels. shift: of one channel."""
    found = bytes(8)
    for number in range(-(-channels // 4)):
        found += bytes(16 + 4 * taps + 16)
        shifts = [shift if 4 * number + n == wrong else 0 for n in range(4)]
        flag = EXACT if exact[number] else 0
        found += struct.pack("<4B", *[flag if flag else one for one in shifts])
        found += struct.pack("<4i", *shifts) if flag else b""
    return found


@OF_SQUARES
def test_any_depthwise(takes: Takes) -> None:
    """In fours, which are fast only where all of them exist."""
    taps = 6
    window = square(3, 1, kernel_w=2)["window"]
    fields = {"window": window, "groups": 1, "run": 1, "stream": 8}
    for channels in range(1, 9):
        for exact in itertools.product(range(2), repeat=-(-channels // 4)):
            right = channels % 4 == 0 or exact[-1] == 1
            stream = fours(channels, taps, exact)
            assert any_fits(takes, channels, stream, fields) == right
            if not right:
                continue
            assert not any_fits(takes, channels, stream[:-1], fields)
            for wrong in range(4 * len(exact)):
                most = 30 if exact[wrong // 4] else takes.shift
                for shift in (most, most + 1):
                    stream = fours(channels, taps, exact, wrong, shift)
                    fits = any_fits(takes, channels, stream, fields)
                    assert fits == (shift == most), (channels, exact, wrong)
    mixed = bytearray(fours(4, taps, [1]))
    for place in range(1, 4):
        other = bytearray(mixed)
        other[8 + 32 + 4 * taps + place] = 0
        assert not any_fits(takes, 4, bytes(other), fields)


@OF_SQUARES
def test_groups_of_any_depthwise(takes: Takes) -> None:
    """All channels are one group, or each of the input's has a group of its own."""
    kernel = "depthwise_any"
    for run, groups, cin, cout in itertools.product(range(3), range(4), (1, 2), (1, 2, 3, 4)):
        fields = {"window": square(3, 1)["window"], "groups": groups, "run": run, "stream": 8}
        per_group = cout // max(groups, 1)
        stream = bytes(8) + fours(per_group, 9, [1, 1])[8:] * max(groups, 1)
        right = groups > 0 and cout % groups == 0
        right = right and (
            (run == 1 and groups == 1 and cin == cout) or (run == 0 and groups == cin)
        )
        found = takes(kernel, given(kernel, cin, cout, stream, scratch=APART), "mac", fields)
        assert found == right, (run, groups, cin, cout)
    # Addresses of taps are in scratch, where the output must not be.
    fields = {"window": square(3, 1)["window"], "groups": 1, "run": 1, "stream": 8}
    for room, at, taken in ((36, 16, True), (35, 16, False), (36, 12, False)):
        one = given(kernel, 4, 4, fours(4, 9, [1]), scratch=at)
        one.model.pool_bytes = at + room
        assert takes(kernel, one, "mac", fields) == taken, (room, at)


def vectors(
    channels: int, taps: int, exact: Sequence[int], wrong: int | None = None, shift: int = 0
) -> bytes:
    """exact: by sixteen channels. shift: of one channel; fast ones are those to the left."""
    found = bytes(8)
    for number in range(-(-channels // 16)):
        word = 1 << 8 | (EXACT if exact[number] else 0)
        shifts = [shift if 16 * number + n == wrong else 0 for n in range(16)]
        found += struct.pack("<I", word) + bytes(64 + 16 * taps + 64)
        form = "<16i" if exact[number] else "<16b"
        found += struct.pack(form, *(one if exact[number] else -1 - one for one in shifts))
    return found


@OF_VECTORS
def test_vectors_of_depthwise(takes: Takes) -> None:
    """Sixteen channels at a time, of which some may not exist, to the last byte."""
    taps = 6
    fields = {"window": square(3, 1, kernel_w=2)["window"], "groups": 1, "run": 1, "stream": 8}
    fields |= {"steps": 33}

    def found(channels: int, stream: bytes, **changes: int) -> bool:
        return any_fits(takes, channels, stream, fields | changes)

    for channels in (1, 15, 16, 17, 33):
        for exact in itertools.product(range(2), repeat=-(-channels // 16)):
            stream = vectors(channels, taps, exact)
            assert found(channels, stream) and not found(channels, stream[:-1])
            assert found(channels, stream, is_float=1) == all(exact)
            for wrong in (0, 7, 15, 16 * len(exact) - 1):
                most = 30 if exact[wrong // 16] else takes.shift
                assert found(channels, vectors(channels, taps, exact, wrong, most))
                assert not found(channels, vectors(channels, taps, exact, wrong, most + 1))
    for number, exact in itertools.product(range(2), range(2)):
        stream = bytearray(vectors(32, taps, [exact] * 2))
        at = 8 + number * (len(stream) - 8) // 2
        for low, several in itertools.product(range(256), (0, 1, taps, taps + 1, 256, 0x601)):
            struct.pack_into("<I", stream, at, several << 8 | low)
            bits = low if number else low & ~ALONE
            for is_float in range(exact + 1):
                right = {EXACT, EXACT | LINES * is_float} if exact else {0}
                wanted = bits in right and 1 <= several <= taps
                assert found(32, bytes(stream), is_float=is_float) == wanted, (number, low, several)


@OF_VECTORS
def test_codes_of_vectors(takes: Takes) -> None:
    """Assembly jumps by them, without a look at the channels that exist: none, or how many taps may
    be added up, of whole vectors for the fast requantiser."""
    for taps, channels, exact in itertools.product((6, 200), (16, 17, 31), range(2)):
        fields = {"window": square(3, 1, kernel_h=1, kernel_w=taps)["window"], "groups": 1}
        fields |= {"run": 1, "stream": 8, "steps": channels}
        stream = bytearray(vectors(channels, taps, [exact] * -(-channels // 16)))
        count = -(-channels // 16)
        for number, several in itertools.product(range(count), (1, 2, taps)):
            at = 8 + number * (len(stream) - 8) // count
            low = EXACT if exact else 0
            kept = bytes(stream[at : at + 4])
            for code in range(256):
                struct.pack_into("<I", stream, at, code << 24 | several << 8 | low)
                whole_one = not exact and 16 * (number + 1) <= channels
                right = code == 0 or (whole_one and code == min(several, 127))
                fits = any_fits(takes, channels, bytes(stream), fields)
                assert fits == right, (number, several, code)
            stream[at : at + 4] = kept


@OF_VECTORS
def test_scratch_of_vectors(takes: Takes) -> None:
    """Addresses of taps in fours, of rows, and a pixel of padding where a window sees any."""
    kernel, channels = "depthwise_any", 5
    for height, width, top, left in itertools.product((1, 2, 3), (1, 2, 3), range(2), range(2)):
        window = square(3, 1, kernel_h=height, kernel_w=width, pad_top=top, pad_left=left)["window"]
        taps = height * width
        for rows, columns, steps in itertools.product((2, 3, 4), (2, 3, 4), (0, 4, 5, 9)):
            one = given(kernel, channels, channels, vectors(channels, taps, [1]), scratch=APART)
            one.tensors[1] = whole(rows, columns, channels)
            size = -(-taps // 4) * 16 + 4 * height + steps
            beside = (1 - top + height > rows) or (1 - left + width > columns)
            right = steps >= channels or not (top or left or beside)
            fields = {"window": window, "groups": 1, "run": 1, "stream": 8, "steps": steps}
            for less in range(2):
                one.model.pool_bytes = APART + size - less
                found = takes(kernel, one, "mac", fields)
                assert found == (right and not less), (window, rows, columns, steps)
    # Where the output must not be.
    fields = {"window": square(3, 1)["window"], "groups": 1, "run": 1, "stream": 8, "steps": 4}
    for at, taken in ((16, True), (12, False)):
        one = given(kernel, 4, 4, vectors(4, 9, [1]), scratch=at)
        one.model.pool_bytes = at + 64
        assert takes(kernel, one, "mac", fields) == taken


@OF_VECTORS
def test_groups_of_vectors(takes: Takes) -> None:
    """Each channel of the input has whole vectors of its own."""
    for run, groups, cin, cout in itertools.product(range(3), range(4), (1, 2), (1, 2, 17, 34)):
        fields = {"window": square(3, 1)["window"], "groups": groups, "run": run, "stream": 8}
        fields |= {"steps": 34}
        per_group = cout // max(groups, 1)
        exact = [1] * -(-per_group // 16)
        stream = bytes(8) + vectors(per_group, 9, exact)[8:] * max(groups, 1)
        right = groups > 0 and cout % groups == 0
        right = right and (
            (run == 1 and groups == 1 and cin == cout) or (run == 0 and groups == cin)
        )
        one = given("depthwise_any", cin, cout, stream, scratch=APART)
        assert takes("depthwise_any", one, "mac", fields) == right
