# SPDX-License-Identifier: Apache-2.0
"""The settings of a front end."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import Problem, UserError

# Largest transform: its results and the places of its input are 16 bits.
MOST_WINDOW = 4096
MOST_CHANNELS = 256
MOST_OFFSET = 1e6


@dataclass(frozen=True)
class Settings:
    """Those of TensorFlow Lite Micro's micro frontend; the defaults are the ones that micro_speech
    and microWakeWord are trained with."""

    sample_rate: int = 16_000
    window_ms: int = 30
    hop_ms: int = 10
    channels: int = 40
    lower_hz: float = 125.0
    upper_hz: float = 7500.0
    smoothing_bits: int = 10
    even_smoothing: float = 0.025
    odd_smoothing: float = 0.06
    least_signal: float = 0.05
    pcan: bool = True
    pcan_strength: float = 0.95
    pcan_offset: float = 80.0
    pcan_gain_bits: int = 21
    log: bool = True
    log_shift: int = 6

    def __post_init__(self) -> None:
        """Raises UserError where there is no such front end."""
        checks = {
            "the window must have 16 to 4096 samples": 16 <= self.window <= MOST_WINDOW,
            "the hop must be 1 sample to a window long": 1 <= self.hop <= self.window,
            "channels must be 1 to 256": 1 <= self.channels <= MOST_CHANNELS,
            "the band must lie above 0 Hz and end below half the sample rate": 0
            <= self.lower_hz
            < self.upper_hz
            < self.sample_rate / 2,
            "smoothing bits must be 6 to 16": 6 <= self.smoothing_bits <= 16,
            "smoothing must be 0 to 1": 0 <= self.even_smoothing <= 1
            and 0 <= self.odd_smoothing <= 1,
            "the least signal must be 0 to 1": 0 <= self.least_signal <= 1,
            "the gain of PCAN must have 18 to 31 bits": 18 <= self.pcan_gain_bits <= 31,
            "the strength of PCAN must be 0 to 1": 0 <= self.pcan_strength <= 1,
            "the offset of PCAN must be above 0 and at most a million": 0
            < self.pcan_offset
            <= MOST_OFFSET,
            "the log's shift must be 0 to 15": 0 <= self.log_shift <= 15,
        }
        wrong = [rule for rule, holds in checks.items() if not holds]
        if wrong:
            raise UserError(*(Problem(f"audio: {rule}") for rule in wrong))

    @property
    def window(self) -> int:
        """Samples."""
        return self.window_ms * self.sample_rate // 1000

    @property
    def hop(self) -> int:
        """Samples."""
        return self.hop_ms * self.sample_rate // 1000

    @property
    def transform(self) -> int:
        """Points of the real Fourier transform: the power of two that takes a window."""
        return 1 << (self.window - 1).bit_length()
