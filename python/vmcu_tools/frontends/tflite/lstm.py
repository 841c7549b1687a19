# SPDX-License-Identifier: Apache-2.0
"""UNIDIRECTIONAL_SEQUENCE_LSTM, step by step (TensorFlow Lite Micro, kernels/lstm_eval_common.cc).

The file's two states become one, see ops/lstm.py. Each step is a row, computed from the row before,
also across calls. Where that is not possible, passes/state/keep_recurrent.py keeps the state.
"""

from __future__ import annotations

import math

import numpy as np
import tflite

from ...graph import Tensor, Window
from ...ops.lstm import COLUMNS, MOST_INPUTS, MOST_UNITS, NO_CLIP, LstmStep
from ...ops.max_pooling import MaxPool2D
from ...quant import INT8_MAX, INT8_MIN, FixedPoint
from ..common import KEEP_QUANTISATION, fixed_point, require
from .file import FileOp, FileTensor
from .ops import Importer, rule

# Places of the operator's 24 inputs.
_WEIGHTS, _RECURRENT, _BIASES = range(1, 5), range(5, 9), range(12, 16)
_HIDDEN, _CELL, _INPUTS = 18, 19, 24
_OTHERS = {
    "peepholes": range(9, 12),
    "a projection": range(16, 18),
    "layer normalisation": range(20, 24),
}
_GATE, _UNIT_SCALE = 2.0**-12, 2.0**-15
_PLAIN = "convert a Keras LSTM with its default options"


@rule(
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    constraints="batch 1; int8 weights and an int16 cell; no peepholes, projection or layer "
    "normalisation",
)
def _lstm(importer: Importer, op: FileOp) -> None:
    require(len(op.inputs) == _INPUTS, f"{len(op.inputs)} inputs instead of {_INPUTS}", _PLAIN)
    for what, places in _OTHERS.items():
        absent = all(op.inputs[place] < 0 for place in places)
        require(absent, f"an LSTM with {what}", _PLAIN)
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    options = op.options(tflite.UnidirectionalSequenceLSTMOptions)
    activation = options.FusedActivationFunction()
    usual = activation == tflite.ActivationFunctionType.TANH
    require(usual, f"the activation {activation} of the cell", "use tanh")
    shape = importer.shape(op.inputs[0])
    require(len(shape) == 3, f"the input has {len(shape)} dimensions instead of three")
    steps, batch = (shape[0], shape[1]) if options.TimeMajor() else (shape[1], shape[0])
    require(batch == 1, f"batch size {batch} in shape {list(shape)}", "use batch size 1")
    kind = _step(importer, op, x, shape[2], options)
    require(out.bytes == steps * len(kind.weights), f"the output is {out.shape} in the file")
    _emit(importer, op, kind, x, out, steps)


def _emit(
    importer: Importer, op: FileOp, kind: LstmStep, x: Tensor, out: Tensor, steps: int
) -> None:
    """A row for each step, which is made from the row before."""
    builder, units = importer.builder, len(kind.weights)
    inputs = x.bytes // steps
    given = importer.arranged(x, np.arange(x.bytes), (steps, 1, inputs), f"{out.name}/input")
    shape = (steps, COLUMNS, units)
    state = builder.add_tensor(Tensor(f"{out.name}/state", shape, out.scale, out.zero_point))
    builder.add_node(state.name, kind, [given.name, state.name], state.name)
    # The first column of each row is the units' output. The maximum of one pixel copies it, row by
    # row, which a Move could not.
    importer.emit_as(op, MaxPool2D(Window(stride=(1, COLUMNS))), [state], (steps, 1, units))


def _step(
    importer: Importer,
    op: FileOp,
    x: Tensor,
    inputs: int,
    options: tflite.UnidirectionalSequenceLSTMOptions,
) -> LstmStep:
    weights, recurrent = (
        [importer.constant(op, place, ("INT8",), "weights") for place in places]
        for places in (_WEIGHTS, _RECURRENT)
    )
    units = recurrent[0].shape[0] if recurrent[0].shape else 0
    sizes = 0 < units <= MOST_UNITS and 0 < inputs <= MOST_INPUTS
    for parts, count in ((weights, inputs), (recurrent, units)):
        fits = all(part.shape == (units, count) for part in parts)
        require(fits and sizes, "the weights do not fit the input and each other")
    biases = [importer.constant(op, place, ("INT32",), "biases").values for place in _BIASES]
    require(all(b.size == units for b in biases), f"the biases do not fit {units} units")
    hidden, cell = (importer.model.tensors[op.inputs[place]] for place in (_HIDDEN, _CELL))
    _check_state(importer, op, hidden, "INT8", units)
    _check_state(importer, op, cell, "INT16", units)
    zero, scale = int(hidden.zero_points[0]), float(cell.scales[0])
    require(INT8_MIN <= zero <= INT8_MAX, f"the state has the zero point {zero}")
    clip = options.CellClip()
    return LstmStep(
        np.stack([part.values for part in weights], axis=1),
        np.stack([part.values for part in recurrent], axis=1),
        np.stack([b.ravel() for b in biases], axis=1),
        _gates(np.float32(x.scale), weights),
        _gates(np.float32(hidden.scales[0]), recurrent),
        fixed_point(np.float64(_UNIT_SCALE)),
        fixed_point(np.float64(_UNIT_SCALE**2 / scale)),
        fixed_point(np.float64(_UNIT_SCALE**2 / float(hidden.scales[0]))),
        int(min(clip / scale, NO_CLIP - 1)) if clip > 0 else NO_CLIP,
        _tanh(scale),
        zero,
    )


def _gates(scale: np.float32, weights: list[FileTensor]) -> FixedPoint:
    """The factors of the gates' sums. The runtime multiplies scales in float32."""
    for part in weights:
        one = len(part.scales) == len(part.zero_points) == 1 and part.zero_points[0] == 0
        reason = f"'{part.name}' has not one scale and the zero point 0"
        require(one and 0 < part.scales[0] < np.inf, reason, KEEP_QUANTISATION)
    return fixed_point(np.array([float(scale * np.float32(p.scales[0])) for p in weights]) / _GATE)


def _tanh(scale: float) -> tuple[int, int]:
    """Multiplier and shift of a cell of this scale, a power of two."""
    power = round(math.log2(scale))
    exact = math.isclose(scale, 2.0**power, rel_tol=1e-3)
    require(exact and -27 <= power <= 0, f"the cell has the scale {scale}, no power of two")
    left = 15 + power - 3
    return (3, -left) if left < 0 else (3 << left, 0)


def _check_state(importer: Importer, op: FileOp, state: FileTensor, kind: str, units: int) -> None:
    index = op.inputs[_HIDDEN if kind == "INT8" else _CELL]
    what = f"the state is {state.type.lower()} {list(state.shape)}, not {kind.lower()} [1, {units}]"
    plain = index >= 0 and state.type == kind and math.prod(state.shape) == units
    require(plain and state.data is None and index not in importer.model.inputs, what, _PLAIN)
    one = len(state.scales) == len(state.zero_points) == 1 and 0 < state.scales[0] < np.inf
    symmetric = kind == "INT8" or (one and state.zero_points[0] == 0)
    require(one and symmetric, f"'{state.name}' has not one scale", KEEP_QUANTISATION)
    users = [other for other in importer.model.ops if index in other.inputs]
    require(len(users) == 1, "its state is read elsewhere", "export it again")
