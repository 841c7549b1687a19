# SPDX-License-Identifier: Apache-2.0
"""The kernel of fully connected layers whose channels share one factor: it is a parameter, and the
stream has no other constants than biases and weights."""

from __future__ import annotations

from ..kernels.language.packing import Packing
from ..kernels.pack import fast_shifts
from ..kernels.programs import programs
from ..kernels.targets import packings
from ..kernels.targets.portable.dense import TURN
from .kernel_type import ONE_INPUT, KernelType
from .values import CStruct

NAME = "vmcu_dense_per_tensor"
# Each saves five bytes. If other layers need vmcu_dense(), this kernel is up to 640 bytes more.
LEAST_CHANNELS = 128
PARAMS = CStruct(
    f"{NAME}_params",
    "const uint32_t *stream; int32_t multiplier; uint8_t shift; int8_t output_zero;",
)


def serves(packing: Packing, channels: int, taps: int) -> bool:
    """True if a packing has the kernel for so many channels and taps, and it saves bytes."""
    whole = taps % TURN == 0 and channels % packing.dense == 0
    return whole and channels >= LEAST_CHANNELS and NAME in programs(packing)


for _packing in packings():
    if NAME not in programs(_packing):
        continue
    _in, _out = "vmcu_check_input(c, 0)", "vmcu_check_output(c)"
    # Words of a block: biases and weights.
    _taps = f"({_in}->channels + {_packing.lanes - 1}U) / {_packing.lanes}U"
    _words = f"({_packing.dense}U + {_taps} * {_packing.weight_bytes(_packing.lanes)}U)"
    KernelType(
        f"{NAME}{_packing.suffix}",
        PARAMS,
        ONE_INPUT,
        "vmcu_check_rows(c, 0)",
        f"{_in}->height == {_out}->height && {_in}->width == 1U && {_out}->width == 1U",
        f"{_in}->channels % {TURN}U == 0U && {_out}->channels % {_packing.dense}U == 0U",
        reads="PIXEL",
        # Streams have one less.
        limits={"shift": (None, fast_shifts(_packing)[-1] - 1)},
        arrays={"stream": f"{_out}->channels / {_packing.dense}U * {_words}"},
        packing=_packing,
    )
