# SPDX-License-Identifier: Apache-2.0
"""Static evidence on the C: Frama-C finds planted faults, and MISRA deviations are published."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts import ROOT, script

branches = script("branches", "scripts/branches.py")
misra = script("misra", "scripts/misra.py")
stacks = script("stacks", "scripts/stacks.py")
PAGE = ROOT / "doc" / "static-evidence.md"
LISTED = misra.deviations(misra.LIST.read_text(encoding="utf-8"))
NEEDS_FRAMA_C = pytest.mark.skipif(not shutil.which("frama-c"), reason="needs frama-c")


def prove(tree: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / "frama_c.sh", name],
        env={**os.environ, "VMCU_ROOT": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


# Of each proof: a file, a line of it, one with a fault, and the file whose access is wrong then.
FAULTS = {
    "hello": (
        "include/vmcu/access.h",
        "pool->start + ((at < pool->size)",
        "pool->start + 2 + ((at < pool->size)",
        "any_input.c",
    ),
    "gesture": (
        "stream.c",
        "state_of(ctx), head.bytes)",
        "state_of(ctx), head.bytes + 1U)",
        "stream.c",
    ),
    "container": (
        "container/file.c",
        "i < VMCU_DIGEST_BYTES",
        "i <= VMCU_DIGEST_BYTES",
        "file.c",
    ),
}


# `./test static` has the proofs without a fault.
@NEEDS_FRAMA_C
@pytest.mark.parametrize("name", FAULTS)
def test_frama_c_sees_an_access_out_of_bounds(name: str, tmp_path: Path) -> None:
    file, sound, planted, wrong = FAULTS[name]
    shutil.copytree(ROOT / "lib" / "vmcu", tmp_path / "lib" / "vmcu")
    path = tmp_path / "lib" / "vmcu" / file
    text = path.read_text(encoding="utf-8")
    assert sound in text
    path.write_text(text.replace(sound, planted), encoding="utf-8")
    result = prove(tmp_path, name)
    assert result.returncode == 1, result.stdout
    assert re.search(rf"\[eva:alarm\] \S*{wrong}:.*\n.*(out of bounds|'valid_src')", result.stdout)


def test_each_deviation_is_published() -> None:
    block = PAGE.read_text(encoding="utf-8").split(misra.START)[1].split(misra.END)[0]
    rows = [line.split(" | ") for line in block.splitlines()[2:]]
    published = [(row[0], row[1], row[3]) for row in rows]
    listed = [
        (f"| {one.rule.removeprefix('misra-c2012-')}", f"`{one.files}`", f"{one.reason} |")
        for one in LISTED
    ]
    assert published == listed
    assert all(one.reason for one in LISTED)


def test_a_finding_needs_a_deviation_and_a_deviation_a_reason() -> None:
    listed = misra.deviations("// The file.\n\n// Why\n// so.\nrule-1\nrule-2:lib/a/*\n\nrule-3\n")
    assert [one.reason for one in listed] == ["Why so.", "Why so.", ""]
    lines = ["lib/b.c:1: rule-1: x", "lib/b.c:2: rule-2: x", "lib/a/c.c:3: rule-3: x"]
    findings = [misra.FINDING.match(line) for line in lines]
    assert misra.faults(listed, findings) == [
        "lib/b.c:2: rule-2: x",
        "rule-3: write the reason above it",
    ]
    assert "| rule-1 | `*` | 1 | Why so. |" in misra.table(listed, findings)


def test_stacks_are_those_of_the_page() -> None:
    block = PAGE.read_text(encoding="utf-8").split(stacks.START)[1].split(stacks.END)[0]
    rows = list(stacks.rows())
    assert "\n".join([*rows, ""]) == block, (
        "python scripts/stacks.py --write doc/static-evidence.md"
    )
    seen = [row.replace(",", "").split("|")[3:5] for row in rows[2:-1]]
    assert all(0.8 * int(elf) < int(measured) <= int(elf) for elf, measured in seen)


def test_each_branch_is_taken_or_has_a_reason() -> None:
    taken, missed = (
        branches.Line("a.c", text, runs) for text, runs in (("x", (1, 2)), ("y", (0, 3)))
    )
    key = ("a.c", "y")
    assert branches.faults([taken, missed], {key: (1, "why")}) == []
    for reasons in (
        {},
        {key: (2, "why")},
        {key: (1, "")},
        {key: (1, "why"), ("a.c", "x"): (1, "why")},
    ):
        assert len(branches.faults([taken, missed], reasons)) == 1
    # A line that is there no more.
    assert branches.faults([taken], {key: (1, "why")})
    for (file, _), (count, reason) in branches.argued().items():
        assert file in branches.FILES and count > 0 and reason.endswith(".")
    lines = [branches.Line("stage.c", "x", (1, 0, 2)), branches.Line("stage.c", "y", (5, 5))]
    assert "| `stage.c` | 5 | 4 | 1 |" in branches.table(lines)
