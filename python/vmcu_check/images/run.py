# SPDX-License-Identifier: Apache-2.0
"""The image on an emulated core beside the model file in its own runtime.

An image that `vmcu bench --keep` leaves reads inputs.bin and writes outputs.bin; run.sh beside it
has the emulator's command.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from .elf import ImageError
from .tables import ImageModel, ImagePort
from .walk import FaultError

CHANNELS_FIRST, HALF_AWAY, COLUMNS = 1, 2, 4
SECONDS = 300
EMULATORS = ("qemu-system-arm", "qemu-system-riscv32")
# Of an interpreter of TensorFlow Lite Micro.
ARENA_BYTES = 64 << 20

# Operators of ONNX Runtime that compute int8 in integers, or only move it.
IN_INTEGERS = frozenset(
    [
        "QLinearConv",
        "QLinearMatMul",
        "QGemm",
        "QuantizeLinear",
        "DequantizeLinear",
        "MaxPool",
        "Reshape",
        "Transpose",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Slice",
        "Constant",
        "Identity",
    ]
)
# By how much outputs may differ where it computes others.
STEPS = 2

Run = Callable[[list[np.ndarray]], list[np.ndarray]]
# Makes a session of ONNX Runtime of a file, and names the operators that it executes.
OnnxSession = Callable[[Path], tuple[Any, list[str]]]


def compare(elf: Path, model: ImageModel, file: Path, count: int, session_of: OnnxSession) -> None:
    """Runs `count` drawn inputs on both. Raises FaultError at the first byte that differs,
    ImageError if one of them cannot be run. Where the runtime computes an operator in float32,
    whose rounding decides between neighbours, a few bytes may differ by STEPS."""
    rng = np.random.default_rng(0)
    shapes = [model.tensors[port.tensor] for port in model.inputs]
    drawn = [
        [
            rng.integers(-128, 128, (one.height, one.width, one.channels)).astype(np.int8)
            for one in shapes
        ]
        for _ in range(count)
    ]
    reference, is_exact = _runtime(file, model.inputs, session_of)
    data = _emulated(elf, b"".join(one.tobytes() for inputs in drawn for one in inputs))
    at, near, total = 0, 0, 0
    for number, inputs in enumerate(drawn):
        wanted = reference([_to_file(*pair) for pair in zip(inputs, model.inputs, strict=True)])
        for port, values in zip(model.outputs, wanted, strict=True):
            tensor = model.tensors[port.tensor]
            shape = tensor.height, tensor.width, tensor.channels
            answer = np.frombuffer(data[at : at + tensor.bytes], np.int8).astype(int)
            at += tensor.bytes
            whole = _from_file(values, port, shape).ravel().astype(int)
            if len(answer) != len(whole):
                raise FaultError("the image writes fewer bytes than its outputs have")
            wrong = np.flatnonzero(np.abs(answer - whole) > (0 if is_exact else STEPS))
            near, total = near + int(np.count_nonzero(answer != whole)), total + len(whole)
            if len(wrong) or near > max(count, total // 4):
                first = wrong[0] if len(wrong) else int(np.argmax(answer != whole))
                raise FaultError(
                    f"output '{port.name}', byte {first}: {answer[first]} on the emulated core,"
                    f" {whole[first]} in the file's runtime (input {number} of {count})"
                )


def can_run(elf: Path) -> bool:
    """True if there is a command beside the image."""
    return (elf.parent / "run.sh").is_file()


def _emulated(elf: Path, inputs: bytes) -> bytes:
    """Returns the bytes that the image writes."""
    command = shlex.split((elf.parent / "run.sh").read_text(encoding="utf-8").splitlines()[-1])
    if command[:1] != ["exec"] or command[1] not in EMULATORS or shutil.which(command[1]) is None:
        raise ImageError(f"run.sh beside '{elf.name}' does not start an emulator that is here")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(elf, folder / elf.name)
        (folder / "inputs.bin").write_bytes(inputs)
        try:
            done = subprocess.run(
                command[1:], cwd=folder, capture_output=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise FaultError(f"the image does not end in {SECONDS} s") from error
        if done.returncode or not (folder / "outputs.bin").is_file():
            said = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
            raise FaultError(f"the image stops with {done.returncode}: {said or 'it says nothing'}")
        return (folder / "outputs.bin").read_bytes()


def _to_file(values: np.ndarray, port: ImagePort) -> np.ndarray:
    """int8 (height, width, channels) in the file's order of axes."""
    if port.flags & COLUMNS:
        values = values.transpose(1, 0, 2)
    if port.flags & CHANNELS_FIRST:
        values = values.transpose(2, 0, 1)
    return values


