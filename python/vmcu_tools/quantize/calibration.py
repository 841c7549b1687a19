# SPDX-License-Identifier: Apache-2.0
"""Float .onnx to int8 .onnx: onnxruntime's static quantisation, and how well it went."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ..errors import Problem, UserError
from ..frontends.onnx.curves import REQUANTISE
from ..frontends.onnx.file import CALIBRATION
from ..frontends.onnx.importer import RULES, load
from ..runtimes import one_line, required
from .alike import of_states, overrides_of, shared
from .float_model import FloatFile, read_float
from .functions import take_apart
from .int4 import OPSET as INT4_OPSET
from .judge import LayerQuality, compare, showing
from .judge import accuracy as correct
from .kept import KeptWeights
from .leftovers import quantise_leftovers
from .loops import BothModels, with_states
from .norms import spell_norms
from .preparation import OPSET, WITH_BIAS, Ranges, join_functions, prepare, upgraded
from .ranges import METHODS
from .samples import Samples, read_calibration, read_labels, read_samples
from .verdict import Loss, Quality, Trial, quality_of, trials, worst_losses
from .widths import Int4, WidthReport, choose_widths

__all__ = ["METHODS", "quantize", "quantize_and_judge", "read_calibration", "read_float"]
__all__ += ["read_labels", "read_samples"]

_NEVER_QUANTISED = {"Cast", "Constant", "Identity", "QuantizeLinear", "DequantizeLinear"}
_NOT_INT8 = (
    "vmcu has no int8 form of this part of the model: use other operators; "
    "`vmcu inspect --operators` lists them"
)


@dataclass(frozen=True)
class Accuracy:
    """The share of samples whose largest output is at the label's place: of the float model, and
    of the file that was written."""

    real: float
    quantized: float


@dataclass(frozen=True)
class QuantizationReport:
    """Layers from the worst to the best, over the calibration set; losses: those that add the most
    noise. top1, snr_db, is_classifier: as Quality has them; trials: what other options reach, if
    these are not enough. accuracy: None without labels; widths: None if all weights are int8.
    calibration: "random" if the samples are."""

    source: str
    target: str
    method: str
    per_channel: bool
    samples: int
    top1: float
    snr_db: float
    is_classifier: bool
    layers: tuple[LayerQuality, ...]
    losses: tuple[Loss, ...]
    trials: tuple[Trial, ...] = ()
    accuracy: Accuracy | None = None
    widths: WidthReport | None = None
    calibration: str = ""


def quantize(
    source: Path | FloatFile,
    target: Path,
    samples: Samples,
    method: str = "minmax",
    per_channel: bool = True,
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
        models = _quantize(read_float(source), prepared, samples, method, per_channel)
        target.write_bytes(models.closed(models.int8).SerializeToString())


def quantize_and_judge(
    source: Path | FloatFile,
    target: Path,
    samples: Samples,
    method: str = "minmax",
    per_channel: bool = True,
    int4: Int4 | None = None,
    labels: np.ndarray | None = None,
    least: float = 0.0,
) -> QuantizationReport:
    """quantize(), and the float model and the result side by side on the same samples.

    int4: which weights become int4; None: all are int8. labels: integers (samples,), the places of
    the largest value of the first output. least: percent of the samples whose largest output must
    be the same, or other options are tried; 0: none are."""
    model, how = read_float(source), (method, per_channel)
    labelled = labels is not None
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        models = _quantize(model, prepared, samples, *how, OPSET if int4 is None else INT4_OPSET)
        real, made = models.closed(models.real), models.closed(models.int8)
        widths, accuracy, tried = None, None, list[Trial]()
        with _quiet(), _refusals(model.source):
            if int4 is not None:
                chosen, widths = choose_widths(models, int4, model.source)
                made = models.closed(chosen)
            top1, layers = compare(real, made, samples)
            quality = quality_of(real, top1, layers, labelled)
            if labels is not None:
                accuracy = Accuracy(*(correct(one, samples, labels) for one in (real, made)))
            if quality.shortfall(least):
                tried = _tried(model, prepared, samples, how, quality, int4 is not None)
        target.write_bytes(made.SerializeToString())
    return QuantizationReport(
        str(model.source),
        str(target),
        *how,
        len(samples),
        quality.top1,
        quality.snr_db,
        quality.is_classifier,
        tuple(layers),
        worst_losses(real.graph, layers),
        tuple(tried),
        accuracy,
        widths,
        model.label,
    )


def _tried(
    model: FloatFile,
    prepared: Path,
    samples: Samples,
    how: tuple[str, bool],
    before: Quality,
    is_int4: bool,
) -> list[Trial]:
    """Measures options that are better. is_int4: int8 weights are one of them."""

    def measure(method: str, per_channel: bool) -> Quality:
        models = _quantize(model, prepared, samples, method, per_channel)
        real, made = models.closed(models.real), models.closed(models.int8)
        return quality_of(real, *compare(real, made, samples, ()), before.is_classifier)

    if is_int4:
        int8 = measure(*how)
        return [Trial("--weights int8", int8.top1, int8.snr_db)]
    return list(trials(*how, measure, before))


def _quantize(
    model: FloatFile,
    prepared: Path,
    samples: Samples,
    method: str,
    per_channel: bool,
    opset: int = OPSET,
) -> BothModels:
    """The int8 model and the float model it was made of. prepared: a file that is overwritten."""
    quantization = required(
        "onnxruntime.quantization", "onnxruntime", "quantise float .onnx models", "quantize"
    )
    chosen = getattr(quantization.CalibrationMethod, METHODS[method])
    source, proto = model.source, onnx.ModelProto()
    proto.CopyFrom(model.proto)
    result = prepared.with_name("int8.onnx")
    whole = prepared.with_name("float.onnx")
    with _quiet(), _refusals(source):
        apart = take_apart(upgraded(proto, opset), str(source))
        onnx.save(apart.model, whole)
        # Folds constants and batch normalisation, and infers the shapes.
        quantization.quant_pre_process(str(whole), str(prepared), skip_symbolic_shape=True)
        folded = onnx.load(prepared)
        samples = with_states(folded, apart.carries, samples)
        measure = _ranges(samples)
        prepare(folded, measure)
        onnx.save(folded, prepared)
        alike = shared(folded, [*apart.alike, *of_states(folded)], measure)
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
                "TensorQuantOverrides": _overrides(folded, model.kept) | overrides_of(alike)
            },
        )
        quantised = onnx.load(result)
        quantise_leftovers(quantised, lambda names: {**measure(folded, names), **alike})
        spell_norms(quantised)
        join_functions(quantised.graph)
        if model.label:
            quantised.metadata_props.add(key=CALIBRATION, value=model.label)
        models = BothModels(folded, quantised, samples, apart.carries)
        onnx.save(models.closed(quantised), result)
    _check_result(source, result)
    return models


def _check_result(source: Path, result: Path) -> None:
    """Raises UserError, of the float model, where its int8 form cannot be imported."""
    try:
        load(result)
    except UserError as error:
        problems = []
        for problem in error.problems:
            # This command's own effect is no remedy of it.
            circular = REQUANTISE in problem.remedy or not problem.node
            remedy = _NOT_INT8 if circular else problem.remedy
            problems.append(replace(problem, file=str(source), remedy=remedy))
        raise UserError(*problems) from error


def _operators(model: onnx.ModelProto) -> list[str]:
    """The operators whose inputs and outputs are quantised: all that can be imported."""
    made = {node.op_type for node in model.graph.node}
    return sorted(made.intersection(RULES) - _NEVER_QUANTISED)


def _overrides(
    model: onnx.ModelProto, kept: Mapping[str, KeptWeights]
) -> dict[str, list[dict[str, Any]]]:
    """The scales of weights that were int8 in the file, and one scale for weights that onnxruntime
    would give several: as many for a transposed convolution in groups as one group has channels, at
    whose biases it fails then; for a matrix on the left of a product one for each number that is
    summed."""
    overrides: dict[str, list[dict[str, Any]]] = {}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    layers = (node for node in model.graph.node if node.op_type in WITH_BIAS)
    # Biases are int32, whatever they were in the file.
    biases = {name for node in layers for name in node.input[2:]}
    for name in sorted((kept.keys() & constants.keys()) - biases):
        stated = kept[name].overrides(numpy_helper.to_array(constants[name]))
        if stated is not None:
            overrides[name] = stated
    for node in model.graph.node:
        grouped = any(a.name == "group" and a.i > 1 for a in node.attribute)
        place = {"ConvTranspose": 1 if grouped else -1, "MatMul": 0}.get(node.op_type, -1)
        if place >= 0 and node.input[place] in constants:
            overrides[node.input[place]] = [{"symmetric": True}]
    return overrides


def _ranges(samples: Samples) -> Ranges:
    """The least and the greatest value of each of some tensors over the samples."""

    def measure(model: onnx.ModelProto, names: list[str]) -> dict[str, tuple[float, float]]:
        session = showing(model, names)
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


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the quantiser's advice and progress, its tracebacks and numpy's warnings."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(StringIO()):
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
