# SPDX-License-Identifier: Apache-2.0
"""Samples from .wav files."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from ..errors import Problem, UserError


def samples_of(path: Path, sample_rate: int) -> np.ndarray:
    """int16 (samples). Raises UserError where the file is none of 16 bits, one channel, and this
    many samples a second."""
    try:
        with wave.open(str(path), "rb") as file:
            form = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            data = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise UserError(
            Problem(f"not a readable .wav file: {error}", "record it again", str(path))
        ) from None
    if form != (1, 16, sample_rate):
        raise UserError(
            Problem(
                f"the recording has {form[0]} channels of {form[1]} bits at {form[2]} Hz; "
                f"the front end needs one channel of 16 bits at {sample_rate} Hz",
                "convert it, or change --set sample_rate",
                str(path),
            )
        )
    return np.frombuffer(data[: len(data) // 2 * 2], "<i2")
