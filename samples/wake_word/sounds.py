# SPDX-License-Identifier: Apache-2.0
"""The sounds of this sample: its wake word, and what is none.

As a command it writes a WAV file of words with pauses for the sample to hear on native_sim.
"""

from __future__ import annotations

import argparse
import wave
from pathlib import Path

import numpy as np

RATE = 16000
# Seconds of a stream.
STREAM = 30
SHAPES = {
    "wake": (0, 1, 0),
    "up": (0, 0.5, 1),
    "down": (1, 0.5, 0),
    "valley": (1, 0, 1),
    "hold": (0.5, 0.5, 0.5),
    "half": (0, 1),
}
OTHERS = (*SHAPES, "noise")
CHANCES = (0.3, *[0.7 / (len(OTHERS) - 1)] * (len(OTHERS) - 1))


def tone(
    shape: tuple[float, ...], length: float, octaves: float, low: float, overtone: float
) -> np.ndarray:
    """A tone whose pitch goes through `shape`, in octaves above a low one. float (samples)."""
    count = int(length * RATE)
    above = octaves * np.interp(np.arange(count), np.linspace(0, count, len(shape)), shape)
    phase = 2 * np.pi * np.cumsum(low * 2**above) / RATE
    rounded = np.sin(np.pi * np.linspace(0, 1, count)) ** 0.3
    return (np.sin(phase) + overtone * np.sin(2 * phase)) * rounded


def drawn(shape: tuple[float, ...], length: float, rng: np.random.Generator) -> np.ndarray:
    octaves, low = rng.uniform(1.2, 2.0), rng.uniform(300, 500)
    return tone(shape, length, octaves, low, rng.uniform(0, 0.4))


def stream(rng: np.random.Generator) -> tuple[np.ndarray, list[float]]:
    """STREAM seconds of words with pauses, int16, and when wake words ended."""
    count = STREAM * RATE
    sound = rng.normal(0, 10 ** rng.uniform(0, 1.8), count)
    at, ends = int(rng.uniform(0.2, 1.5) * RATE), []
    while True:
        word, length = rng.choice(OTHERS, p=CHANCES), rng.uniform(0.45, 0.6)
        if word in SHAPES:
            made = drawn(SHAPES[word], length / (2 if word == "half" else 1), rng)
        else:
            made = rng.normal(0, 1, int(length * RATE))
        if at + len(made) > count:
            return np.clip(np.rint(sound), -32768, 32767).astype(np.int16), ends
        sound[at : at + len(made)] += 10 ** rng.uniform(3.0, 4.3) * made
        at += len(made)
        if word == "wake":
            ends.append(at / RATE)
        at += int(rng.uniform(0.3, 1.5) * RATE)


def recording(words: list[str], rng: np.random.Generator) -> np.ndarray:
    """The words with a pause in front of each and behind the last, int16."""
    pieces = [np.zeros(RATE)]
    for word in words:
        pieces += [6000 * tone(SHAPES[word], 0.52, 1.6, 400, 0.1), np.zeros(RATE)]
    sound = np.concatenate(pieces)
    return np.rint(sound + rng.normal(0, 5, len(sound))).astype(np.int16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, metavar="FILE.wav")
    parser.add_argument("--words", default="up,wake", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--rate", type=int, default=RATE, help="in hertz, as the file has it")
    parser.add_argument("--channels", type=int, default=1, help="each with the same sound")
    args = parser.parse_args()
    sound = recording(args.words.split(","), np.random.default_rng(1))
    with wave.open(str(args.output), "wb") as file:
        file.setparams((args.channels, 2, args.rate, 0, "NONE", ""))
        file.writeframes(np.repeat(sound.astype("<i2"), args.channels).tobytes())


if __name__ == "__main__":
    main()
