# SPDX-License-Identifier: Apache-2.0
"""Calibration data: .npz files, folders of files, and random numbers."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from ..errors import Problem, UserError
from ..frontends.npz import LABELS, SAVE, UNNAMED, read_arrays
from .float_model import FloatFile, read_float
from .folder import read_folder
from .ranges import RANDOM, is_random

Samples = list[dict[str, np.ndarray]]

_INTEGERS = {onnx.TensorProto.INT32: np.int32, onnx.TensorProto.INT64: np.int64}
_RANDOM_SAMPLES = 16
# In place of minus infinity, in float16, too.
_NEVER = -6e4
_NO_DATA = (
    "give --calibration 100 to 500 typical samples: an .npz file, or a folder of .npy, .png or "
    f".wav files; or `--calibration {RANDOM}`, for RAM figures alone"
)


def read_calibration(
    source: Path, data: Path | None, constants: Sequence[str] = ()
) -> tuple[FloatFile, Samples]:
    """A float model and its calibration samples, from an .npz file, a folder, or `random`; the
    model is then labelled so. constants: inputs with fixed values, "NAME=VALUE"."""
    model = read_float(source, constants, lambda name: _largest(data, name))
    if data is None:
        raise UserError(Problem("there are no calibration data", _NO_DATA, str(source)))
    label = RANDOM if is_random(data) else ""
    return replace(model, label=label), read_samples(model, data)


def _largest(data: Path | None, name: str) -> int | None:
    """The largest number of an input in calibration data; None if they do not tell it."""
    if data is None or is_random(data) or not data.is_file():
        return None
    array = read_arrays(data, {name: ()}).get(name)
    return int(array.max()) if array is not None and array.size and array.min() >= 0 else None


def read_samples(model: Path | FloatFile, data: Path) -> Samples:
    """Calibration samples for a float model: an .npz file with an array (N, ...) for each input, a
    folder of files for one input, or `random`.

    Raises UserError if the data do not fit the model's inputs.
    """
    types = _inputs(model)
    inputs = {name: shape for name, (shape, _) in types.items()}
    if is_random(data):
        return _random(types)
    if data.is_dir() and len(inputs) == 1:
        arrays = {name: read_folder(data, shape) for name, shape in inputs.items()}
    else:
        arrays = read_arrays(data, inputs)
    if len(inputs) == 1 and [*arrays] == [UNNAMED]:
        arrays = dict(zip(inputs, arrays.values(), strict=True))
    problems = [p for name, one in types.items() for p in _check(name, *one, arrays, data)]
    counts = {name: len(arrays[name]) for name in inputs if name in arrays}
    if not problems and len(set(counts.values())) != 1:
        problems.append(Problem(f"numbers of samples differ: {counts}", SAVE, str(data)))
    if problems:
        raise UserError(*problems)
    count = next(iter(counts.values()))
    return [
        {
            name: np.ascontiguousarray(_limited(arrays[name][i]), dtype).reshape(shape)
            for name, (shape, dtype) in types.items()
        }
        for i in range(count)
    ]


def _random(types: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> Samples:
    """Numbers from -1 to 1; integers, which are places in a table, are 0."""
    rng = np.random.default_rng(0)
    return [
        {
            name: (rng.uniform(-1, 1, shape) * (dtype.kind == "f")).astype(dtype)
            for name, (shape, dtype) in types.items()
        }
        for _ in range(_RANDOM_SAMPLES)
    ]


def read_labels(model: Path | FloatFile, data: Path, count: int) -> np.ndarray | None:
    """The integers (count,) that an .npz file has under the name "labels"; None if it has none, or
    if they are an input of the model.

    Raises UserError if they are not one integer from 0 on for each of `count` samples."""
    if LABELS in _inputs(model) or not data.is_file():
        return None
    labels = read_arrays(data, {LABELS: ()}).get(LABELS)
    if labels is None:
        return None
    if labels.dtype.kind not in "iu" or labels.shape != (count,) or labels.min() < 0:
        reason = f"'{LABELS}' is {labels.dtype} of shape {labels.shape}, not {count} classes"
        hint = "save the place of the right output for each sample, as integers"
        raise UserError(Problem(reason, hint, str(data)))
    return labels


def _inputs(model: Path | FloatFile) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shapes and types by name, float32 or integers; a symbolic batch is one."""
    model = read_float(model)
    graph = model.proto.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    for value in graph.input:
        if value.name in constants:
            continue
        dims = [d.dim_value or -1 for d in value.type.tensor_type.shape.dim]
        if dims and dims[0] == -1:
            dims[0] = 1
        if min(dims, default=1) < 1:
            reason = f"the input '{value.name}' has the dynamic shape {dims}"
            raise UserError(Problem(reason, "export it with fixed sizes", str(model.source)))
        kind = value.type.tensor_type.elem_type
        dtype = np.dtype(_INTEGERS.get(kind, np.float32))
        inputs[value.name] = tuple(dims), dtype
    return inputs


def _check(
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    arrays: Mapping[str, np.ndarray],
    data: Path,
) -> Iterator[Problem]:
    if name not in arrays:
        close = difflib.get_close_matches(name, arrays, 1)
        close = close or [*arrays] if len(arrays) == 1 else close
        hint = f"rename '{close[0]}' to '{name}'" if close else f"it has {', '.join(arrays)}"
        yield Problem(f"no samples for the input '{name}'", hint, str(data))
        return
    array = arrays[name]
    what = f"samples of '{name}'"
    if array.dtype.kind not in "fiu" or array.ndim == 0 or len(array) == 0:
        yield Problem(f"{what} are {array.dtype} of shape {array.shape}", SAVE, str(data))
    elif array[0].size != math.prod(shape):
        wanted = f"{what} have the shape {array.shape[1:]}, the input {shape}"
        yield Problem(wanted, f"save them as (N, {', '.join(map(str, shape[1:]))})", str(data))
    elif dtype.kind == "i" and not np.array_equal(array, array.astype(dtype)):
        yield Problem(f"{what} are {array.dtype}, the input {dtype}", "save integers", str(data))
    elif not np.isfinite(_limited(array)).all():
        yield Problem(f"{what} hold values that are no numbers", "Remove them.", str(data))


def _limited(array: np.ndarray) -> np.ndarray:
    """A mask, which has no value above 0, with a finite number in place of minus infinity."""
    if array.dtype.kind != "f" or not np.isneginf(array).any() or array.max() > 0:
        return array
    limited: np.ndarray = np.maximum(array, array.dtype.type(_NEVER))
    return limited
