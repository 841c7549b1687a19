# SPDX-License-Identifier: Apache-2.0
"""Containers with one thing wrong and a digest that is right: what their loader has to say."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from builders.containers import changed, model_member, of_model, of_table
from builders.damages import OF_DIGITS, OF_PLANNERS
from vmcu_tools.container import layout
from vmcu_tools.emit import structs
from vmcu_tools.kernels.language.evaluate import Head
from vmcu_tools.kernels.pack import fast_shifts
from vmcu_tools.kernels.targets import DEFAULT
from vmcu_tools.kernels.targets.portable.shapes import NARROW, WIDE
from vmcu_tools.ops.kernel_type import KERNEL_TYPES
from vmcu_tools.ops.values import STRUCTS
from vmcu_tools.plan.plan import Plan

BUILT, GREEDY, SEGMENTS = range(3)
# See VMCU_SCRATCH_ON_STACK.
ON_STACK = 0xFFFFFFFF
# No place in a container.
AWAY = 0xFFFFFFF0
# In front of a container's last bytes, and of the pool's: not all of what is looked for is there.
LAST, POOL = "last", "pool"
WINDOW = (("window.kernel_h", 0), ("window.stride_w", 0), ("window.pad_left", -1))
STREAM = (("stream", AWAY), ("stream", LAST))
# Heads of blocks: none, more than there are channels, a last one of too many.
HEADS = (*STREAM, ("stream[0]", 0), ("stream[0]", 0xFFFF), ("stream[0]", 7 << 28 | 1))
TILED = (*HEADS, ("groups", 0), ("run", 0), ("steps", 9999), ("layer.scratch", 2))
TILED = (*TILED, ("layer.scratch", POOL))
CONV = (*WINDOW, *TILED, ("window.dilation_w", 3), ("depth", 7))
SQUARE = (*WINDOW, *STREAM, ("steps", 0), ("steps", 9999), ("window.pad_left", 100))
SQUARE = (*SQUARE, ("layer.scratch", POOL))
SOFTMAX = (("exp[0]", 65535), ("exp[255]", 1 << 31))
PRODUCT = (("product.shift", 31),)
# What a member must not be, by its type.
OF_TYPE = {
    "bool": (("", 2),),
    "vmcu_factor": ((".shift", 31),),
    "vmcu_float_sum": ((".shift", 32),),
    "vmcu_window": tuple((path.removeprefix("window"), wrong) for path, wrong in WINDOW),
}
# Of parameters of kernels besides these and pointers to nothing: a member, or the entry of an array
# that it points to, and what it must not be.
PARAMS: dict[str, tuple[tuple[str, int | str], ...]] = {
    "vmcu_add": (("shift", 32), ("shift", -1), ("bias", -(1 << 31)), ("bias", (1 << 31) - 1)),
    "vmcu_add_exact": (("b.shift", -32),),
    "vmcu_add_float": (
        *(("sum.a", 1 << 60), ("sum.b", -1 << 60)),
        *(("sum.constant", 1 << 62), ("sum.constant", -1 << 62)),
    ),
    "vmcu_attention": (
        *(("scores.shift", 31), ("output.shift", 31), ("layer.scratch", 2), ("exp", AWAY)),
        *(("window.kernel_h", 0), ("window.stride_h", 2), ("window.pad_top", -1)),
        *(("window.dilation_h", 0), ("window.kernel_w", 2), ("window.pad_left", 1)),
        *(("heads", 0), ("heads", 9999), ("sharing", 0), ("sharing", 7), ("table", AWAY)),
        *(("score_bias", AWAY), ("bias_head", 65535), ("sum", AWAY)),
    ),
    "vmcu_average_pool": (*WINDOW, ("rescale", 9), ("count_padding", 2)),
    "vmcu_average_pool_sum": (
        *(("rescale", 9), ("layer.descending", 1), ("layer.scratch", 2), ("layer.scratch", POOL)),
    ),
    "vmcu_binary": (
        *(("left_shift", 31), ("rescale", 2), ("kind", 99), ("output.shift", 31)),
        *(("constant", AWAY), ("constant_height", 999), ("sum", AWAY), ("sum[0]", 1 << 60)),
        *(("constant_height", 3), ("constant_width", 13), ("constant_channels", 13)),
    ),
    "vmcu_concat": (("axis", 3), ("table_of", AWAY), ("table_of[0]", 127)),
    "vmcu_conv": CONV,
    "vmcu_conv_narrow": CONV,
    "vmcu_dense": (
        *(*HEADS, *WINDOW, ("groups", 2), ("packed", 1), ("run", 0), ("run", 65535)),
        ("window.pad_top", 1),
    ),
    "vmcu_dense_per_tensor": STREAM,
    "vmcu_depthwise_any": (*WINDOW, *STREAM, ("groups", 0), ("run", 7), ("window.kernel_h", 40000)),
    "vmcu_filter_int16": (
        *(("window.kernel_h", 0), ("window.kernel_w", 2), ("window.pad_left", 1), ("rank", 7)),
        ("weights", LAST),
    ),
    "vmcu_log_softmax_onnx": SOFTMAX,
    "vmcu_log_softmax_tflite": SOFTMAX,
    "vmcu_matmul": PRODUCT,
    "vmcu_matmul_transposed": PRODUCT,
    "vmcu_move": (
        *(("run", 0), ("rows", AWAY), ("columns", AWAY), ("channels", AWAY)),
        *(("rows[0]", -9999), ("channels[0]", 1 << 30)),
    ),
    "vmcu_pointwise": (*TILED, ("packed", 1)),
    "vmcu_pointwise_narrow": (*TILED, ("packed", 1)),
    "vmcu_requantize_wide": (("input_bytes", 3), ("output_bytes", 3)),
    "vmcu_resize": (
        *(("rescale", 2), ("factor.shift", 31), ("rows", AWAY), ("columns", AWAY)),
        *(("rows[0]", 9999), ("columns[1]", -1)),
    ),
    "vmcu_rms_norm": (("gain", AWAY), ("epsilon", 0), ("epsilon", -1), ("scale", 0x7F800000)),
    "vmcu_softmax_int16": SOFTMAX,
    "vmcu_softmax_onnx": SOFTMAX,
    "vmcu_softmax_tflite": SOFTMAX,
    "vmcu_transpose_conv": (
        *(*WINDOW, ("groups", 0), ("depth", 0), ("weights", AWAY), ("bias", AWAY)),
        *(("scale", AWAY), ("multiplier", AWAY), ("shift", AWAY), ("shift[0]", 31)),
    ),
} | {f"vmcu_depthwise_{taps}_{stride}": SQUARE for taps in (3, 5, 7) for stride in (1, 2)}
# What no kernel is called for.
LAYER = (("layer.rows", 65535), ("layer.splits", 0xFF))
# By packing and kernel without its suffix, what only kernels of some packings refuse.
PACKED = {
    ("_helium", "vmcu_depthwise_any"): (
        # Of a vector no taps are added up together, or more than there are; a requantiser that is
        # neither; another code; no pixel of padding, or one that scratch has no room for.
        *(("stream[0]", 0), ("stream[0]", 9999 << 8), ("stream[0]", 1 << 8 | 2)),
        ("stream[0]", 9 << 24 | 1 << 8),
        *(("layer.scratch", POOL), ("steps", 0), ("steps", 9999)),
    ),
    ("_pairs", "vmcu_dense"): (("stream[0]", 1 << 14 | 1),),
}
# The shapes of blocks.
BLOCKS = {
    f"vmcu_{name}{suffix}": shapes[max(shapes)]
    for name in ("pointwise", "conv")
    for suffix, shapes in (("", WIDE), ("_narrow", NARROW))
}
GROUPED = (*WINDOW, *STREAM, ("groups", 0), ("groups", 9999), ("run", 0), ("steps", 0))
GROUPED = (*GROUPED, ("steps", 9999), ("packed", 1), ("is_float", 0), ("window.kernel_h", 2))
GROUPED = (*GROUPED, ("depth", 0), ("depth", 9999))
PARAMS |= {f"vmcu_grouped{kind}": GROUPED for kind in ("", "_fine", "_zeros")}
MEMBER = re.compile(r"(\w+)(?:\.(\w+))?(?:\[(\d+)\])?")


@dataclass(frozen=True)
class Damage:
    """A container to be refused. of: the one that it was. index: None for any."""

    label: str
    of: str
    image: bytes
    what: str
    error: str = "EBADMSG"
    index: int | None = None
    planner: int = BUILT
    replay: bool = False


class Layers:
    """The layers of a container, with the names of their kernels."""

    def __init__(self, image: bytes):
        self.image = image
        self.at = model_member(image, "layers")
        names = [self._word("kernels", n) for n in range(model_member(image, "kernel_count"))]
        kernels = [image[at : image.index(b"\0", at)].decode() for at in names]
        count = model_member(image, "layer_count")
        self.kernels = [kernels[self.member(n, "kernel")] for n in range(count)]

    def _word(self, table: str, number: int) -> int:
        at = model_member(self.image, table) + layout.KERNEL.size * number
        return struct.unpack_from("<I", self.image, at)[0]

    def member(self, number: int, name: str) -> int:
        at = self.at + structs.LAYER.size * number + structs.LAYER.members[name].start
        return struct.unpack_from("<I", self.image, at)[0]

    def short(self, number: int, name: str) -> int:
        """A member of 16 bits; of the inputs the first."""
        at = self.at + structs.LAYER.size * number + structs.LAYER.members[name].start
        if name == "inputs":
            (at,) = struct.unpack_from("<I", self.image, at)
        return struct.unpack_from("<H", self.image, at)[0]

    def tensor(self, number: int, name: str) -> int:
        """A member of a tensor, of 16 bits."""
        at = model_member(self.image, "tensors") + structs.TENSOR.size * number
        return struct.unpack_from("<H", self.image, at + structs.TENSOR.members[name].start)[0]

    def mac(self, number: int, name: str) -> int:
        """A member of the parameters of a layer with weights."""
        member = STRUCTS["vmcu_mac_params"].members[name]
        form = "<I" if member.pointer else layout.FORMATS[member.kind]
        return struct.unpack_from(form, self.image, self.member(number, "params") + member.start)[0]

    def with_member(self, number: int, path: str, value: int | str) -> bytes | None:
        """The container with another value in a layer or its parameters; None where these have a
        NULL instead of an array."""
        outer, inner, index = MEMBER.fullmatch(path).groups()
        if outer == "layer":
            pool = model_member(self.image, "pool_bytes") // 4 * 4 - 4
            wrong = pool if value == POOL else value
            return of_table(self.image, "layers", number, inner, int(wrong))
        at = self.member(number, "params")
        kind = STRUCTS[self._params(self.kernels[number])]
        member = kind.members[outer]
        at += member.start
        if inner:
            member = STRUCTS[member.kind].members[inner]
            at += member.start
        if member.pointer:
            (target,) = struct.unpack_from("<I", self.image, at)
            if target == 0:
                return None
            if index is None:
                wrong = len(self.image) - 8 if value == LAST else value
                return changed(self.image, at, "<I", int(wrong))
            form = layout.FORMATS.get(member.kind, "<q" if member.kind in STRUCTS else "<I")
            size = struct.calcsize(form)
            return changed(self.image, target + size * int(index), form, int(value))
        return changed(self.image, at, layout.FORMATS[member.kind], int(value))

    def _params(self, kernel: str) -> str:
        for n in range(model_member(self.image, "kernel_count")):
            at = model_member(self.image, "kernels") + layout.KERNEL.size * n
            name, params = struct.unpack_from("<II", self.image, at)
            if self.image[name : self.image.index(b"\0", name)].decode() == kernel:
                return self.image[params : self.image.index(b"\0", params)].decode()
        raise KeyError(kernel)


def damages(images: Mapping[str, bytes], plans: Mapping[str, Plan]) -> Iterator[Damage]:
    # Of its usual plan.
    of_digits = OF_DIGITS if plans["digits"].graph.target == DEFAULT else ()
    for number, (damage, what, error) in enumerate(of_digits):
        yield Damage(f"digits {number}", "digits", damage(images["digits"]), what, error)
    for number, (damage, what, error) in enumerate(OF_PLANNERS):
        found = damage(images["online"])
        yield Damage(f"planner {number}", "online", found, what, error, planner=SEGMENTS)
    yield from parameters(images)
    yield from shifts(images)
    yield from means(images)
    yield from tables(images)
    yield from windows(images)
    yield from shapes(images)
    yield from alone(images)
    yield from counts(images)
    yield from replays(images, plans)


def parameters(images: Mapping[str, bytes]) -> Iterator[Damage]:
    """The first layer of each kernel that has the member."""
    layers = {name: Layers(image) for name, image in images.items()}
    kernels = {kernel for found in layers.values() for kernel in found.kernels}
    for kernel in sorted(kernels):
        suffix = KERNEL_TYPES[kernel].packing.suffix
        plain = kernel.removesuffix(suffix)
        of_kernel = (*PARAMS.get(plain, ()), *PACKED.get((suffix, plain), ()))
        for path, value in (*declared(kernel), *of_kernel, *LAYER):
            for name, found in layers.items():
                numbers = [n for n, one in enumerate(found.kernels) if one == kernel]
                if path == "window.dilation_w":
                    # Single taps may lie anywhere, those of a row side by side.
                    numbers = [n for n in numbers if found.mac(n, "run") != found.mac(n, "depth")]
                made = ((n, found.with_member(n, path, value)) for n in numbers)
                # What a layer has already is nothing wrong.
                some = ((n, image) for n, image in made if image not in (None, found.image))
                number, image = next(some, (0, None))
                if image is not None:
                    label = f"{kernel} {path}"
                    yield Damage(label, name, image, "parameters of layer", index=number)
                    break


def declared(kernel: str) -> Iterator[tuple[str, int | str]]:
    """What a check must refuse by what the kernel's op declares."""
    kind = KERNEL_TYPES[kernel]
    for name, (least, largest) in kind.limits.items():
        yield from () if least is None else ((name, least - 1),)
        yield from () if largest is None else ((name, largest + 1),)
    for name, member in () if kind.check else kind.members.items():
        if member.pointer:
            yield name, AWAY
        else:
            yield from ((f"{name}{path}", wrong) for path, wrong in OF_TYPE.get(member.kind, ()))


