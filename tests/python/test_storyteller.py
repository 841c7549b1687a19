# SPDX-License-Identifier: Apache-2.0
"""samples/storyteller: that what is committed belongs together, and that its training is right."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from vmcu_tools import paths
from vmcu_tools.cli import main

SAMPLE = paths.root() / "samples" / "storyteller"
# A network with distances of words (ALiBi) and one with learned positions.
FOLDERS = {"distance": SAMPLE, "position": SAMPLE / "position"}
FOLDER = pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
POSITIONS = pytest.mark.parametrize("position", [False, True], ids=FOLDERS)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    pytest.importorskip("onnxruntime")
    # Other samples and benchmarks have scripts of these names, too.
    names = [path.stem for path in SAMPLE.glob("*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(SAMPLE))
    yield importlib.import_module("train")
    for name in names:
        sys.modules.pop(name, None)


def numbers(folder: Path, name: str) -> list[int]:
    """An array of words.h."""
    text = (folder / "words.h").read_text()
    body = re.search(rf"\b{name}\[\] = \{{(.*?)\}};", text, re.DOTALL)
    assert body is not None
    return [int(n) for n in re.findall(r"\d+", body[1])]


@FOLDER
def test_the_story_is_onnx_runtimes(folder: Path, script: ModuleType, tmp_path: Path) -> None:
    words = script.vocabulary()
    prompt, end = numbers(folder, "prompt"), words.index(script.END)
    assert [words[n] for n in prompt] == script.PROMPT
    told = script.told(folder / "storyteller.onnx", prompt, end)
    assert told == numbers(folder, "onnxruntime_story") and told[-1] == end
    script.write_words(tmp_path / "words.h", words, prompt, told)
    assert (tmp_path / "words.h").read_text() == (folder / "words.h").read_text()


@FOLDER
def test_a_step_keeps_its_caches(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row is a word and, in one network, its position. No cache is copied."""
    model = str(folder / "storyteller.onnx")
    assert main(["build", model, "--name", "m", "-o", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The file has 6 states, which vmcu keeps in ring buffers" in said
    fields = re.findall(r"FIELD\d_FIRST (\d)", (tmp_path / "m.h").read_text())
    assert fields == (["0", "4"] if folder.name == "position" else [])


def shape_of(words: int, position: bool) -> Any:
    """A small network."""
    network = importlib.import_module("network")
    sizes = {"layers": 2, "heads": 4, "key_heads": 2, "depth": 4, "feed": 10}
    return network.Shape(words=words, tokens=8, position=position, **sizes)


@POSITIONS
def test_the_exported_step_is_what_was_trained(
    position: bool, script: ModuleType, tmp_path: Path
) -> None:
    """Token by token, the file's logits are those of the network; without positions, beyond the
    cache, too."""
    onnx = importlib.import_module("onnx")
    network = importlib.import_module("network")
    shape, count = shape_of(160, position), 8 if position else 20
    weights = network.initial(shape, np.random.default_rng(1))
    onnx.save(script.step_model(shape, weights), tmp_path / "step.onnx")
    words = np.random.default_rng(2).integers(0, 160, (1, count + 1))
    trained = network.Network(shape, weights, count)
    loss = trained.loss(words[:, :-1], words[:, 1:])
    step, losses = script.Step(tmp_path / "step.onnx"), []
    for word, following in zip(words[0], words[0, 1:], strict=False):
        logits = step(int(word)).astype(np.float64)
        losses.append(np.log(np.exp(logits).sum()) - logits[following])
    assert loss == pytest.approx(np.mean(losses), abs=1e-4)


@POSITIONS
def test_gradients(position: bool, script: ModuleType) -> None:
    """Each is the slope of the loss along a random direction."""
    network = importlib.import_module("network")
    shape, count = shape_of(30, position), 7 if position else 12
    rng = np.random.default_rng(1)
    weights = network.initial(shape, rng)
    weights = {name: array.astype(np.float64) for name, array in weights.items()}
    words = rng.integers(0, 30, (3, count + 1))
    trained = network.Network(shape, weights, count)

    def loss() -> float:
        return trained.loss(words[:, :-1], words[:, 1:])

    loss()
    slopes = dict(trained.slopes)
    for name, array in weights.items():
        way = rng.normal(size=array.shape)
        array += 1e-4 * way
        above = loss()
        array -= 2e-4 * way
        slope = (above - loss()) / 2e-4
        array += 1e-4 * way
        assert slope == pytest.approx(float((slopes[name] * way).sum()), rel=1e-3, abs=1e-4), name
