# SPDX-License-Identifier: Apache-2.0
"""samples/keyword: that what is committed belongs together."""

from __future__ import annotations

import re

import numpy as np
import pytest
from vmcu_tools import paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.planner.options import CompileOptions

KEYWORD = paths.root() / "samples" / "keyword"
MODEL = KEYWORD / "keyword.onnx"


def numbers(name: str) -> np.ndarray:
    """An array of clips.h, flat."""
    text = (KEYWORD / "src" / "clips.h").read_text()
    body = re.search(rf"\b{name}\[[^=]*= \{{(.*?)\}};", text, re.DOTALL)
    assert body is not None
    return np.array(re.findall(r"-?\d+", body[1]), np.int64)


def test_the_answers_are_onnx_runtimes() -> None:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
    graph = compile_model(MODEL).graph
    tensor = graph.tensors[graph.inputs[0].tensor]
    clips = numbers("clips").reshape(-1, 1, 1, *tensor.shape[:2])
    answers = numbers("onnxruntime_answers")
    assert len(clips) == len(answers) == 12
    for clip, answer in zip(clips, answers, strict=True):
        real = ((clip - tensor.zero_point) * np.float32(tensor.scale)).astype(np.float32)
        assert session.run(None, {"features": real})[0].argmax() == answer


def test_the_window_never_exists_whole() -> None:
    whole, rows = compile_model(MODEL), compile_model(MODEL, CompileOptions(stream_input=True))
    assert rows.input_streamed
    assert rows.pool_bytes <= whole.pool_bytes
    page = " ".join((KEYWORD / "README.md").read_text().split())
    scratch = max(step.scratch_bytes for stage in rows.stages for step in stage)
    assert f"keyword: {rows.pool_bytes} bytes of RAM" in page
    assert f"{scratch} bytes are scratch of the second convolution" in page
    assert f"the pool would have {whole.pool_bytes:,} bytes" in page
