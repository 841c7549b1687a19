# SPDX-License-Identifier: Apache-2.0
"""Makes the network that hears the wake word of this sample.

Nobody speaks here: the wake word is a tone that rises and falls again. Tones that only rise, only
fall, fall and rise, or stay, and noise are none, nor is the first half of the word. Only the last
layer is trained, as a logistic regression; the convolutions along time in front of it have random
weights with a fixed seed. Features are those of the front end that the device has.

Out comes `wake_word.onnx`, int8, which is committed: building the sample does not need this script.
It needs vmcu_tools, onnx, onnxruntime and scikit-learn; another processor may round differently and
end at slightly different weights.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from vmcu_tools.audio.front_end import FEATURE_STEP, FrontEnd
from vmcu_tools.audio.settings import Settings
from vmcu_tools.frontends import load

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "shared"))

from readout import Network  # noqa: E402
from sounds import RATE, stream  # noqa: E402

SEED = 5
# As CMakeLists.txt has it.
FRONT_END = Settings(hop_ms=20, channels=24)
# Of a window of the network, of which every STEP-th is trained on.
ROWS, STEP = 49, 3
# What vmcu_audio_bytes() makes of features: 256 / 666 of a step each.
BYTE_STEP = FEATURE_STEP * 666 / 256
CHANNELS, FEATURES = 16, 24
TRAINING, HELD_OUT = 120, 15
PENALTY = 0.003
# As main.c decides: the answers that are added up, what they must come to of the most that they
# can, and seconds without another word.
ANSWERS, ENOUGH, QUIET = 5, 0.75, 1.0
# A word counts as heard from so many seconds before its end to so many behind it.
HEARD = (-0.2, 0.6)


def bytes_of(features: np.ndarray) -> np.ndarray:
    """vmcu_audio_bytes() of uint16 features."""
    return np.minimum((features.astype(np.int64) * 256 + 333) // 666, 255) - 128


def windows(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of `count` streams, float32 (N, 1, ROWS, channels) as the network takes them, and 1 where a
    word has just ended, -1 where none has; what lies between is left out."""
    inputs, wanted = [], []
    for _ in range(count):
        sound, ends = stream(rng)
        rows = bytes_of(FrontEnd(FRONT_END).process(sound))
        for last in range(ROWS, len(rows) + 1, STEP):
            now = (last - 1) * FRONT_END.hop / RATE + FRONT_END.window / RATE
            late = min((abs(now - end - 0.1) for end in ends), default=1.0)
            if late < 0.1 or late > 0.2:
                inputs.append(rows[None, last - ROWS : last])
                wanted.append(1 if late < 0.1 else -1)
    return ((np.stack(inputs) + 128) * BYTE_STEP).astype(np.float32), np.array(wanted)


def heard(judge: Network, path: Path, sound: np.ndarray) -> list[float]:
    """When the application hears a word, in seconds."""
    rows = (bytes_of(FrontEnd(FRONT_END).process(sound)) + 128) * BYTE_STEP
    inputs = [rows[None, last - ROWS : last] for last in range(ROWS, len(rows) + 1)]
    graph = load(path)
    answer = graph.tensors[graph.outputs[0].tensor]
    most = (127 - answer.zero_point) * answer.scale
    scores = judge.scores(str(path), np.stack(inputs).astype(np.float32))[:, 0]
    sums = np.convolve(scores, np.ones(ANSWERS), "valid")
    found: list[float] = []
    for number in np.flatnonzero(sums >= ANSWERS * ENOUGH * most):
        last = ROWS + ANSWERS + number - 2
        now = (last * FRONT_END.hop + FRONT_END.window) / RATE
        if not found or now >= found[-1] + QUIET:
            found.append(now)
    return found


def print_decisions(judge: Network, path: Path, rng: np.random.Generator) -> None:
    """How many words of other streams the application hears."""
    words, missed, false = 0, 0, 0
    for _ in range(HELD_OUT):
        sound, ends = stream(rng)
        times = heard(judge, path, sound)
        near = np.array([[HEARD[0] < t - end < HEARD[1] for t in times] for end in ends])
        near = near.reshape(len(ends), len(times))
        words, missed = words + len(ends), missed + int((~near.any(axis=1)).sum())
        false += int((~near.any(axis=0)).sum())
    print(
        f"{ANSWERS} answers together, {HELD_OUT} other streams: {missed} of {words} words missed, "
        f"{false} heard where there was none"
    )


def network() -> Network:
    """Two convolutions along time."""
    rng = np.random.default_rng(SEED)
    bands = FRONT_END.channels
    first = rng.normal(0, 0.1, (CHANNELS, 1, 3, bands))
    second = rng.normal(0, 0.2, (FEATURES, CHANNELS, 5, 1))
    filters = {
        "first": first - first.mean(axis=(2, 3), keepdims=True),
        "second": second - second.mean(axis=(1, 2), keepdims=True),
    }
    return Network("wake_word", "features", "score", (1, ROWS, bands), filters, (1, 1))


def calibration(inputs: np.ndarray) -> np.ndarray:
    """Some windows, the first of which has the least and the greatest byte."""
    ends = inputs[:1].copy()
    ends[0, 0, 0, :2] = 0, 255 * BYTE_STEP
    return np.concatenate([ends, inputs[:: len(inputs) // 150]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="folder to write to")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    inputs, wanted = windows(TRAINING, np.random.default_rng(SEED + 1))
    tests, expected = windows(HELD_OUT, np.random.default_rng(SEED + 2))
    path = folder / "wake_word.onnx"
    listener = network()
    trained = listener.train(inputs, wanted, PENALTY, {-1: 1, 1: 4})
    listener.quantise(trained, calibration(inputs), path)
    found = listener.scores(str(path), tests)[:, 0] > 0
    missed, false = (~found[expected > 0]).sum(), found[expected < 0].sum()
    print(
        f"int8, {len(tests)} windows of other streams: {missed} of {(expected > 0).sum()} words "
        f"missed, {false} heard where there was none"
    )
    print_decisions(listener, path, np.random.default_rng(SEED + 3))
    print(f"wrote {path} ({path.stat().st_size} bytes)")


if __name__ == "__main__":
    main()
