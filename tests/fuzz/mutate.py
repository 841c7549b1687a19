# SPDX-License-Identifier: Apache-2.0
"""Damage to model files: of bytes, and of what they mean.

Damaged bytes rarely get past the parser, so most mutations change fields of a parsed file: sizes,
scales, indices, names, types, attributes, whole nodes. All of it is drawn from a numpy generator,
so a seed says everything.
"""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
import onnx
import structure
from google.protobuf.message import Message
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

INTEGERS = (0, 1, -1, 2, 3, 7, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, -(2**31))
HUGE = (2**32, 2**40, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-30, 1e30, 3e38, np.inf, -np.inf, np.nan)
NAMES = ("", "x", "../w.bin", "/etc/passwd", "w.bin", "Conv", "Add", "LSTM", "a" * 300, "\u00e9")


def damage(rng: np.random.Generator, data: bytes, kind: str) -> bytes:
    """A damaged copy of a .tflite or .onnx file."""
    if rng.random() < 0.15:
        return damage_bytes(rng, data)
    try:
        if rng.random() < 0.5:
            return structure.change(rng, data, kind)
        return (_damage_onnx if kind == "onnx" else _damage_tflite)(rng, data)
    except Exception:  # what was damaged before may not be readable or writable any more
        return damage_bytes(rng, data)


def damage_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Flipped bits, overwritten runs, truncation, repetition."""
    content = bytearray(data)
    for _ in range(int(rng.integers(1, 8))):
        if not content:
            break
        at = int(rng.integers(0, len(content)))
        match int(rng.integers(0, 5)):
            case 0:
                content[at] ^= 1 << int(rng.integers(0, 8))
            case 1:
                content[at] = int(rng.integers(0, 256))
            case 2:
                run = rng.integers(0, 256, int(rng.integers(1, 9))).astype(np.uint8).tobytes()
                content[at : at + len(run)] = run
            case 3:
                del content[at : at + int(rng.integers(1, 64))]
            case _:
                content[at:at] = content[at : at + int(rng.integers(1, 64))]
    return bytes(
        content[: int(rng.integers(0, len(content) + 1))] if rng.random() < 0.2 else content
    )


def _integer(rng: np.random.Generator, old: int, wide: bool = False) -> int:
    choices = INTEGERS + (HUGE if wide else ())
    if rng.random() < 0.4:
        return old + int(rng.integers(-2, 3))
    return int(choices[int(rng.integers(0, len(choices)))])


def _float(rng: np.random.Generator, old: float) -> float:
    if rng.random() < 0.3:
        return float(old * rng.uniform(-2, 2))
    return float(FLOATS[int(rng.integers(0, len(FLOATS)))])


def _name(rng: np.random.Generator, taken: list[str]) -> str:
    if taken and rng.random() < 0.7:
        return taken[int(rng.integers(0, len(taken)))]
    return NAMES[int(rng.integers(0, len(NAMES)))]


def _damage_onnx(rng: np.random.Generator, data: bytes) -> bytes:
    model = onnx.load_from_string(data)
    names = [name for node in model.graph.node for name in (*node.input, *node.output)]
    for _ in range(int(rng.integers(1, 5))):
        _damage_message(rng, model, names)
    return model.SerializeToString()


def _damage_message(rng: np.random.Generator, message: Message, names: list[str]) -> None:
    """Walks down to a random field and changes it."""
    while True:
        fields = message.ListFields()
        if not fields:
            return
        descriptor, value = fields[int(rng.integers(0, len(fields)))]
        repeated = not isinstance(value, (Message, int, float, str, bytes))
        if repeated:
            if len(value) == 0 or rng.random() < 0.12:
                _damage_list(rng, value)
                return
            place = int(rng.integers(0, len(value)))
            if not isinstance(value[place], Message):
                value[place] = _value(rng, value[place], names)
                return
            message = value[place]
        elif isinstance(value, Message):
            message = value
        else:
            setattr(message, descriptor.name, _value(rng, value, names))
            return


def _damage_list(rng: np.random.Generator, values: Any) -> None:
    """Drops, repeats or exchanges elements."""
    if len(values) == 0:
        return
    a, b = (int(rng.integers(0, len(values))) for _ in range(2))
    first = values[a]
    match int(rng.integers(0, 3)):
        case 0:
            del values[a]
        case 1:
            values.append(first)
        case _:
            copies = [_copy(value) for value in values]
            copies[a], copies[b] = copies[b], copies[a]
            del values[:]
            values.extend(copies)


def _copy(value: Any) -> Any:
    return (
        type(value).FromString(value.SerializeToString()) if isinstance(value, Message) else value
    )


def _value(rng: np.random.Generator, old: Any, names: list[str]) -> Any:
    if isinstance(old, str):
        return _name(rng, names)
    if isinstance(old, bytes):
        return damage_bytes(rng, old)
    if isinstance(old, float):
        return _float(rng, old)
    return _integer(rng, int(old), wide=True)


def _damage_tflite(rng: np.random.Generator, data: bytes) -> bytes:
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    for _ in range(int(rng.integers(1, 5))):
        _damage_object(rng, model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _damage_object(rng: np.random.Generator, thing: Any) -> None:
    while True:
        fields = {k: v for k, v in vars(thing).items() if v is not None and not k.startswith("_")}
        if not fields:
            return
        key = list(fields)[int(rng.integers(0, len(fields)))]
        value = fields[key]
        if isinstance(value, np.ndarray):
            setattr(thing, key, _damaged_array(rng, value))
            return
        if isinstance(value, list):
            if not value:
                return
            place = int(rng.integers(0, len(value)))
            if rng.random() < 0.12:
                _damage_list(rng, value)
                return
            if not hasattr(value[place], "__dict__"):
                value[place] = _integer(rng, int(value[place]))
                return
            thing = value[place]
        elif hasattr(value, "__dict__"):
            thing = value
        else:
            setattr(thing, key, _scalar(rng, value))
            return


def _scalar(rng: np.random.Generator, old: Any) -> Any:
    if isinstance(old, (bytes, str)):
        return NAMES[int(rng.integers(0, len(NAMES)))]
    return _float(rng, old) if isinstance(old, float) else _integer(rng, int(old))


def _damaged_array(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    if values.size == 0 or rng.random() < 0.2:
        return values[: int(rng.integers(0, values.size + 1))]
    changed = values.copy()
    at = int(rng.integers(0, values.size))
    if values.dtype.kind == "f":
        changed[at] = _float(rng, float(values[at]))
    else:
        info = np.iinfo(values.dtype)
        changed[at] = int(np.clip(_integer(rng, int(values[at])), info.min, info.max))
    return changed