def shifts(images: Mapping[str, bytes]) -> Iterator[Damage]:
    """Of the first and the last channel of a block, for either requantiser in fixed point."""
    done = set()
    for name, image in images.items():
        found = Layers(image)
        for number, kernel in enumerate(found.kernels):
            packing = KERNEL_TYPES[kernel].packing
            shape = BLOCKS.get(kernel.removesuffix(packing.suffix))
            if shape is None:
                continue
            size, stream = shape.channels(packing), found.mac(number, "stream")
            fast = Head.of(*struct.unpack_from("<I", image, stream)).fast != 0
            if found.mac(number, "is_float") or (kernel, fast) in done:
                continue
            done.add((kernel, fast))
            # Behind the head a bias, taps and a multiplier of each.
            taps = packing.weight_bytes(size * packing.step * found.mac(number, "steps"))
            at = stream + 4 + 8 * size + taps
            for channel in (0, size - 1):
                form, wrong = ("<B", fast_shifts(packing)[-1]) if fast else ("<i", 31)
                other = changed(image, at + struct.calcsize(form) * channel, form, wrong)
                label = f"shift {channel} of {kernel}"
                yield Damage(label, name, other, "parameters of layer", index=number)


def means(images: Mapping[str, bytes]) -> Iterator[Damage]:
    """Of nothing: windows beside the image, where padding does not count."""
    counts = STRUCTS["vmcu_average_pool_params"].members["count_padding"].start
    for name, image in images.items():
        found = Layers(image)
        for number, kernel in enumerate(found.kernels):
            if kernel == "vmcu_average_pool" and not image[found.member(number, "params") + counts]:
                for side in ("top", "left"):
                    other = found.with_member(number, f"window.pad_{side}", 1000)
                    assert other is not None
                    label = f"means with pad_{side}"
                    yield Damage(label, name, other, "parameters of layer", index=number)
                return


