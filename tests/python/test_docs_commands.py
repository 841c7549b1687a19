# SPDX-License-Identifier: Apache-2.0
"""Every command on a page runs, in the page's order and in a folder of its own, or the page says in
a comment above it why not:

<!-- not run: needs a board -->     never
<!-- needs: qemu-system-arm -->     where that program, Python package or path is here
<!-- slow -->                       with the marker `slow`

A block ```text right behind it has lines that the commands print, and ... for others.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders import scratch
from test_docs import PAGES, ROOT

# How a line begins that is for a shell: a program of ours, or one that our pages call.
PROGRAMS = "vmcu|west|pip|python|pytest|cmake|ninja|make|clang|gcc|git|openssl|mcumgr|gh|apt-get"
COMMAND = re.compile(
    rf"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:(?:\.venv/bin/)?(?:{PROGRAMS})(?: |$)|\./\w|build/\S)", re.M
)
SHELLS = ("sh", "bash", "shell", "console")
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
# Lines that are indented behind an empty one.
INDENTED = re.compile(r"(?<=\n\n)(?:(?: {4}[^\n]*)?\n)*(?: {4}[^\n]*\n)", re.M)
PRINTED = re.compile(r"\s*^```text\n(.*?)^```$", re.M | re.S)
COMMENT = re.compile(r"<!-- (not run|needs|slow)(?:: ([^\n]*?))? -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """Commands of a page, with the number of their line, what the page says of them, and the lines
    that it shows as their output."""

    line: int
    script: str
    why_not: str
    needs: str
    slow: bool
    printed: list[str]


def blocks(text: str) -> list[Block]:
    """Those of a page that are for a shell."""
    # As long, so that what is in a fence is not taken for what is indented.
    hidden = FENCE.sub(lambda fence: re.sub(r"[^\n]", "-", fence[0]), text)
    found = [(m, m[2]) for m in FENCE.finditer(text) if m[1].strip() in SHELLS]
    found += [
        (m, script)
        for m in INDENTED.finditer(hidden)
        if COMMAND.search(script := textwrap.dedent(m[0]))
    ]
    listed = []
    for match, script in sorted(found, key=lambda one: one[0].start()):
        said, before = {}, text[: match.start()].rstrip()
        while comment := COMMENT.search(before):
            said[comment[1]] = comment[2] or ""
            before = before[: comment.start()].rstrip()
        line = text.count("\n", 0, match.start()) + 1
        output = PRINTED.match(text, match.end())
        printed = [one for one in output[1].splitlines() if one != "..."] if output else []
        why_not, needs = said.get("not run", ""), said.get("needs", "")
        listed.append(Block(line, script, why_not, needs, "slow" in said, printed))
    return listed


BLOCKS = {page: blocks(page.read_text(encoding="utf-8")) for page in PAGES}


def named(pages: list[Path]) -> dict:
    return {"argvalues": pages, "ids": [str(page.relative_to(ROOT)) for page in pages]}


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scratch.furnish(tmp_path_factory.mktemp("furnished"))


@pytest.fixture
def folder(furnished: Path, tmp_path: Path) -> Path:
    """A folder of its own for each page."""
    return scratch.copy(furnished, tmp_path / "reader")


def run(page: Path, folder: Path, slow: bool) -> None:
    """The blocks of a page."""
    lacking = []
    for block in BLOCKS[page]:
        if block.why_not or (block.slow and not slow):
            continue
        if need := scratch.missing(block.needs):
            lacking.append(f"line {block.line} needs {need}")
            continue
        output = scratch.execute(block.script, folder)
        assert [line for line in block.printed if line not in output] == [], output
    if lacking:
        pytest.skip(f"{page.name}: {', '.join(lacking)}")


@pytest.mark.parametrize(
    "page",
    **named([p for p in PAGES if any(not (b.why_not or b.slow) for b in BLOCKS[p])]),
)
def test_commands_run(page: Path, folder: Path) -> None:
    run(page, folder, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", **named([p for p in PAGES if any(b.slow and not b.why_not for b in BLOCKS[p])])
)
def test_slow_commands_run(page: Path, folder: Path) -> None:
    run(page, folder, slow=True)


def test_what_is_not_run_says_why() -> None:
    reasons = [b.why_not for found in BLOCKS.values() for b in found if b.why_not]
    assert all(len(reason.split()) > 2 for reason in reasons), reasons
    assert sum(not b.why_not for found in BLOCKS.values() for b in found) > 30


def test_blocks_are_found() -> None:
    text = (
        "a\n\n    vmcu build x\n    vmcu_add\n\nb\n\n    prints this\n\n<!-- slow -->\n"
        "<!-- needs: gcc -->\n\n    FOO=1 python y\n\n```text\nz\n...\n```\n\nc\n\n"
        "```python\n\n    vmcu z\n```\n"
        "<!-- not run: it is no command -->\n\n```sh\necho\n```\n"
    )
    found = blocks(text)
    assert [b.script.split()[0] for b in found] == ["vmcu", "FOO=1", "echo"]
    assert [(b.slow, b.needs, b.why_not) for b in found] == [
        (False, "", ""),
        (True, "gcc", ""),
        (False, "", "it is no command"),
    ]
    assert [(b.line, b.printed) for b in found] == [(3, []), (13, ["z"]), (28, [])]


def test_a_command_that_fails_is_found(folder: Path) -> None:
    assert "bytes, the pool" in scratch.execute("vmcu build MODEL", folder)
    with pytest.raises(AssertionError, match="no such file"):
        scratch.execute("vmcu build none.onnx | cat\ntrue", folder)
