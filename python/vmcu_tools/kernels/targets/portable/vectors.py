# SPDX-License-Identifier: Apache-2.0
"""Instructions of depthwise convolutions of any window where as many channels of a pixel as
Packing.vector has are a vector. C that any core runs has four channels instead, see places.py.

The flash stream holds, for each vector: a word, the biases, the weights tap by tap, the
requantiser's multipliers, and its shifts to the left: a byte each for the fast one, which serves
all channels of a vector or none, else words, or those of float32 factors. Biases, multipliers and
shifts are in the order of `quarters`, in which sums of 16 bits are widened: the channels that are a
multiple of four, those two behind them, then the odd ones likewise.

The word has EXACT where the fast requantiser does not apply, and above it how many taps may be
added up in 16 bits. Its last byte is a code: the same number, at most MOST, if all channels of the
vector exist and the fast requantiser applies; else zero, as for more than FEW taps of which no four
may be added up. The first word has ALONE if one tap is all
that may be added up in some vector. Behind EXACT, LINES says that all channels are lines within the
bounds of int8 (integer_scale.py).
"""

from __future__ import annotations

import functools

import numpy as np

from ....quant import FixedPoint, wrap_int32
from ...integer_scale import IntegerScale
from ...language.evaluate import Machine
from ...language.instruction import Instruction, instruction
from ...language.ir import Ram, Stream
from .depthwise import EXACT
from .tile import finish, fixed_fast

# Bits below the number of taps in a word, and below the code.
TAPS_BITS, CODE_BITS = 8, 24
MOST = 127
# Taps of a window, at most, if the code is less than four.
FEW = 512
# Numbers of taps that kernels for a word's number may add up instead, if these are less.
SIZES = (2, 3, 5, 9)
ALONE, LINES = 1, 0x40
# They have C only in targets whose packing has vectors.
VECTORS: dict[str, Instruction] = {}
define = functools.partial(instruction, VECTORS)


def quarters(channels: int) -> np.ndarray:
    """The channels of a vector in the order of their constants."""
    return np.concatenate([np.arange(first, channels, 4) for first in (0, 2, 1, 3)])


def _in_order(values: np.ndarray) -> np.ndarray:
    """Constants of a vector by channel."""
    ordered = np.empty_like(values)
    ordered[quarters(len(values))] = values
    return ordered


@define("Dot", "", "")
def dot_vector(
    m: Machine, acc: np.ndarray, ram: Ram, lanes: int, spread: int, stream: Stream
) -> None:
    """The biases and all taps of a vector of channels, of which `lanes` exist; a channel of the
    input for each, or one for all. The last sum is followed by the stream's word."""
    size = m.packing.vector
    taps = m.load(ram, m.names["p->input_zero"])
    taps = taps.reshape(-1, taps.shape[-1])
    word = m.take(np.int32, 1)
    sums = _in_order(m.take(np.int32, size))
    weights = m.take(np.int8, len(taps) * size).reshape(-1, size)
    sums[:lanes] += (taps * weights[:, :lanes]).sum(axis=0)
    acc[:] = [*sums, *word]


@define("RAMStore", "", "")
def store_vector(m: Machine, p: int, acc: np.ndarray, stream: Stream, ram: Ram, lanes: int) -> None:
    """Requantises a vector of channels and stores those that exist."""
    size = m.packing.vector
    multiplier = _in_order(m.take(np.int32, size))
    if acc[size] & EXACT == 0:
        shifts = -1 - _in_order(m.take(np.int8, size))
        m.store(ram, fixed_fast(m, wrap_int32(acc[:size]), multiplier, shifts)[:lanes])
        return
    kind = IntegerScale if m.names["p->is_float"] else FixedPoint
    requant = kind(multiplier[:lanes], _in_order(m.take(np.int32, size))[:lanes])
    m.store(ram, finish(m, acc[:lanes], requant, 1)[0])


@define("RAMStore", "const struct vmcu_call *call", "", apart=True)
def all_tiles(m: Machine, call: int) -> None:
    """All wide tiles of a convolution that a call asks for."""
    raise NotImplementedError("programs say it in loops")


@define("RAMStore", "const struct vmcu_call *call", "", apart=True)
def all_vectors(m: Machine, call: int) -> None:
    """All pixels that a call asks for, vector by vector."""
    raise NotImplementedError("programs say it in loops")
