# SPDX-License-Identifier: Apache-2.0
"""vmcu.torch without PyTorch."""

from __future__ import annotations

import subprocess
import sys


def test_the_message_names_the_package() -> None:
    script = "import sys; sys.modules['torch'] = None; import vmcu; import vmcu.torch"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    last = run.stderr.strip().splitlines()[-1]
    hint = "pip install torch, or in a checkout pip install '.[torch]'"
    assert last == f"ImportError: vmcu.torch needs PyTorch. hint: {hint}"
