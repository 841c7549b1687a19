# SPDX-License-Identifier: Apache-2.0
"""Calibration data for a model of one input that are files in a folder: .npy, .png and .wav."""

from __future__ import annotations

import math
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import Problem, UserError, missing_package
from ..frontends.common import PARSE_ERRORS
from ..frontends.npz import MOST_BYTES

_NAMES = "put .npy, .png or .wav files there, one or more samples each"


def read_folder(folder: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The samples (N, ...) of an input's shape, from the files of a folder in the order of their
    names. Raises UserError for a file that does not fit."""
    readers: dict[str, Callable[[Path, tuple[int, ...]], np.ndarray]] = {
        ".npy": _array,
        ".png": _picture,
        ".wav": _sound,
    }
    files = [f for f in sorted(folder.iterdir()) if f.suffix.lower() in readers and f.is_file()]
    if not files:
        raise UserError(Problem("no calibration data in the folder", _NAMES, str(folder)))
    samples: list[np.ndarray] = []
    for file in files:
        try:
            samples.append(readers[file.suffix.lower()](file, shape))
        except (EOFError, OSError, wave.Error, *PARSE_ERRORS) as error:
            reason = f"not a {file.suffix} file of numbers: {error}"
            raise UserError(Problem(reason, "save it again", str(file))) from error
        if sum(array.nbytes for array in samples) > MOST_BYTES:
            reason = f"the samples have more than {MOST_BYTES:,} bytes"
            raise UserError(Problem(reason, "give fewer samples", str(folder)))
    return np.concatenate(samples).reshape(-1, *shape)


def _refuse(what: str, shape: tuple[int, ...], hint: str, file: Path) -> UserError:
    return UserError(Problem(f"{what}, the input the shape {shape}", hint, str(file)))


def _array(file: Path, shape: tuple[int, ...]) -> np.ndarray:
    """One sample, with or without the batch of one, or several."""
    # The file is mapped: a header that declares more than the file contains is an error.
    array = np.load(file, mmap_mode="r", allow_pickle=False)
    if array.nbytes > MOST_BYTES:
        raise _refuse(f"the array has {array.nbytes:,} bytes", shape, "give fewer samples", file)
    if array.shape not in (shape, shape[1:]) and array.shape[1:] != shape[1:]:
        hint = f"save samples as {shape[1:]} or (N, {', '.join(map(str, shape[1:]))})"
        raise _refuse(f"the array has the shape {array.shape}", shape, hint, file)
    return np.array(array).reshape(-1, math.prod(shape))


def _picture(file: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The pixels from 0 to 1, in grey if the input has one channel, else in colour."""
    try:
        import PIL.Image
    except ImportError as error:
        raise missing_package("pillow", "read .png files", "png", str(file)) from error
    with PIL.Image.open(file, formats=["PNG"]) as image:
        for axes in ((2, 0, 1), (0, 1, 2)):
            for mode, channels in (("L", 1), ("RGB", 3)):
                wanted = np.array([image.height, image.width, channels])[list(axes)]
                if (1, *wanted) == shape:
                    pixels = np.array(image.convert(mode), np.float32)
                    pixels = pixels.reshape(image.height, image.width, channels) / np.float32(255)
                    return pixels.transpose(axes).reshape(1, -1)
        size = f"the picture has {image.width} x {image.height} pixels"
    raise _refuse(size, shape, "scale it to the input's size, of 1 or 3 channels", file)


def _sound(file: Path, shape: tuple[int, ...]) -> np.ndarray:
    """Pieces of the input's length from -1 to 1, one after the other; the rest is left out."""
    with wave.open(str(file), "rb") as sound:
        bits, channels = 8 * sound.getsampwidth(), sound.getnchannels()
        if (bits, channels) != (16, 1):
            reason = f"the sound has {bits} bits and {channels} channels, not 16 bits and one"
            hint = "convert it, for example: sox IN.wav -b 16 -c 1 OUT.wav"
            raise UserError(Problem(reason, hint, str(file)))
        values = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
    length = math.prod(shape)
    if len(values) < length:
        what = f"the sound has {len(values)} samples"
        raise _refuse(what, shape, f"record {length} samples or more", file)
    pieces = values[: len(values) // length * length].reshape(-1, length)
    return pieces.astype(np.float32) / np.float32(32768)
