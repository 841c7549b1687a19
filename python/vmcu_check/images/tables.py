# SPDX-License-Identifier: Apache-2.0
"""The tables of a compiled model in an image."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import structs
from .elf import ContainerImage, Image, ImageError, LinkedImage, require

INIT, MODEL_NAME = r"vmcu_init(_pools)?(?P<options>_with.*)?", "_model"
ON_STACK = 0xFFFFFFFF
TAKE = 0xFF
FOUR, VECTOR, WORD = 4, 16, 4
# Numbers of tensors between the two layers of a recomputation: from here on, by layer.
BETWEEN = 1 << 16
# Rows, then columns: taps, stride, dilation and padding in front.
Axes = tuple[tuple[int, ...], ...]
POINT: Axes = ((1, 1, 1, 0),) * 2
SIDES = "kernel_h stride_h dilation_h pad_top", "kernel_w stride_w dilation_w pad_left"
# A kernel's name, its form and the suffix of its packing.
_NAME = re.compile(
    r"(?P<kernel>vmcu_(?P<kind>dense|conv|pointwise|depthwise|grouped|\w+?)"
    r"(?P<form>_narrow|_[357]_[12]|_any|_fine|_zeros)?"
    r"(?P<packing>_pairs_int4|_helium_int4|_int4|_pairs|_helium)?)"
)


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
    def shape(self) -> tuple[int, int, int]:
        return self.height, self.width, self.channels

    @property
    def bytes(self) -> int:
        return self.height * self.row


@dataclass(frozen=True)
class ImageLayer:
    """kernel: the function's name, which has a kind, a form and a packing; p: its parameters; ins
    and out: its tensors; within: the two layers of a recomputation. The other members are as in
    struct vmcu_layer."""

    number: int
    kernel: str
    kind: str
    form: str
    packing: str
    p: Mapping[str, Any]
    ins: tuple[ImageTensor, ...]
    out: ImageTensor
    descending: bool
    scratch: int
    rows: int
    width: int
    columns: int
    splits: int
    within: tuple[ImageLayer, ...] = ()

    @property
    def axes(self) -> Axes:
        """The window; of a layer without one, a pixel."""
        if "kernel_h" not in self.p:
            return POINT
        return tuple(tuple(self.p[name] for name in side.split()) for side in SIDES)

    @property
    def across(self) -> int:
        """Calls of a row."""
        return -(-self.width // self.columns)

    @property
    def lanes(self) -> int:
        """Channels, or taps of one, that the core computes together."""
        return VECTOR if self.packing.startswith("_helium") else FOUR


@dataclass(frozen=True)
class ImageStage:
    """Consecutive layers. parts: (entries, times) of the schedule; none for a single layer."""

    number: int
    layers: tuple[ImageLayer, ...]
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
    tensor: ImageTensor


@dataclass(frozen=True)
class ImageStream:
    """calls, again: by layer of the first stage; see struct vmcu_stream."""

    calls: tuple[int, ...]
    again: tuple[int, ...]
    rows: int


@functools.cache
def named(kernel: str) -> dict[str, Any]:
    """Returns a kernel's name, its kind, its form and the suffix of its packing.

    Raises ImageError if it is no kernel's name.
    """
    match = _NAME.fullmatch(kernel)
    if match is None:
        raise ImageError(f"no rule for the kernel '{kernel}'", "check with a newer vmcu")
    return match.groupdict("")


def roots(image: LinkedImage | ContainerImage) -> dict[str, dict[str, Any]]:
    """Returns the members of the struct of each model, by its symbol.

    Symbols are NAME_model and the options of the image, which the runtime's vmcu_init has, too.
    """
    if isinstance(image, ContainerImage):
        return {image.text(image.model["name"]): image.model}
    inits = (re.fullmatch(INIT, one.name) for one in image.symbols.values() if one.is_function)
    options = next((init["options"] or "" for init in inits if init is not None), "")
    members = " ".join(
        [structs.MODEL, *(structs.OPTIONS[o] for o in structs.OPTIONS if o in options)]
    )
    size, tops = structs.layout(members, image.word).itemsize, {}
    for one in sorted(image.symbols.values(), key=lambda one: one.address):
        is_model = re.fullmatch(".+" + MODEL_NAME + options, one.name) and not one.is_function
        if is_model and image.has(one.address, one.bytes):
            if one.bytes not in (0, size):
                reason = f"{one.name} has {one.bytes} bytes instead of {size}"
                raise ImageError(reason, "check with the vmcu that built the image")
            (tops[one.name],) = image.structs(members, one.address, 1)
    return tops


class ImageModel:
    """A model's tables. symbol: its name in the image; top: the members of its struct; pools: bytes
    of each pool. circle: bytes without the overhang of a pool that rotates by `step` bytes, else 0.
    """

    def __init__(self, image: Image, symbol: str, top: Mapping[str, Any]):
        """Raises ImageError if a table, or a tensor that it names, is not in the image."""
        self.image, self.symbol, self.top = image, symbol, top
        self.circle, self.step = int(top.get("circle", 0)), int(top.get("step", 0))
        self.streamed, self.elsewhere = bool(top["streamed"]), bool(top.get("elsewhere", 0))
        is_clear = top["streamed"] + top.get("elsewhere", 0) <= 1
        require(is_clear, "its input is neither pushed, external nor in the pool")
        self.has_weights_file = bool(top.get("chunk_count", 0))
        pools = tuple(top[f"pool{i}"] for i in range(top.get("pool_count", 0)))
        self.pools: tuple[int, ...] = pools or (top["pool_bytes"],)
        is_sum = sum(self.pools) == top["pool_bytes"]
        require(is_sum, f"pools of {pools} bytes are not {top['pool_bytes']} together")
        tensors = self._table(structs.TENSOR, "tensor")
        self.tensors = tuple(ImageTensor(number, **one) for number, one in enumerate(tensors))
        layers = enumerate(self._table(structs.LAYER, "layer"))
        self.layers = tuple(self._layer(number, one) for number, one in layers)
        self.stages = tuple(self._stages())
        self.inputs, self.outputs = self._ports("input"), self._ports("output")
        self.stream = self._stream(top["stream"]) if top.get("stream") else None

    def _table(self, members: str, name: str) -> list[dict[str, Any]]:
        return self.image.structs(members, self.top[f"{name}s"], self.top[f"{name}_count"])

    def _layer(self, number: int, one: dict[str, Any]) -> ImageLayer:
        kernel = self.image.function_at(one.pop("kernel"))
        what, names = f"layer {number} ({kernel})", named(kernel)
        inputs = self.image.numbers("H", one.pop("inputs"), one.pop("input_count"))
        numbers = (*inputs, one.pop("output"))
        are_there = one["descending"] <= 1 and max(numbers) < len(self.tensors)
        require(are_there, f"{what} names a tensor that is not there")
        has_calls = one["rows"] and 0 < one["columns"] <= one["width"]
        require(has_calls, f"{what} has calls of no columns or rows")
        members, params = structs.PARAMS.get(names["kind"], ""), one.pop("params")
        p = self.image.structs(members, params, 1)[0] if members else {}
        *ins, out = (self.tensors[i] for i in numbers)
        layer = ImageLayer(number, **names, p=p, ins=tuple(ins), out=out, **one)
        if layer.kind != "recomputed":
            return layer
        size = (p[name] for name in ("height", "width", "channels"))
        between = ImageTensor(BETWEEN + number, layer.scratch, p["ring"], 0, *size)
        inner = self._within(layer, "inner_", ins=layer.ins, out=between)
        outer = self._within(layer, "outer_", ins=(between,), out=out)
        return replace(layer, within=(inner, outer))

    def _within(self, layer: ImageLayer, side: str, **ends: Any) -> ImageLayer:
        """Returns one of the two layers of a recomputation."""
        names = named(self.image.function_at(layer.p[f"{side}kernel"]))
        p = {name.removeprefix(side): value for name, value in layer.p.items()}
        return replace(layer, **names, p=p, **ends)

    def _stages(self) -> Iterator[ImageStage]:
        behind = 0
        for number, one in enumerate(self._table(structs.STAGE, "stage")):
            first, behind = behind, behind + one["count"]
            is_next = one["first"] == first < behind <= len(self.layers)
            require(is_next, f"stage {number} does not begin with layer {first}")
            parts, count = [], one["part_count"] if one["schedule"] else 0
            is_alone = not one["schedule"] and one["count"] == 1
            require(count or is_alone, f"stage {number} has no schedule")
            for part in self.image.structs(structs.PART, one["parts"], count):
                at = one["schedule"] + part["start"]
                parts.append((self.image.numbers("B", at, part["length"]), part["times"]))
            layers = self.layers[first:behind]
            yield ImageStage(number, layers, one["taken"], one["progress"], tuple(parts))
        count = len(self.layers)
        require(behind == count, f"stages end behind layer {behind} of {count}")

    def _ports(self, side: str) -> tuple[ImagePort, ...]:
        ports = self._table(structs.PORT, side)
        for one in ports:
            one |= {"name": self.image.text(one["name"]), "tensor": self.tensors[one["tensor"]]}
        return tuple(ImagePort(**one) for one in ports)

    def _stream(self, address: int) -> ImageStream:
        (one,) = self.image.structs(structs.STREAM, address, 1)
        layers = self.stages[0].layers
        calls, again = (self.image.numbers("H", one[n], len(layers)) for n in ("calls", "again"))
        for layer, end, first in zip(layers, calls, again, strict=True):
            starts_over = first < end <= layer.rows * layer.across
            require(starts_over, f"the calls of layer {layer.number} do not start over")
        kept = [layer.kind == "remember" for layer in self.layers]
        behind = len(kept) - one["states"]
        require(all(kept[behind:]) and not any(kept[:behind]), "its states are not kept at the end")
        within = one["state"] <= self.stages[0].progress < one["state"] + one["state_bytes"]
        end = one["state"] + one["state_bytes"]
        require(within and end <= self.top["pool_bytes"], "its state is not in the pool")
        return ImageStream(calls, again, one["rows"])