def _from_file(values: np.ndarray, port: ImagePort, shape: tuple[int, int, int]) -> np.ndarray:
    """The file's output as int8 (height, width, channels), in the order of the image."""
    height, width, channels = shape
    if values.dtype == np.uint8:
        values = (values.astype(np.int16) - 128).astype(np.int8)
    elif values.dtype.kind == "f":
        real = np.rint(values / np.float32(port.scale)) + port.zero_point
        values = np.clip(real, -128, 127).astype(np.int8)
    elif values.dtype != np.int8:
        values = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.int8)
    outer = (width, height) if port.flags & COLUMNS else (height, width)
    if port.flags & CHANNELS_FIRST:
        values = values.reshape(channels, *outer).transpose(1, 2, 0)
    else:
        values = values.reshape(*outer, channels)
    return values.transpose(1, 0, 2) if port.flags & COLUMNS else values


def _typed(values: np.ndarray, dtype: np.dtype[Any], port: ImagePort) -> np.ndarray:
    """int8 values as the runtime takes them."""
    if dtype == np.uint8:
        return (values.astype(np.int16) + 128).astype(np.uint8)
    if dtype.kind == "f":
        return (values.astype(np.float32) - port.zero_point) * np.float32(port.scale)
    if dtype == np.int8:
        return values
    raise ImageError(f"an input of the file has {dtype}", "use --inputs 0")


def _runtime(file: Path, ports: Sequence[ImagePort], session_of: OnnxSession) -> tuple[Run, bool]:
    """Returns a function that runs the file: int8 arrays in its order of axes to its outputs; and
    whether all of it is computed in integers."""
    if file.read_bytes()[4:8] == b"TFL3":
        return _micro(file, ports), True
    return _onnx(file, ports, session_of)


def _micro(file: Path, ports: Sequence[ImagePort]) -> Run:
    try:
        from tflite_micro import runtime
    except ImportError as error:
        raise ImageError("tflite-micro is not installed", "use --inputs 0") from error
    try:
        interpreter = runtime.Interpreter.from_file(str(file), arena_size=ARENA_BYTES)
    except RuntimeError as error:
        reason = f"TensorFlow Lite Micro rejects the model: {error}"
        raise ImageError(reason, "use --inputs 0") from error
    outputs = tflite.Model.GetRootAs(file.read_bytes()).Subgraphs(0).OutputsLength()

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        for index, (values, port) in enumerate(zip(inputs, ports, strict=True)):
            details = interpreter.get_input_details(index)
            typed = _typed(values, np.dtype(details["dtype"]), port)
            interpreter.set_input(typed.reshape(details["shape"]), index)
        interpreter.invoke()
        return [np.array(interpreter.get_output(index)) for index in range(outputs)]

    return run


def _onnx(file: Path, ports: Sequence[ImagePort], session_of: OnnxSession) -> tuple[Run, bool]:
    session, operators = session_of(file)
    kinds = {"tensor(float)": "f4", "tensor(uint8)": "u1", "tensor(int8)": "i1"}

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        feed = {}
        for one, values, port in zip(session.get_inputs(), inputs, ports, strict=True):
            shape = [size if isinstance(size, int) else 1 for size in one.shape]
            typed = _typed(values, np.dtype(kinds.get(one.type, "O")), port)
            feed[one.name] = np.ascontiguousarray(typed).reshape(shape)
        return [np.asarray(one) for one in session.run(None, feed)]

    return run, all(operator in IN_INTEGERS for operator in operators)
