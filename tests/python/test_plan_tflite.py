# SPDX-License-Identifier: Apache-2.0
"""Memory plans in .tflite files: what TensorFlow Lite Micro makes of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from builders.networks import network_file
from builders.tflite_models import TfliteModel
from vmcu_lab import offline
from vmcu_lab.planners import plan_of
from vmcu_tools.cli import main
from vmcu_tools.frontends import load
from vmcu_tools.frontends.tflite.offline import offsets_of

# Name, the recorded head before, and after.
HEADS = [
    ("mlperf-tiny-vww", 73_728, 55_296),
    ("mlperf-tiny-kws", 16_000, 16_000),
    ("mlperf-tiny-resnet8", 49_152, 49_152),
    ("mcunet-vww-5fps", 161_472, 161_472),
]


def test_no_seconds_are_not_the_usual_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(offline, "plan", lambda path, seconds: asked.append(seconds) or found)
    found = offline.OfflinePlan((0,), (0,), 16, 16)
    monkeypatch.setattr(offline, "written", lambda path, plan: b"")
    for words in (("--seconds", "0"), ()):
        call = ["place", str(tmp_path / "m.tflite"), "--output", str(tmp_path / "o.tflite")]
        assert main([*call, *words]) == 0
    assert asked == [0, 20]


def recorded_head(path: Path, printed: pytest.CaptureFixture[str]) -> int:
    """What TensorFlow Lite Micro's recording allocator says of a model."""
    runtime = pytest.importorskip("tflite_micro").runtime
    recording = runtime.InterpreterConfig.kAllocationRecording
    interpreter = runtime.Interpreter.from_file(
        str(path), arena_size=1 << 22, intrepreter_config=recording
    )
    printed.readouterr()
    interpreter.print_allocations()
    found = re.search(r"Arena allocation head (\d+) bytes", "".join(printed.readouterr()))
    assert found, "the recorder's words have changed"
    return int(found[1])


def outputs(path: Path, count: int) -> list[np.ndarray]:
    """What TensorFlow Lite Micro answers to random inputs."""
    runtime = pytest.importorskip("tflite_micro").runtime
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=1 << 21)
    dice, found = np.random.default_rng(0), []
    details = interpreter.get_input_details(0)
    for _ in range(count):
        values = dice.integers(-128, 128, details["shape"]).astype(details["dtype"])
        interpreter.set_input(values, 0)
        interpreter.invoke()
        found.append(interpreter.get_output(0))
    return found


@pytest.mark.parametrize(("name", "before", "after"), HEADS)
def test_the_recorded_head_falls_and_outputs_stay(
    name: str, before: int, after: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, out = network_file(name), tmp_path / "planned.tflite"
    pytest.importorskip("tflite_micro")
    assert main(["place", str(path), "--output", str(out)]) == 0
    assert f"{after:,} bytes" in capfd.readouterr().out
    assert recorded_head(path, capfd) == before and recorded_head(out, capfd) == after
    for one, other in zip(outputs(path, 2), outputs(out, 2), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_plan_is_honoured_where_the_file_is_read(tmp_path: Path) -> None:
    path, out = network_file("mlperf-tiny-vww"), tmp_path / "planned.tflite"
    pytest.importorskip("tflite_micro")
    assert main(["place", str(path), "--output", str(out)]) == 0
    assert offsets_of(path) == {} and set(offsets_of(out)) >= set(load(out).tensors)
    assert plan_of("tflm", path).pool_bytes == 73_728
    planned = plan_of("tflm", out)
    assert planned.pool_bytes == 55_296
    assert {p.tensor: p.base for p in planned.placements.values()} == {
        name: offset for name, offset in offsets_of(out).items() if name in planned.placements
    }
    # A second plan takes the first one's place.
    again = tmp_path / "again.tflite"
    assert main(["place", str(out), "--output", str(again)]) == 0
    assert offsets_of(again) == offsets_of(out)


def branches(path: Path) -> Path:
    """Three branches that widen, and only then narrow again, in the file's order."""
    m = TfliteModel()
    x = m.activation((1, 16, 16, 4))
    wide, narrow = [], []
    for _ in range(3):
        y = m.like(x, (1, 16, 16, 20))
        wide.append(m.op("CONCATENATION", [x] * 5, y, "Concatenation", axis=3))
    for one in wide:
        y, size = m.like(x, (1, 4, 4, 20)), dict.fromkeys(("filterHeight", "filterWidth"), 4)
        narrow.append(m.op("MAX_POOL_2D", [one], y, "Pool2D", strideH=4, strideW=4, **size))
    y = m.like(x, (1, 4, 4, 60))
    m.op("CONCATENATION", narrow, y, "Concatenation", axis=3)
    return m.save(path, [x], [y])


def test_operators_run_in_a_better_order(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tflite_micro")
    path, out = branches(tmp_path / "in.tflite"), tmp_path / "out.tflite"
    assert main(["place", str(path), "--output", str(out)]) == 0
    assert "operators in another order" in capfd.readouterr().out
    # Input and one wide tensor beside two narrow ones, not three wide ones.
    assert recorded_head(path, capfd) == 16 * 16 * (4 + 3 * 20)
    assert recorded_head(out, capfd) == 16 * 16 * (4 + 20) + 2 * 4 * 4 * 20
    for one, other in zip(outputs(path, 3), outputs(out, 3), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_file_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.tflite").write_bytes(b"nothing")
    words = ["place", str(tmp_path / "x.tflite"), "--output", str(tmp_path / "y.tflite")]
    assert main(words) == 1
    assert "not a TensorFlow Lite file" in capsys.readouterr().err
    assert not (tmp_path / "y.tflite").exists()
