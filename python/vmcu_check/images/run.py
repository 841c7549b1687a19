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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .elf import FaultError, ImageError, prove
from .tables import TAKE, ImageModel, ImagePort

CHANNELS_FIRST, COLUMNS = 1, 4
SECONDS = 300
EMULATORS = ("qemu-system-arm", "qemu-system-riscv32")
# Kinds of layers of streams that read what they computed before.
CARRYING = ("lstm", "recall")
# By how much outputs may differ where the runtime does not compute in integers.
STEPS = 2


@dataclass(frozen=True)
class Reference:
    """A model file in its own runtime. inputs: type and shape of each; run: from inputs to outputs;
    is_exact: it computes all operators in integers."""

    inputs: list[tuple[np.dtype[Any], list[int]]]
    run: Callable[[list[np.ndarray]], list[np.ndarray]]
    is_exact: bool


def compare(elf: Path, model: ImageModel, reference: Reference, count: int) -> None:
    """Runs `count` drawn inputs on both. Raises FaultError at the first byte that differs,
    ImageError if one of them cannot be run. Where the runtime computes an operator in float32,
    whose rounding decides between neighbours, a few bytes may differ by STEPS."""
    drawn, given = (_windows if model.stream else _inputs)(model, reference, count)
    answers = np.frombuffer(_emulated(elf, given), np.int8).astype(int)
    near, total = 0, 0
    for number, inputs in enumerate(drawn):
        feeds = zip(inputs, model.inputs, reference.inputs, strict=True)
        wanted = reference.run([_to_file(*feed) for feed in feeds])
        for port, values in zip(model.outputs, wanted, strict=True):
            rows = 1 if model.stream and len(model.stages) == 1 else port.tensor.height
            whole = _from_file(values, port)[-rows:].ravel().astype(int)
            answer = answers[total : total + len(whole)]
            prove(len(answer) == len(whole), "the image writes fewer bytes than its outputs have")
            differences = np.abs(answer - whole)
            near, total = near + int(np.count_nonzero(differences)), total + len(whole)
            is_strict = reference.is_exact or near > max(count, total // 2)
            for at in np.flatnonzero(differences > (0 if is_strict else STEPS))[:1]:
                both = f"{answer[at]} on the emulated core, {whole[at]} in the file's runtime"
                what = f"output '{port.name}', byte {at}: {both}"
                raise FaultError(f"{what} (input {number} of {count})")


def _inputs(model: ImageModel, _: Reference, count: int) -> tuple[list[list[np.ndarray]], bytes]:
    """Draws inputs int8 (height, width, channels), and returns all as the image reads them, too."""
    rng = np.random.default_rng(0)
    drawn = [[_values(rng, *port.tensor.shape) for port in model.inputs] for _ in range(count)]
    return drawn, b"".join(one.tobytes() for inputs in drawn for one in inputs)


def _windows(
    model: ImageModel, reference: Reference, count: int
) -> tuple[list[list[np.ndarray]], bytes]:
    """Draws rows, and returns the windows that the answers are of, and the rows."""
    height, hop = _rows(model, reference)
    port = model.inputs[0]
    rows = _values(np.random.default_rng(0), height + (count - 1) * hop, *port.tensor.shape[1:])
    starts = range(0, count * hop, hop)
    return [[rows[start : start + height]] for start in starts], rows.tobytes()


def _rows(model: ImageModel, reference: Reference) -> tuple[int, int]:
    """Returns the rows of a stream's window, and those that are new in it."""
    (port,), ((_, shape),), stage = model.inputs, reference.inputs, model.stages[0]
    new = stage.parts[1][0].count(TAKE) // -(-port.tensor.width // stage.taken)
    return int(np.prod(shape)) // port.tensor.row, new


def _values(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def can_run(elf: Path) -> bool:
    """Returns true if there is a command beside the image."""
    return (elf.parent / "run.sh").is_file()


def can_answer(reference: Reference, model: ImageModel) -> bool:
    """Returns true if the runtime computes what the image does: of a stream by a window of its
    rows, or by what the runtime has kept of the windows before."""
    if not model.stream:
        return True
    if not len(model.inputs) == len(reference.inputs) == 1:
        return False
    height, new = _rows(model, reference)
    return height == new or not any(layer.kind in CARRYING for layer in model.layers)


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


def _order(port: ImagePort) -> tuple[int, ...]:
    """Returns the axes of the file, as those of (height, width, channels)."""
    outer = (1, 0) if port.flags & COLUMNS else (0, 1)
    return (2, *outer) if port.flags & CHANNELS_FIRST else (*outer, 2)


def _to_file(
    values: np.ndarray, port: ImagePort, wanted: tuple[np.dtype[Any], list[int]]
) -> np.ndarray:
    """int8 (height, width, channels) in the type and the order of axes of the file."""
    dtype, shape = wanted
    if dtype.kind == "f":
        values = (values.astype(np.float32) - port.zero_point) * np.float32(port.scale)
    elif dtype == np.uint8:
        values = (values.astype(np.int16) + 128).astype(np.uint8)
    elif dtype != np.int8:
        raise ImageError(f"an input of the file has {dtype}", "use --inputs 0")
    return np.ascontiguousarray(values.transpose(_order(port))).reshape(shape)


def _from_file(values: np.ndarray, port: ImagePort) -> np.ndarray:
    """The file's output as int8 (height, width, channels), in the order of the image."""
    if values.dtype == np.uint8:
        values = (values.astype(np.int16) - 128).astype(np.int8)
    elif values.dtype.kind == "f":
        real = np.rint(values / np.float32(port.scale)) + port.zero_point
        values = np.clip(real, -128, 127).astype(np.int8)
    elif values.dtype != np.int8:
        values = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.int8)
    order = _order(port)
    shape = [(-1, *port.tensor.shape[1:])[axis] for axis in order]
    return values.reshape(shape).transpose(np.argsort(order))
