# SPDX-License-Identifier: Apache-2.0
"""The front end in C against its meaning in numpy, and that against TensorFlow Lite Micro's."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import re
import shutil
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from builders.sounds import RATE, sounds
from vmcu_tools import cli
from vmcu_tools.audio import tables_c
from vmcu_tools.audio.front_end import FrontEnd, spectrum
from vmcu_tools.audio.recording import samples_of
from vmcu_tools.audio.settings import Settings
from vmcu_tools.audio.tables import GAIN_INTERVALS, _log1p, tables_of
from vmcu_tools.errors import UserError

from scripts import ROOT, script

RUNTIME = ROOT / "lib" / "vmcu"
STRICT = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
PIECES = (7, 160, 481, 1000, 1)


def of_tflite_micro(samples: np.ndarray) -> np.ndarray:
    """Rows of features of PyPI's build of the micro frontend."""
    module = pytest.importorskip("pymicro_features", reason="pymicro-features is not installed")
    front_end, data, rows, at = module.MicroFrontend(), samples.astype("<i2").tobytes(), [], 0
    while at + 320 <= len(data):
        found = front_end.process_samples(data[at : at + 320])
        at += 2 * found.samples_read
        if found.features:
            rows.append(np.rint(np.array(found.features) * 25.6))
    return np.array(rows).astype(np.uint16)


