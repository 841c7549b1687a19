# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while the constraint solver searches: it ends the search, and is never lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")
# Squares of sides 1 to 24 fill one of side 70: nobody finds that soon, or that it cannot be.
HARD = """
import signal, sys
from pathlib import Path
from ortools.sat.python import cp_model
from vmcu_tools.planner.places.cpsat import new_solver, solved

def hard(count, side):
    model, xs, ys = cp_model.CpModel(), [], []
    for size in range(1, count + 1):
        for where in (xs, ys):
            begin = model.new_int_var(0, side - size, "")
            where.append(model.new_fixed_size_interval_var(begin, size, ""))
    model.add_no_overlap_2d(xs, ys)
    return model

signal.signal(signal.SIGINT, signal.default_int_handler)
assert solved(new_solver(1.0), hard(3, 5))
assert not solved(new_solver(0.1), hard(24, 70))
caught = next(l for l in Path("/proc/self/status").read_text().splitlines() if "SigCgt" in l)
print(int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1, flush=True)
try:
    solved(new_solver(1e4), hard(24, 70))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(not STATUS.exists(), reason="no /proc tells which signals are caught")
def test_an_interrupt_ends_a_search_and_is_one() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HARD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "1\n", "a search has taken the handler away"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=100)
    finally:
        process.kill()
    assert (said, errors, process.returncode) == ("interrupted\n", "", 0)
