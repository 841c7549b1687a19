# SPDX-License-Identifier: Apache-2.0
"""Float .onnx to int8 .onnx: onnxruntime's static quantisation, and how well it went."""

from __future__ import annotations

import logging
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx

from ..errors import Problem, UserError
from ..frontends.onnx.curves import REQUANTISE
from ..frontends.onnx.importer import RULES, load
from ..frontends.onnx.in_float import check_float
from ..oracle.base import one_line, required
from .alike import of_states, shared
from .functions import take_apart
from .leftovers import quantise_leftovers
from .norms import spell_norms
from .preparation import Ranges, join_functions, prepare, upgraded
from .ranges import METHODS
from .samples import Samples, load_model, read_samples

__all__ = ["METHODS", "quantize", "quantize_and_judge", "read_samples"]

_CPU = ["CPUExecutionProvider"]
_NEVER_QUANTISED = {"Cast", "Constant", "Identity", "QuantizeLinear", "DequantizeLinear"}
_NOT_INT8 = (
    "vmcu has no int8 form of this part of the model: use other operators; "
    "`vmcu inspect --operators` lists them"
)


@dataclass(frozen=True)
class LayerQuality:
    """A float tensor against its int8 form over the calibration set; the ratio in dB."""

    tensor: str
    op: str
    shape: tuple[int, ...]
    signal_to_noise: float


@dataclass(frozen=True)
class QuantizationReport:
    """Layers from the worst to the best; top1: the share of samples whose largest output is at
    the same place in float and in int8, over the calibration set."""

    source: str
    target: str
    method: str
    per_channel: bool
    samples: int
    top1: float
    layers: tuple[LayerQuality, ...]


def quantize(
    source: Path, target: Path, samples: Samples, method: str = "minmax", per_channel: bool = True
) -> None:
    """Writes the int8 form of a float model: Q/DQ pairs, uint8 activations and int8 weights.

    With uint8 activations ONNX Runtime computes every layer in integers, as the device does; int8
    ones it turns into uint8 first, but not those that several layers read.

    samples: one float32 array per input name, in the file's shape, for each calibration sample.
    Raises UserError if onnxruntime is missing or rejects the model. The target is written whole
    or not at all.
    """
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        result = _quantize(source, prepared, samples, method, per_channel)
        target.write_bytes(result)


