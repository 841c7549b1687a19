# SPDX-License-Identifier: Apache-2.0
"""Two workers in C: in any interleaving the bytes of one worker, and no access races."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from builders.teams import random_plan
from drawn import seeds
from vmcu_bench import runners
from vmcu_bench.runners.base import RunnerError
from vmcu_bench.runners.host import HostRunner
from vmcu_tools import paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit, write
from vmcu_tools.machine import workers
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.workers import Wait
from vmcu_tools.planner.options import CompileOptions

SOURCE = Path(__file__).with_name("workers_threads.c")
SAMPLES = paths.root() / "samples"
SHARED = ("digits", "gesture", "keyword", "learn", "wake_word")
THREADS = ("-pthread", f"-I{paths.runtime()}")
RACES = ("-fsanitize=thread", "-O1", "-g1")
# Inferences with the sanitizer for data races, and without.
CHECKED, FAST = 20, 100


def host(*flags: str) -> HostRunner:
    found = runners.get("host")
    assert isinstance(found, HostRunner)
    return replace(found, flags=(*THREADS, *flags))


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> HostRunner:
    """The target that looks for data races, which do not start on every kernel."""
    target, folder = host(*RACES), tmp_path_factory.mktemp("races")
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    try:
        target.gcc(["main.c", "-o", "program"], folder)
    except RunnerError:
        pytest.skip("gcc has no -fsanitize=thread here")
    if subprocess.run([folder / "program"], capture_output=True, check=False).returncode:
        pytest.skip("programs with -fsanitize=thread do not start on this kernel")
    return target


def interleavings(plan: Plan, target: HostRunner, folder: Path, *arguments: object) -> list[str]:
    """Runs inferences of two workers; a word for each, which tells interleavings apart."""
    files = emit(plan, "net").all_files
    write(files, folder)
    sources = [SOURCE, *(folder / name for name in files if name.endswith(".c"))]
    program = folder / "program"
    parts = map(str, (*sources, target.archive(sources)))
    target.gcc([f"-I{folder}", *parts, *target.link_flags(), "-lm", "-o", str(program)], folder)
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:] or "the bytes differ"
    return done.stdout.split()


def of_sample(name: str) -> Plan:
    plan = compile_model(SAMPLES / name / f"{name}.onnx", CompileOptions(workers=2))
    assert plan.team is not None and (plan.team.count(1) > 0) == (name in SHARED)
    return plan


def expect_the_same_bytes(plan: Plan, folder: Path, seed: int) -> None:
    assert len(interleavings(plan, host(), folder, "turns", 3, seed)) == 3
    assert len(interleavings(plan, host(), folder, "threads", FAST, seed)) == FAST


@pytest.mark.parametrize("name", SHARED)
def test_models_of_samples(name: str, tmp_path: Path) -> None:
    expect_the_same_bytes(of_sample(name), tmp_path, 1)


# The second worker has no tasks in hello.
@pytest.mark.parametrize("name", (*SHARED, "hello"))
def test_models_of_samples_without_races(name: str, tmp_path: Path, sanitized: HostRunner) -> None:
    interleavings(of_sample(name), sanitized, tmp_path, "threads", CHECKED, 1)


@pytest.mark.parametrize("seed", seeds(200, 8))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    expect_the_same_bytes(random_plan(seed), tmp_path, seed)


@pytest.mark.parametrize("seed", seeds(200, 3))
def test_random_networks_without_races(seed: int, tmp_path: Path, sanitized: HostRunner) -> None:
    interleavings(random_plan(seed), sanitized, tmp_path, "threads", CHECKED, seed)


def test_a_removed_wait_is_a_race(
    tmp_path: Path, sanitized: HostRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = of_sample("digits")
    assert plan.team is not None
    waits = [
        (worker, at)
        for worker, entries in enumerate(plan.team.entries)
        for at, entry in enumerate(entries)
        if isinstance(entry, Wait)
    ]
    worker, at = waits[0]
    lists = [list(entries) for entries in plan.team.entries]
    del lists[worker][at]
    team = replace(plan.team, entries=tuple(map(tuple, lists)))
    monkeypatch.setattr(workers, "prove", lambda *_: None)
    with pytest.raises(AssertionError, match="data race"):
        interleavings(replace(plan, team=team), sanitized, tmp_path, "threads", CHECKED, 1)
