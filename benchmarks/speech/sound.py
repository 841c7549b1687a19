# SPDX-License-Identifier: Apache-2.0
"""Sounds of which the clean part is known: bursts of a voice, in noise.

A burst has harmonics of a moving pitch, louder at three formants. Its noise falls with frequency,
and half of the sounds have a louder band of noise. Pitch, formants, levels and noise are random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RATE = 16_000
HIGHEST_HZ = 4000  # of a harmonic
EDGE = RATE // 100  # samples in which a burst gets loud
FORMANTS_HZ = ((300, 800), (900, 2300), (2400, 3300))


@dataclass(frozen=True)
class Sound:
    """float32 samples from -1 to 1: `mixed` is the `clean` voice and noise."""

    clean: np.ndarray
    mixed: np.ndarray


def sound(count: int, seed: int) -> Sound:
    """So many samples. The noise is 8 dB below the voice at least and 2 dB above it at most."""
    rng = np.random.default_rng(seed)
    clean, hiss = voice(count, rng), noise(count, rng)
    clean = clean / max(_rms(clean), 1e-3)
    mixed = clean + hiss / _rms(hiss) * 10 ** (rng.uniform(-8, 2) / 20)
    level = rng.uniform(0.3, 0.9) / np.abs(mixed).max()
    return Sound(*((level * one).astype(np.float32) for one in (clean, mixed)))


def voice(count: int, rng: np.random.Generator) -> np.ndarray:
    """Bursts of 0.1 to 0.4 s, with silence of 0.05 to 0.3 s between them."""
    made = np.zeros(count)
    start = int(rng.uniform(0, 0.2) * RATE)
    while start < count:
        size = int(rng.uniform(0.1, 0.4) * RATE)
        made[start : start + size] = rng.uniform(0.5, 1) * burst(size, rng)[: count - start]
        start += size + int(rng.uniform(0.05, 0.3) * RATE)
    return made


def burst(size: int, rng: np.random.Generator) -> np.ndarray:
    """Harmonics up to HIGHEST_HZ of a pitch of 80 to 250 Hz that moves by a quarter at most."""
    first = rng.uniform(80, 250)
    pitch = np.linspace(first, first * rng.uniform(0.8, 1.25), size)
    order = np.arange(1, int(HIGHEST_HZ / pitch.max()) + 1)[:, None]
    loud = np.zeros((len(order), size))
    for fall, ends in enumerate(FORMANTS_HZ):
        loud += 0.5**fall * np.exp(-(((order * pitch - rng.uniform(*ends)) / 200) ** 2))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    waves = np.sin(order * phase + rng.uniform(0, 6, order.shape))
    inward = np.minimum(np.arange(size), np.arange(size)[::-1])
    made: np.ndarray = ((loud + 0.1 / order) * waves).sum(0) * np.minimum(inward / EDGE, 1)
    return made


def noise(count: int, rng: np.random.Generator) -> np.ndarray:
    """White noise through a filter: a slope, and in half of the cases a band."""
    hertz = np.fft.rfftfreq(count, 1 / RATE)
    shape = np.maximum(hertz, 50) ** -rng.uniform(0, 1)
    if rng.random() < 0.5:
        middle, width = rng.uniform(200, 6000), rng.uniform(100, 800)
        shape *= 1 + 5 * np.exp(-(((hertz - middle) / width) ** 2))
    return np.fft.irfft(np.fft.rfft(rng.normal(size=count)) * shape, count)


def spectra(samples: np.ndarray, bins: int) -> np.ndarray:
    """(frames, bins, 2): real and imaginary parts of the short-time transform, half overlapping."""
    size = 2 * (bins - 1)
    starts = range(0, len(samples) - size + 1, size // 2)
    frames = np.fft.rfft(np.stack([samples[n : n + size] for n in starts]) * window(size))
    return np.stack([frames.real, frames.imag], -1).astype(np.float32)


def samples_of(spectrum: np.ndarray) -> np.ndarray:
    """What spectra() was made of, without the first and the last half frame, which do not overlap
    another one."""
    size = 2 * (spectrum.shape[1] - 1)
    frames = np.fft.irfft(spectrum[..., 0] + 1j * spectrum[..., 1]) * window(size)
    made: np.ndarray = frames[1:, : size // 2] + frames[:-1, size // 2 :]
    return made.reshape(-1)


def window(size: int) -> np.ndarray:
    """The squares of two that overlap by half sum up to one."""
    return np.sqrt(np.hanning(size + 1)[:-1])


def has_voice(clean: np.ndarray, size: int) -> np.ndarray:
    """bool (frames,): frames of `size` samples whose RMS is above a tenth of the whole sound's."""
    frames = clean[: len(clean) // size * size].reshape(-1, size)
    loud: np.ndarray = np.sqrt((frames**2).mean(1)) > 0.1 * _rms(clean)
    return loud


def _rms(samples: np.ndarray) -> float:
    return float(np.sqrt((samples**2).mean()))
