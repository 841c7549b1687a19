# SPDX-License-Identifier: Apache-2.0
"""Runs a network of make.py call by call on a sound, and returns what each call reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime as ort
from sound import sound, spectra
from vmcu_bench.oracle import exact_ort

Arrays = dict[str, np.ndarray]


def frames_of(model: onnx.ModelProto, calls: int, seed: int) -> np.ndarray:
    """(calls, ...): what each call is given as the model's first input."""
    shape = first_shape(model)
    return as_frames(sound(samples_for(shape, calls), seed).mixed, shape)


def first_shape(model: onnx.ModelProto) -> list[int]:
    """Of the input that is no state."""
    return [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]


def samples_for(shape: Sequence[int], calls: int) -> int:
    """How many samples are in so many calls of a model whose first input has this shape."""
    return calls * shape[1] if len(shape) == 2 else (calls + 1) * (shape[1] - 1)


def as_frames(samples: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """(calls, *shape): the samples of each call, or their spectrum."""
    frames = samples if len(shape) == 2 else spectra(samples, shape[1])
    return frames.reshape(-1, *shape)


def calibration(model: onnx.ModelProto, frames: np.ndarray) -> Arrays:
    """By input (calls, ...): the frames, and the states that the float model has at each call."""
    return run(model, frames)[0]


def run(model: onnx.ModelProto, frames: np.ndarray) -> tuple[Arrays, np.ndarray]:
    """ONNX Runtime, call by call. Returns each input (calls, ...) and the first output."""
    session = exact_ort.session(ort, model, "ORT_ENABLE_EXTENDED")
    first, *states = session.get_inputs()
    now = {one.name: np.zeros(one.shape, np.float32) for one in states}
    found: dict[str, list[np.ndarray]] = {one.name: [] for one in session.get_inputs()}
    made = []
    for frame in frames:
        for name, array in {first.name: frame, **now}.items():
            found[name].append(array)
        ends = session.run(None, {first.name: frame, **now})
        named = dict(zip((one.name for one in session.get_outputs()), ends, strict=True))
        now = {name: named[state_output(name)] for name in now}
        made.append(ends[0])
    return {name: np.stack(arrays) for name, arrays in found.items()}, np.stack(made)


def state_output(name: str) -> str:
    """The output that is this input in the next call."""
    return f"{name}n" if name in "hc" else name.replace("cache", "cache_out")
