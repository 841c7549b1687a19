# SPDX-License-Identifier: Apache-2.0
"""Every import rule, and every option that a rule looks at, is met by the files that other tests
hold against a runtime. What is met is what importers read of those files, no list of names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import test_lstm
import test_svdf
import test_tflite_batch
import test_tflite_litert
import test_tflite_ops
from builders import (
    onnx_exports,
    onnx_functions,
    onnx_models,
    onnx_norms,
    onnx_ops,
    onnx_options,
    onnx_qoperators,
    tflite_models,
)
from builders.onnx_models import OnnxModel, single
from builders.tflite_models import TfliteModel, schema
from met import Met, watching
from vmcu_tools import frontends
from vmcu_tools.errors import UserError
from vmcu_tools.frontends.onnx import importer as onnx_frontend
from vmcu_tools.frontends.onnx.qoperator import FORMS
from vmcu_tools.frontends.tflite import importer as tflite_frontend
from vmcu_tools.frontends.tflite.float import TABULATED

SEEDS = 4

# Options of which importers take some values only: one that they refuse, by operator and option.
REFUSED_ONNX: dict[tuple[str, str], Any] = {
    ("AveragePool", "dilations"): [2, 2],
    ("BatchNormalization", "training_mode"): 1,
    ("ConvTranspose", "auto_pad"): "SAME_UPPER",
    ("DequantizeLinear", "block_size"): 2,
    ("GatherND", "batch_dims"): 1,
    ("Gemm", "alpha"): 2.0,
    ("Gemm", "beta"): 2.0,
    ("Gemm", "transA"): 1,
    ("LpNormalization", "p"): 1,
    ("QuantizeLinear", "block_size"): 2,
    ("ReduceMean", "noop_with_empty_axes"): 1,
    ("Resize", "antialias"): 1,
    ("Resize", "keep_aspect_ratio_policy"): "not_larger",
    ("com.microsoft.GatherBlockQuantized", "gather_axis"): 1,
    ("com.microsoft.MatMulNBits", "bits"): 2,
    ("com.microsoft.QLinearAveragePool", "channels_last"): 1,
}
REFUSED_TFLITE: dict[tuple[str, str], Any] = {
    ("CONCATENATION", "FusedActivationFunction"): 1,
    ("FULLY_CONNECTED", "WeightsFormat"): 1,
    ("GATHER", "BatchDims"): 1,
    ("L2_NORMALIZATION", "FusedActivationFunction"): 1,
    ("STRIDED_SLICE", "EllipsisMask"): 1,
    ("STRIDED_SLICE", "NewAxisMask"): 1,
    ("TRANSPOSE_CONV", "FusedActivationFunction"): 1,
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "FusedActivationFunction"): 1,
}
# Options with more than two values, all of which have to be met.
_PADDINGS = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}
WHOLE_ONNX: dict[tuple[str, str], set[Any]] = {
    **{(op, "auto_pad"): _PADDINGS for op in ("Conv", "MaxPool", "AveragePool")},
    ("Pad", "mode"): {"constant", "edge", "reflect", "wrap"},
    ("Resize", "coordinate_transformation_mode"): {
        *("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
    },
    ("Resize", "nearest_mode"): {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"},
}
_FUSING = ("ADD", "SUB", "MUL", "DIV", "AVERAGE_POOL_2D", "MAX_POOL_2D", "FULLY_CONNECTED")
_FUSING += ("CONV_2D", "DEPTHWISE_CONV_2D")
WHOLE_TFLITE = {(op, "FusedActivationFunction"): {0, 1, 2, 3} for op in _FUSING}
# Older opsets have as an attribute, always set there, what is an input since.
_FORMER = {("Pad", "pads"), ("Split", "split")}


def onnx_models_of_tests() -> Iterator[onnx.ModelProto]:
    for row in onnx_models.CASES.values():
        yield single(OnnxModel(), *row)
    for table in (onnx_ops.CASES, onnx_norms.CASES, onnx_exports.CASES):
        for row in table.values():
            yield single(OnnxModel(opset=17), *row)
    for opset, *row in onnx_options.CASES.values():
        yield single(OnnxModel(opset=opset), *row)
    for case in onnx_functions.CASES.values():
        yield case.model(np.int8)
    for row in onnx_qoperators.CASES.values():
        yield onnx_qoperators.single(*row)
    for op, attributes in onnx_options.INDICES:
        yield onnx_options.index_of_extreme(op, **attributes)


def tflite_models_of_tests(path: Path) -> Iterator[tuple[TfliteModel, Path]]:
    """Each model is at `path` until the next one is asked for."""
    for case in (*tflite_models.CASES.values(), *test_tflite_ops.CASES.values()):
        for seed in range(SEEDS):
            m = TfliteModel(seed)
            yield m, m.save(path, *case(m))
    for case, seed in itertools.product((test_lstm.single, test_svdf.single), range(SEEDS)):
        m = TfliteModel(seed)
        yield m, m.save(path, *case(m))
    for case in test_tflite_batch.CASES.values():
        for is_open in (False, True):
            m = TfliteModel()
            yield m, m.save(path, *case(m, is_open))
    for name in test_tflite_litert.LITERT | test_tflite_litert.IN_FLOAT:
        yield TfliteModel(), test_tflite_litert.saved(path, name)


@pytest.fixture(scope="module")
def met_onnx(tmp_path_factory: pytest.TempPathFactory) -> Met:
    path = tmp_path_factory.mktemp("rules") / "m.onnx"
    with watching() as met:
        for model in onnx_models_of_tests():
            onnx.save(model, path)
            frontends.load(path)
    return met


@pytest.fixture(scope="module")
def met_tflite(tmp_path_factory: pytest.TempPathFactory) -> Met:
    with watching() as met:
        for _, path in tflite_models_of_tests(tmp_path_factory.mktemp("rules") / "m.tflite"):
            frontends.load(path)
    return met


def merged(met: Met) -> dict[tuple[str, str], set[Any]]:
    """The options of ONNX operators, those of a QOperator's under the operation within it."""
    found: dict[tuple[str, str], set[Any]] = {}
    for (op, name), values in met.options.items():
        inner = FORMS[op].op if op in FORMS and name != "channels_last" else op
        inner = inner.removeprefix("com.microsoft.") if inner.endswith("izeLinear") else inner
        if name == "perm" and op != "Transpose":
            # Asked of whatever reads an input.
            continue
        if name == "channels_last":
            inner = "com.microsoft.QLinearAveragePool"
        found.setdefault((inner, name), set()).update(values)
    return found


