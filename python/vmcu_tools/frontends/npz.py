# SPDX-License-Identifier: Apache-2.0
"""Arrays for the inputs of a model: .npz files, looked at before they are unpacked."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from ..errors import Problem, UserError
from .common import PARSE_ERRORS

# An array that is no input: the class of each sample.
LABELS = "labels"
# What numpy.savez calls an array without a name.
UNNAMED = "arr_0"
SAVE = "save it with numpy.savez, an array of samples for each input of the model"
# Of the arrays that are read: a thousand images of 224 x 224 pixels take 600 million.
MOST_BYTES = 1 << 30
# Other errors of reading a damaged archive, or an encrypted one.
_UNZIP_ERRORS = (EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error)
_SUFFIX = ".npy"
_MAGIC = b"\x93NUMPY"


def read_arrays(data: Path, inputs: Collection[str]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name. Of those that no input is named after only the names
    matter: they are empty here. Raises UserError for any other file."""
    try:
        with data.open("rb") as file:
            if file.read(len(_MAGIC)) == _MAGIC:
                raise UserError(Problem("an .npy file, which names no input", SAVE, str(data)))
        with zipfile.ZipFile(data) as archive:
            members = {info.filename.removesuffix(_SUFFIX): info for info in archive.infolist()}
            if LABELS not in inputs:
                members.pop(LABELS, None)
            one = len(inputs) == 1 and [*members] == [UNNAMED]
            wanted = [name for name in members if one or name in inputs]
            total = sum(members[name].file_size for name in wanted)
            if total > MOST_BYTES:
                reason = f"the arrays unpack to {total:,} bytes; the maximum is {MOST_BYTES:,}"
                raise UserError(Problem(reason, "give fewer samples", str(data)))
            arrays = {name: np.zeros(0, np.float32) for name in members}
            with tempfile.TemporaryDirectory() as folder:
                for name in wanted:
                    # Files are mapped: a header that declares more than the file contains is an
                    # error.
                    member = archive.extract(members[name], folder)
                    arrays[name] = np.array(np.lib.format.open_memmap(member, "r"))
            return arrays
    except (*_UNZIP_ERRORS, *PARSE_ERRORS) as error:
        if data.is_dir():
            reason = f"a folder is for a model of one input; this one has {len(inputs)}"
            raise UserError(Problem(reason, SAVE, str(data))) from error
        if isinstance(error, OSError) and not data.is_file():
            raise UserError(Problem("no such file", SAVE, str(data))) from error
        raise UserError(Problem("not an .npz file of numbers", SAVE, str(data))) from error
