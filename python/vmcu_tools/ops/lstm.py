# SPDX-License-Identifier: Apache-2.0
"""A long short-term memory, step by step, as TensorFlow Lite Micro computes it with int8 inputs and
an int16 cell (kernels/lstm_eval.h).

A row of the output is the state after a step, in three columns of a byte for each unit: the first
has the units' outputs, the other two their cells, the least significant byte first. The layer reads
the row before, of one of two inputs. If that is its own output, the rows are steps of a stream that
begins with zeros. If it is another tensor, that has the state before each row, and the units'
outputs are kept less their zero point, so that zeros are the state of a first call.

Order of access: all outputs of the units are read first. Then, unit by unit, ascending: all of the
input and the unit's cell are read, and its three bytes written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..quant import INT8_MAX, INT8_MIN, FixedPoint, wrap_int32
from .carrying import CarryingLayer
from .kernel_type import KernelType
from .values import Array, CStruct, Kernel, Struct

# Gates in the order of the weights: input, forget, the new cell, output.
GATES = ("input", "forget", "cell", "output")
# Columns of a state.
COLUMNS = 3
MOST_UNITS, MOST_INPUTS = 4096, 16384
# No cell is larger.
NO_CLIP = 1 << 15
INT16 = np.iinfo(np.int16)
# TensorFlow Lite's sigmoid of i / 24 in 16 bits: the nearest integer, or the next one where a bit
# of this number is set (kernels/internal/common.h, sigmoid_table_uint16).
_NEXT = 0x800000000000000000000000000000800011009020440005C0467BAEFA7BD110
_FACTORS = tuple(f"{gate}_{part}" for part in ("input", "hidden") for gate in GATES)
PARAMS = CStruct(
    "vmcu_lstm_params",
    """
	/** by unit, of inputs, then of units: four taps, or the rest of them, by gate */
	const int8_t *weights;
	const int32_t *biases;   /**< by unit and gate, of inputs; of units behind them */
	const uint16_t *sigmoid; /**< of 0 to 255 / 24, in 16 bits */
"""
    + "".join(f"\tstruct vmcu_factor {name};\n" for name in (*_FACTORS, "kept", "taken", "given"))
    + """	int32_t clip;            /**< largest cell */
	int32_t tanh_multiplier; /**< of a cell, in units of 1 / 24 / 256 */
	int32_t tanh_shift;
	int8_t zero; /**< zero point of the units' outputs */
""",
    declares="""
/**
 * @brief Computes a step of an LSTM from a pixel of input 0. Gates: input, forget, cell, output.
 *
 * Output rows are states after a step: the outputs of all units, then their cells, int16. Input 1
 * is the state before. If it is the output, its row before is read, zeros in front of the first;
 * else it has a row for each, and the outputs of units are less its zero point in both.
 *
 * Reads the outputs of all units first. Then for each unit, ascending: reads all of input 0 and the
 * unit's cell, then writes its three bytes.
 */
void vmcu_lstm(const struct vmcu_call *call);
""",
)
_UNITS = "vmcu_check_output(c)->channels"
KERNEL = KernelType(
    "vmcu_lstm",
    PARAMS,
    "vmcu_check_inputs(c, 2U) && vmcu_check_calls(c)",
    "vmcu_check_rows(c, 0) && vmcu_check_rows(c, 1)",
    "vmcu_check_input(c, 0)->height == vmcu_check_output(c)->height",
    "vmcu_check_input(c, 1)->height == vmcu_check_output(c)->height",
    "vmcu_check_input(c, 1)->channels == vmcu_check_output(c)->channels",
    "vmcu_check_input(c, 0)->width == 1U && vmcu_check_input(c, 1)->width == 3U",
    "vmcu_check_output(c)->width == 3U",
    f"{_UNITS} <= {MOST_UNITS}U && vmcu_check_input(c, 0)->channels <= {MOST_INPUTS}U",
    f"vmcu_check_scratch(c, {_UNITS})",
    reads="CARRIED",
    limits={
        "clip": (0, NO_CLIP),
        "tanh_multiplier": (0, 3 << 12),
        "tanh_shift": (0, 15),
    },
    arrays={
        "weights": f"4U * ({_UNITS}) * (vmcu_check_input(c, 0)->channels + {_UNITS})",
        "biases": f"8U * ({_UNITS})",
        "sigmoid": "256U",
    },
)


def sigmoids() -> np.ndarray:
    """TensorFlow Lite's table, uint16 (256,)."""
    places = np.arange(256)
    nearest = np.minimum(np.rint(65536 / (1 + np.exp(-places / 24))), 65535).astype(np.int64)
    return (nearest + [_NEXT >> place & 1 for place in range(256)]).astype(np.uint16)


