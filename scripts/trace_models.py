#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what each model did in a CTF trace of Zephyr 4.0 or later: CONFIG_VMCU_TRACING.

babeltrace2 FOLDER | python scripts/trace_models.py

A line for each model, version and thread: inferences, those that failed, milliseconds, and the
layers of the stage that took most. Times include other threads that ran in between. FOLDER has the
trace and the file `metadata` of subsys/tracing/ctf/tsdl of the tree that the image was built with.
babeltrace2 reports an error at the zeros that follow the last event of CONFIG_TRACING_BACKEND_RAM.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

EVENT = re.compile(r"^\[(?:(\d+):(\d+):)?(\d+\.\d+)\].*? (\w+): .*?\{ (.*) \}\s*$")
NAMED = re.compile(r'name = "([^"]*)".*arg0 = (\w+), arg1 = (\w+)')
SWITCHED = re.compile(r'thread_id = (\w+)(?:, name = "([^"]*)")?')


@dataclass
class Runs:
    """Inferences of a model in one thread; times in seconds. stages: by first layer."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0
    stages: dict[int, float] = field(default_factory=lambda: defaultdict(float))


class Thread(NamedTuple):
    """A thread of the trace. Threads can share a name, and Zephyr names the others `unknown`."""

    name: str
    number: str

    @property
    def label(self) -> str:
        return self.number if self.name in ("", "unknown") else self.name


Key = tuple[str, int, Thread]


def events(lines: Iterable[str]) -> Iterator[tuple[float, Thread, str, int, int]]:
    """Yields seconds, thread, name and both values of each named event."""
    thread = Thread("", "?")
    for line in lines:
        found = EVENT.match(line)
        if not found:
            continue
        hours, minutes, seconds, kind, fields = found.groups()
        if kind == "thread_switched_in" and (switched := SWITCHED.search(fields)):
            thread = Thread(switched[2] or "", switched[1])
        elif kind == "named_event" and (named := NAMED.search(fields)):
            at = 3600 * int(hours or 0) + 60 * int(minutes or 0) + float(seconds)
            yield at, thread, named[1], int(named[2], 0), int(named[3], 0)


def runs_of(lines: Iterable[str]) -> dict[Key, Runs]:
    """What each model did, by its name, its version and the thread. Inferences that the trace has
    not whole are left out."""
    names: dict[int, tuple[str, int]] = {}
    began: dict[tuple[int, Thread, str], float] = {}
    found: dict[Key, Runs] = defaultdict(Runs)
    for at, thread, name, model, value in events(lines):
        if not name.startswith("vmcu_"):
            names[model] = name, value
            continue
        edge, what = ("begin", name[:-5]) if name.endswith("begin") else ("end", name[:-3])
        place = model, thread, what
        if edge == "begin":
            began[place] = at
        elif model in names and place in began:
            runs, took = found[(*names[model], thread)], at - began.pop(place)
            if what == "vmcu_stage_":
                runs.stages[value] += took
            elif value == 0:
                runs.seconds.append(took)
            else:
                runs.failed += 1
    return dict(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    found = runs_of(sys.stdin)
    if not found:
        print("error: no inference in this trace. hint: set CONFIG_VMCU_TRACING=y", file=sys.stderr)
        return 1
    print(
        "model                version  thread                runs  failed  mean ms   most ms"
        "  slowest stage"
    )
    for (name, version, thread), runs in sorted(found.items()):
        count, most = len(runs.seconds), max(runs.seconds, default=0.0)
        mean = sum(runs.seconds) / count if count else 0.0
        layer = max(runs.stages, key=runs.stages.__getitem__, default=0)
        print(
            f"{name:20} {version:7}  {thread.label:20} {count:5}  {runs.failed:6} {1e3 * mean:8.3f}"
            f" {1e3 * most:9.3f}  from layer {layer}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
