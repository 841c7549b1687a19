# SPDX-License-Identifier: Apache-2.0
"""Input files of `vmcu run`: arrays that numpy saved, looked at before they are loaded."""

from __future__ import annotations

import math
import tokenize
from pathlib import Path
from typing import BinaryIO

import numpy as np
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends.common import PARSE_ERRORS
from vmcu_tools.graph import Port

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_ARCHIVE = b"PK"
_SAVE = "save the array with numpy.save"
_SHAPE = "give an array of that shape"


def load(path: Path, port: Port, count: int, remedy: str = _SHAPE) -> np.ndarray:
    """The numbers that an .npy file holds for an input of `count` elements; none is NaN.
    remedy: where it holds another number of them.

    Raises UserError for anything else, before memory is allocated for the array that the file
    declares, and OSError for a file that cannot be read.
    """
    with path.open("rb") as file:
        shape, dtype = _header(path, file)
        size = path.stat().st_size - file.tell()
    _check(path, port, count, shape, dtype, remedy)
    needed = math.prod(shape) * dtype.itemsize
    if size < needed:
        raise _problem(
            path, f"the file is truncated: {size:,} bytes instead of {needed:,}", "save it again"
        )
    data = np.load(path, allow_pickle=False)
    missing = np.flatnonzero(np.isnan(data))
    if missing.size:
        place = [int(i) for i in np.unravel_index(missing[0], data.shape)]
        reason = f"{missing.size} of its {data.size} values are NaN, the first at {place}"
        raise _problem(path, reason, "give numbers: no int8 value stands for NaN")
    if port.below:
        _check_numbers(path, port, data)
    numbers: np.ndarray = data
    return numbers


def _check_numbers(path: Path, port: Port, data: np.ndarray) -> None:
    """Checks an input of row numbers."""
    wrong = np.flatnonzero((data != np.rint(data)) | (data < -port.below) | (data >= port.below))
    if wrong.size:
        reason = f"{data.ravel()[wrong[0]]} is no row of a table of {port.below}"
        raise _problem(path, reason, f"give whole numbers from 0 to {port.below - 1}")


def count_of(path: Path, port: Port) -> int:
    """Counts the values that an .npy file declares; load() reports its faults."""
    with path.open("rb") as file:
        shape, _ = _header(path, file)
    return math.prod(shape)


def _header(path: Path, file: BinaryIO) -> tuple[tuple[int, ...], np.dtype]:
    """Reads the shape and type that the file declares; the file is left behind its header."""
    try:
        if file.read(len(_ARCHIVE)) == _ARCHIVE:
            reason = "an archive of several arrays, not an .npy array"
            raise _problem(path, reason, "save each array with numpy.save, a file an input")
        file.seek(0)
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version[0]}.{version[1]} of the format")
        shape, _, dtype = _HEADERS[version](file)
    except (EOFError, SyntaxError, tokenize.TokenError, *PARSE_ERRORS) as error:
        raise _problem(path, f"not an .npy array: {error}", _SAVE) from error
    return shape, dtype


def _check(
    path: Path, port: Port, count: int, shape: tuple[int, ...], dtype: np.dtype, remedy: str
) -> None:
    takes = f"input '{port.name}' takes {count} {list(port.file_shape)}"
    if dtype.kind not in "biuf":
        kind = "Python objects" if dtype.hasobject else dtype.name
        raise _problem(
            path, f"the array contains {kind}, not real numbers", f"give numbers: {takes}"
        )
    if math.prod(shape) != count:
        reason = f"the array has {math.prod(shape):,} values {list(shape)}, {takes}"
        raise _problem(path, reason, remedy)


def _problem(path: Path, reason: str, remedy: str) -> UserError:
    return UserError(Problem(reason, remedy, str(path)))
