# SPDX-License-Identifier: Apache-2.0
"""Files of other formats, told by their content: the format of each, and the way from there to
int8 .tflite or .onnx."""

from __future__ import annotations

import zipfile
from pathlib import Path

from ..errors import Problem

TO_TFLITE = (
    "convert it with tf.lite.TFLiteConverter to full-integer int8: `vmcu help tensorflow.md` has "
    "the lines"
)
TO_ONNX = (
    "export it with torch.onnx.export, then quantise that: vmcu quantize MODEL.onnx "
    "--calibration DATA.npz -o INT8.onnx (`vmcu help pytorch.md`)."
)
# First bytes, the format of such a file, and the remedy.
_MAGIC = (
    (b"\x89HDF\r\n\x1a\n", "a Keras model or another HDF5 file", TO_TFLITE),
    (b"\x93NUMPY", "an array, not a model", "give it to --input or --calibration"),
    (b"GGUF", "weights of a language model (GGUF)", ""),
    (b"\x7fELF", "a linked image", "use `vmcu inspect FILE`"),
    (b"version https://", "a pointer of Git LFS, not the model itself", "run `git lfs pull`"),
    (b"<!DOCTYPE", "a web page, not a model", "download the file itself"),
    (b"<html", "a web page, not a model", "download the file itself"),
    (b"\x80\x02", "a pickle, as torch.save() of old wrote it", TO_ONNX),
)
# A member of a ZIP archive that identifies its format.
_MEMBERS = (
    ("constants.pkl", "a TorchScript or PyTorch archive", TO_ONNX),
    ("data.pkl", "weights or a model of PyTorch (torch.save)", TO_ONNX),
    ("model.json", "a PyTorch export (.pt2)", TO_ONNX),
    ("exported_program.json", "a PyTorch export (.pt2)", TO_ONNX),
    ("metadata.json", "a Keras model (.keras)", TO_TFLITE),
    (".npy", "an archive of arrays, not a model", "give it to --input or --calibration"),
)
# Suffixes where the content tells nothing.
_SUFFIXES = {
    ".pb": ("a TensorFlow graph", TO_TFLITE),
    ".safetensors": ("weights without a network (safetensors)", TO_ONNX),
    ".mlmodel": ("a Core ML model", "convert the model that it was made of"),
    ".json": ("a JSON file", "graphs in JSON are for `vmcu place --graph`"),
}
_EXECUTORCH = (
    "an ExecuTorch program (.pte)",
    "export the same PyTorch module as ONNX instead: " + TO_ONNX[0].lower() + TO_ONNX[1:],
)
_CONTAINER = (
    "a container that `vmcu build --format container` wrote",
    "compile the model file that it was made of; run, verify, bench and container take FILE.vmcu",
)


def foreign(path: Path, head: bytes) -> Problem | None:
    """Identifies a file that is neither .tflite nor .onnx; None for one that may be. head: its
    first eight bytes or more. Raises OSError for a file that cannot be read."""
    kind = _content(path, head) or _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        return None
    what, remedy = kind
    remedy = remedy or "vmcu compiles int8 .tflite and .onnx files"
    return Problem(f"this is {what}, neither a .tflite nor a .onnx file", remedy, str(path))


def no_file(path: Path) -> Problem:
    """Names the kind of a path that exists and is no file: a folder, a pipe, a device."""
    if not path.is_dir():
        return Problem("this is no regular file", "write the model into a file first", str(path))
    if (path / "saved_model.pb").is_file():
        return Problem("this is a TensorFlow SavedModel, a folder", TO_TFLITE, str(path))
    models = sorted(p.name for p in path.iterdir() if p.suffix in (".onnx", ".tflite"))
    remedy = f"did you mean {path / models[0]}?" if models else "name a .tflite or .onnx file"
    return Problem("this is a folder, not a model", remedy, str(path))


def _content(path: Path, head: bytes) -> tuple[str, str] | None:
    if head[4:8].startswith(b"ET1"):
        return _EXECUTORCH
    if head.startswith(b"VMCU"):
        return _CONTAINER
    for magic, what, remedy in _MAGIC:
        if head.startswith(magic):
            return what, remedy
    if head.startswith(b"PK\x03\x04") and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        for member, what, remedy in _MEMBERS:
            if any(name.endswith(member) for name in names):
                return what, remedy
        return "a ZIP archive", "unpack it and name the model in it"
    return None
