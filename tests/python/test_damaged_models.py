# SPDX-License-Identifier: Apache-2.0
"""Files cut short or with other bytes are refused in one message."""

from __future__ import annotations

import pytest
from builders import onnx_models, tflite_models
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vmcu_tools import frontends
from vmcu_tools.errors import UserError


def _good_tflite() -> bytes:
    m = TfliteModel()
    return m.to_bytes(*tflite_models.conv((6, 6), 4, 8, (3, 3))(m))


def _good_onnx() -> bytes:
    model = onnx_models.single(OnnxModel(), *onnx_models.CASES["conv 3x3"])
    return model.SerializeToString()


GOOD = {"tflite": _good_tflite(), "onnx": _good_onnx()}
FUZZ = settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _load_or_user_error(path) -> None:
    try:
        frontends.load(path)
    except UserError as error:
        assert str(error)


@pytest.mark.parametrize("kind", GOOD)
def test_every_truncation(tmp_path, kind):
    path = tmp_path / f"m.{kind}"
    for size in range(0, len(GOOD[kind]), 7):
        path.write_bytes(GOOD[kind][:size])
        _load_or_user_error(path)


@pytest.mark.parametrize("kind", GOOD)
@FUZZ
@given(data=st.data())
def test_damaged_bytes(tmp_path, kind, data):
    content = bytearray(GOOD[kind])
    places = st.integers(0, len(content) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1)):
        content[place] = value
    path = tmp_path / f"m.{kind}"
    path.write_bytes(content)
    _load_or_user_error(path)
