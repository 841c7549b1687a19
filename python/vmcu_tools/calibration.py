# SPDX-License-Identifier: Apache-2.0
"""Float .onnx to int8 .onnx: onnxruntime's static quantisation, with the settings vmcu wants."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .errors import Problem, UserError
from .oracle.base import required

METHODS = ("minmax", "entropy", "percentile")

Samples = list[dict[str, np.ndarray]]


def quantize(
    source: Path, target: Path, samples: Samples, method: str = "minmax", per_channel: bool = True
) -> None:
    """Writes the int8 form of a float model: Q/DQ pairs, int8 activations and weights.

    samples: one float32 array per input name, in the file's shape, for each calibration sample.
    Raises UserError if onnxruntime is missing or rejects the model. The target is written whole
    or not at all.
    """
    quantization = required(
        "onnxruntime.quantization", "onnxruntime", "quantise float .onnx models"
    )
    methods = quantization.CalibrationMethod
    chosen = {
        "minmax": methods.MinMax,
        "entropy": methods.Entropy,
        "percentile": methods.Percentile,
    }[method]
    with tempfile.TemporaryDirectory() as folder, _quiet():
        prepared, result = Path(folder) / "prepared.onnx", Path(folder) / "int8.onnx"
        try:
            # Folds constants and batch normalisation, and infers the shapes.
            quantization.quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
            quantization.quantize_static(
                str(prepared),
                str(result),
                _reader(quantization, samples),
                quant_format=quantization.QuantFormat.QDQ,
                activation_type=quantization.QuantType.QInt8,
                weight_type=quantization.QuantType.QInt8,
                per_channel=per_channel,
                calibrate_method=chosen,
            )
        except Exception as error:  # onnxruntime's exceptions have no base of their own
            raise UserError(
                Problem(
                    f"onnxruntime cannot quantise the model: {error}",
                    "Check the model with onnx.checker, and that the calibration data fit it.",
                    str(source),
                )
            ) from error
        target.write_bytes(result.read_bytes())


def _reader(quantization, samples: Samples):  # type: ignore[no-untyped-def]
    """The samples as onnxruntime wants to be handed them."""

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self._left: Iterator[Mapping[str, np.ndarray]] = iter(samples)

        def get_next(self) -> Mapping[str, np.ndarray] | None:
            return next(self._left, None)

    return Reader()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the quantiser's advice on standard error."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
