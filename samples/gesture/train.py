# SPDX-License-Identifier: Apache-2.0
"""Makes the network that knows the gestures of this sample.

Nobody moves here: motions are synthesised. The gestures are a shake from side to side, a circle in
the plane of the device, and a lift, up and to rest again. Walking, knocks, a slow turn of the
device and rest are none. Gravity is there in all of them, from any direction within 25 degrees of
upright. Only the last layer is trained, as a logistic regression; the convolutions along time in
front of it have random weights with a fixed seed.

Out comes `gesture.onnx`, int8, which is committed: building the sample does not need this script.
It needs vmcu_tools, onnx, onnxruntime and scikit-learn; another processor may round differently and
end at slightly different weights.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "shared"))

from readout import Network  # noqa: E402

SEED = 11
# Of the accelerometer, in hertz, and how far bytes reach: 4 g.
RATE, GRAVITY = 50, 9.80665
REACH = 4 * GRAVITY
# Of a window of the network, of its hops, and seconds of a stream.
ROWS, HOP, STREAM = 45, 4, 40
GESTURES = ("shake", "circle", "lift")
OTHERS = ("walk", "knock", "turn")
CHANNELS, FEATURES = 12, 16
TRAINING, HELD_OUT = 160, 30
PENALTY = 0.01
# Windows count as a gesture where it ended so many seconds ago, as none where it did not end nor
# go on for long within so many.
JUST, APART = (-0.1, 0.24), 0.45


def rounded(count: int, rise: float = 0.1) -> np.ndarray:
    """Comes and goes within `rise` seconds."""
    at = np.arange(count) / RATE
    return np.clip(np.minimum(at, at[-1] - at) / rise, 0, 1)


def turning(hertz: float, count: int, phase: float = 0.0) -> np.ndarray:
    return np.sin(2 * np.pi * (hertz * np.arange(count) / RATE + phase))


def shake(rng: np.random.Generator) -> np.ndarray:
    count = int(rng.uniform(0.7, 1.0) * RATE)
    made = rng.normal(0, 0.05, 3)[:, None] + np.array([[1.0], [0.0], [0.0]])
    return rng.uniform(10, 22) * made * turning(rng.uniform(3.8, 5.5), count) * rounded(count)


def circle(rng: np.random.Generator) -> np.ndarray:
    hertz, turns = rng.uniform(1.6, 2.4), rng.uniform(1.8, 2.2)
    count, way = int(turns / hertz * RATE), rng.choice((-0.25, 0.25))
    phase, loud = rng.uniform(0, 1), rng.uniform(6, 12)
    both = [turning(hertz, count, phase), turning(hertz, count, phase + way), np.zeros(count)]
    return loud * np.stack(both) * rounded(count)


def lift(rng: np.random.Generator) -> np.ndarray:
    count = int(rng.uniform(0.55, 0.75) * RATE)
    made = rng.normal(0, 0.05, 3)[:, None] + np.array([[0.0], [0.0], [1.0]])
    return rng.uniform(6, 12) * made * turning(RATE / count, count)


def walk(rng: np.random.Generator) -> np.ndarray:
    count, hertz, loud = int(rng.uniform(1, 4) * RATE), rng.uniform(1.6, 2.2), rng.uniform(1, 3.5)
    phase = rng.uniform(0, 1)
    steps = turning(hertz, count, phase) + 0.4 * turning(2 * hertz, count, phase)
    sway = rng.uniform(0.2, 0.5, 2)[:, None] * turning(hertz / 2, count, phase)
    return loud * np.concatenate([sway, steps[None]]) * rounded(count)


def knock(rng: np.random.Generator) -> np.ndarray:
    made = rng.normal(0, 1, (3, 1)) * np.exp(-np.arange(8) / rng.uniform(0.7, 2))
    return rng.uniform(8, 30) * made * rng.choice((-1, 1), (1, 8))


def turn(rng: np.random.Generator) -> np.ndarray:
    """To one side and back, slowly: what gravity shows of it."""
    count, axis = int(rng.uniform(1.2, 3) * RATE), rng.integers(2)
    angle = np.radians(rng.uniform(30, 80)) * np.sin(np.pi * np.linspace(0, 1, count)) ** 2
    made = np.zeros((3, count))
    made[axis], made[2] = GRAVITY * np.sin(angle), GRAVITY * (np.cos(angle) - 1)
    return made


MOTIONS = {m.__name__: m for m in (shake, circle, lift, walk, knock, turn)}


def stream(rng: np.random.Generator) -> tuple[np.ndarray, list[tuple[str, int, int]]]:
    """STREAM seconds of motions with pauses, float (samples, 3) in m/s^2, and the gestures: which,
    from which sample up to which."""
    count = STREAM * RATE
    lean, to = np.radians(rng.uniform(0, 25)), rng.uniform(0, 2 * np.pi)
    upright = [np.sin(lean) * np.cos(to), np.sin(lean) * np.sin(to), np.cos(lean)]
    moved = GRAVITY * np.tile(np.array(upright)[:, None], count)
    moved += rng.normal(0, rng.uniform(0.02, 0.3), (3, count))
    at, found = int(rng.uniform(0.2, 1.5) * RATE), []
    while True:
        name = str(rng.choice(GESTURES + OTHERS))
        made = MOTIONS[name](rng)
        end = at + made.shape[1]
        if end > count:
            return moved.T, found
        moved[:, at:end] += made
        if name in GESTURES:
            found.append((name, at, end))
        at = end + int(rng.uniform(0.3, 1.5) * RATE)


def kind(last: int, found: list[tuple[str, int, int]]) -> int | None:
    """Of the window that ends before sample `last`: 0 for none, 1 and on for a gesture, None for
    what lies between."""
    for name, start, end in found:
        if JUST[0] <= (last - end) / RATE <= JUST[1]:
            return 1 + GESTURES.index(name)
        if start + 0.4 * (end - start) < last < end + APART * RATE:
            return None
    return 0


def windows(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of `count` streams, float32 (N, 3, ROWS, 1) as the network takes them, and their kinds."""
    inputs, wanted = [], []
    for _ in range(count):
        moved, found = stream(rng)
        for last in range(ROWS, len(moved) + 1, HOP):
            if (which := kind(last, found)) is not None:
                inputs.append(moved[last - ROWS : last].T[:, :, None])
                wanted.append(which)
    return np.clip(np.stack(inputs), -REACH, REACH).astype(np.float32), np.array(wanted)


