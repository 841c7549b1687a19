# SPDX-License-Identifier: Apache-2.0
"""examples/wake_words and examples/esp-idf: six wake words at once, beside TensorFlow Lite Micro.

VMCU_WAKE_WORDS names a folder of microWakeWord's models, which are tested as well."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from builders import wake_words
from builders.sounds import sounds
from test_audio import of_tflite_micro
from vmcu_bench import runners

from scripts import ROOT, script

Factory = pytest.TempPathFactory
EXAMPLES = ROOT / "examples"
MOST_RAM = 32 * 1024
# Of ESPHome's micro_wake_word.
QUIET_ROWS, ROWS_PER_CALL = 100, 3
CALLS, CHANGES = 1000, 10_000
# The rows of features of the test of changes: they repeat, and so do a start's answers.
PERIOD, LONGEST = 12, 90
MISSING = [p for p in ("qemu-system-arm", "arm-none-eabi-gcc") if shutil.which(p) is None]


@pytest.fixture(scope="module", params=["own", "real"])
def manifests(request: pytest.FixtureRequest, tmp_path_factory: Factory) -> list[Path]:
    if request.param == "own":
        return wake_words.save(tmp_path_factory.mktemp("models"))
    if (folder := os.environ.get("VMCU_WAKE_WORDS")) is None:
        pytest.skip("VMCU_WAKE_WORDS does not name a folder of microWakeWord's models")
    found = [p for p in sorted(Path(folder).rglob("*.json")) if '"version": 2' in p.read_text()]
    return found[:6]


@pytest.fixture(scope="module")
def program(manifests: list[Path], tmp_path_factory: Factory) -> Path:
    """tests/python/wake_words.c with the models, under sanitizers."""
    folder = tmp_path_factory.mktemp("program")
    generator = script("wake_words", "examples/wake_words/wake_words.py")
    written = generator.generate([generator.WakeWord(path) for path in manifests], folder)
    board = runners.get("host:sanitize")
    board = replace(board, flags=(*board.flags, "-DVMCU_STREAMS"))
    sources = [*written, *(ROOT / "lib" / "vmcu" / "audio").glob("*.c")]
    sources += [EXAMPLES / "wake_words" / "wake_words.c", EXAMPLES / "esp-idf" / "main" / "main.c"]
    sources.append(Path(__file__).with_name("wake_words.c"))
    headers = (folder, EXAMPLES / "wake_words", EXAMPLES / "esp-idf" / "main", ROOT / "tests" / "c")
    flags = [*(f"-I{path}" for path in headers), "-Wall", "-Wextra", "-Werror"]
    files = [str(path) for path in [*sources, board.archive(sources)]]
    board.gcc([*flags, *files, "-o", str(folder / "program")], folder)
    return folder / "program"


def output_of(program: Path, kind: str, data: np.ndarray) -> bytes:
    path = program.with_name(kind)
    path.write_bytes(data.tobytes())
    return subprocess.run([program, kind, path], check=True, capture_output=True).stdout


def answers_of(program: Path, kind: str, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the words (n, 6), and whether they were detected (n, 6)."""
    found = np.frombuffer(output_of(program, kind, data), np.uint8).reshape(-1, 7)
    return found[:, :6], (found[:, 6:] >> np.arange(6) & 1).astype(bool)


def by_tflite_micro(manifest: Path, rows: np.ndarray) -> np.ndarray:
    """A word's probabilities, from a new interpreter, which keeps the variables between calls."""
    micro = pytest.importorskip("tflite_micro", reason="tflite-micro is not installed").runtime
    model = (manifest.parent / json.loads(manifest.read_text())["model"]).read_bytes()
    interpreter = micro.Interpreter.from_bytes(model, arena_size=200_000)
    found = []
    for row in range(0, len(rows) - ROWS_PER_CALL + 1, ROWS_PER_CALL):
        interpreter.set_input(rows[None, row : row + ROWS_PER_CALL], 0)
        interpreter.invoke()
        found.append(interpreter.get_output(0)[0, 0])
    return np.array(found, np.uint8)


def held(probabilities: np.ndarray) -> np.ndarray:
    """The probability after each row of one start."""
    return np.concatenate([[0] * (ROWS_PER_CALL - 1), np.repeat(probabilities, ROWS_PER_CALL)])


def values_of(manifest: Path) -> tuple[float, int]:
    """Cutoff and window of a manifest."""
    micro = json.loads(manifest.read_text())["micro"]
    return micro["probability_cutoff"], micro["sliding_window_size"]


