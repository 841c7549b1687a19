# SPDX-License-Identifier: Apache-2.0
"""samples/learn: that the committed files belong together, and the same output on all targets."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scripts import ROOT, script

LEARN = ROOT / "samples" / "learn"
TOOLS_MISSING = [p for p in ("qemu-system-arm", "arm-none-eabi-gcc") if shutil.which(p) is None]


def numbers(name: str) -> np.ndarray:
    """An array of examples.h, flat."""
    text = (LEARN / "src" / "examples.h").read_text()
    body = re.search(rf"\b{name}\[[^=]*= \{{(.*?)\}};", text, re.DOTALL)
    assert body is not None
    return np.array(re.findall(r"-?\d+", body[1]), np.int64)


def test_the_examples_are_what_the_script_makes() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("onnxruntime")
    made = runpy.run_path(str(LEARN / "train.py"))
    inputs, labels = made["images"]()
    chosen = made["examples"](labels)
    np.testing.assert_array_equal(numbers("example_labels"), labels[chosen])
    images = made["quantised"](LEARN / "learn.onnx", inputs[chosen])
    np.testing.assert_array_equal(numbers("examples"), images.ravel())
    assert (labels[chosen] == made["NEW"]).sum() == made["EXAMPLES"]


@pytest.mark.parametrize(
    "cpu", ["", pytest.param("cortex-m3", marks=pytest.mark.slow), "cortex-m7"]
)
def test_prints_what_the_sample_expects(cpu: str, tmp_path: Path) -> None:
    needed = ["cmake", "ninja", *(["arm-none-eabi-gcc", "qemu-system-arm"] if cpu else ["gcc"])]
    if missing := [tool for tool in needed if shutil.which(tool) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    python = f"-DPYTHON_EXECUTABLE={sys.executable}"
    for command in (
        ["-G", "Ninja", "-S", str(LEARN / "plain"), "-B", str(tmp_path), f"-DCPU={cpu}", python],
        ["--build", str(tmp_path)],
    ):
        subprocess.run(["cmake", *command], check=True, capture_output=True)
    run = ["cmake", "--build", str(tmp_path), "--target", "run"]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    expected = re.findall(r"^      - \"(.*)\"$", (LEARN / "sample.yaml").read_text(), re.M)
    lines = [line for line in done.stdout.splitlines() if re.match("before|learn|after", line)]
    assert lines == expected


@pytest.mark.skipif(bool(TOOLS_MISSING), reason=f"not installed: {', '.join(TOOLS_MISSING)}")
def test_the_page_has_the_cost_of_now() -> None:
    """The row of the sample, of benchmarks/heads."""
    heads = script("heads", "benchmarks/heads/run.py")
    found = heads.row(ROOT / "samples" / "learn" / "learn.onnx", heads.OWN["learn"])
    page = (ROOT / "doc" / "results.md").read_text(encoding="utf-8")
    line = f"| {' | '.join(found)} |"
    assert line in page, f"{heads.command('heads')} --write doc/results.md"
