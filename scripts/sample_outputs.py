#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the output that the README of each sample shows with what the sample prints.

python scripts/sample_outputs.py FOLDER...

FOLDER is an output folder of twister. The first indented block of a README that has no commands is
the output of the sample. handler.log must have its lines in this order; `...` stands for any text,
or any lines. Exits with 1 if a line is missing, or if a sample with shown output did not run. Those
that twister only builds need not run: tests run them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
# Blocks that begin so are commands, or lines of CMakeLists.txt.
NO_OUTPUT = ("west ", "vmcu_add_", "cmake ", "pip ")
# Colours and prompts of the shell, which prints a prompt whenever it is idle.
SHELL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|uart:~\$ ")


def shown_lines(page: str) -> list[str]:
    """Returns the lines of output that a README shows."""
    for block in re.findall(r"(?:^ {4}.*\n)+", page, re.MULTILINE):
        if not block.strip().startswith(NO_OUTPUT):
            return [line.strip() for line in block.splitlines()]
    return []


def missing_line(shown: Sequence[str], log: str) -> str | None:
    """Returns the first shown line that the log does not have behind those before it."""
    printed = (line.strip() for line in SHELL.sub("", log).splitlines())
    for line in shown:
        pattern = re.compile(".*".join(map(re.escape, line.split("..."))))
        if line != "..." and not any(map(pattern.fullmatch, printed)):
            return line
    return None


def is_only_built(scenarios: Path) -> bool:
    common = yaml.safe_load(scenarios.read_text(encoding="utf-8")).get("common", {})
    return bool(common.get("build_only"))


def problems(samples: Path, folders: Sequence[Path]) -> Iterator[str]:
    """Yields one message for each log that differs and each sample that did not run."""
    for page in sorted(samples.glob("*/README.md")):
        shown = shown_lines(page.read_text(encoding="utf-8"))
        scenario = f"sample.vmcu.{page.parent.name}"
        logs = [log for f in folders for log in sorted(f.rglob(f"{scenario}/handler.log"))]
        if shown and not logs and not is_only_built(page.with_name("sample.yaml")):
            yield f"{page}: {scenario} did not run in {', '.join(map(str, folders))}"
        for log in logs:
            line = missing_line(shown, log.read_text(encoding="utf-8", errors="replace"))
            if line is not None:
                yield f"{page}: the sample does not print '{line}'. hint: see {log}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--samples", type=Path, default=SAMPLES, help="default: %(default)s")
    args = parser.parse_args()
    found = list(problems(args.samples, args.folders))
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
