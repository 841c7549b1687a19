# SPDX-License-Identifier: Apache-2.0
"""What may be wrong in a container with a digest that is right, and what its loader then says: how
the container is changed, the record that it names, and the errno."""

from __future__ import annotations

from collections.abc import Callable

from vmcu_tools.container import layout

from .containers import changed, member_of, of_model, of_planner, of_table

Wrong = tuple[Callable[[bytes], bytes], str, str]

# Of samples/digits, as it is usually built.
OF_DIGITS: tuple[Wrong, ...] = (
    (lambda i: of_model(i, "tensors", len(i) - 8), "tensors", "EBADMSG"),
    (lambda i: of_model(i, "layers", 204), "layers", "EBADMSG"),
    (lambda i: of_model(i, "stages", 0xFFFFFFF8), "stages", "EBADMSG"),
    (lambda i: of_model(i, "kernels", 8), "kernels", "EBADMSG"),
    (lambda i: of_model(i, "name", 3), "name", "EBADMSG"),
    (lambda i: of_model(i, "pool_bytes", 0), "pool", "EBADMSG"),
    (lambda i: of_model(i, "pool_bytes", 40), "tensor", "EBADMSG"),
    (lambda i: of_model(i, "pool_bytes", 1 << 22), "arena", "ENOMEM"),
    (lambda i: of_model(i, "circle", 8), "rotation", "ENOTSUP"),
    (lambda i: of_model(i, "streamed", 1), "schedule of stage", "EBADMSG"),
    (lambda i: of_model(i, "layer_count", 7), "stage", "EBADMSG"),
    (lambda i: of_table(i, "tensors", 1, "ring", 0), "tensor", "EBADMSG"),
    (lambda i: of_table(i, "tensors", 1, "height", 0), "tensor", "EBADMSG"),
    (lambda i: of_table(i, "tensors", 2, "base", 1 << 20), "tensor", "EBADMSG"),
    (lambda i: of_table(i, "tensors", 2, "width", 65535), "parameters of layer", "EBADMSG"),
    (lambda i: of_table(i, "layers", 0, "kernel", 200), "kernel of layer", "EBADMSG"),
    (lambda i: of_table(i, "layers", 0, "params", 12), "parameters of layer", "EBADMSG"),
    (lambda i: of_table(i, "layers", 1, "params", 0), "layer", "EBADMSG"),
    (lambda i: of_table(i, "layers", 2, "inputs", 0xFFFFFFFE), "layer", "EBADMSG"),
    (lambda i: of_table(i, "layers", 3, "output", 99), "layer", "EBADMSG"),
    (lambda i: of_table(i, "layers", 0, "columns", 0), "layer", "EBADMSG"),
    (lambda i: of_table(i, "layers", 0, "rows", 60), "parameters of layer", "EBADMSG"),
    (lambda i: of_table(i, "layers", 0, "scratch", 1 << 20), "parameters of layer", "EBADMSG"),
    (lambda i: of_table(i, "stages", 0, "first", 1), "stage", "EBADMSG"),
    (lambda i: of_table(i, "stages", 0, "count", 0), "stage", "EBADMSG"),
    (lambda i: of_table(i, "parts", 0, "times", 60000), "schedule of stage", "EBADMSG"),
    (lambda i: of_table(i, "parts", 0, "start", 1 << 30), "schedule of stage", "EBADMSG"),
    (lambda i: of_table(i, "stages", 0, "progress", 1 << 20), "schedule of stage", "EBADMSG"),
    (lambda i: of_table(i, "outputs", 0, "tensor", 99), "output", "EBADMSG"),
    (lambda i: of_table(i, "outputs", 0, "name", 1 << 30), "output", "EBADMSG"),
    (lambda i: changed(i, layout.FILE.members["major"].start, "<H", 3), "version", "ENOTSUP"),
)

# Of samples/digits for planners on the device; planned in segments.
OF_PLANNERS: tuple[Wrong, ...] = (
    (lambda i: of_planner(i, "steps", 0, "descends", 2), "distances of layer", "EBADMSG"),
    (lambda i: of_planner(i, "steps", 1, "scratch", 1 << 30), "sizes", "EBADMSG"),
    (lambda i: of_planner(i, "steps", 2, "distance", 0xFFFF), "distances of layer", "EBADMSG"),
    (lambda i: of_planner(i, "distances", 3, "below", 1 << 30), "distances of layer", "EBADMSG"),
    (lambda i: of_planner(i, "distances", 3, "above", -(1 << 30)), "distances of layer", "EBADMSG"),
    (lambda i: member_of(i, layout.ONLINE_AT, layout.ONLINE, "steps", 8), "distances", "EBADMSG"),
    (
        lambda i: member_of(i, layout.ONLINE_AT, layout.ONLINE, "steps", len(i) - 8),
        "distances",
        "EBADMSG",
    ),
    (
        lambda i: member_of(i, layout.ONLINE_AT, layout.ONLINE, "distances", 12),
        "distances",
        "EBADMSG",
    ),
    (lambda i: member_of(i, layout.ONLINE_AT, layout.ONLINE, "steps", 0), "planner", "ENOTSUP"),
    (lambda i: member_of(i, 0, layout.FILE, "minor", 0), "planner", "ENOTSUP"),
    (lambda i: member_of(i, layout.MODEL_AT, layout.MODEL, "stage_count", 3), "stages", "EBADMSG"),
    (lambda i: member_of(i, layout.MODEL_AT, layout.MODEL, "input_count", 0), "stages", "EBADMSG"),
)