def logistic(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Computes the sigmoid of int16 in units of 2^-12, in units of 2^-15
    (kernels/internal/reference/integer_ops/ logistic.h)."""
    scaled = 3 * x.astype(np.int64)
    size = np.abs(scaled)
    low, high = (table[np.minimum((size >> 9) + n, 255)].astype(np.int64) for n in (0, 1))
    values = np.where(size >> 9 >= 255, 0x7FFF << 10, (low << 9) + (size & 0x1FF) * (high - low))
    half = 1 << 9
    return np.where(scaled >= 0, values + half, (1 << 25) - values + half - 1) >> 10


def tanh(x: np.ndarray, table: np.ndarray, multiplier: int = 3, shift: int = 0) -> np.ndarray:
    """Computes tanh of int16, in units of 2^-15 (kernels/internal/reference/integer_ops/tanh.h)."""
    scaled = (x.astype(np.int64) * multiplier + (1 << shift >> 1)) >> shift
    size = np.abs(scaled)
    low, high = (table[np.minimum((size >> 8) + n, 255)].astype(np.int64) for n in (0, 1))
    values = np.where(size >> 8 >= 255, 0xFFFF << 8, (low << 8) + (size & 0xFF) * (high - low))
    middle, half = 1 << 23, 1 << 7
    return np.where(scaled >= 0, values - middle + half, middle - values + half - 1) >> 8


@dataclass(frozen=True, eq=False)
class LstmStep(Op):
    """weights int8 (units, 4, inputs) and recurrent (units, 4, units), by GATES; offsets int32
    (units, 4), their biases; factors of the gates' sums by the input and by the units' outputs,
    FixedPoint of four each; of the products that make up the cell, and of a unit's output. clip:
    largest cell; tanh: multiplier and shift of a cell; zero: of the units' outputs.
    """

    exact = True

    weights: np.ndarray
    recurrent: np.ndarray
    offsets: np.ndarray
    by_input: FixedPoint
    by_hidden: FixedPoint
    kept: FixedPoint
    taken: FixedPoint
    given: FixedPoint
    clip: int
    tanh: tuple[int, int]
    zero: int


class LstmStepLayer(CarryingLayer[LstmStep], op=LstmStep):
    def step(self, x: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        op, table = self.op, sigmoids()
        units, less = len(op.weights), 0 if self.is_recurrent else op.zero
        cell = np.zeros(units, np.int64)
        hidden = np.full(units, op.zero - less, np.int8)
        if before is not None:
            flat = np.ascontiguousarray(before).ravel()
            hidden, cell = flat[:units], flat[units:].view("<i2").astype(np.int64)
        # As a byte first: an output less its zero point may have wrapped around.
        given = (hidden + np.int64(less)).astype(np.int8).astype(np.int64) - op.zero
        taken = x.ravel().astype(np.int64) - self.ins[0].zero_point
        sums = [
            _int16(op.by_input.apply(wrap_int32(op.weights.astype(np.int64) @ taken + op.offsets))),
            _int16(op.by_hidden.apply(wrap_int32(op.recurrent.astype(np.int64) @ given))),
        ]
        gates = _int16(sums[0] + sums[1])
        entering, staying, shown = (logistic(gates[:, n], table) for n in (0, 1, 3))
        new = tanh(gates[:, 2], table)
        parts = op.kept.apply(staying * cell), op.taken.apply(entering * new)
        cell = np.clip(_int16(_int16(parts[0]) + _int16(parts[1])), -op.clip, op.clip)
        given = op.given.apply(tanh(cell, table, *op.tanh) * shown) + op.zero
        hidden = (np.clip(given, INT8_MIN, INT8_MAX) - less).astype(np.int8)
        return np.concatenate([hidden, cell.astype("<i2").view(np.int8)]).reshape(COLUMNS, units)

    @property
    def unit_ticks(self) -> tuple[np.ndarray, np.ndarray]:
        units = np.arange(self.out.shape[2])
        written = np.concatenate([units, np.repeat(units, 2)]).reshape(COLUMNS, -1)
        read = written.copy()
        read[0] = 0
        return read, written

    @property
    def macs(self) -> int:
        return self.out.shape[0] * (self.op.weights.size + self.op.recurrent.size)

    @property
    def scratch_bytes(self) -> int:
        return self.out.shape[2]

    @property
    def weight_bytes(self) -> int:
        weights = self.op.weights.size + self.op.recurrent.size
        return weights + 8 * len(self.op.weights) * 4 + 512

    @property
    def kernel(self) -> Kernel:
        op = self.op
        weights = np.concatenate([_in_fours(op.weights), _in_fours(op.recurrent)], axis=1)
        totals = [part.astype(np.int64).sum(axis=2) for part in (op.weights, op.recurrent)]
        zeros = self.ins[0].zero_point, op.zero
        biases = np.stack([wrap_int32(op.offsets - zeros[0] * totals[0]), -zeros[1] * totals[1]], 1)
        by_gate = (op.by_input, op.by_hidden)
        factors = {
            name: _factor(by_gate[number // len(GATES)], number % len(GATES))
            for number, name in enumerate(_FACTORS)
        }
        factors |= {name: _factor(getattr(op, name), 0) for name in ("kept", "taken", "given")}
        return KERNEL(
            weights=Array("weights", np.ascontiguousarray(weights, np.int8)),
            biases=Array("biases", biases.astype(np.int32)),
            sigmoid=Array("sigmoid", sigmoids()),
            **factors,
            clip=op.clip,
            tanh_multiplier=op.tanh[0],
            tanh_shift=op.tanh[1],
            zero=op.zero,
        )


def _in_fours(weights: np.ndarray) -> np.ndarray:
    """int8 (units, 4, count) as (units, 4 * count): four of each gate after the other, at the
    end the rest of each."""
    units, gates, count = weights.shape
    whole = count // 4 * 4
    fours = weights[:, :, :whole].reshape(units, gates, -1, 4).swapaxes(1, 2)
    return np.concatenate([fours.reshape(units, -1), weights[:, :, whole:].reshape(units, -1)], 1)


def _int16(values: np.ndarray) -> np.ndarray:
    clipped: np.ndarray = np.clip(values, INT16.min, INT16.max)
    return clipped


def _factor(requant: FixedPoint, place: int) -> Struct:
    multiplier, shift = int(requant.multiplier[place]), int(requant.shift[place])
    return Struct("", {"multiplier": multiplier, "shift": shift})
