# SPDX-License-Identifier: Apache-2.0
"""The kind of a .tflite file, before any of its operators is blamed.

A converter writes the same network in many ways, of which one is int8 throughout. A user with
another one is told its kind and the converter's option: one sentence for the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from .file import FileModel, FileTensor

CUSTOM = "custom "
_QUANTISE = (
    "give calibration data with --calibration (`vmcu help models.md`), or convert the model again "
    "with full-integer int8 quantisation (`vmcu help tensorflow.md`)"
)
_UNSIGNED = (
    "convert it again with TensorFlow 2's converter, which quantises to int8 (`vmcu help "
    "tensorflow.md`); uint8 is fine at inputs and outputs only"
)
_WIDE = (
    "convert it again with supported_ops = [TFLITE_BUILTINS_INT8] in place of the 16x8 mode "
    "(`vmcu help tensorflow.md`)"
)
_NO_FLEX = (
    "convert it without SELECT_TF_OPS; what the converter then names has to be written with other "
    "operations"
)
_FEATURES = (
    "export the network from its features on, and compute these with `vmcu audio` (`vmcu help "
    "audio.md`), which equals TensorFlow Lite Micro's front end"
)
_UNROLL = "build the layer with unroll=True before converting, or use convolutions over time"
# Builtin operators that belong to another kind of file than a network of int8.
_FRONT_END = ("AUDIO_SPECTROGRAM", "MFCC", "RFFT2D")
_RECURRENT = (
    *("WHILE", "LSTM", "RNN", "BIDIRECTIONAL_SEQUENCE_LSTM"),
    "BIDIRECTIONAL_SEQUENCE_RNN",
    "UNIDIRECTIONAL_SEQUENCE_RNN",
)
# Custom operators by how their names begin, the kind of such a file, and the remedy.
_CUSTOM = (
    (
        "ethos-u",
        "Vela has compiled this file for an Arm Ethos-U: {names} are streams of that accelerator's "
        "commands",
        "give vmcu the .tflite file that Vela was given",
    ),
    (
        "edgetpu-custom-op",
        "this file is compiled for an Edge TPU, whose commands {names} are",
        "give vmcu the .tflite file that edgetpu_compiler was given",
    ),
    ("Flex", "this file calls TensorFlow itself, by {names}", _NO_FLEX),
    ("Signal", "this file begins with an audio front end: {names}", _FEATURES),
    ("AudioSpectrogram", "this file begins with an audio front end: {names}", _FEATURES),
    ("Mfcc", "this file begins with an audio front end: {names}", _FEATURES),
    (
        "TFLite_Detection_PostProcess",
        "this file ends with {names}, which sorts boxes in float",
        "export the network up to the boxes and scores, and sort them in C",
    ),
)


@dataclass(frozen=True)
class Kind:
    """A file that is not an int8 network: its kind, the remedy, and the operators that say so,
    where it is these."""

    reason: str
    remedy: str
    ops: tuple[str, ...] = ()


def kind_of(model: FileModel) -> Kind | None:
    """The kind of a file that cannot be imported as it is; None for an int8 network, and for one
    of which only some operators are something else."""
    return _other_machine(model) or _other_numbers(model)


def _other_machine(model: FileModel) -> Kind | None:
    for begins, reason, remedy in _CUSTOM:
        operators = [op.op for op in model.ops if op.op.startswith(CUSTOM + begins)]
        if operators:
            return Kind(reason.format(names=_counted(operators)), remedy, tuple(operators))
    for names, reason, remedy in (
        (_FRONT_END, "this file begins with an audio front end", _FEATURES),
        (_RECURRENT, "this file has recurrent layers that are not unrolled", _UNROLL),
    ):
        operators = [op.op for op in model.ops if op.op in names]
        if operators:
            return Kind(f"{reason}: {_counted(operators)}", remedy, tuple(operators))
    return None


def _other_numbers(model: FileModel) -> Kind | None:
    """Finds the kind by the types of activations and of constants."""
    used = {i for op in model.ops for i in (*op.inputs, *op.outputs) if i >= 0}
    used.update(model.inputs, model.outputs)
    tensors = [model.tensors[i] for i in sorted(used)]
    activations = {t.type for t in tensors if t.data is None and _counts(t)}
    weights = {t.type for t in tensors if t.data is not None and len(t.shape) > 1}
    if "INT8" in activations or not activations:
        return None
    working = _working(model, "INT16")
    if working:
        reason = "the activations are int16 (16x8 quantisation)"
        return Kind(f"{reason}: {working}", _WIDE)
    if "UINT8" in activations:
        unsigned = [op for op in model.ops if op.op not in ("QUANTIZE", "DEQUANTIZE")]
        if not any(_touches(model, op.inputs, "UINT8") for op in unsigned):
            return None
        reason = "the model is quantised to uint8, as TensorFlow 1 did"
        return Kind(f"{reason}: {_working(model, 'UINT8')}", _UNSIGNED)
    if "FLOAT32" not in activations:
        return None
    if "INT8" in weights or "INT4" in weights:
        reason = "only its weights are quantised (dynamic range), its layers compute in float32"
    elif "FLOAT16" in weights:
        reason = "the weights are float16, its layers compute in float32"
    else:
        reason = "this is a float32 model, not an int8 one"
    return Kind(f"{reason}: {_working(model, 'FLOAT32')}", _QUANTISE)


def _counts(tensor: FileTensor) -> bool:
    """True for a tensor that tells how a file is quantised: int8 without a scale does not."""
    return tensor.type not in ("INT8", "UINT8", "INT16") or len(tensor.scales) > 0


def _touches(model: FileModel, indices: Iterable[int], kind: str) -> bool:
    return any(i >= 0 and model.tensors[i].type == kind for i in indices)


def _working(model: FileModel, kind: str) -> str:
    """The operators that work on such activations."""
    return _counted(
        op.op
        for op in model.ops
        if op.op not in ("QUANTIZE", "DEQUANTIZE")
        and _touches(model, (*op.inputs, *op.outputs), kind)
    )


def _counted(ops: Iterable[str]) -> str:
    """Such as 'CONV_2D (3), custom Flex'."""
    counts = Counter(op.removeprefix(CUSTOM) for op in ops)
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in sorted(counts.items()))
