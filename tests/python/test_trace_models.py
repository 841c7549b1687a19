# SPDX-License-Identifier: Apache-2.0
"""Two models in two threads are told apart in a trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/trace_models.py"
KWS, VWW = 0x20000100, 0x20000200


def switched(at: float, thread: int, name: str = "worker") -> str:
    fields = f'thread_id = {thread}, name = "{name}"'
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
    assert kws[:7] == ["kws", "3", "worker", "1", "0", "8500.000", "8500.000"]
    assert kws[7:] == ["from", "layer", "5"]
    assert vww[:7] == ["vww", "0", "worker", "1", "1", "500.000", "500.000"]


def test_one_model_in_two_threads_of_one_name() -> None:
    first, second = (inference(at, "kws", KWS, 3) for at in (1, 2))
    end = named(4, "vmcu_end", KWS, 0)
    lines = [switched(1, 1), *first, switched(2, 2), *second, end, switched(4, 1), end]
    rows = [line.split() for line in printed(lines).stdout.splitlines()[1:]]
    assert [row[3:6] for row in rows] == [["1", "0", "3000.000"], ["1", "0", "2000.000"]]


def test_a_thread_without_a_name() -> None:
    lines = [switched(1, 7, "unknown"), *inference(1, "kws", KWS, 3), named(2, "vmcu_end", KWS, 0)]
    assert printed(lines).stdout.splitlines()[1].split()[2] == "7"


def test_a_trace_of_zephyr() -> None:
    """babeltrace2 2.0.4 wrote it for an image of Zephyr 4.1.99 on qemu_cortex_m3."""
    trace = Path(__file__).with_name("trace.txt").read_text()
    rows = [" ".join(line.split()) for line in printed([trace]).stdout.splitlines()[1:]]
    assert rows == [
        "digits 0 digits_thread 1 0 89.135 89.135 from layer 0",
        "hello 0 hello_thread 2 0 0.223 0.223 from layer 0",
    ]


def test_a_trace_without_models() -> None:
    done = printed([switched(1, 1), "no event"])
    assert done.returncode == 1
    assert "CONFIG_VMCU_TRACING" in done.stderr
