# SPDX-License-Identifier: Apache-2.0
"""What the instructions of multiply-accumulate kernels mean.

Flash streams hold, for each block of output channels: the biases (int32), the weights in reading
order, four taps of one channel after four of the next, and the constants of the requantiser.
Tiles hold the widened input of one or two pixels, four taps at a time.
"""

from __future__ import annotations

import numpy as np

from ...quant import FixedPoint, requantize, wrap_int32
from ..integer_scale import IntegerScale
from ..language.evaluate import Machine
from ..language.instruction import Instruction, instruction
from ..language.ir import Ram, Stream, Tile

INSTRUCTIONS: dict[str, Instruction] = {}
# Instructions that call functions made of others, see called.h.
COMPOUND: dict[str, Instruction] = {}
LANES = 4
# Taps that one dot instruction of a tile takes; tiles are filled up with zero weights.
STEP = 8

WIDEN: dict[int, Instruction] = {}
GATHER: dict[int, Instruction] = {}
BIAS: dict[int, Instruction] = {}
DOT: dict[int, Instruction] = {}
STORE: dict[int, Instruction] = {}
EXACT: dict[int, Instruction] = {}


def _on(family: str, parameters: str):
    return instruction(INSTRUCTIONS, family, parameters)


def padded(taps: int, size: int = LANES) -> int:
    """Taps rounded up to whole lanes, or other sizes."""
    return -(-taps // size) * size


def fixed_fast(acc: np.ndarray, multiplier: np.ndarray, bias: np.ndarray, shift: np.ndarray):
    """FixedPoint with a right shift of at least one, in one 64-bit sum.

    SaturatingRoundingDoublingHighMul(x, m) is (2 x m + 2**31) >> 32; the rounding division that
    follows adds half, less one for a negative x, before it shifts. Half and the zero point are
    one constant, `bias` = (1 << (shift - 1)) + (zero_point << shift).
    """
    total = (acc << 1) * multiplier + ((bias + (acc >> 63)) << 32) + (1 << 31)
    return np.clip((total >> 32) >> shift, -128, 127)


def _define(pixels: int) -> None:
    """All instructions for tiles of `pixels` pixels and blocks of two channels."""
    several = "two pixels" if pixels == 2 else "one pixel"

    def widen(m: Machine, tile: Tile, ram: Ram, depth: int) -> None:
        values = m.load(ram)
        m.tile = np.zeros((pixels, padded(depth, STEP)), np.int64)
        m.tile[:, :depth] = values

    widen.__doc__ = f"Widens {several} of depth channels each, taps beyond depth are anything."
    WIDEN[pixels] = instruction(
        INSTRUCTIONS, "RAMLoad", "vmcu_lane_t *t, const int8_t *x, int32_t depth", f"widen_{pixels}"
    )(widen)

    def gather(m: Machine, tile: Tile, ram: Ram, lane: int) -> None:
        taps = m.load(ram, m.names["p->input_zero"])
        runs = taps.reshape(-1, m.names["p->run"])
        size = (pixels, m.names["p->steps"] * STEP)
        if m.tile.shape != size:
            m.tile = np.zeros(size, np.int64)
        for number, run in enumerate(runs):
            at = number * padded(len(run))
            m.tile[lane, at : at + len(run)] = run

    gather.__doc__ = (
        f"Widens the window of pixel number lane of {several}; the zero point stands in for taps in"
        " the padding."
    )
    GATHER[pixels] = instruction(
        INSTRUCTIONS,
        "RAMLoad",
        "vmcu_lane_t *t, const struct vmcu_source *in, int32_t row, int32_t pixel, "
        "int32_t channel, int32_t lane",
        f"gather_{pixels}",
    )(gather)

    def bias(m: Machine, acc: np.ndarray, stream: Stream) -> None:
        acc[:] = np.repeat(m.take(np.int32, 2), pixels)

    bias.__doc__ = f"Starts the accumulators of {several} at two channels' biases."
    BIAS[pixels] = instruction(
        INSTRUCTIONS, "FlashLoad", "int32_t *acc, const uint8_t **w", f"bias_{pixels}"
    )(bias)

    def dot(m: Machine, acc: np.ndarray, tile: Tile, stream: Stream) -> None:
        weights = m.take(np.int8, 2 * STEP).reshape(-1, 2, LANES).swapaxes(0, 1).reshape(2, STEP)
        taps = m.tile[:, m.tile_cursor : m.tile_cursor + STEP]
        m.tile_cursor += STEP
        acc += (weights @ taps.T).reshape(-1)

    dot.__doc__ = f"Eight taps of {several} times those of two channels."
    DOT[pixels] = instruction(
        INSTRUCTIONS,
        "Dot",
        "int32_t *acc, const vmcu_lane_t **t, const uint8_t **w",
        f"dot_{pixels}",
    )(dot)

    _define_stores(pixels, several)


def _define_stores(pixels: int, several: str) -> None:
    def store_fixed(m: Machine, acc: np.ndarray, stream: Stream, ram: Ram, pitch: int) -> None:
        m0, c0, m1, c1, s0, s1 = m.take(np.int32, 6)
        acc = wrap_int32(acc).reshape(2, pixels)
        multiplier, bias, shift = (np.array(v)[:, None] for v in ((m0, m1), (c0, c1), (s0, s1)))
        m.store(ram, fixed_fast(acc, multiplier, bias, shift).T)

    store_fixed.__doc__ = f"Requantises in fixed point and stores two channels of {several}."

    STORE[pixels] = instruction(
        INSTRUCTIONS,
        "RAMStore",
        "const int32_t *acc, const uint8_t **w, int8_t **out, int32_t pitch",
        f"store_fixed_{pixels}",
    )(store_fixed)

    def exact(
        m: Machine, p: int, tile: Tile, stream: Stream, ram: Ram, pitch: int, left: int
    ) -> None:
        acc = np.zeros(2 * pixels, np.int64)
        BIAS[pixels].meaning(m, acc, stream)
        m.tile_cursor = 0
        for _ in range(m.names["p->steps"]):
            DOT[pixels].meaning(m, acc, tile, stream)
        m.store(ram, finish(m, acc, any_requant(m, 2), pixels))

    exact.__doc__ = (
        f"Two channels of {several} from bias to store, for any shift, range and accumulator, in "
        "fixed point or float, and for a last channel alone."
    )
    EXACT[pixels] = instruction(
        COMPOUND,
        "RAMStore",
        "const struct vmcu_mac_params *p, const vmcu_lane_t *t, const uint8_t **w, int8_t **out, "
        "int32_t pitch, int32_t left",
        f"exact_{pixels}",
    )(exact)


DENSE = 4  # channels of a block


@_on("FlashLoad", "int32_t *acc, const uint8_t **w")
def bias_dense(m: Machine, acc: np.ndarray, stream: Stream) -> None:
    """Starts the accumulators at four channels' biases."""
    acc[:] = m.take(np.int32, DENSE)


@_on("Dot", "int32_t *acc, const int8_t *x, const uint8_t **w")
def dot_dense(m: Machine, acc: np.ndarray, ram: Ram, stream: Stream) -> None:
    """Four taps, widened on the way, times those of four channels."""
    acc += m.take(np.int8, DENSE * LANES).reshape(DENSE, LANES) @ m.load(ram)


@_on("Dot", "int32_t *acc, const int8_t *x, int32_t left, const uint8_t **w")
def dot_dense_tail(m: Machine, acc: np.ndarray, ram: Ram, left: int, stream: Stream) -> None:
    """The last taps of a run, fewer than four or none."""
    if left > 0:
        weights = m.take(np.int8, DENSE * LANES).reshape(DENSE, LANES)
        acc += weights[:, :left] @ m.load(ram)


@_on("RAMStore", "const int32_t *acc, const uint8_t **w, int8_t **out")
def store_dense_fixed(m: Machine, acc: np.ndarray, stream: Stream, ram: Ram) -> None:
    """Requantises in fixed point and stores four channels."""
    multiplier, bias = m.take(np.int32, 2 * DENSE).reshape(DENSE, 2).T
    m.store(ram, fixed_fast(wrap_int32(acc), multiplier, bias, m.take(np.int32, DENSE)))


_STORE_LEFT = (
    "const struct vmcu_mac_params *p, const int32_t *acc, const uint8_t **w, int8_t **out, "
    "int32_t left"
)


@instruction(COMPOUND, "RAMStore", _STORE_LEFT)
def store_dense_any(
    m: Machine, p: int, acc: np.ndarray, stream: Stream, ram: Ram, left: int
) -> None:
    """The same for any shift, range and accumulator, fixed point or float, and fewer channels."""
    m.store(ram, finish(m, acc, any_requant(m, DENSE), 1))


def any_requant(m: Machine, channels: int) -> FixedPoint | IntegerScale:
    """A block's constants where the fast requantiser does not apply."""
    if m.names["p->is_float"]:
        return IntegerScale(m.take(np.int32, channels), m.take(np.int32, channels))
    multiplier, shift, _ = m.take(np.int32, 3 * channels).reshape(3, channels)
    return FixedPoint(multiplier, shift)


def finish(m: Machine, acc: np.ndarray, requant: FixedPoint | IntegerScale, pixels: int):
    """(pixels, channels) int8 by the reference requantisers."""
    zero, low, high = (m.names[f"p->{name}"] for name in ("output_zero", "act_min", "act_max"))
    return requantize(wrap_int32(acc).reshape(-1, pixels).T, requant, zero, low, high)


_define(2)
_define(1)
