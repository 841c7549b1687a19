# SPDX-License-Identifier: Apache-2.0
"""Sounds to listen to."""

from __future__ import annotations

import numpy as np

RATE = 16_000


def sounds(seconds: int) -> dict[str, np.ndarray]:
    """int16 of each kind: like speech, noise of all strengths, silence, clipped, single clicks."""
    rng = np.random.default_rng(8)
    count = seconds * RATE
    time = np.arange(count) / RATE
    syllables = np.maximum(np.sin(2 * np.pi * 3.1 * time), 0) ** 2
    pitch = 2 * np.pi * (140 * time + 30 * np.sin(2 * np.pi * 0.7 * time))
    voice = sum(np.sin(n * pitch) / n for n in range(1, 25)) * syllables
    clicks = np.zeros(count)
    clicks[:: RATE // 7] = rng.choice([-32768, 32767, 900, -3], len(clicks[:: RATE // 7]))
    made = {
        "speech": 9000 * voice + rng.normal(0, 40, count),
        "noise": rng.normal(0, 1, count) * 10 ** (4.3 * time / seconds),
        "silence": np.zeros(count),
        "clipping": 90_000 * voice,
        "square": 32767 * np.sign(np.sin(2 * np.pi * 200 * time)),
        "least": np.full(count, -32768),
        "clicks": clicks,
        "sweep": 20_000 * np.sin(2 * np.pi * 400 * time * time),
    }
    return {name: np.clip(np.rint(x), -32768, 32767).astype(np.int16) for name, x in made.items()}


def speech(seconds: int) -> np.ndarray:
    return sounds(seconds)["speech"]
