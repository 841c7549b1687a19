# SPDX-License-Identifier: Apache-2.0
"""UNIDIRECTIONAL_SEQUENCE_LSTM, which keeps its states, beside TensorFlow Lite Micro."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.tflite_models import TfliteModel
from drawn import seeds
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.ops.lstm import logistic, sigmoids, tanh
from vmcu_tools.planner.options import CompileOptions

pytest.importorskip("tflite_micro")
TANH = 4


def lstm(m: TfliteModel, x: int, inputs: int, steps: int, units: int, **given: Any) -> int:
    """An operator whose gates reach all parts of their functions; `given` are options, and inputs
    by place that it has besides or in place of others."""
    x_scale = m.graph.tensors[x].quantization.scale[0]
    power = int(m.rng.integers(-15, -9))
    hidden = m.activation((1, units), 1 / 128, int(m.rng.integers(-20, 20)))
    cell = m.activation((1, units), 2.0**power, 0, np.int16)
    for state in (hidden, cell):
        m.graph.tensors[state].isVariable = True

    def weights(count: int, scale: float) -> int:
        values = m.rng.integers(-127, 128, (units, count)).astype(np.int8)
        spread = float(m.rng.uniform(0.2, 4)) / (scale * 60 * 60 * count**0.5)
        return m.constant(values, [spread])

    ins = [-1] * 24
    ins[0], ins[18], ins[19] = x, hidden, cell
    for gate in range(4):
        ins[1 + gate], ins[5 + gate] = weights(inputs, x_scale), weights(units, 1 / 128)
        unit = x_scale * m.graph.tensors[ins[1 + gate]].quantization.scale[0]
        bias = m.rng.normal(size=units) / unit
        ins[12 + gate] = m.constant(bias.astype(np.int32), [float(unit)])
    for place, shape in given.pop("also", {}).items():
        ins[place] = m.constant(np.zeros(shape, np.int8), [0.1])
    major = given.get("timeMajor", False)
    out = m.like(hidden, (steps, 1, units) if major else (1, steps, units))
    options = {"fusedActivationFunction": TANH, **given}
    return m.op("UNIDIRECTIONAL_SEQUENCE_LSTM", ins, out, "UnidirectionalSequenceLSTM", **options)


def single(m: TfliteModel, **given: Any) -> tuple[list[int], list[int]]:
    """One of them alone."""
    steps, inputs, units = (int(n) for n in m.rng.integers(1, 6, 3))
    given.setdefault("timeMajor", bool(m.rng.integers(2)))
    given.setdefault("cellClip", 0.5 * float(m.rng.integers(0, 3)))
    x = m.activation((steps, 1, inputs) if given["timeMajor"] else (1, steps, inputs))
    return [x], [lstm(m, x, inputs, steps, units, **given)]


def network(seed: int, path: Path, **given: Any) -> Path:
    """One or two of them, and at times a dense layer behind."""
    m = TfliteModel(seed)
    steps, inputs = (int(m.rng.integers(1, n)) for n in (6, 20))
    given.setdefault("timeMajor", bool(m.rng.integers(2)))
    given.setdefault("cellClip", float(m.rng.choice([0, 0.7, 3])))
    shape = (steps, 1, inputs) if given["timeMajor"] else (1, steps, inputs)
    first = x = m.activation(shape)
    for _ in range(int(m.rng.integers(1, 3))):
        units = int(m.rng.integers(1, 20))
        x = lstm(m, x, inputs, steps, units, **given)
        inputs = units
    return m.save(path, [first], [x])


@pytest.mark.parametrize("seed", seeds(200, 12))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    path = network(seed, tmp_path / "net.tflite")
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "30", "--seed", str(seed), "--on", target]) == 0


@pytest.mark.parametrize("seed", seeds(40, 6))
def test_random_networks_in_vectors(seed: int, tmp_path: Path) -> None:
    """Four units at a time, and the units, fours of taps and taps that are left."""
    path = network(seed, tmp_path / "net.tflite")
    assert main(["verify", str(path), "-n", "30", "--on", "qemu:m55"]) == 0


def test_both_directions(tmp_path: Path) -> None:
    """As Keras writes Bidirectional: the second one reads all rows in reverse, and so do others
    what it gives."""
    m = TfliteModel(1)
    axis = m.constant(np.array([1], np.int32))

    def reversed_rows(x: int, channels: int) -> int:
        return m.op("REVERSE_V2", [x, axis], m.like(x, (1, 6, channels)), "ReverseV2")

    x = m.activation((1, 6, 10))
    one, other = (lstm(m, rows, 10, 6, 8) for rows in (x, reversed_rows(x, 10)))
    other = m.op("QUANTIZE", [reversed_rows(other, 8)], m.like(one, (1, 6, 8)), "Quantize")
    out = m.like(one, (1, 6, 16))
    out = m.op("CONCATENATION", [one, other], out, "Concatenation", axis=2)
    path = m.save(tmp_path / "net.tflite", [x], [out])
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "50", "--on", target]) == 0


def test_a_thousand_calls(tmp_path: Path) -> None:
    path = network(1, tmp_path / "net.tflite")
    assert main(["verify", str(path), "-n", "1000", "--on", "host"]) == 0


def test_steps_share_their_weights(tmp_path: Path) -> None:
    sizes = []
    for steps in (1, 6):
        m = TfliteModel(3)
        x = m.activation((1, steps, 30))
        path = m.save(tmp_path / f"{steps}.tflite", [x], [lstm(m, x, 30, steps, 16)])
        assert main(["build", str(path), "-o", str(tmp_path)]) == 0
        sizes.append((tmp_path / f"model_{steps}.c").read_text().count("lstm_weights["))
    assert sizes == [1, 1]


@pytest.mark.parametrize("function", [logistic, tanh])
def test_functions_of_16_bits(function: Any) -> None:
    """Within two steps of the real one, and rising, over all that a gate can be."""
    x = np.arange(-32768, 32768)
    found = function(x, sigmoids())
    real = np.tanh(x / 4096) if function is tanh else 1 / (1 + np.exp(-x / 4096))
    assert np.abs(found - real * 32768).max() < 6 and (np.diff(found) >= 0).all()


REFUSED = [
    ({"also": {9: (5,)}}, "an LSTM with peepholes"),
    ({"also": {16: (5, 5)}}, "an LSTM with a projection"),
    ({"also": {20: (5,)}}, "an LSTM with layer normalisation"),
    ({"fusedActivationFunction": 1}, "the activation 1 of the cell"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        compile_model(network(3, tmp_path / "net.tflite", **given))


def test_its_state_takes_three_bytes_a_unit(tmp_path: Path) -> None:
    m = TfliteModel(5)
    x = m.activation((1, 1, 4))
    path = m.save(tmp_path / "net.tflite", [x], [lstm(m, x, 4, 1, 32)])
    plan = compile_model(path, CompileOptions(hop=1))
    assert [plan.placements[name].ring for name in plan.kept] == [3 * 32]
    assert plan.pool_bytes <= 3 * 32 + 32 + 4