def quantize_and_judge(
    source: Path, target: Path, samples: Samples, method: str = "minmax", per_channel: bool = True
) -> QuantizationReport:
    """quantize(), and the float and the int8 model side by side on the same samples."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        result = _quantize(source, prepared, samples, method, per_channel)
        with _quiet(), _refusals(source):
            top1, layers = _compare(onnx.load(prepared), onnx.load_from_string(result), samples)
        target.write_bytes(result)
    return QuantizationReport(
        str(source), str(target), method, per_channel, len(samples), top1, tuple(layers)
    )


def _quantize(
    source: Path, prepared: Path, samples: Samples, method: str, per_channel: bool
) -> bytes:
    """The int8 model; `prepared` becomes the float model it was made of."""
    quantization = required(
        "onnxruntime.quantization", "onnxruntime", "quantise float .onnx models", "quantize"
    )
    chosen = getattr(quantization.CalibrationMethod, METHODS[method])
    check_float(source)
    model = load_model(source)
    if any(node.op_type == "QuantizeLinear" for node in model.graph.node):
        reason = "the model is already quantised"
        raise UserError(Problem(reason, "leave out the calibration data", str(source)))
    result = prepared.with_name("int8.onnx")
    whole = prepared.with_name("float.onnx")
    with _quiet(), _refusals(source):
        # onnxruntime does not find weights in files of their own, as PyTorch writes them.
        apart, alike = take_apart(upgraded(model), str(source))
        onnx.save(apart, whole)
        # Folds constants and batch normalisation, and infers the shapes.
        quantization.quant_pre_process(str(whole), str(prepared), skip_symbolic_shape=True)
        folded = onnx.load(prepared)
        measure = _ranges(samples)
        prepare(folded, measure)
        onnx.save(folded, prepared)
        quantization.quantize_static(
            str(prepared),
            str(result),
            _reader(quantization, samples),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=per_channel,
            calibrate_method=chosen,
            op_types_to_quantize=_operators(folded),
            extra_options={
                "TensorQuantOverrides": _overrides(folded)
                | shared(folded, [*alike, *of_states(folded)], measure)
            },
        )
        quantised = onnx.load(result)
        quantise_leftovers(quantised, partial(measure, folded))
        spell_norms(quantised)
        join_functions(quantised.graph)
        found: bytes = quantised.SerializeToString()
        result.write_bytes(found)
    _check_result(source, result)
    return found


def _check_result(source: Path, result: Path) -> None:
    """Raises UserError, of the float model, where its int8 form cannot be imported."""
    try:
        load(result)
    except UserError as error:
        problems = [replace(problem, file=str(source)) for problem in error.problems]
        # What this command was to do is no remedy of what it did.
        raise UserError(
            *(
                replace(p, remedy=_NOT_INT8) if REQUANTISE in p.remedy or not p.node else p
                for p in problems
            )
        ) from error


def _operators(model: onnx.ModelProto) -> list[str]:
    """The operators whose inputs and outputs are quantised: all that can be imported."""
    made = {node.op_type for node in model.graph.node}
    return sorted(made.intersection(RULES) - _NEVER_QUANTISED)


def _overrides(model: onnx.ModelProto) -> dict[str, list[dict[str, Any]]]:
    """Weights of one scale in any case: onnxruntime has as many for a transposed convolution in
    groups as one group has channels, and then fails at its biases; for a matrix on the left of a
    product it has one for each number that is summed."""
    found = {}
    constants = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        grouped = any(a.name == "group" and a.i > 1 for a in node.attribute)
        place = {"ConvTranspose": 1 if grouped else -1, "MatMul": 0}.get(node.op_type, -1)
        if place >= 0 and node.input[place] in constants:
            found[node.input[place]] = [{"symmetric": True}]
    return found


def _ranges(samples: Samples) -> Ranges:
    """The least and the greatest value of each of some tensors over the samples."""

    def measure(model: onnx.ModelProto, names: list[str]) -> dict[str, tuple[float, float]]:
        session = _showing(model, names)
        runs = [session.run(names, sample) for sample in samples]
        return {
            name: (
                min(float(run[place].min()) for run in runs),
                max(float(run[place].max()) for run in runs),
            )
            for place, name in enumerate(names)
        }

    return measure


def _reader(quantization: ModuleType, samples: Samples) -> Any:
    """The samples as onnxruntime wants to be handed them."""
    base: Any = quantization.CalibrationDataReader

    class Reader(base):  # type: ignore[misc] # whatever onnxruntime has
        def __init__(self) -> None:
            self._left: Iterator[Mapping[str, np.ndarray]] = iter(samples)

        def get_next(self) -> Mapping[str, np.ndarray] | None:
            return next(self._left, None)

    return Reader()


def _compare(
    real: onnx.ModelProto, int8: onnx.ModelProto, samples: Samples
) -> tuple[float, list[LayerQuality]]:
    """Top-1 agreement, and the tensors that both models have, the worst first."""
    made = {name: node.op_type for node in real.graph.node for name in node.output if name}
    inner = {name for node in int8.graph.node for name in node.output}
    pairs = {name: f"{name}_DequantizeLinear_Output" for name in made}
    pairs = {name: other for name, other in pairs.items() if other in inner}
    outputs = [value.name for value in real.graph.output]
    pairs |= {name: name for name in outputs if name in inner and name in made}
    sessions = [_showing(real, list(pairs)), _showing(int8, list(pairs.values()))]
    signal, noise, shapes = dict.fromkeys(pairs, 0.0), dict.fromkeys(pairs, 0.0), {}
    agreed = 0
    for sample in samples:
        wanted, got = (
            session.run([*outputs, *names], sample)
            for session, names in zip(sessions, (pairs, pairs.values()), strict=True)
        )
        agreed += int(np.argmax(wanted[0]) == np.argmax(got[0]))
        tensors = zip(pairs, wanted[len(outputs) :], got[len(outputs) :], strict=True)
        for name, x, y in tensors:
            x, y = x.astype(np.float64), y.astype(np.float64)
            signal[name] += float((x * x).sum())
            noise[name] += float(((x - y) ** 2).sum())
            shapes[name] = x.shape
    layers = [
        LayerQuality(name, made[name], shapes[name], _decibel(signal[name], noise[name]))
        for name in pairs
    ]
    return agreed / len(samples), sorted(layers, key=lambda layer: layer.signal_to_noise)


def _decibel(signal: float, noise: float) -> float:
    """Infinite ratios are cut at 200 dB, which JSON can say."""
    if noise <= signal * 1e-20:
        return 200.0
    return max(10 * math.log10(signal / noise), -200.0) if signal > 0 else -200.0


def _showing(model: onnx.ModelProto, names: list[str]) -> Any:
    """A session of a model, further tensors of which are outputs."""
    runtime = required("onnxruntime", "onnxruntime", "judge a quantised model", "quantize")
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    outputs = {value.name for value in model.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in outputs)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    # As the file says: optimisation would take the tensors away that are to be seen.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(shown.SerializeToString(), options, providers=_CPU)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the quantiser's advice, its tracebacks and numpy's warnings on standard error."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _refusals(source: Path) -> Iterator[None]:
    """Any exception of onnx and onnxruntime, which have no base of their own, as a UserError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = f"onnxruntime cannot quantise the model: {one_line(error)}"
        remedy = "check the model with onnx.checker, and that the calibration data fit it"
        raise UserError(Problem(reason, remedy, str(source))) from error
