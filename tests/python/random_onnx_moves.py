# SPDX-License-Identifier: Apache-2.0
"""How operators that move elements are drawn for random_onnx.OperatorNetwork, and the table of all
that are."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from random_onnx import Drawer, OperatorNetwork

DRAWERS: dict[str, Drawer] = {}


def draws(*ops: str) -> Callable[[Drawer], Drawer]:
    def register(drawer: Drawer) -> Drawer:
        DRAWERS.update(dict.fromkeys(ops, drawer))
        return drawer

    return register


def limit(n: OperatorNetwork, x: str) -> str:
    return n.constant(np.float32(n.rng.integers(-60, 60) * n.scale_of(x)))


@draws("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
def view(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    x = n.input(shape)
    if op == "Reshape":
        return [n.node(op, [x, n.constant(np.array(n.regrouped(math.prod(shape)), np.int64))])]
    if op == "Flatten":
        return [n.node(op, [x], axis=n.axis(len(shape)))]
    if op == "Transpose":
        return [n.node(op, [x], perm=[int(a) for a in n.rng.permutation(len(shape))])]
    if op == "Squeeze":
        axes = [a for a, d in enumerate(shape) if d == 1] or None
        return [n.node(op, [x, n.constant(np.array(axes, np.int64))] if axes else [x])]
    return [n.node(op, [x, n.constant(np.array([n.axis(len(shape) + 1)], np.int64))])]


@draws("Slice", "Split", "Gather", "GatherElements", "GatherND", "Expand", "Tile")
def move(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    x, axis = n.input(shape), n.axis(len(shape))
    size = shape[axis]

    def numbers(*values) -> str:
        return n.constant(np.array(values, np.int64))

    if op == "Slice":
        step = n.pick(1, 1, 2, -1, -2)
        start, end = int(n.rng.integers(0, size)), n.pick(size, 1000)
        end = end if step > 0 else -1000
        return [n.node(op, [x, numbers(start), numbers(end), numbers(axis), numbers(step)])]
    if op == "Split":
        first = int(n.rng.integers(1, size + 1))
        sizes = [first] if first == size else [first, size - first]
        y = n.node(op, [x, numbers(*sizes)], axis=axis)
        names = [y, *(f"{y}_{i}" for i in range(1, len(sizes)))]
        n.m.nodes[-1].output[:] = names
        return names
    if op == "Gather":
        picks = n.rng.integers(-size, size, n.of((), (1,), (3,), (2, 2))).astype(np.int64)
        return [n.node(op, [x, n.constant(picks)], axis=axis)]
    if op == "GatherElements":
        sizes = [n.pick(1, 4) if a == axis else n.pick(1, d) for a, d in enumerate(shape)]
        return [n.node(op, [x, numbers(*n.rng.integers(-size, size, sizes))], axis=axis)]
    if op == "GatherND":
        picks = np.stack([n.rng.integers(0, d, 3) for d in shape[: n.pick(1, len(shape))]], axis=1)
        return [n.node(op, [x, n.constant(picks.astype(np.int64))])]
    if op == "Expand":
        to = [d if d > 1 else n.pick(1, 2, 3) for d in shape]
        return [n.node(op, [x, numbers(*to)])]
    return [n.node(op, [x, numbers(*(n.pick(1, 1, 2) for _ in shape))])]


@draws("DepthToSpace", "SpaceToDepth")
def blocks(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    block = n.pick(1, 2, 3)
    more: dict = {"blocksize": block}
    if op == "DepthToSpace":
        shape = (1, block * block * n.pick(1, 2), n.pick(1, 2, 3), n.pick(1, 4))
        more["mode"] = n.of("DCR", "CRD")
    else:
        shape = (1, n.pick(1, 3), block * n.pick(1, 2), block * n.pick(1, 3))
    return [n.node(op, [n.input(shape)], **more)]


@draws("Pad")
def pad(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    x = n.input(shape)
    mode = n.of("constant", "constant", "reflect", "edge")
    most = [min(2, d - 1) if mode == "reflect" else 2 for d in shape]
    amounts = [int(n.rng.integers(0, m + 1)) if n.coin() else 0 for m in most * 2]
    names = [n.constant(np.array(amounts, np.int64))]
    if mode == "constant" and n.coin():
        names.append(limit(n, x))
    return [n.node(op, [x, *names], mode=mode)]


@draws("Resize")
def resize(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.image()
    x = n.input(shape)
    places = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    more: dict = {
        "coordinate_transformation_mode": n.of(*places),
        "mode": n.of("nearest", "linear"),
    }
    if more["mode"] == "nearest":
        more["nearest_mode"] = n.of("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    if n.coin():
        scales = np.array([1, 1, n.of(1, 2, 1.5, 3), n.of(1, 2, 0.7)], np.float32)
        return [n.node(op, [x, "", n.constant(scales)], **more)]
    sizes = np.array([*shape[:2], n.pick(1, 2, 5, 9), n.pick(1, 3, 8)], np.int64)
    return [n.node(op, [x, "", "", n.constant(sizes)], **more)]
