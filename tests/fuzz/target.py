# SPDX-License-Identifier: Apache-2.0
"""The same as run.py for atheris, which keeps what reaches new code:

    pip install atheris
    python tests/fuzz/target.py onnx [CORPUS...] [-max_total_time=600]

Inputs are damaged as run.py does it, then read. The seeds are files of every operator.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["vmcu_tools"]):
    import importers

import mutate
import numpy as np

LIMITS = ["-timeout=10", "-rss_limit_mb=2048"]
MOST_BYTES = 1 << 20


def main() -> None:
    kind = sys.argv.pop(1)
    assert kind in importers.KINDS, f"give one of {importers.KINDS} first"

    def damaged(data: bytes, most: int, seed: int) -> bytes:
        return mutate.damage(np.random.default_rng(seed), data, kind)[:most]

    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(importers.seeds(kind)):
            (Path(folder) / str(number)).write_bytes(data)
        words = [sys.argv[0], *LIMITS, f"-max_len={MOST_BYTES}", *sys.argv[1:], folder]
        atheris.Setup(words, lambda data: importers.read(data, kind), custom_mutator=damaged)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