def detections(probabilities: np.ndarray, rows: int, share: float, window: int) -> list[int]:
    """Rows in which ESPHome's micro_wake_word detects a word that starts with the first."""
    cutoff = int(share * 255)
    latest, ignored, is_new, found = [0] * window, -QUIET_ROWS, False, []
    for row in range(rows):
        if row % ROWS_PER_CALL == ROWS_PER_CALL - 1:
            latest, is_new = [*latest[1:], int(probabilities[row // ROWS_PER_CALL])], True
        if latest[-1] < cutoff:
            ignored = min(ignored + 1, 0)
        if is_new and ignored == 0:
            is_new = False
            if sum(latest) > cutoff * window:
                found.append(row)
                latest, ignored = [0] * window, -QUIET_ROWS
    return found


def rows_of(samples: np.ndarray) -> np.ndarray:
    """Rows of features as ESPHome scales them."""
    features = of_tflite_micro(samples).astype(int)
    return np.clip((features * 256 + 333) // 666 - 128, -128, 127).astype(np.int8)


def sound_of(calls: int) -> np.ndarray:
    """20 ms more than the rows of so many calls."""
    made = sounds(10)
    pieces = [made[name] for name in ("speech", "noise", "sweep", "clipping")]
    return np.concatenate(pieces)[: (calls * ROWS_PER_CALL + 2) * 160]


def test_a_thousand_calls_of_six_words(program: Path, manifests: list[Path]) -> None:
    """Probabilities from samples on, and detections, in each row of features; app_main() prints
    them."""
    sound = sound_of(CALLS)
    rows = rows_of(sound)
    # The first row needs three blocks.
    found, detected = (values[2:] for values in answers_of(program, "sound", sound))
    assert len(rows) == len(found) == CALLS * ROWS_PER_CALL
    for word, manifest in enumerate(manifests):
        wanted = by_tflite_micro(manifest, rows)
        expected = detections(wanted, len(rows), *values_of(manifest))
        assert np.flatnonzero(detected[:, word]).tolist() == expected
        np.testing.assert_array_equal(found[:, word], held(wanted)[: len(rows)])
        assert manifest.stem != f"word{word}" or len(np.unique(wanted)) > 50
    assert manifests[0].stem != "word0" or np.count_nonzero(detected) > 20
    *lines, last = output_of(program, "main", sound).decode().splitlines()
    printed = [line.partition(", ")[0] for line in lines]
    names = [json.loads(path.read_text())["wake_word"] for path in manifests]
    assert printed == [f"{10 * (n + 3)} ms: {names[word]}" for n, word in np.argwhere(detected)]
    assert last == "stopped: -1"


def test_ten_thousand_starts_and_stops(program: Path, manifests: list[Path]) -> None:
    """The answers of each start are those of a new interpreter, and memory is never allocated."""
    rng = np.random.default_rng(5)
    period = rng.integers(-128, 128, (PERIOD, 40)).astype(np.int8)
    count = 3 * CHANGES
    changes = np.zeros(count, np.int8)
    at = np.sort(rng.choice(count, CHANGES, replace=False))
    changes[at] = rng.integers(1, 7, CHANGES) * rng.choice([-1, 1], CHANGES)
    rows = np.resize(period, (count, 40))
    found, _ = answers_of(program, "rows", np.concatenate([changes[:, None], rows], 1))
    for word, manifest in enumerate(manifests):
        own = np.flatnonzero(abs(changes) == word + 1)
        stretches = [(a, b) for a, b in pairwise([*own, count]) if changes[a] > 0]
        phases = [np.resize(np.roll(rows[:PERIOD], -p, 0), (LONGEST, 40)) for p in range(PERIOD)]
        wanted = [held(by_tflite_micro(manifest, one)) for one in phases]
        for first, end in stretches:
            size = min(end - first, LONGEST)
            expected = wanted[first % PERIOD][:size]
            np.testing.assert_array_equal(found[first : first + size, word], expected)
        assert len(stretches) > CHANGES / 15


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_ram(manifests: list[Path]) -> None:
    """The page has the row of the models with random weights."""
    benchmark = script("wake_words_ram", "benchmarks/wake_words/run.py")
    found = benchmark.row("six of random weights", manifests)
    assert int(found.split("|")[-2].replace(",", "")) <= MOST_RAM
    page = (EXAMPLES / "esp-idf" / "README.md").read_text().splitlines()
    assert found in page or manifests[0].stem != "word0", "python benchmarks/wake_words/run.py"
