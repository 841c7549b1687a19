# SPDX-License-Identifier: Apache-2.0
"""Layers that work element by element, and softmax, which works pixel by pixel.

Order of access: byte by byte, ascending; an element is read before its result is written. Softmax
reads a whole pixel first and each channel once more just before it writes that channel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph import LogSoftmaxOnnx, LogSoftmaxTflite, Requantize, Softmax
from ..kernels.softmax import log_softmax_onnx, log_softmax_tflite, softmax_onnx, softmax_tflite
from .layer import Layer, OpT, Reach


class ElementwiseLayer(Layer[OpT]):
    """Output byte i depends on input byte i of every input alone, or on its pixel."""

    @property
    def by_columns(self) -> bool:
        return True

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def reach(self, index: int) -> Reach:
        return Reach.shifted()

    def reads_in_call(self, index: int, x: int, columns: int) -> np.ndarray | None:
        tensor = self.ins[index]
        return np.arange(tensor.row_bytes, dtype=np.int64).reshape(tensor.shape[1:])

    def writes_in_call(self, x: int, columns: int) -> np.ndarray | None:
        return np.arange(self.out.row_bytes, dtype=np.int64).reshape(self.out.shape[1:])

    def last_reads(self, index: int) -> np.ndarray:
        return np.arange(self.ins[index].bytes, dtype=np.int64).reshape(self.ins[index].shape)


class RequantizeLayer(ElementwiseLayer[Requantize]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        if self.op.requant is not None:
            values = self.op.requant.apply(values - self.ins[0].zero_point) + self.out.zero_point
        return self.clamp(values)


class SoftmaxLayer(ElementwiseLayer[Softmax]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        if self.op.style == "tflite":
            return self.clamp(softmax_tflite(values, self.op.exp))
        zero = self.out.zero_point
        return self.clamp(softmax_onnx(values, self.op.exp, self.op.gain, zero))


class LogSoftmaxOnnxLayer(ElementwiseLayer[LogSoftmaxOnnx]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        logs = log_softmax_onnx(values, self.op.exp, self.op.step, self.op.gain)
        return self.clamp(logs + self.out.zero_point)


class LogSoftmaxTfliteLayer(ElementwiseLayer[LogSoftmaxTflite]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        return self.clamp(log_softmax_tflite(values, self.op.exp, self.op.scaled))

    @property
    def weight_bytes(self) -> int:
        return 8 * self.op.exp.size
