# SPDX-License-Identifier: Apache-2.0
"""SVDF, whose state is the latest results of its filters, beside TensorFlow Lite Micro."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders.tflite_models import TfliteModel
from drawn import seeds
from test_lstm import lstm
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.planner.options import CompileOptions

pytest.importorskip("tflite_micro")


def svdf(
    m: TfliteModel, x: int, width: int, units: int, rank: int, memory: int, **wrong: object
) -> int:
    """An operator whose results fill the int8 range."""
    scale = m.graph.tensors[x].quantization.scale[0]
    filters = units * rank
    features, time = (
        m.constant(
            m.rng.integers(-127, 128, shape).astype(np.int8), [float(m.rng.uniform(0.004, 0.02))]
        )
        for shape in ((filters, width), (filters, memory))
    )
    by_feature, by_time = (m.graph.tensors[i].quantization.scale[0] for i in (features, time))
    kept = float(scale * by_feature * 50 * width**0.5)
    zero = int(wrong.get("state_zero", m.rng.choice([0, 3, -90])))
    state = m.activation((1, memory * filters), kept, zero, np.dtype(wrong.get("state", np.int8)))
    m.graph.tensors[state].isVariable = True
    bias = m.constant(m.rng.integers(-4000, 4000, units).astype(np.int32), [float(kept * by_time)])
    out = m.activation((1, units), float(kept * by_time * 50 * (memory * rank) ** 0.5))
    relu = int(m.rng.integers(2))
    return m.op(
        "SVDF",
        [x, features, time, bias, state],
        out,
        "SVDF",
        rank=rank,
        fusedActivationFunction=relu,
    )


def single(m: TfliteModel) -> tuple[list[int], list[int]]:
    """One of them alone."""
    width, units, rank, memory = (int(n) for n in m.rng.integers(1, 6, 4))
    x = m.activation((1, width))
    return [x], [svdf(m, x, width, units, rank, memory)]


def network(seed: int, path: Path, **wrong: object) -> Path:
    """Some of them, with dense layers between."""
    m = TfliteModel(seed)
    width = int(m.rng.integers(1, 20))
    first = x = m.activation((1, width))
    for _ in range(int(m.rng.integers(1, 4))):
        units, rank, memory = (int(m.rng.integers(1, n)) for n in (14, 4, 13))
        x = svdf(m, x, width, units, rank, memory, **wrong)
        width = units
    return m.save(path, [first], [x])


@pytest.mark.parametrize("seed", seeds(200, 16))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    path = network(seed, tmp_path / "net.tflite")
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "40", "--seed", str(seed), "--on", target]) == 0


def test_a_thousand_calls(tmp_path: Path) -> None:
    path = network(1000, tmp_path / "net.tflite")
    assert main(["verify", str(path), "-n", "1000", "--on", "host"]) == 0


def test_a_state_takes_its_bytes_once(tmp_path: Path) -> None:
    m = TfliteModel(5)
    first = m.activation((1, 4))
    path = m.save(tmp_path / "net.tflite", [first], [svdf(m, first, 4, 64, 1, 16, state_zero=0)])
    plan = compile_model(path, CompileOptions(hop=1))
    assert len(plan.model.states) == 1
    # Its 1,024 bytes, the input and the output.
    assert plan.pool_bytes <= 64 * 16 + 4 + 64


@pytest.mark.parametrize("first", ["svdf", "lstm"])
def test_beside_an_lstm(first: str, tmp_path: Path) -> None:
    """Whose state no ring buffer goes with."""
    m = TfliteModel(7)
    if first == "svdf":
        x = m.activation((1, 6))
        y = svdf(m, x, 6, 5, 2, 4)
        y = m.op("RESHAPE", [y, m.constant(np.array([1, 1, 5], np.int32))], m.like(y, (1, 1, 5)))
        y = lstm(m, y, 5, 1, 7)
    else:
        x = m.activation((1, 1, 6))
        y = lstm(m, x, 6, 1, 5)
        y = m.op("RESHAPE", [y, m.constant(np.array([1, 5], np.int32))], m.like(y, (1, 5)))
        y = svdf(m, y, 5, 7, 1, 5)
    path = m.save(tmp_path / "both.tflite", [x], [y])
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "200", "--on", target]) == 0


REFUSED = [
    ({"state": np.int16}, "the state is int16"),
]


@pytest.mark.parametrize(("wrong", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_refused(wrong: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        compile_model(network(3, tmp_path / "net.tflite", **wrong))