def network() -> Network:
    """Two convolutions along time, each of which leaves out every second row. What stays the same
    over time, as gravity does, the first does not see."""
    rng = np.random.default_rng(SEED)
    first = rng.normal(0, 0.1, (CHANNELS, 3, 5, 1))
    second = rng.normal(0, 0.2, (FEATURES, CHANNELS, 5, 1))
    filters = {
        "first": first - first.mean(axis=2, keepdims=True),
        "second": second - second.mean(axis=(1, 2), keepdims=True),
    }
    return Network("gesture", "acceleration", "scores", (3, ROWS, 1), filters, (2, 2))


def calibration(inputs: np.ndarray) -> np.ndarray:
    """Some windows, the first of which reaches as far as any."""
    ends = inputs[:1].copy()
    ends[0, 0, :2, 0] = -REACH, REACH
    return np.concatenate([ends, inputs[:: len(inputs) // 150]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="folder to write to")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    inputs, wanted = windows(TRAINING, np.random.default_rng(SEED + 1))
    tests, expected = windows(HELD_OUT, np.random.default_rng(SEED + 2))
    path = folder / "gesture.onnx"
    judge = network()
    judge.quantise(judge.train(inputs, wanted, PENALTY), calibration(inputs), path)
    found = judge.scores(str(path), tests).argmax(axis=1)
    print(f"int8, {len(tests)} windows of other streams:")
    for number, name in enumerate(("none", *GESTURES)):
        of = found[expected == number]
        print(f"{name:>7}: {(of == number).sum()} of {len(of)}")
    print(f"wrote {path} ({path.stat().st_size} bytes)")


if __name__ == "__main__":
    main()
