# SPDX-License-Identifier: Apache-2.0
"""int16 and int32 elements at the ends of int8 networks, beside TensorFlow Lite Micro."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders.tflite_models import TfliteModel
from builders.tflite_wide import CASES, quantised, softmax
from drawn import seeds
from test_svdf import svdf
from tflite_micro import runtime
from vmcu_tools.cli import main
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load


@pytest.mark.parametrize("target", ["virtual", "host"])
@pytest.mark.parametrize("case", CASES)
def test_ends(case: str, target: str, tmp_path: Path) -> None:
    m = TfliteModel(len(case))
    path = m.save(tmp_path / "m.tflite", *CASES[case](m))
    assert main(["verify", str(path), "-n", "20", "--on", target]) == 0


def spotter(seed: int, path: Path) -> Path:
    """As TensorFlow Lite Micro's keyword_scrambled_8bit.tflite: its state in SVDF, features int16
    and results int32."""
    m = TfliteModel(seed)
    width, units, rank, memory = (int(m.rng.integers(2, n)) for n in (20, 14, 4, 13))
    x = m.activation((1, width), zero_point=0, dtype=np.int16)
    y = svdf(m, quantised(m, x, np.int8), width, units, rank, memory)
    return m.save(path, [x], [quantised(m, softmax(m, y), np.int32)])


@pytest.mark.parametrize("seed", seeds(40, 4))
def test_beside_a_state(seed: int, tmp_path: Path) -> None:
    path = spotter(seed, tmp_path / "m.tflite")
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "60", "--on", target]) == 0


def ran(path: Path, values: np.ndarray) -> list[np.ndarray]:
    np.save(path.with_name("x.npy"), values)
    ends = [path.with_name(f"y{n}.npy") for n in range(3)]
    words = [word for end in ends for word in ("--output", str(end))]
    assert main(["run", str(path), "--input", str(path.with_name("x.npy")), *words]) == 0
    return [np.load(end) for end in ends]


def test_elements_and_real_values(tmp_path: Path) -> None:
    """What `vmcu run` reads and writes: int16 as it is, and real values as the file has them."""
    m = TfliteModel(1)
    path = m.save(tmp_path / "m.tflite", *CASES["int16 and int32 ends"](m))
    (port,) = load(path).inputs
    steps = np.random.default_rng(0).integers(-(1 << 15), 1 << 15, port.file_shape)
    given = steps.astype(np.int16)
    interpreter = runtime.Interpreter.from_file(str(path))
    interpreter.set_input(given, 0)
    interpreter.invoke()
    wanted = [interpreter.get_output(n) for n in range(3)]
    assert [one.dtype for one in wanted] == [np.int32, np.int16, np.int8]
    scale = np.float64(load(path).tensors[port.tensor].scale)
    for values in (given, steps * scale):
        for found, one in zip(ran(path, values), wanted, strict=True):
            np.testing.assert_array_equal(found, one)
            assert found.dtype == one.dtype


def test_the_header_describes_them(tmp_path: Path) -> None:
    m = TfliteModel(2)
    x = m.activation((1, 5), 0.5, 0, np.int16)
    y = quantised(m, x, np.int8)
    path = m.save(tmp_path / "m.tflite", [x], [softmax(m, y), quantised(m, y, np.int32), y])
    assert main(["build", str(path), "-o", str(tmp_path)]) == 0
    text = (tmp_path / "m.h").read_text()
    for line in (
        "/* int16_t: each element q is 2 channels here, and can be unaligned. Copy with memcpy. */",
        "#define VMCU_MODEL_M_INPUT0_CHANNELS 10\n#define VMCU_MODEL_M_INPUT0_SCALE 0.5f\n",
        "#define VMCU_MODEL_M_OUTPUT0_ZERO_POINT (-32768)\n\n/* int32_t: each element q is 4",
    ):
        assert line in text
    assert text.count("each element") == 3


def other_zero(m: TfliteModel) -> tuple[int, int]:
    x = m.activation((1, 4), zero_point=5, dtype=np.int16)
    return x, quantised(m, x, np.int8)


def other_softmax(m: TfliteModel) -> tuple[int, int]:
    x = m.activation((1, 4))
    return x, softmax(m, x, 2.0**-15, 0)


def from_int32(m: TfliteModel) -> tuple[int, int]:
    x = m.activation((1, 4), zero_point=0, dtype=np.int32)
    return x, quantised(m, x, np.int8)


def in_the_middle(m: TfliteModel) -> tuple[int, int]:
    x, out = m.activation((1, 4)), m.activation((1, 4), 0.1, 0, np.int16)
    return x, quantised(m, m.op("RELU", [quantised(m, x, np.int16)], out), np.int8)


def far_too_large(m: TfliteModel) -> tuple[int, int]:
    x = m.activation((1, 4), 1.0, 0, np.int16)
    return x, m.op("QUANTIZE", [x], m.activation((1, 4), 1e-6))


REFUSED = {
    "int16 with the zero point 5": other_zero,
    "scale 1/65536 and zero point -32768": other_softmax,
    "int32, not int8": from_int32,
    "int16, not int8": in_the_middle,
    "a ratio of its scales": far_too_large,
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_refused(said: str, tmp_path: Path) -> None:
    m = TfliteModel(3)
    x, y = REFUSED[said](m)
    with pytest.raises(UserError, match=said):
        load(m.save(tmp_path / "m.tflite", [x], [y]))
