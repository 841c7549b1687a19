# SPDX-License-Identifier: Apache-2.0
"""A step of stochastic gradient descent on fully connected layers behind which there is a softmax.

Errors are gradients of the cross-entropy at a layer's sums, int16 in units of 2^-15. Order of
access: element by element, ascending, each read just before it is written. The other inputs of a
layer are alive until the last element has been written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..quant import FixedPoint, wrap_int32
from .kernel_type import KernelType
from .layer import NEVER, Layer
from .rates import Rates
from .reach import Reach
from .trainable import BIAS_BYTES, MOST_BIAS, WEIGHT_BYTES, packed, unpacked
from .trained_dense import ROW
from .values import CStruct, Kernel, factor
from .wide import channels, elements

# Of an error.
ERROR_BYTES = 2
# A label is an int8.
MOST_CLASSES = 127
# The inputs of DenseUpdate.
HEAD, ERRORS, INPUT = range(3)
PARAMS = CStruct(
    "vmcu_dense_update_params",
    """
	struct vmcu_factor weight_step; /**< of an error times an input, in units of the weights */
	struct vmcu_factor bias_step;   /**< of an error, in units of the biases */
	int16_t most;                   /**< largest weight; the largest bias is 2^30 */
	uint16_t first;                 /**< number of the error of the first row */
	int8_t input_zero;
""",
    declares="""
/**
 * @brief Computes the error of each class: its probability, less 1 if it is the label.
 *
 * Input 0: probabilities of vmcu_softmax_int16(). Input 1: the label, one byte. Output: int16, in
 * units of 2^-15; all are 0 if no class has the label's number.
 *
 * For each class, ascending: reads two bytes of input 0 and the label, then writes two bytes.
 */
void vmcu_class_error(const struct vmcu_call *call);

/**
 * @brief Takes a step of gradient descent: weights of vmcu_trained_dense() less their gradients.
 *
 * Input 0: the weights, rows of the last classes. Input 1: int16 errors of all classes, in units of
 * 2^-15. Input 2: the other factor of the weights. Weights and biases saturate.
 *
 * For each weight, then for the bias: reads it, its input and the error, then writes it.
 */
void vmcu_dense_update(const struct vmcu_call *call);
""",
)
GRADIENT_PARAMS = CStruct(
    "vmcu_dense_gradient_params",
    """
	struct vmcu_factor factor; /**< of sums in units of 2^-8 times those of the weights */
	int8_t low;                /**< values of input 2 with an error are above low */
	int8_t high;               /**< and below high */
""",
    declares="""
/**
 * @brief Computes errors of a layer from those of the next one, of vmcu_trained_dense().
 *
 * Input 0: int16 errors of the next layer, in units of 2^-15. Input 1: its weights. Input 2: the
 * other factor, the output of the layer. An error beyond int16 saturates, and that of a value which
 * the activation has cut is 0.
 *
 * For each value of input 2, ascending: reads it, all of input 0 and its weights, then writes two
 * bytes.
 */