def usual_logarithm() -> bool:
    """Whether this machine's C library has the logarithm that the front end has."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    library.log1pf.restype, library.log1pf.argtypes = ctypes.c_float, [ctypes.c_float]
    x = (np.arange(1, 257, dtype=np.float32) * np.float32(31.25)) / np.float32(700)
    return bool((_log1p(x) == np.array([library.log1pf(float(v)) for v in x], np.float32)).all())


@pytest.mark.parametrize("kind", sounds(1))
def test_the_meaning_is_that_of_tflite_micro(kind: str) -> None:
    if not usual_logarithm():
        pytest.skip("the C library rounds log1pf otherwise, and pymicro-features with it")
    # From one sample later on, all windows are others.
    for late in (0, 1):
        samples = sounds(4)[kind][late:]
        found, expected = FrontEnd().process(samples), of_tflite_micro(samples)
        assert len(expected) > 300
        np.testing.assert_array_equal(found[: len(expected)], expected)


def test_pieces_of_any_length_give_the_same_rows() -> None:
    samples = sounds(2)["speech"]
    whole, front_end, rows, at = FrontEnd().process(samples), FrontEnd(), [], 0
    while at < len(samples):
        size = PIECES[len(rows) % len(PIECES)]
        rows.append(front_end.process(samples[at : at + size]))
        at += size
    np.testing.assert_array_equal(np.concatenate(rows), whole)
    front_end.reset()
    np.testing.assert_array_equal(front_end.process(samples), whole)


HARNESS = """
#include <stdio.h>
#include <stdlib.h>
#include "front_end.h"
int main(void)
{
	uint32_t *state = malloc(FRONT_END_STATE_BYTES), *work = malloc(FRONT_END_WORK_BYTES);
	uint16_t features[FRONT_END_CHANNELS];
	int16_t samples[1000];
	struct vmcu_audio_context ctx;
	size_t count, taken;
	if (vmcu_audio_init(&ctx, &front_end, state, FRONT_END_STATE_BYTES, work,
			FRONT_END_WORK_BYTES) != 0) {
		return 1;
	}
	while ((count = fread(samples, 2, 1 + (size_t)rand() % 1000, stdin)) > 0) {
		for (const int16_t *at = samples; count > 0; at += taken, count -= taken) {
			int more = vmcu_audio_push(&ctx, at, count, &taken, features);
			if (more < 0) {
				return 2;
			}
			if (more > 0) {
				fwrite(features, 2, FRONT_END_CHANNELS, stdout);
			}
		}
	}
	free(state);
	free(work);
	return 0;
}
"""

OTHERS = {
    "usual": Settings(),
    "8 kHz, 25 ms": Settings(sample_rate=8000, window_ms=25, channels=20, upper_hz=3800),
    "long": Settings(window_ms=60, hop_ms=20, channels=64, smoothing_bits=12),
    "no gain": Settings(pcan=False, log_shift=8),
    "no logarithm": Settings(log=False, even_smoothing=0.1, least_signal=0.3),
    "tiny": Settings(sample_rate=4000, window_ms=8, hop_ms=8, channels=5, upper_hz=1700),
    "windows apart by one": Settings(sample_rate=1000, window_ms=100, hop_ms=1, upper_hz=400),
}


STAGES = """
#include <stdio.h>
#include "channels.c"
#include "transform.c"
#include "front_end.h"
int main(int argc, char **argv)
{
	struct vmcu_complex in[2048], x[2049];
	uint64_t square;
	(void)argv;
	while (argc == 1 && fread(&square, 8, 1, stdin) == 1) {
		uint32_t root = square >> 32 == 0U ? root_32((uint32_t)square) : root_64(square);
		fwrite(&root, 4, 1, stdout);
	}
	while (argc == 2 && fread(in, 4, front_end.points, stdin) == front_end.points) {
		for (uint32_t n = 0; n < front_end.points; n++) {
			x[n] = in[front_end.places[n]];
		}
		vmcu_audio_transform(&front_end, x);
		fwrite(x, 4, front_end.points + 1U, stdout);
	}
	return 0;
}
"""


def compiled(settings: Settings, folder: Path, main: str = HARNESS) -> Path:
    for name, text in tables_c.files(settings, "front_end", "vmcu audio").items():
        (folder / name).write_text(text)
    (folder / "main.c").write_text(main)
    library = sorted((RUNTIME / "audio").glob("*.c")) if main == HARNESS else []
    sources = [folder / "main.c", folder / "front_end.c", *library]
    subprocess.run(
        [
            *("gcc", *STRICT, *SANITIZED, f"-I{RUNTIME / 'include'}", *map(str, sources)),
            f"-I{RUNTIME / 'audio'}",
            *("-o", str(folder / "run")),
        ],
        check=True,
    )
    return folder / "run"


@pytest.mark.parametrize("name", OTHERS)
def test_c_gives_the_same(name: str, tmp_path: Path) -> None:
    settings = OTHERS[name]
    run = compiled(settings, tmp_path)
    for kind, samples in sounds(2).items():
        samples = samples[: max(settings.window, settings.sample_rate)]
        out = subprocess.run(run, input=samples.tobytes(), capture_output=True, check=True).stdout
        found = np.frombuffer(out, np.uint16).reshape(-1, settings.channels)
        np.testing.assert_array_equal(found, FrontEnd(settings).process(samples), err_msg=kind)


def test_roots_are_the_nearest(tmp_path: Path) -> None:
    run = compiled(Settings(), tmp_path, STAGES)
    roots = [*range(300), *(2**n + d for n in range(9, 32) for d in (-2, -1, 0, 1))]
    near = [r * r + d for r in roots for d in (-r, 1 - r, -1, 0, 1, r, r + 1)]
    squares = [x for x in [*near, 2**32 - 1, 2**32, 2**64 - 1] if 0 <= x < 2**64]
    out = subprocess.run(
        run, input=np.array(squares, np.uint64).tobytes(), capture_output=True, check=True
    )
    # Never more than 16 bits of what has 32, and 32 of what has 64.
    expected = [
        min((math.isqrt(4 * x) + 1) // 2, 2 ** (16 if x < 2**32 else 32) - 1) for x in squares
    ]
    np.testing.assert_array_equal(np.frombuffer(out.stdout, np.uint32), expected)


@pytest.mark.parametrize("window_ms", [1, 2, 4, 8])
def test_transforms_wrap_alike(window_ms: int, tmp_path: Path) -> None:
    settings = Settings(window_ms=window_ms, hop_ms=1, channels=4)
    run = compiled(settings, tmp_path, STAGES)
    values = np.array([-32768, -32767, -1, 0, 32767], np.int16)
    inputs = np.random.default_rng(3).choice(values, (4000, settings.transform))
    inputs[:2] = [[-32768], [32767]]
    inputs[2, 0::2], inputs[2, 1::2] = -32768, 32767
    out = subprocess.run([run, "all"], input=inputs.tobytes(), capture_output=True, check=True)
    found = np.frombuffer(out.stdout, np.int16).reshape(len(inputs), -1, 2)
    expected = spectrum(inputs, settings.transform, tables_of(settings))
    np.testing.assert_array_equal(found, expected)


def test_gains_meet_the_formula_where_parabolas_begin_and_end() -> None:
    """And in their middles, up to the largest noise of 32 bits."""
    settings, tables = Settings(), tables_of(Settings())
    gains, found = tables.gain.astype(int), {}
    for bits in range(2, GAIN_INTERVALS + 1):
        first, slope, bend = gains[3 * bits - 4 :][:3]
        low = 1 << (bits - 1)
        found |= {low: first, low * 3 // 2: first + slope / 2 + bend / 4}
        found |= {2 * low - (bits == GAIN_INTERVALS): first + slope + bend}
    assert max(found) == (1 << 32) - 1
    steps = 1 << (settings.smoothing_bits - tables.correction)
    for noise, gain in (*enumerate(gains[:2]), *found.items()):
        base = noise / steps + settings.pcan_offset
        exact = (1 << settings.pcan_gain_bits) * base**-settings.pcan_strength
        assert abs(gain - min(exact, 32767)) <= 1, noise


def test_bytes_of_all_features(tmp_path: Path) -> None:
    sources = [str(path) for path in sorted((RUNTIME / "audio").glob("*.c"))]
    target = tmp_path / "audio.so"
    include = f"-I{RUNTIME / 'include'}"
    subprocess.run(["gcc", "-shared", "-fPIC", include, *sources, "-o", target], check=True)
    features = np.arange(1 << 16, dtype=np.uint16)
    found = np.zeros(len(features), np.int8)
    count = ctypes.c_size_t(len(features))
    data, bytes_of = (ctypes.c_void_p(array.ctypes.data) for array in (features, found))
    ctypes.CDLL(str(target)).vmcu_audio_bytes(data, count, bytes_of)
    nearest = np.floor(features.astype(float) * 256 / 666 + 0.5)
    np.testing.assert_array_equal(found, np.minimum(nearest, 255) - 128)


def test_what_is_wrong_is_said() -> None:
    for wrong in (
        {"window_ms": 0},
        {"hop_ms": 31},
        {"lower_hz": 8000.0, "upper_hz": 7000.0},
        {"upper_hz": 8000.0},
        {"smoothing_bits": 40},
        {"pcan_offset": 0.0},
        {"pcan_offset": math.inf},
        {"pcan_offset": math.nan},
        {"pcan_strength": math.nan},
        {"pcan_strength": math.inf},
        {"pcan_strength": -0.1},
        {"lower_hz": math.nan},
        {"upper_hz": math.inf},
        {"even_smoothing": math.nan},
        {"least_signal": math.nan},
    ):
        with pytest.raises(UserError, match="audio: "):
            Settings(**wrong)


def recording(path: Path, data: bytes, channels: int = 1, width: int = 2, rate: int = RATE) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    return path


def test_a_recording_is_its_samples(tmp_path: Path) -> None:
    samples = np.array([-32768, -1, 0, 1, 258, 32767], "<i2")
    path = recording(tmp_path / "a.wav", samples.tobytes())
    np.testing.assert_array_equal(samples_of(path, RATE), samples)
    # As far as there are whole ones in a file that was cut off.
    data = path.read_bytes()
    for missing in range(1, 6):
        path.write_bytes(data[:-missing])
        np.testing.assert_array_equal(samples_of(path, RATE), samples[: 6 - -(-missing // 2)])


OTHER_FORMS = [{"channels": 2}, {"width": 1}, {"width": 4}, {"rate": RATE + 1}]


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_a_recording_of_another_form_is_refused(form: dict[str, int], tmp_path: Path) -> None:
    """Its form is told as it is."""
    path = recording(tmp_path / "a.wav", bytes(16), **form)
    with pytest.raises(UserError) as caught:
        samples_of(path, RATE)
    said = str(caught.value)
    for number in (form.get("channels", 1), 8 * form.get("width", 2), form.get("rate", RATE)):
        assert re.search(rf"\b{number}\b", said.replace(str(path), ""))
    path.write_bytes(b"RIFF")
    with pytest.raises(UserError):
        samples_of(path, RATE)


def test_the_command_writes_tables_and_features(tmp_path: Path, capsys) -> None:
    assert cli.main(["audio", "-o", str(tmp_path), "--name", "ears", "--set", "log_shift=7"]) == 0
    assert "--set log_shift=7" in (tmp_path / "ears.c").read_text()
    samples = sounds(1)["speech"]
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    assert cli.main(["audio", "--wav", str(tmp_path / "a.wav"), "-o", str(tmp_path)]) == 0
    found = np.load(tmp_path / "front_end.npy")
    np.testing.assert_array_equal(found, FrontEnd().process(samples))
    capsys.readouterr()
    wrong = ["audio", "--wav", str(tmp_path / "a.wav"), "--set", "sample_rate=8000", "--set"]
    assert cli.main([*wrong, "upper_hz=3800", "-o", str(tmp_path)]) == 1
    assert "16 bits at 8000 Hz" in capsys.readouterr().err
    assert cli.main(["audio", "--wav", str(tmp_path / "ears.c"), "-o", str(tmp_path)]) == 1


def test_the_page_has_the_figures() -> None:
    if not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")):
        pytest.skip("no Arm compiler or QEMU")
    run = script("audio", "benchmarks/audio/run.py")
    page = ROOT / "doc" / "audio.md"
    text, name = page.read_text(encoding="utf-8"), "front-end"
    block = run.TABLES[name]().markdown(run.command(name))
    again = f"{run.command(name)} --write doc/audio.md"
    assert sys.modules["pages"].insert(text, name, block) == text, again
