# SPDX-License-Identifier: Apache-2.0
"""HiGHS, by its Python package highspy, without its output."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def _nowhere() -> Iterator[None]:
    """Meanwhile the process's standard output, of C too, goes nowhere."""
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


@functools.cache
def quieten() -> None:
    """Makes HiGHS print now, to nowhere, the text that its first solver in a process prints in
    any case: standard output may be for JSON. Raises ImportError without highspy."""
    highs = importlib.import_module("highspy")
    # Where standard output is closed nothing can be said there.
    with contextlib.suppress(OSError), _nowhere():
        highs.Highs()
