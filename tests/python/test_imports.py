# SPDX-License-Identifier: Apache-2.0
"""What a command does not import, for it is called often."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from vmcu_tools import paths

DIGITS = paths.root() / "samples" / "digits" / "digits.onnx"


def run(script: str, *arguments: str) -> str:
    """What a script prints, in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_build_imports_neither_pandas_nor_the_other_format(tmp_path: Path) -> None:
    script = """
import sys
from vmcu_tools.cli import main
assert main(["build", sys.argv[1], "--stream-input", "-o", sys.argv[2], "--quiet"]) == 0
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
    loaded = run(script, str(DIGITS), str(tmp_path / "out")).split()
    assert "numpy" in loaded
    assert not {"pandas", "tflite", "onnxruntime", "tflite_micro"} & set(loaded)