def test_every_onnx_rule_has_a_case(met_onnx) -> None:
    assert sorted(set(onnx_frontend.RULES) - met_onnx.operators) == []


def test_every_tflite_rule_has_a_case(met_tflite) -> None:
    rules = {*tflite_frontend.RULES, *TABULATED}
    assert sorted(rules - met_tflite.operators) == []


def unmet(
    met: dict[tuple[str, str], set[Any]],
    whole: dict[tuple[str, str], set[Any]],
    refused: dict[tuple[str, str], Any],
) -> dict[tuple[str, str], set[Any]]:
    """Options of which the files do not have all values, or but one where there are several."""
    missing = {key: values - met.get(key, set()) for key, values in whole.items()}
    few = {key: values for key, values in met.items() if len(values) < 2 and key not in refused}
    return {key: values for key, values in missing.items() if values} | few


def test_every_onnx_option_is_met(met_onnx) -> None:
    found = unmet(merged(met_onnx), WHOLE_ONNX, REFUSED_ONNX)
    assert {key: values for key, values in found.items() if key not in _FORMER} == {}


def test_every_tflite_option_is_met(met_tflite) -> None:
    assert unmet(dict(met_tflite.options), WHOLE_TFLITE, REFUSED_TFLITE) == {}


def refuses(path: Path) -> bool:
    try:
        frontends.load(path)
    except UserError:
        return True
    return False


def test_other_values_of_onnx_options_are_refused(tmp_path) -> None:
    left, path = dict(REFUSED_ONNX), tmp_path / "m.onnx"
    for model in onnx_models_of_tests():
        for node in model.graph.node:
            op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            for key in [key for key in left if key[0] == op]:
                changed = onnx.ModelProto()
                changed.CopyFrom(model)
                (same,) = (n for n in changed.graph.node if n.name == node.name)
                for attribute in [a for a in same.attribute if a.name == key[1]]:
                    same.attribute.remove(attribute)
                same.attribute.append(onnx.helper.make_attribute(key[1], left[key]))
                onnx.save(changed, path)
                # That of a reduction matters only where no axes are named.
                if refuses(path):
                    del left[key]
    assert left == {}


def test_other_values_of_tflite_options_are_refused(tmp_path) -> None:
    left, names = dict(REFUSED_TFLITE), vars(schema.BuiltinOperator).items()
    codes = {number: name for name, number in names if isinstance(number, int)}
    for m, path in tflite_models_of_tests(tmp_path / "m.tflite"):
        if len(m.graph.operators) != 1 or m.graph.operators[0].builtinOptions is None:
            continue
        op, options = codes[m.model.operatorCodes[0].builtinCode], m.graph.operators[0]
        for key in [key for key in left if key[0] == op]:
            field = key[1][0].lower() + key[1][1:]
            before = getattr(options.builtinOptions, field)
            setattr(options.builtinOptions, field, left.pop(key))
            m.save(path, m.graph.inputs, m.graph.outputs)
            assert refuses(path)
            setattr(options.builtinOptions, field, before)
    assert left == {}
