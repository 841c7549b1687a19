# SPDX-License-Identifier: Apache-2.0
"""samples/storyteller: that what is committed belongs together, and that its training is right."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from vmcu_tools import paths

SAMPLE = paths.root() / "samples" / "storyteller"


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


def numbers(name: str) -> list[int]:
    """An array of words.h."""
    text = (SAMPLE / "src" / "words.h").read_text()
    body = re.search(rf"\b{name}\[\] = \{{(.*?)\}};", text, re.DOTALL)
    assert body is not None
    return [int(n) for n in re.findall(r"\d+", body[1])]


def test_the_story_is_onnx_runtimes(script: ModuleType) -> None:
    words = script.vocabulary()
    prompt, end = numbers("prompt"), words.index(script.END)
    assert [words[n] for n in prompt] == script.PROMPT
    told = script.told(SAMPLE / "storyteller.onnx", prompt, end)
    assert told == numbers("onnxruntime_story") and told[-1] == end


def test_the_exported_step_is_what_was_trained(script: ModuleType, tmp_path: Path) -> None:
    """Token by token, beyond the cache, the file's logits are those of the network."""
    onnx = importlib.import_module("onnx")
    network = importlib.import_module("network")
    shape = network.Shape(words=160, tokens=8, layers=2, heads=4, key_heads=2, depth=4, feed=10)
    weights = network.initial(shape, np.random.default_rng(1))
    onnx.save(script.step_model(shape, weights), tmp_path / "step.onnx")
    words = np.random.default_rng(2).integers(0, 160, (1, 21))
    trained = network.Network(shape, weights, 20)
    loss = trained.loss(words[:, :-1], words[:, 1:])
    step, losses = script.Step(tmp_path / "step.onnx"), []
    for word, following in zip(words[0], words[0, 1:], strict=False):
        logits = step(int(word)).astype(np.float64)
        losses.append(np.log(np.exp(logits).sum()) - logits[following])
    assert loss == pytest.approx(np.mean(losses), abs=1e-4)


def test_gradients(script: ModuleType) -> None:
    """Each is the slope of the loss along a random direction."""
    network = importlib.import_module("network")
    shape = network.Shape(words=30, tokens=8, layers=2, heads=4, key_heads=2, depth=4, feed=10)
    rng = np.random.default_rng(1)
    weights = network.initial(shape, rng)
    weights = {name: array.astype(np.float64) for name, array in weights.items()}
    words = rng.integers(0, 30, (3, 13))
    trained = network.Network(shape, weights, 12)

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
