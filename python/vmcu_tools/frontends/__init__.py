# SPDX-License-Identifier: Apache-2.0
"""Model files to int8 graphs."""

from __future__ import annotations

import difflib
from pathlib import Path

from ..errors import Problem, UserError
from ..graph import Graph
from . import foreign
from .common import check_file_size


def load(path: str | Path) -> Graph:
    """The int8 graph of a .tflite or .onnx file.

    Raises UserError, with every problem found, for a file that is missing, damaged, or holds
    something that is not supported.
    """
    path = Path(path)
    if format_of(path) == "tflite":
        from .tflite import importer as tflite

        return tflite.load(path)
    from .onnx import importer as onnx

    return onnx.load(path)


def may_keep_state(path: Path) -> bool:
    """True if a file has variables, or several inputs. Raises UserError if it cannot be read."""
    if format_of(path) == "tflite":
        from .tflite import states as tflite_states

        model = tflite_states.read(path)
        return bool(model.states) or len(model.inputs) > 1
    from .onnx import file as onnx_file

    return len(onnx_file.read(path).inputs) > 1


def output_names(path: Path) -> list[str]:
    """The outputs of a .tflite file, in its order. Raises UserError if it cannot be read."""
    from .tflite import states as tflite_states

    model = tflite_states.read(path)
    return [model.tensors[index].name for index in model.outputs]


def file_nodes(path: Path) -> list[tuple[str, str]]:
    """Name and operator of each node of a file, in order, supported or not.

    Raises UserError for a file that cannot be read at all.
    """
    if format_of(path) == "tflite":
        from .tflite import states as tflite_states

        model = tflite_states.read(path)
        names = [tensor.name for tensor in model.tensors]
        return [(names[op.outputs[0]] if op.outputs else "", op.op) for op in model.ops]
    from .onnx import file as onnx_file

    return [(node.name, node.op) for node in onnx_file.read(path).nodes]


# The runtime that defines the results of a format.
RUNTIMES = {"tflite": "TensorFlow Lite Micro", "onnx": "ONNX Runtime"}


def runtime_of(path: Path) -> str:
    """The name of the runtime that a model file was made for."""
    return RUNTIMES[format_of(path)]


def format_of(path: Path) -> str:
    """ "tflite" or "onnx", by content, then by suffix. Raises UserError if it is no model file,
    and names its format where that can be told."""
    if not path.exists():
        raise UserError(_missing(path))
    try:
        if not path.is_file():
            raise UserError(foreign.no_file(path))
        with path.open("rb") as file:
            head = file.read(16)
        check_file_size(path, path.stat().st_size)
        if head[4:8] == b"TFL3":
            return "tflite"
        other = foreign.foreign(path, head)
    except OSError as error:
        raise UserError(Problem(f"cannot be read: {error.strerror}", "", str(path))) from error
    if other is None and path.suffix in (".tflite", ".onnx"):
        return path.suffix[1:]
    neither = "the file is neither .tflite nor .onnx"
    raise UserError(other or Problem(neither, "name a model in one of them", str(path)))


def _missing(path: Path) -> Problem:
    folder = path.parent
    names = []
    if folder.is_dir():
        names = [p.name for p in folder.iterdir() if p.suffix in (".onnx", ".tflite")]
    close = difflib.get_close_matches(path.name, names) or sorted(names)[:3]
    remedy = f"did you mean {' or '.join(str(folder / name) for name in close)}?" if close else ""
    return Problem("no such file", remedy or "give the path of a .onnx or .tflite file", str(path))
