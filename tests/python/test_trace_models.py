# SPDX-License-Identifier: Apache-2.0
"""Two models in two threads are told apart in a trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/trace_models.py"
KWS, VWW = 0x20000100, 0x20000200


def switched(at: float, thread: int) -> str:
    fields = f'thread_id = {thread:#x}, name = "t{thread}"'
    return f"[00:00:{at:012.9f}] (+0.000001000) thread_switched_in: {{ {fields} }}"


def named(at: float, name: str, model: int, value: int) -> str:
    fields = f'name = "{name}", arg0 = {model}, arg1 = {value}'
    return f"[00:00:{at:012.9f}] (+0.000001000) named_event: {{ {fields} }}"


def inference(begin: float, name: str, model: int, version: int) -> list[str]:
    return [
        named(begin, name, model, version),
        named(begin, "vmcu_begin", model, 2),
        named(begin, "vmcu_stage_begin", model, 0),
    ]


# kws is interrupted by vww, whose second inference fails.
LINES = [
    switched(0.5, 1),
    *inference(1, "kws", KWS, 3),
    switched(2, 2),
    *inference(2, "vww", VWW, 0),
    named(2.25, "vmcu_stage_end", VWW, 0),
    named(2.5, "vmcu_end", VWW, 0),
    *inference(3, "vww", VWW, 0),
    named(3.5, "vmcu_end", VWW, 2**32 - 14),
    switched(4, 1),
    named(4, "vmcu_stage_end", KWS, 0),
    named(4, "vmcu_stage_begin", KWS, 5),
    named(9, "vmcu_stage_end", KWS, 5),
    named(9.5, "vmcu_end", KWS, 0),
    named(10, "vmcu_begin", KWS, 2),
]


def printed(lines: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT)]
    return subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=False
    )


def test_two_models_in_two_threads() -> None:
    done = printed(LINES)
    assert done.returncode == 0
    kws, vww = (line.split() for line in done.stdout.splitlines()[1:])
    assert kws[:7] == ["kws", "3", "0x1", "1", "0", "8500.000", "8500.000"]
    assert kws[7:] == ["from", "layer", "5"]
    assert vww[:7] == ["vww", "0", "0x2", "1", "1", "500.000", "500.000"]


def test_a_trace_without_models() -> None:
    done = printed([switched(1, 1), "no event"])
    assert done.returncode == 1
    assert "CONFIG_VMCU_TRACING" in done.stderr
