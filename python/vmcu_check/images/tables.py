# SPDX-License-Identifier: Apache-2.0
"""The tables of a compiled model in an image, as doc/container.md and vmcu/model.h describe them.

Layouts are those of the C ABI: each member is aligned to its size. Options of the runtime add
members; a model's symbol names them (see VMCU_CONFIGURED in vmcu/config.h).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .elf import ImageError, ImageSymbol, LinkedImage

# Sizes of the members' types; p is a pointer, f a float.
SIZES = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "f": 4}
INIT, MODEL_NAME = r"vmcu_init(_pools)?(?P<options>_with.*)?", "_model"
ON_STACK = 0xFFFFFFFF
TAKE = 0xFF

TENSOR = "base:I ring:I phase:I height:H width:H channels:H"
LAYER = (
    "kernel:p params:p inputs:p input_count:B descending:B output:H scratch:I rows:H width:H"
    " columns:H splits:B"
)
PART = "start:I length:H times:H"
STAGE = "schedule:p parts:p progress:I part_count:H first:H count:H taken:H"
IO = "name:p scale:f zero_point:b flags:B tensor:H"
STREAM = "calls:p again:p model:I state:I state_bytes:I rows:H states:H"
MODEL = (
    "name:p pool_bytes:I tensors:p layers:p stages:p inputs:p outputs:p tensor_count:H"
    " layer_count:H stage_count:H input_count:B output_count:B streamed:B elsewhere:B"
)
# Members of a model that options add, in their order.
OPTIONS = {
    "_with_rotate": "circle:I step:I",
    "_with_streams": "stream:p",
    "_with_several_pools": "pool0:I pool1:I pool2:I pool3:I pool_count:B",
    "_with_external_weights": "chunks:p weights:p chunk_count:H",
    "_with_containers": "base:p kernels:p tail:I",
}


class StructLayout:
    """The layout of a struct, from its members `name:type`."""

    def __init__(self, members: str, word: int):
        at, widest, self.members = 0, 1, []
        for member in members.split():
            name, kind = member.split(":")
            code = {4: "I", 8: "Q"}[word] if kind == "p" else kind
            size = word if kind == "p" else SIZES[kind]
            at = -(-at // size) * size
            self.members.append((name, at, code))
            at, widest = at + size, max(widest, size)
        self.bytes = -(-at // widest) * widest

    def decode(self, data: bytes) -> dict[str, Any]:
        """Returns the members of the struct at the beginning of `data`."""
        return {
            name: struct.unpack_from("<" + code, data, at)[0] for name, at, code in self.members
        }


@dataclass(frozen=True)
class ImageTensor:
    """A ring buffer: byte o of the tensor is at (base + (o + phase) % ring) % pool."""

    number: int
    base: int
    ring: int
    phase: int
    height: int
    width: int
    channels: int

    @property
    def row(self) -> int:
        """Bytes of a row."""
        return self.width * self.channels

    @property
    def bytes(self) -> int:
        return self.height * self.row


@dataclass(frozen=True)
class ImageLayer:
    """kernel: the function's name; params: address of its parameters; inputs and output: numbers
    of tensors. The other members are as in struct vmcu_layer."""

    number: int
    kernel: str
    params: int
    inputs: tuple[int, ...]
    output: int
    descending: bool
    scratch: int
    rows: int
    width: int
    columns: int
    splits: int

    @property
    def across(self) -> int:
        """Calls of a row."""
        return -(-self.width // self.columns)


@dataclass(frozen=True)
class ImageStage:
    """Layers from `first` on. parts: (entries, times) of the schedule; none for a single layer."""

    number: int
    first: int
    count: int
    taken: int
    progress: int
    parts: tuple[tuple[tuple[int, ...], int], ...]


@dataclass(frozen=True)
class ImagePort:
    """An input or output of the model."""

    name: str
    scale: float
    zero_point: int
    flags: int
    tensor: int


@dataclass(frozen=True)
class ImageStream:
    """calls, again: by layer of the first stage; see struct vmcu_stream."""

    calls: tuple[int, ...]
    again: tuple[int, ...]
    state: int
    state_bytes: int
    rows: int
    states: int


@dataclass(frozen=True)
class ImageModel:
    """A model's tables. symbol: its name in the image. pools: bytes of each pool."""

    symbol: str
    pools: tuple[int, ...]
    tensors: tuple[ImageTensor, ...]
    layers: tuple[ImageLayer, ...]
    stages: tuple[ImageStage, ...]
    inputs: tuple[ImagePort, ...]
    outputs: tuple[ImagePort, ...]
    streamed: bool
    elsewhere: bool
    circle: int = 0
    step: int = 0
    stream: ImageStream | None = None


