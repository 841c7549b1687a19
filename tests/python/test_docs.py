# SPDX-License-Identifier: Apache-2.0
"""The documentation points at what is there, and quotes messages that exist."""

from __future__ import annotations

import functools
import re
import runpy
import subprocess
from pathlib import Path

import pytest
from builders import scratch
from vmcu_tools.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("doc/*.md")),
    *sorted(ROOT.glob("samples/*/*.md")),
]
TROUBLES = ROOT / "doc" / "troubleshooting.md"
SOURCES = [
    *(ROOT / "python").rglob("*.py"),
    *(ROOT / "python").rglob("*.j2"),
    *(ROOT / "lib" / "vmcu").rglob("*.h"),
    *(ROOT / "cmake").glob("*.cmake"),
]
# What Zephyr, its linker and west say.
OTHERS = ("warning: attempt to assign", "region '", "west: unknown command")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_and_diagrams_are_not_running_text(page: Path) -> None:
    """Behind a list, an indented block is a paragraph of its last item."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    text = page.read_text(encoding="utf-8")
    lines = ["", *text.splitlines()]
    for token in markdown.parse(text):
        if token.type == "inline":
            before, first = lines[token.map[0] : token.map[0] + 2]
            swallowed = before == "" and first.startswith("    ")
            assert not swallowed and not re.search("[│┌└├]", token.content), token.content


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_milliseconds_are_modelled_or_measured(page: Path) -> None:
    """The paragraph says so; beside a table or an output, the one before or behind it may."""
    blocks = page.read_text(encoding="utf-8").split("\n\n")
    for at, block in enumerate(blocks):
        # A sample reads a sensor every 20 ms; `--window-ms` is an option.
        figures = re.search(r"(?<!very )\b\d[\d,.]* (?:ms|milliseconds)\b", block)
        beside = "\n".join(blocks[max(at - 2, 0) : at + 2])
        if figures or re.search(r"\b(?:ms|milliseconds)\b.*\n\| -", block):
            where = beside if block.startswith(("|", "<!--", "    ", "```")) else block
            assert re.search("modelled|measure|estimate", where), block


def test_samples_have_build_folders_of_their_own() -> None:
    boards: dict[str, set[str]] = {}
    for page in ROOT.glob("samples/*/README.md"):
        for line in re.findall(r"^    (?:west build|cmake -G Ninja -S) .*", page.read_text(), re.M):
            found = re.search(r"-b (\S+) -d build/(\S+)|plain -B build/(\S+)", line)
            assert found, f"{page}: {line}"
            folder = found[2] or found[3]
            boards.setdefault(folder, set()).add(f"{page} {found[1]}")
    assert [folder for folder, built in boards.items() if len(built) > 1] == []


def test_readers_can_leave_qemu() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    runs = [page for page, text in texts.items() if re.search("west build .*qemu.* -t run", text)]
    assert len(runs) > 15
    assert [page for page in runs if "Ctrl+A, then X" not in texts[page]] == []


def test_every_page_is_on_the_site() -> None:
    entries = (ROOT / "doc" / "index.md").read_text().split()
    for page in (*ROOT.glob("doc/*.md"), *ROOT.glob("doc/*.rst")):
        assert page.stem in entries or page.stem == "index", page.name


def test_the_op_is_the_one_of_the_page() -> None:
    """Every piece of code is in a file that the page names before it."""
    page = (ROOT / "doc" / "write-an-op.md").read_text()
    pieces = re.split(r"^```(?:python|c)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(pieces) > 10
    named: list[Path] = []
    for text, code in zip(pieces[::2], pieces[1::2], strict=False):
        paths = re.findall(r"`((?:python|lib|tests)/[\w/.-]+\.\w+)`", text)
        named += [ROOT / path for path in paths]
        assert any(code in path.read_text() for path in named), code


def messages() -> list[str]:
    """The headings of the first two sections, each a message or several."""
    text = TROUBLES.read_text().split("## On the device")[0]
    headings = re.findall(r"^(`[^\n]*`)\n: ", text, re.MULTILINE)
    return [message for heading in headings for message in re.findall(r"`([^`]+)`", heading)]


@functools.cache
def joined_sources() -> str:
    """The sources; strings that they break over lines are whole."""
    text = "".join(source.read_text() for source in SOURCES)
    return re.sub(r'"?\s*\\?\n\s*f?"', "", text)


def test_messages_are_real() -> None:
    """Sources put expressions where the page has dots."""
    assert len(messages()) >= 10
    for message in messages():
        if not message.startswith(OTHERS):
            for piece in re.split(r"\.\.\.|'vmcu'|numpy, onnx, |'\W*$", message):
                assert piece.strip(" ,'()") in joined_sources(), piece


def test_agents_are_told_messages_that_exist() -> None:
    table = (ROOT / "AGENTS.md").read_text().partition("## Which message means what")[2]
    rows = re.findall(r"^\| `([^`]+)` \| \S", table, re.MULTILINE)
    assert len(rows) > 8
    assert [row for row in rows if row not in joined_sources()] == []


def test_the_readme_has_c_that_compiles(tmp_path: Path) -> None:
    scratch.skip_without("gcc")
    model = ROOT / "samples" / "digits" / "digits.onnx"
    assert main(["build", str(model), "--quiet", "-o", str(tmp_path)]) == 0
    pieces = re.findall(r"^```c\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    (tmp_path / "main.c").write_text("".join(pieces))
    options = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{tmp_path}"]
    command = ["gcc", *options, f"-I{ROOT}/lib/vmcu/include", str(tmp_path / "main.c")]
    assert pieces and subprocess.run(command, check=False).returncode == 0


def rows_of(page: str, table: str) -> dict[str, list[str]]:
    """Cells of a table between its marks, by the first one."""
    text = (ROOT / page).read_text(encoding="utf-8")
    block = text.partition(f"<!-- {table} -->")[2].partition(f"<!-- end of {table} -->")[0]
    rows = [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("| ")]
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in rows}


def test_the_readme_has_the_figures_of_the_results() -> None:
    """Its five rows, by what TFLite Micro needs, which no two of these networks share."""
    estimates = rows_of("doc/cycles.md", "estimates")
    planners, tigris = rows_of("doc/results.md", "planners"), rows_of("doc/results.md", "tigris")
    found = {}
    for name, (arena, plan) in list(tigris.items())[2:]:
        vmcu, streamed, _, tflm, tinyengine, *_ = planners[name]
        assert arena == tflm
        # TinyEngine rejects the other models.
        own = tinyengine if name.startswith("mcunet") else "-"
        found[tflm] = [vmcu, streamed, estimates[name][-1], tflm, own, plan]
    rows = rows_of("README.md", "RAM")
    assert len(found) == 5 and len(rows) == 7
    for cells in list(rows.values())[2:]:
        assert found[cells[3]] == cells
    readme, page = (
        " ".join((ROOT / name).read_text(encoding="utf-8").split())
        for name in ("README.md", "doc/cycles.md")
    )
    (error,) = re.findall(r"[Aa] board takes [\d.]+ to [\d.]+ times the modelled time", readme)
    assert error.lower() in page.lower()


def test_the_page_of_commands_is_that_of_the_parsers() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "commands_page.py"))
    page = (ROOT / "doc" / "commands.md").read_text(encoding="utf-8")
    assert page == script["page"](), "python scripts/commands_page.py --write"
    page = (ROOT / "doc" / "install.md").read_text(encoding="utf-8")
    assert page == script["inserted"](page), "python scripts/commands_page.py --write"


def test_the_testing_page_has_the_figures_of_now() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "figures.py"))
    page = (ROOT / "doc" / "testing.md").read_text(encoding="utf-8")
    assert script["inserted"](page) == page, "python scripts/figures.py --write doc/testing.md"