def tables(images: Mapping[str, bytes]) -> Iterator[Damage]:
    streamed = images["AnyNetwork_3"]
    for table in ("parts", "schedule", "layer_inputs", "inputs", "outputs"):
        image = of_model(streamed, table, AWAY + 8)
        yield Damage(table, "AnyNetwork_3", image, table.replace("_", " "))
    wrong = (
        ("taken", of_table(streamed, "stages", 0, "taken", 0), "schedule of stage"),
        ("schedule", of_table(streamed, "stages", 0, "schedule", AWAY), "schedule of stage"),
        ("parts", of_table(streamed, "stages", 0, "parts", AWAY), "schedule of stage"),
        ("no schedule", of_table(streamed, "stages", 0, "schedule", 0), "stage"),
        ("kernel of layer", of_table(streamed, "layers", 0, "kernel", 99), "kernel of layer"),
        ("scale", of_table(streamed, "inputs", 0, "scale", 0), "input"),
        ("flags", of_table(streamed, "outputs", 0, "flags", 16), "output"),
        ("tensor", of_table(streamed, "inputs", 0, "tensor", 99), "input"),
        ("kernel", of_table(streamed, "kernels", 0, "name", AWAY), "kernel"),
        ("name", of_model(streamed[:-1] + b"x", "name", len(streamed) - 1), "name"),
        ("layers", of_model(streamed, "stage_count", 1), "layers"),
        ("no stages", of_model(streamed, "stage_count", 0), "streamed input"),
    )
    for label, image, what in wrong:
        yield Damage(label, "AnyNetwork_3", image, what)
    digits = images["digits"]
    image = of_table(digits, "layers", 0, "params", len(digits) // 8 * 8 - 8)
    yield Damage("parameters at the end", "digits", image, "parameters of layer", index=0)


def windows(images: Mapping[str, bytes]) -> Iterator[Damage]:
    """More columns than int32 has room for, by two members."""
    for name, image in images.items():
        found = Layers(image)
        for number, kernel in enumerate(found.kernels):
            if kernel.startswith("vmcu_average_pool") and not kernel.endswith("sum"):
                wide = found.with_member(number, "window.kernel_w", 1 << 15)
                assert wide is not None
                other = Layers(wide).with_member(number, "window.dilation_w", 1 << 15)
                assert other is not None
                label = f"{kernel} of a long window"
                yield Damage(label, name, other, "parameters of layer", index=number)
                return


def shapes(images: Mapping[str, bytes]) -> Iterator[Damage]:
    """Of a layer that computes byte by byte: tensors of other shapes, and one tensor more."""
    for name, image in images.items():
        found = Layers(image)
        if found.kernels[0] != "vmcu_requantize" or model_member(image, "streamed"):
            continue
        number, result = (found.short(0, member) for member in ("inputs", "output"))
        for tensor, member in ((number, "height"), (number, "width"), (result, "channels")):
            size = found.tensor(tensor, member)
            if size > 1:
                other = of_table(image, "tensors", tensor, member, size - 1)
                label = f"{member} of {name}"
                yield Damage(label, name, other, "parameters of layer", index=0)
        last = found.short(len(found.kernels) - 1, "output")
        row = found.tensor(last, "width") * found.tensor(last, "channels")
        if found.tensor(last, "height") > 1:
            split = model_member(image, "pool_bytes") - row
            other = of_table(image, "tensors", last, "base", split)
            yield Damage(f"output of {name} in two pieces", name, other, "output")
        if len(found.kernels) > 1:
            other = of_table(image, "layers", 0, "input_count", 2)
            yield Damage(f"inputs of {name}", name, other, "parameters of layer", index=0)


def alone(images: Mapping[str, bytes]) -> Iterator[Damage]:
    """Several layers without a schedule."""
    for name, image in images.items():
        for number in range(model_member(image, "stage_count")):
            at = model_member(image, "stages") + structs.STAGE.size * number
            (count,) = struct.unpack_from("<H", image, at + structs.STAGE.members["count"].start)
            if count > 1 and (number or not model_member(image, "streamed")):
                other = of_table(image, "stages", number, "schedule", 0)
                yield Damage(f"no schedule in {name}", name, other, "stage", index=number)
                return


def counts(images: Mapping[str, bytes]) -> Iterator[Damage]:
    """Stages that count their calls in a scratch, in rows to be pushed, behind the pool."""
    for name, image in images.items():
        found = Layers(image)
        for number in range(model_member(image, "stage_count")):
            at = model_member(image, "stages") + structs.STAGE.size * number
            first, count = (
                struct.unpack_from("<H", image, at + structs.STAGE.members[member].start)[0]
                for member in ("first", "count")
            )
            places = (found.member(n, "scratch") for n in range(first, first + count))
            place = next((place for place in places if place != ON_STACK), None)
            if count > 2:
                end = model_member(image, "pool_bytes") // 4 * 4 - 4
                other = of_table(image, "stages", number, "progress", end)
                yield Damage(
                    f"counts behind {name}", name, other, "schedule of stage", index=number
                )
            if number == 0 and model_member(image, "streamed"):
                at = model_member(image, "inputs") + structs.IO.members["tensor"].start
                (taken,) = struct.unpack_from("<H", image, at)
                at = model_member(image, "tensors") + structs.TENSOR.size * taken
                (base,) = struct.unpack_from("<I", image, at)
                other = of_table(image, "stages", 0, "progress", -(-base // 4) * 4)
                yield Damage(f"counts on rows of {name}", name, other, "schedule of stage", index=0)
            if count > 1 and place is not None:
                other = of_table(image, "stages", number, "progress", place)
                yield Damage(f"counts in {name}", name, other, "schedule of stage", index=number)


def replays(images: Mapping[str, bytes], plans: Mapping[str, Plan]) -> Iterator[Damage]:
    """Containers that touch nothing outside, but whose layers do not find what they read."""
    for name, image in images.items():
        plan = plans[name]
        if plan.planner != "by hand" or len(plan.graph.nodes) < 2:
            continue
        first, second = plan.graph.nodes[:2]
        tensors = list(plan.placements)
        pair = [plan.placements[first.outputs[0]], plan.placements[second.inputs[0]]]
        small, large = sorted(pair, key=lambda one: one.ring)
        number = tensors.index(small.tensor)
        moved = of_table(image, "tensors", number, "base", large.base)
        yield Damage(f"moved in {name}", name, moved, "replay of layer", index=1, replay=True)
