# SPDX-License-Identifier: Apache-2.0
"""How well a network does its task, on sounds that neither training nor calibration have heard."""

from __future__ import annotations

import numpy as np
import onnx
from calls import as_frames, first_shape, run, samples_for
from sound import has_voice, samples_of, sound

SEEDS = range(100, 120)
CALLS = 250


def score(model: onnx.ModelProto) -> float:
    """Of the enhancer, improvement of SI-SDR in dB; of the detector, accuracy of frames in %."""
    shape = first_shape(model)
    of_one = improvement if len(shape) == 4 else accuracy
    return float(np.mean([of_one(model, shape, seed) for seed in SEEDS]))


def improvement(model: onnx.ModelProto, shape: list[int], seed: int) -> float:
    """SI-SDR of what the model makes, less that of what it is given."""
    one = sound(samples_for(shape, CALLS), seed)
    frames = as_frames(one.mixed, shape)
    _, made = run(model, frames)
    edge = shape[1] - 1
    wanted = one.clean[edge:-edge]
    before, after = (samples_of(x.reshape(CALLS, shape[1], 2)) for x in (frames, made))
    return si_sdr(after, wanted) - si_sdr(before, wanted)


def si_sdr(found: np.ndarray, wanted: np.ndarray) -> float:
    """Scale-invariant signal-to-distortion ratio in dB (Le Roux et al., ICASSP 2019)."""
    target = wanted * (found @ wanted) / (wanted @ wanted)
    return float(10 * np.log10((target @ target) / ((found - target) @ (found - target))))


def accuracy(model: onnx.ModelProto, shape: list[int], seed: int) -> float:
    """Percent of the frames in which the output is above a half if they have voice, else not."""
    one = sound(samples_for(shape, CALLS), seed)
    _, made = run(model, as_frames(one.mixed, shape))
    return 100 * float(np.mean((made.ravel() > 0.5) == has_voice(one.clean, shape[1])))