class TableReader:
    """Reads the tables of the model of one symbol."""

    def __init__(self, image: LinkedImage, symbol: ImageSymbol):
        self.image, self.symbol = image, symbol
        options = [text for name, text in OPTIONS.items() if name in symbol.name]
        self.layout = StructLayout(" ".join([MODEL, *options]), image.word)
        if symbol.bytes not in (0, self.layout.bytes):
            raise ImageError(
                f"{symbol.name} has {symbol.bytes} bytes instead of {self.layout.bytes}",
                "check with the vmcu that built the image",
            )

    def structs(self, members: str, address: int, count: int) -> list[dict[str, Any]]:
        """Returns `count` structs of a table."""
        layout = StructLayout(members, self.image.word)
        data = self.image.read(address, layout.bytes * count) if count else b""
        size = layout.bytes
        return [layout.decode(data[size * i : size * (i + 1)]) for i in range(count)]

    def numbers(self, code: str, address: int, count: int) -> tuple[int, ...]:
        """Returns `count` integers of an array."""
        data = self.image.read(address, SIZES[code] * count) if count else b""
        return struct.unpack(f"<{count}{code}", data)

    def model(self) -> ImageModel:
        """Raises ImageError if a table, or a tensor that it names, is not in the image."""
        top = self.layout.decode(self.image.read(self.symbol.address, self.layout.bytes))
        tensors = tuple(
            ImageTensor(number, **one)
            for number, one in enumerate(self.structs(TENSOR, top["tensors"], top["tensor_count"]))
        )
        layers = tuple(self._layers(top, len(tensors)))
        stages = tuple(self._stages(top, len(layers)))
        pools = tuple(top[f"pool{i}"] for i in range(top.get("pool_count", 0)))
        model = ImageModel(
            symbol=self.symbol.name,
            pools=pools or (top["pool_bytes"],),
            tensors=tensors,
            layers=layers,
            stages=stages,
            inputs=self._ports(top["inputs"], top["input_count"], len(tensors)),
            outputs=self._ports(top["outputs"], top["output_count"], len(tensors)),
            streamed=bool(top["streamed"]),
            elsewhere=bool(top["elsewhere"]),
            circle=top.get("circle", 0),
            step=top.get("step", 0),
            stream=self._stream(top.get("stream", 0), stages),
        )
        if sum(model.pools) != top["pool_bytes"]:
            raise ImageError(f"pools of {model.pools} bytes are not {top['pool_bytes']} together")
        return model

    def _layers(self, top: Mapping[str, Any], tensors: int) -> Iterator[ImageLayer]:
        for number, one in enumerate(self.structs(LAYER, top["layers"], top["layer_count"])):
            inputs = self.numbers("H", one["inputs"], one.pop("input_count"))
            kernel = self.image.function_at(one.pop("kernel"))
            if one["descending"] > 1 or max((*inputs, one["output"])) >= tensors:
                raise ImageError(f"layer {number} ({kernel}) names a tensor that is not there")
            if not one["columns"] or not one["rows"] or one["columns"] > one["width"]:
                raise ImageError(f"layer {number} ({kernel}) has calls of no columns or rows")
            one |= {"inputs": inputs, "descending": bool(one["descending"])}
            yield ImageLayer(number, kernel, **one)

    def _stages(self, top: Mapping[str, Any], layers: int) -> Iterator[ImageStage]:
        behind = 0
        for number, one in enumerate(self.structs(STAGE, top["stages"], top["stage_count"])):
            if one["first"] != behind or not one["count"] or behind + one["count"] > layers:
                raise ImageError(f"stage {number} does not begin with layer {behind}")
            behind += one["count"]
            parts = []
            if one["schedule"]:
                for part in self.structs(PART, one["parts"], one["part_count"]):
                    entries = self.numbers("B", one["schedule"] + part["start"], part["length"])
                    if any(entry >= one["count"] and entry != TAKE for entry in entries):
                        raise ImageError(f"stage {number}'s schedule names a layer of another")
                    parts.append((entries, part["times"]))
            elif one["count"] > 1:
                raise ImageError(f"stage {number} has several layers and no schedule")
            yield ImageStage(
                number, one["first"], one["count"], one["taken"], one["progress"], tuple(parts)
            )
        if behind != layers:
            raise ImageError(f"stages end behind layer {behind} of {layers}")

    def _ports(self, address: int, count: int, tensors: int) -> tuple[ImagePort, ...]:
        ports = self.structs(IO, address, count)
        if any(one["tensor"] >= tensors for one in ports):
            raise ImageError("an input or output names a tensor that is not there")
        return tuple(ImagePort(**{**one, "name": self.image.text(one["name"])}) for one in ports)

    def _stream(self, address: int, stages: tuple[ImageStage, ...]) -> ImageStream | None:
        if not address:
            return None
        one = self.structs(STREAM, address, 1)[0]
        one.pop("model")
        calls = self.numbers("H", one.pop("calls"), stages[0].count)
        again = self.numbers("H", one.pop("again"), stages[0].count)
        if any(a >= c for a, c in zip(again, calls, strict=True)):
            raise ImageError("a layer of the stream does not start over")
        return ImageStream(calls, again, **one)


def model_symbols(image: LinkedImage) -> list[ImageSymbol]:
    """Returns the symbols of compiled models: NAME_model and the options of the image, which the
    runtime's vmcu_init has, too."""
    names = (one.name for one in image.symbols.values() if one.is_function)
    inits = (re.fullmatch(INIT, name) for name in names)
    options = next((init["options"] or "" for init in inits if init is not None), "")
    symbols = [
        one
        for one in image.symbols.values()
        if one.name.endswith(MODEL_NAME + options)
        and len(one.name) > len(MODEL_NAME + options)
        and not one.is_function
        and image.has(one.address, one.bytes)
    ]
    return sorted(symbols, key=lambda one: one.address)


def name_of(symbol: ImageSymbol) -> str:
    """Returns a model's name: its symbol without _model and the options."""
    return symbol.name.rpartition(MODEL_NAME)[0]
