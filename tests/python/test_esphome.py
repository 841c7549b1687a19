# SPDX-License-Identifier: Apache-2.0
"""examples/esphome with ESPHome itself: its configuration, the sources that it generates, and these
compiled with ESPHome's own classes. `./test esphome` installs ESPHome and runs this."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from builders import wake_words
from test_wake_words import by_tflite_micro, detections, rows_of, sound_of, values_of

from scripts import ROOT

ENVIRONMENT = ROOT / "build" / "test" / "esphome"
EXAMPLE = ROOT / "examples" / "esphome"
# The configuration of ESPHome's own classes for this computer.
HOST = "esphome:\n  name: host\nhost:\n"
REPLACED = {"okay_nabu": "word0", "alexa": "word1", "95%": "40%"}
REPLACED[": components"] = f": {EXAMPLE}/components"
CORE = [f"esphome/core/{name}.cpp" for name in ("component", "log", "helpers", "application")]
OTHERS = ("microphone/microphone_source", "audio/audio")


def esphome(folder: Path, *words: str) -> str:
    """What a command of ESPHome prints."""
    program = Path(os.environ.get("VMCU_ESPHOME", ENVIRONMENT)) / "bin" / "esphome"
    if not program.is_file():
        pytest.skip(f"no ESPHome in {program.parent}; ./test esphome installs it")
    paths = {"PATH": f"{program.parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT / "python")}
    command, both = [program, *words], subprocess.STDOUT
    options = {"env": os.environ | paths, "stdout": subprocess.PIPE, "stderr": both, "text": True}
    return subprocess.run(command, cwd=folder, check=False, **options).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example beside models with random weights."""
    folder = tmp_path_factory.mktemp("esphome")
    text = (EXAMPLE / "wake_words.yaml").read_text()
    for name, other in REPLACED.items():
        text = text.replace(name, other)
    (folder / "wake_words.yaml").write_text(text)
    (folder / "host.yaml").write_text(HOST)
    wake_words.save(folder)
    return folder


@pytest.fixture(scope="module")
def sources(folder: Path) -> Path:
    """The sources that ESPHome generates."""
    said = esphome(folder, "compile", "--only-generate", "wake_words.yaml")
    assert "Successfully generated" in said, said
    return folder / ".esphome" / "build" / "wake-words" / "src"


def test_configurations(folder: Path) -> None:
    """One that is valid, and one that stops a word that is not there."""
    said = esphome(folder, "config", "wake_words.yaml")
    assert "Configuration is valid" in said and "probability_cutoff: 0.4" in said
    text = (folder / "wake_words.yaml").read_text().replace("name: wake-words", "name: wrong")
    (folder / "wrong.yaml").write_text(text.replace("word: 1", "word: 2"))
    said = esphome(folder, "compile", "--only-generate", "wrong.yaml")
    assert "vmcu_wake_word.stop: there is no word 2" in said


def test_actions_and_models_are_generated(sources: Path) -> None:
    main = (sources / "main.cpp").read_text()
    assert "_id->start();" in main and "wake_words_stop(1);" in main
    table = (sources / "vmcu" / "models" / "wake_words_models.c").read_text()
    assert '{"Word 1", &wake_word_1_model, 3520, 102, 7},' in table


def test_detections_are_those_of_tflite_micro(folder: Path, sources: Path) -> None:
    """With the values of the manifest, and with those that the configuration replaces."""
    said = esphome(folder, "compile", "--only-generate", "host.yaml")
    assert "Successfully generated" in said, said
    host, vmcu = folder / ".esphome" / "build" / "host" / "src", sources / "vmcu"
    includes = [vmcu / "models", vmcu / "examples/wake_words", vmcu / "lib/vmcu/include", host]
    includes += [sources, sources / "esphome/components/vmcu_wake_word"]
    flags = ["-DUSE_HOST", "-DVMCU_STREAMS", "-ffunction-sections", "-fdata-sections", "-g0"]
    flags += [f"-I{path}" for path in includes]
    objects = folder / "objects"
    objects.mkdir()
    subprocess.run(["gcc", "-O1", *flags, "-c", *vmcu.rglob("*.c")], cwd=objects, check=True)
    parts = [sources / "esphome" / "components" / f"{name}.cpp" for name in OTHERS]
    parts += [sources / "esphome/components/vmcu_wake_word/vmcu_wake_word.cpp"]
    parts += [Path(__file__).with_name("esphome_host.cpp"), *(host / name for name in CORE)]
    link = ["-Wl,--gc-sections", "-pthread", "-o", "program"]
    command = ["g++", "-std=gnu++20", *flags, *parts, *objects.glob("*.o"), *link]
    subprocess.run(command, cwd=folder, check=True)
    sound = sound_of(300)
    found = subprocess.check_output(folder / "program", input=sound.tobytes()).decode()
    rows, counts = rows_of(sound), []
    for word, values in enumerate([values_of(folder / "word0.json"), (0.4, 7)]):
        wanted = by_tflite_micro(folder / f"word{word}.json", rows)
        counts.append(len(detections(wanted, len(rows), *values)))
    assert [found.count(f"Word {word}\n") for word in (0, 1)] == counts
    assert all(counts) and sum(counts) == found.count("\n")
