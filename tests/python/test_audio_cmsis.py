# SPDX-License-Identifier: Apache-2.0
"""The front end with a transform of CMSIS-DSP: a stand-in with its interface, which divides by as
much and rounds once, and the library itself where the environment names a copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from builders.sounds import sounds
from test_audio import HARNESS, RUNTIME, STRICT
from vmcu_tools.audio import tables_c
from vmcu_tools.audio.front_end import FrontEnd
from vmcu_tools.audio.settings import Settings

from scripts import ROOT, script

TABLES = ("cmsis-dsp", "cmsis-dsp-features")
COPY = os.environ.get("VMCU_CMSIS_DSP", "")
needs_a_copy = pytest.mark.skipif(not COPY, reason="VMCU_CMSIS_DSP names no copy of CMSIS-DSP")
needs_cmake = pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("ninja") and shutil.which("gcc")),
    reason="needs cmake, ninja and gcc",
)

DECLARED = """
#include <stdint.h>
typedef int16_t q15_t;
typedef struct { uint16_t fftLen; } arm_cfft_instance_q15;
void arm_cfft_q15(const arm_cfft_instance_q15 *S, q15_t *p1, uint8_t ifftFlag, uint8_t reversed);
"""
CONSTANTS = """
#include "dsp/transform_functions.h"
extern const arm_cfft_instance_q15 arm_cfft_sR_q15_len256, arm_cfft_sR_q15_len16;
"""
STAND_IN = """
#include <math.h>
#include <string.h>
#include "arm_const_structs.h"
const arm_cfft_instance_q15 arm_cfft_sR_q15_len256 = {256}, arm_cfft_sR_q15_len16 = {16};
void arm_cfft_q15(const arm_cfft_instance_q15 *S, q15_t *x, uint8_t inverse, uint8_t reversed)
{
	q15_t out[2 * 256];
	int points = S->fftLen;
	for (int k = 0; k < points; k++) {
		double re = 0, im = 0;
		for (int n = 0; n < points; n++) {
			double turn = (inverse ? 2 : -2) * acos(-1) * (k * n % points) / points;
			re += x[2 * n] * cos(turn) - x[2 * n + 1] * sin(turn);
			im += x[2 * n] * sin(turn) + x[2 * n + 1] * cos(turn);
		}
		out[2 * k] = (q15_t)lrint(re / points);
		out[2 * k + 1] = (q15_t)lrint(im / points);
	}
	memcpy(x, out, reversed ? sizeof(q15_t) * 2 * points : 0);
}
"""
LIBRARY = "add_library(CMSISDSP STATIC stand_in.c)\ntarget_link_libraries(CMSISDSP PUBLIC m)\n"
LIBRARY += "target_include_directories(CMSISDSP PUBLIC .)\n"


def project(folder: Path, library: str, options: str = "") -> subprocess.CompletedProcess[str]:
    """Configures a plain project with the switch on."""
    (folder / "main.c").write_text(HARNESS)
    (folder / "stand_in.c").write_text(STAND_IN)
    (folder / "dsp").mkdir(exist_ok=True)
    (folder / "dsp/transform_functions.h").write_text(DECLARED)
    (folder / "arm_const_structs.h").write_text(CONSTANTS)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20.0)\nproject(app LANGUAGES C)\n"
        f"{library}include({ROOT}/cmake/vmcu.cmake)\nadd_executable(app main.c)\n"
        f"vmcu_add_audio(app NAME front_end ARGS {options})\n"
    )
    words = ["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build"]
    words += [f"-DPython3_EXECUTABLE={sys.executable}", "-DVMCU_AUDIO_CMSIS_DSP=ON"]
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)


def heard(folder: Path, library: str, settings: Settings, options: str = "") -> dict[str, float]:
    """How far features are from the front end's, on average, by sound."""
    done = project(folder, library, options)
    assert done.returncode == 0, done.stdout + done.stderr
    words = ["cmake", "--build", str(folder / "build"), "--target", "app"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for kind, samples in sounds(1).items():
        run = [folder / "build/app"]
        out = subprocess.run(run, input=samples.tobytes(), capture_output=True, check=True).stdout
        rows = np.frombuffer(out, np.uint16).reshape(-1, settings.channels).astype(np.int64)
        wanted = FrontEnd(settings).process(samples)
        assert rows.shape == wanted.shape
        found[kind] = float(np.abs(rows - wanted).mean())
    return found


@needs_cmake
def test_any_transform_of_that_interface(tmp_path: Path) -> None:
    off = heard(tmp_path, LIBRARY, Settings())
    assert off["silence"] == 0 and max(off["speech"], off["noise"], off["clicks"]) < 1
    assert any(off.values())


@needs_cmake
def test_the_smallest_that_there_is(tmp_path: Path) -> None:
    settings = Settings(sample_rate=4000, window_ms=8, hop_ms=8, channels=5, upper_hz=1700)
    words = " ".join(
        f"--set {name}={value}"
        for name, value in vars(settings).items()
        if value != vars(Settings())[name]
    )
    off = heard(tmp_path, LIBRARY, settings, words)
    assert off["silence"] == 0 and off["speech"] < 5


@needs_cmake
def test_without_the_library(tmp_path: Path) -> None:
    done = project(tmp_path, "")
    said = " ".join(done.stderr.split())
    assert done.returncode != 0 and "needs CMSIS-DSP's target CMSISDSP" in said


@needs_cmake
@needs_a_copy
def test_the_library_itself(tmp_path: Path) -> None:
    library = "set(HOST ON)\nset(CMSISDSP_INSTALL OFF)\n"
    library += f"add_subdirectory({COPY}/Source cmsis-dsp EXCLUDE_FROM_ALL)\n"
    off = heard(tmp_path, library, Settings())
    assert off["silence"] == 0 and max(off["speech"], off["noise"], off["clicks"]) < 1
    assert off["noise"] > 0


def test_what_it_has_no_size_for(tmp_path: Path) -> None:
    settings = Settings(sample_rate=1000, window_ms=16, hop_ms=8, channels=2, upper_hz=400)
    for name, text in tables_c.files(settings, "ears", "vmcu audio").items():
        (tmp_path / name).write_text(text)
    words = ["gcc", *STRICT, f"-I{RUNTIME / 'include'}", "-fsyntax-only", tmp_path / "ears.c"]
    assert subprocess.run(words, check=False).returncode == 0
    words.append(f"-D{tables_c.SWITCH}")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "CMSIS-DSP has no transform of 8 points: leave out VMCU_AUDIO_CMSIS_DSP" in done.stderr


@needs_a_copy
@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_figures(name: str) -> None:
    if not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")):
        pytest.skip("no Arm compiler or QEMU")
    run = script("audio", "benchmarks/audio/run.py")
    text = (ROOT / "doc" / "audio.md").read_text(encoding="utf-8")
    block = run.TABLES[name]().markdown(run.command(name))
    again = f"{run.command(name)} --write doc/audio.md"
    assert sys.modules["pages"].insert(text, name, block) == text, again
