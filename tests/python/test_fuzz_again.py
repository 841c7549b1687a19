# SPDX-License-Identifier: Apache-2.0
"""Networks at which tests/fuzz/pipeline.py has stopped once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PIPELINE = Path(__file__).resolve().parents[1] / "fuzz" / "pipeline.py"
# By number, of seed 0: what was wrong.
MENDED = {50: "descending rows stepped the address of a window that has none"}


@pytest.mark.parametrize("number", MENDED)
def test_networks_that_have_failed(number: int) -> None:
    pytest.importorskip("tflite_micro")
    words = ["--seed", "0", "--first", str(number), "--count", "1"]
    done = subprocess.run(
        [sys.executable, str(PIPELINE), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 networks" in done.stdout
