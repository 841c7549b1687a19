# SPDX-License-Identifier: Apache-2.0
"""examples/nanogpt: a GPT in PyTorch, its step with caches, and the commands of its page."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from builders import scratch
from test_docs import ROOT
from test_docs_commands import BLOCKS
from vmcu_tools.cli import main

EXAMPLE = ROOT / "examples" / "nanogpt"
PAGE = ROOT / "doc" / "language-model.md"
# Enough for an int8 network that agrees with the float one.
STEPS = 250


@pytest.fixture
def gpt(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield importlib.import_module("gpt")
    sys.modules.pop("gpt", None)


def test_a_step_is_a_column_of_the_whole_text(gpt: ModuleType) -> None:
    """Word by word, the step has the logits of training; slots in front of the text do not count,
    whatever they have."""
    torch = importlib.import_module("torch")
    torch.manual_seed(1)
    net = gpt.GPT(gpt.Shape(words=11, block=6, layers=2, heads=2, width=8)).eval()
    words = torch.randint(11, (1, 6))
    wanted, step = net(words), gpt.Step(net)
    past = [torch.full((1, 2, 5, 4), 3.0)] * 4
    for place in range(6):
        logits, *past = step(words[:, place : place + 1], torch.tensor([[place]]), *past)
        np.testing.assert_allclose(
            logits[0, 0].detach().numpy(), wanted[0, place].detach().numpy(), atol=1e-5
        )


def test_the_commands_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those with the reader's network, with fewer steps of training."""
    folder = scratch.furnish(tmp_path)
    commands = [block for block in BLOCKS[PAGE] if "torch" in block.needs]
    scratch.skip_without(" ".join(block.needs for block in commands))
    for block in commands:
        few = block.script.replace("train_gpt.py", f"train_gpt.py --steps {STEPS}")
        scratch.execute(few, folder)
    assert "onnxruntime_story" in (folder / "story" / "words.h").read_text()
    assert main(["build", str(folder / "story" / "storyteller.onnx"), "-o", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The file has 6 states, which vmcu keeps in ring buffers" in said
    assert re.search("bytes of a row are 4 of 'input_ids', then 4 of 'position_ids'", said)
