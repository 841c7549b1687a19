# SPDX-License-Identifier: Apache-2.0
"""Converts values between a file's form and the int8 (H, W, C) in memory, as vmcu/convert.h does on
a device, in numpy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from vmcu_tools.graph import EXCHANGED, Graph, Port, Tensor

from . import inputs

UINT8_OFFSET = 128


def read_input(path: Path, graph: Graph, port: Port) -> np.ndarray:
    """An .npy file as int8 (H, W, C), see to_memory(). Raises UserError for a file that holds no
    such array, or NaN."""
    count = graph.tensors[port.tensor].bytes // port.element_bytes
    return to_memory(inputs.load(path, port, count), graph, port)


def read_stream(path: Path, graph: Graph, port: Port) -> np.ndarray:
    """An .npy file of rows, int8 (rows, W, C): the input's array of the file with any number of
    rows, or of columns where these are time, from its window's on. UserError as of
    read_input()."""
    tensor = graph.tensors[port.tensor]
    window, width, channels = tensor.shape
    of_row = width * channels // port.element_bytes
    rows = max(inputs.count_of(path, port) // of_row, window)
    # A vector is the one pixel of a row.
    port = port if len(port.file_shape) > 1 else replace(port, file_shape=(1, *port.file_shape))
    shape = list(port.file_shape)
    shape[_time_of(port, window)] = rows
    long = replace(port, file_shape=tuple(shape))
    along = "columns" if port.layout in EXCHANGED.values() else "rows"
    remedy = f"give an array of that shape, with {window} {along} or more"
    data = inputs.load(path, long, rows * of_row, remedy)
    tensors = {**graph.tensors, port.tensor: replace(tensor, shape=(rows, width, channels))}
    return to_memory(data, replace(graph, tensors=tensors), long)


def _time_of(port: Port, window: int) -> int:
    """Which axis of the file's array is time, of which the tensor's H has `window` rows."""
    if port.layout in EXCHANGED.values():
        return len(port.file_shape) - len(port.layout) + port.layout.index("h")
    # Behind the batch, which a matrix has none of, and the channels where they come first.
    first = 2 if port.layout == "nchw" else int(len(port.file_shape) > 2)
    return port.file_shape.index(window, first)


def to_memory(data: np.ndarray, graph: Graph, port: Port) -> np.ndarray:
    """Values of an input or output in the order of the file's axes as int8 (H, W, C): int8 as it
    is, real values quantised as the file's runtime does it, the bytes of wider elements. Of a port
    that is int16 as well, all but int16 are real values."""
    tensor = graph.tensors[port.tensor]
    if port.is_wide:
        if port.dtype == "int16" and data.dtype != np.int16:
            data = _quantised(data, tensor, port)
        return data.astype(f"<i{port.element_bytes}").ravel().view(np.int8).reshape(tensor.shape)
    order = ["hwc".index(axis) for axis in port.layout[1:]]
    data = data.reshape([tensor.shape[axis] for axis in order]).transpose(np.argsort(order))
    if data.dtype == np.int8:
        return data
    if port.dtype == data.dtype == np.uint8:
        return (data.astype(np.int16) - UINT8_OFFSET).astype(np.int8)
    return _quantised(data, tensor, port).astype(np.int8)


def _quantised(data: np.ndarray, tensor: Tensor, port: Port) -> np.ndarray:
    """Real values as elements of a port, float64."""
    with np.errstate(over="ignore"):
        scaled = data.astype(np.float32) / np.float32(tensor.scale)
    if port.half_away:
        scaled = np.copysign(np.floor(np.abs(scaled.astype(np.float64)) + 0.5), scaled)
    limits = np.iinfo(f"i{port.element_bytes}")
    elements: np.ndarray = np.clip(np.rint(scaled) + tensor.zero_point, limits.min, limits.max)
    return elements


def to_file(data: np.ndarray, graph: Graph, port: Port) -> np.ndarray:
    """An input or output, int8 (H, W, C), as the file presents it: its axes, and real values where
    it has them."""
    tensor = graph.tensors[port.tensor]
    values: np.ndarray = np.asarray(data, np.int8).reshape(tensor.shape)
    if port.is_wide:
        elements = np.ascontiguousarray(values).view(f"<i{port.element_bytes}")
        return elements.astype(port.dtype).reshape(port.file_shape)
    if port.dtype == "uint8":
        values = (values.astype(np.int16) + UINT8_OFFSET).astype(np.uint8)
    if port.dtype == "float32":
        values = (values.astype(np.float32) - tensor.zero_point) * np.float32(tensor.scale)
    values = values.transpose(["hwc".index(axis) for axis in port.layout[1:]])
    # In this order: numpy has no contiguous scalars.
    return np.ascontiguousarray(values).reshape(port.file_shape)
