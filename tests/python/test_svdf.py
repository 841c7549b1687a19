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
    dtype = np.dtype(wrong.get("state", m.rng.choice([np.int8, np.int16])))
    wide = dtype == np.int16
    # int32 holds the sum of as many int16 results times such weights as there are here.
    most = 1500 if wide else 127
    # By how much larger results and sums are than those of int8.
    finer = 258 if wide else 1
    larger = finer * most / 127
    features, time = (
        m.constant(
            m.rng.integers(-limit, limit + 1, shape).astype(kind),
            [float(m.rng.uniform(0.5, 2.5) / limit)],
        )
        for shape, limit, kind in (
            ((filters, width), 127, np.int8),
            ((filters, memory), most, dtype),
        )
    )
    by_feature, by_time = (m.graph.tensors[i].quantization.scale[0] for i in (features, time))
    kept = float(scale * by_feature * 50 * width**0.5 / finer)
    zero = int(wrong.get("state_zero", 0 if wide else m.rng.choice([0, 3, -90])))
    state = m.activation((1, memory * filters), kept, zero, dtype)
    m.graph.tensors[state].isVariable = True
    biases = (m.rng.integers(-4000, 4000, units) * larger).astype(np.int32)
    bias = m.constant(biases, [float(kept * by_time)]) if wrong.get("bias", True) else -1
    out = m.activation((1, units), float(kept * by_time * 50 * larger * (memory * rank) ** 0.5))
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


def test_no_biases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TensorFlow Lite Micro reads those that the file says are none, and crashes."""
    path = network(3, tmp_path / "net.tflite", bias=False)
    assert main(["verify", str(path), "-n", "40"]) == 0
    assert "0 of 40 hops differ from the file's own runtime" in capsys.readouterr().out


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_a_thousand_calls(dtype: type, tmp_path: Path) -> None:
    path = network(1000, tmp_path / "net.tflite", state=dtype)
    assert main(["verify", str(path), "-n", "1000", "--on", "host"]) == 0


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_a_state_takes_its_bytes_once(dtype: type, tmp_path: Path) -> None:
    m = TfliteModel(5)
    first = m.activation((1, 4))
    y = svdf(m, first, 4, 64, 1, 16, state_zero=0, state=dtype)
    plan = compile_model(m.save(tmp_path / "net.tflite", [first], [y]), CompileOptions(hop=1))
    assert len(plan.model.state.names) == 1
    # Its 1,024 elements, the input and the output.
    assert plan.pool_bytes <= np.dtype(dtype).itemsize * 64 * 16 + 4 + 64


@pytest.mark.parametrize("units", [16, 17, 40])
@pytest.mark.parametrize("rank", [2, 3])
def test_blocks_of_channels(rank: int, units: int, tmp_path: Path) -> None:
    """The kernel of int16 adds 16 channels at a time, each of which has several filters."""
    m = TfliteModel(11)
    x = m.activation((1, 5))
    path = m.save(tmp_path / "net.tflite", [x], [svdf(m, x, 5, units, rank, 4, state=np.int16)])
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "40", "--on", target]) == 0


@pytest.mark.parametrize(
    ("first", "dtype"),
    [
        *(("svdf", np.int8), ("lstm", np.int16)),
        pytest.param("svdf", np.int16, marks=pytest.mark.slow),
        pytest.param("lstm", np.int8, marks=pytest.mark.slow),
    ],
)
def test_beside_an_lstm(first: str, dtype: type, tmp_path: Path) -> None:
    """Whose state no ring buffer goes with."""
    m = TfliteModel(7)
    if first == "svdf":
        x = m.activation((1, 6))
        y = svdf(m, x, 6, 5, 2, 4, state=dtype)
        y = m.op("RESHAPE", [y, m.constant(np.array([1, 1, 5], np.int32))], m.like(y, (1, 1, 5)))
        y = lstm(m, y, 5, 1, 7)
    else:
        x = m.activation((1, 1, 6))
        y = lstm(m, x, 6, 1, 5)
        y = m.op("RESHAPE", [y, m.constant(np.array([1, 5], np.int32))], m.like(y, (1, 5)))
        y = svdf(m, y, 5, 7, 1, 5, state=dtype)
    path = m.save(tmp_path / "both.tflite", [x], [y])
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "200", "--on", target]) == 0


REFUSED = [
    ({"state": np.int32}, "the state is int32"),
    ({"state": np.int16, "state_zero": 3}, "has the zero point 3"),
]


@pytest.mark.parametrize(("wrong", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_refused(wrong: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        compile_model(network(3, tmp_path / "net.tflite", **wrong))
