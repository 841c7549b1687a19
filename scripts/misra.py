# SPDX-License-Identifier: Apache-2.0
"""Checks what cppcheck printed against the deviations of scripts/cppcheck-suppressions.txt.

python scripts/misra.py OUTPUT [--write FILE]

OUTPUT has lines `FILE:LINE: RULE: MESSAGE`. Exits 1 if a line is none of the list's deviations, or
a deviation has no reason. Prints the table of deviations: rule, count, reason; another version of
cppcheck counts others. --write puts it on a page.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("cppcheck-suppressions.txt")
START, END = "<!-- deviations -->\n", "<!-- end of deviations -->"
FINDING = re.compile(r"(?P<file>[^:\s]+):(?P<line>\d+): (?P<rule>[\w.-]+): ")


@dataclass(frozen=True)
class Deviation:
    """A rule that files, or all of them, need not follow."""

    rule: str
    files: str
    reason: str

    def covers(self, finding: re.Match[str]) -> bool:
        return self.rule == finding["rule"] and fnmatch.fnmatch(finding["file"], self.files)


def deviations(text: str) -> list[Deviation]:
    """The list's rules, each with the comment above it; that of the file ends at a blank line."""
    listed: list[Deviation] = []
    reason: list[str] = []
    fresh = True
    for line in text.partition("\n\n")[2].splitlines():
        if line.startswith("//"):
            reason = ([] if fresh else reason) + [line.removeprefix("//").strip()]
            fresh = False
        elif not line:
            reason, fresh = [], True
        else:
            rule, _, files = line.partition(":")
            listed.append(Deviation(rule, files or "*", " ".join(reason)))
            fresh = True
    return listed


def table(listed: Sequence[Deviation], findings: Sequence[re.Match[str]]) -> str:
    """One row a deviation; a finding that a header repeats counts once."""
    head = ["| Rule | Files | Deviations | Reason |", "| --- | --- | ---: | --- |"]
    rows = [
        f"| {one.rule.removeprefix('misra-c2012-')} | `{one.files}` "
        f"| {len({f[0] for f in findings if one.covers(f)})} | {one.reason} |"
        for one in listed
    ]
    return "\n".join([*head, *rows, ""])


def faults(listed: Sequence[Deviation], findings: Sequence[re.Match[str]]) -> list[str]:
    """Findings that are no deviation, and deviations without a reason."""
    return [
        *(f.string for f in findings if not any(one.covers(f) for one in listed)),
        *(f"{one.rule}: write the reason above it" for one in listed if not one.reason),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args()
    lines = options.output.read_text(encoding="utf-8").splitlines()
    findings = [found for line in lines if (found := FINDING.match(line))]
    listed = deviations(LIST.read_text(encoding="utf-8"))
    print(text := table(listed, findings))
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        before, after = page.split(START)[0], page.split(END)[1]
        options.write.write_text(f"{before}{START}{text}{END}{after}", encoding="utf-8")
    wrong = faults(listed, findings)
    print("\n".join(wrong), file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