void vmcu_dense_gradient(const struct vmcu_call *call);
""",
)
# Bits that products of errors and weights lose, so that a sum of 127 of them is within int32.
LOST_BITS = 7
_CALLS = "vmcu_check_calls(c) && vmcu_check_rows(c, 0) && vmcu_check_rows(c, 1)"
ERROR = KernelType(
    "vmcu_class_error",
    None,
    "vmcu_check_inputs(c, 2U)",
    _CALLS,
    "vmcu_check_output(c)->height == 1U && vmcu_check_output(c)->width == 1U",
    "vmcu_check_output(c)->channels % 2U == 0U",
    "vmcu_check_input(c, 0)->width * vmcu_check_input(c, 0)->channels == "
    "vmcu_check_output(c)->channels",
)
UPDATE = KernelType(
    "vmcu_dense_update",
    PARAMS,
    "vmcu_check_inputs(c, 3U)",
    _CALLS,
    "vmcu_check_rows(c, 2)",
    "vmcu_check_input(c, 0)->height == vmcu_check_output(c)->height",
    "vmcu_check_input(c, 0)->width == 1U && vmcu_check_output(c)->width == 1U",
    "vmcu_check_input(c, 0)->channels == vmcu_check_output(c)->channels",
    "vmcu_check_input(c, 1)->width == 1U",
    "vmcu_check_input(c, 1)->channels == 2U * (vmcu_check_output(c)->height + p->first)",
    ROW.format(2, 0),
    limits={"most": (0, None)},
)
GRADIENT = KernelType(
    "vmcu_dense_gradient",
    GRADIENT_PARAMS,
    "vmcu_check_inputs(c, 3U)",
    _CALLS,
    "vmcu_check_rows(c, 2)",
    "vmcu_check_output(c)->height == 1U && vmcu_check_output(c)->width == 1U",
    "vmcu_check_input(c, 0)->width == 1U && vmcu_check_input(c, 1)->width == 1U",
    "vmcu_check_input(c, 0)->channels == 2U * vmcu_check_input(c, 1)->height",
    "vmcu_check_input(c, 1)->channels == vmcu_check_output(c)->channels + 4U",
    "vmcu_check_input(c, 2)->width == 1U",
    "vmcu_check_output(c)->channels == 2U * vmcu_check_input(c, 2)->channels",
)


@dataclass(frozen=True, eq=False)
class ClassError(Op):
    """int16 probabilities of SoftmaxInt16, and a label of one byte, to errors. A label that is no
    class: zeros, with which a step changes nothing."""

    data_dependent = "the label; up to 2 times as many"


@dataclass(frozen=True, eq=False)
class DenseUpdate(Op):
    """Weights of TrainedDense after a step: less `weight_step` times error times input, biases less
    `bias_step` times error. One factor each, rounded to nearest; `most`: the largest weight;
    `first`: errors in front of those of the first row."""

    data_dependent = "rounding; up to 1.1 times as many"
    weight_step: FixedPoint
    bias_step: FixedPoint
    most: int
    first: int = 0


@dataclass(frozen=True, eq=False)
class DenseGradient(Op):
    """Errors of a layer from those of the next one, its weights and the layer's output, which the
    layer has cut to `low` and `high`. factor: one, of sums without LOST_BITS."""

    data_dependent = "which outputs are not cut; up to 70 times as many"
    factor: FixedPoint
    low: int
    high: int


class ClassErrorLayer(Layer[ClassError], op=ClassError):
    rates = Rates(byte=6)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        shares = elements(data[0], ERROR_BYTES) - np.iinfo(np.int16).min
        label, classes = int(data[1].ravel()[0]), np.arange(shares.shape[2])
        errors = channels((shares - np.where(classes == label, 1 << 16, 0)) >> 1, ERROR_BYTES)
        return errors if label in classes else np.zeros_like(errors)

    def input_rows(self, index: int, y: int) -> range:
        return range(1)

    def last_reads(self, index: int) -> np.ndarray:
        starts = np.arange(self.out.bytes, dtype=np.int64) // ERROR_BYTES * ERROR_BYTES
        if index == 0:
            return starts.reshape(self.ins[0].shape)
        return np.full(self.ins[1].shape, starts[-1])

    @property
    def kernel(self) -> Kernel:
        return ERROR()


class DenseUpdateLayer(Layer[DenseUpdate], op=DenseUpdate):
    rates = Rates(mac=30)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        op = self.op
        weights, biases = unpacked(data[HEAD][y0:y1])
        errors = elements(data[ERRORS], ERROR_BYTES).ravel()[op.first :][y0:y1]
        values = data[INPUT].astype(np.int64).ravel() - self.ins[INPUT].zero_point
        weights = weights - op.weight_step.apply(errors[:, None] * values)
        biases = biases - op.bias_step.apply(errors)
        return packed(np.clip(weights, -op.most, op.most), np.clip(biases, -MOST_BIAS, MOST_BIAS))

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1) if index == HEAD else range(self.ins[index].shape[0])

    def reach(self, index: int) -> Reach:
        return Reach.shifted() if index == HEAD else Reach.everything(self.ins[index])

    def last_reads(self, index: int) -> np.ndarray:
        size, tensor = self.ticks_per_row, self.ins[index]
        starts = np.arange(self.out.shape[0], dtype=np.int64) * size
        taps = WEIGHT_BYTES * np.arange((size - BIAS_BYTES) // WEIGHT_BYTES)
        times: np.ndarray
        if index == INPUT:
            times = starts[-1] + taps
            return times.reshape(tensor.shape)
        if index == ERRORS:
            times = np.append([NEVER] * self.op.first, starts + size - BIAS_BYTES)
            return np.repeat(times.astype(np.int64), ERROR_BYTES).reshape(tensor.shape)
        element = np.append(np.repeat(taps, WEIGHT_BYTES), [size - BIAS_BYTES] * BIAS_BYTES)
        times = starts[:, None] + element
        return times.reshape(tensor.shape)

    @property
    def macs(self) -> int:
        return self.ins[INPUT].bytes * self.out.shape[0]

    @property
    def kernel(self) -> Kernel:
        zero = self.ins[INPUT].zero_point
        factors = {
            "weight_step": factor(self.op.weight_step),
            "bias_step": factor(self.op.bias_step),
        }
        numbers = {"most": self.op.most, "first": self.op.first}
        return UPDATE(**factors, **numbers, input_zero=zero)


class DenseGradientLayer(Layer[DenseGradient], op=DenseGradient):
    rates = Rates(mac=16)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        errors, (weights, _) = elements(data[0], ERROR_BYTES).reshape(-1, 1), unpacked(data[1])
        products = (errors * weights + (1 << LOST_BITS >> 1)) >> LOST_BITS
        scaled = self.op.factor.apply(wrap_int32(products.sum(axis=0)))
        values = data[2].ravel()
        return channels(
            np.where((values > self.op.low) & (values < self.op.high), scaled, 0), ERROR_BYTES
        ).reshape(self.out.shape)

    def input_rows(self, index: int, y: int) -> range:
        return range(self.ins[index].shape[0])

    def last_reads(self, index: int) -> np.ndarray:
        tensor = self.ins[index]
        starts = ERROR_BYTES * np.arange(self.out.bytes // ERROR_BYTES, dtype=np.int64)
        if index == 0:
            return np.full(tensor.shape, starts[-1])
        if index == 2:
            return starts.reshape(tensor.shape)
        row = np.append(np.repeat(starts, WEIGHT_BYTES), [NEVER] * BIAS_BYTES)
        return np.broadcast_to(row, tensor.shape)

    @property
    def macs(self) -> int:
        return self.ins[1].shape[0] * self.ins[2].bytes

    @property
    def kernel(self) -> Kernel:
        return GRADIENT(factor=factor(self.op.factor), low=self.op.low, high=self.op.high)
