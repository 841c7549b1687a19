# SPDX-License-Identifier: Apache-2.0
"""Pages and the words of sources are readable: sentences, clauses without a noun, verbs, names."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_docs import PAGES, ROOT

# Words of a sentence that is too long.
LONG = 35
RULES = {
    # "What is missing is said": a clause stands where a noun would do.
    "headless": r"(?<![\w`])(?:[Ww]hat|[Ww]ho(?:ever)?)\s+"
    r"(?!do\b|does\b|is the\b|are the\b)[\w`,]",
    "gesture": r"\b(?:takes?|holds?|lies?|stands?|goes|comes?)\b",
    "you": r"\b[Yy]our?\b",
}
# Per 1,000 words; the reader is addressed at least so often, the others at most.
GOALS = {"headless": 1.5, "gesture": 3.0, "you": 3.0}
LONG_PERCENT = 2.0
DOC_WORDS, README_BYTES, README_LINKS = 25_740, 5_000, 12
# Not prose of the project, or lists for its developers.
OTHERS = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "MAINTAINERS.md", "SECURITY.md")
# Docstrings that begin with one of these have neither a verb nor a noun at their start.
FRAGMENT = {*["Of", "As", "With", "What", "By", "Where", "For", "From", "In", "Likewise", "How"]}
# Reached so far, of sources; lower them with every improvement. Headless clauses: per 1,000 words.
FRAGMENTS_PERCENT, FOUND_PERCENT = 0.8, 0.6
SOURCE_HEADLESS = {"python": 1.65, "lib": 0.1}
READ = [page for page in PAGES if page.name not in (*OTHERS, "AGENTS.md")]


@dataclass(frozen=True)
class Measure:
    """words: of all sentences; long: percent of sentences; rates: per 1,000 words."""

    words: int
    long: float
    rates: dict[str, float]


def sentences(page: str) -> Iterator[str]:
    """Sentences of three words and more, without code, tables, headings and targets of links."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", page, flags=re.S)
    text = "\n".join(
        line for line in text.split("\n") if not re.match(r"    |\||#|=+$|-+$|\[|\.\. ", line)
    )
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*[-*] )", text):
        for one in re.split(r"(?<=[.!?])\s+(?=[A-Z`\[*0-9])", " ".join(block.split())):
            if len(one.split()) >= 3:
                yield one


def measure(pages: list[str]) -> Measure:
    read = [one for page in pages for one in sentences(page)]
    words = sum(len(one.split()) for one in read)
    long = sum(len(one.split()) > LONG for one in read)
    text = " ".join(read)
    rates = {name: 1000 * len(re.findall(rule, text)) / words for name, rule in RULES.items()}
    return Measure(words, 100 * long / len(read), rates)


def texts(pages: list) -> list[str]:
    return [page.read_text(encoding="utf-8") for page in pages]


def sources(folder: str) -> list[Path]:
    """C and Python of a folder, but for generated files."""
    files = [file for end in ("py", "c", "h") for file in (ROOT / folder).rglob(f"*.{end}")]
    return sorted(file for file in files if file.parent.name != "gen")


@functools.cache
def trees() -> list[ast.Module]:
    return [ast.parse(text) for text in texts(sorted((ROOT / "python").rglob("*.py")))]


def docstrings(tree: ast.Module) -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [text for node in nodes if (text := ast.get_docstring(node))]


def comments(text: str) -> list[str]:
    """The comments of a file in Python; lines one below the other are one."""
    blocks, before = [], -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or "SPDX" in token.string or "noqa" in token.string:
            continue
        words = token.string.lstrip("#! ")
        if before == token.start[0] - 1:
            blocks[-1] += f"\n{words}"
        else:
            blocks.append(words)
        before = token.start[0]
    return blocks


def words_of(file: Path) -> str:
    """The docstrings and comments of a source file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return "\n\n".join([*docstrings(ast.parse(text)), *comments(text)])
    blocks = [block for block in re.findall(r"/\*+(.*?)\*/", text, re.S) if "SPDX" not in block]
    return "\n\n".join(re.sub(r"(?m)^\s*\*+ ?", "", block) for block in blocks)


def has_local(function: ast.AST, name: str) -> bool:
    """True if a function has a variable or an argument of that name."""
    nodes = list(ast.walk(function))
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    return name in (*names, *(node.arg for node in nodes if isinstance(node, ast.arg)))


def share(kept: Sequence[bool]) -> float:
    """The percentage of those that are true."""
    return 100 * sum(kept) / len(kept)


def test_the_pages_read_well() -> None:
    reached = measure(texts(READ))
    assert reached.long <= LONG_PERCENT
    assert reached.rates["headless"] <= GOALS["headless"], reached
    assert reached.rates["gesture"] <= GOALS["gesture"], reached
    assert reached.rates["you"] >= GOALS["you"], reached


@pytest.mark.parametrize("folder", SOURCE_HEADLESS)
def test_the_words_of_sources_name_the_thing(folder: str) -> None:
    reached = measure([words_of(file) for file in sources(folder)])
    assert reached.rates["headless"] <= SOURCE_HEADLESS[folder], reached


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    first = [text.split()[0] for tree in trees() for text in docstrings(tree)]
    assert share([word in FRAGMENT for word in first]) <= FRAGMENTS_PERCENT


def test_local_names_say_what_they_have() -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [node for tree in trees() for node in ast.walk(tree) if isinstance(node, kinds)]
    assert share([has_local(one, "found") for one in functions]) <= FOUND_PERCENT


def test_the_pages_are_short() -> None:
    pages = [page for page in READ if page.parent.name == "doc"]
    assert measure(texts(pages)).words <= DOC_WORDS
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.encode()) <= README_BYTES
    assert len(re.findall(r"\]\(", readme)) <= README_LINKS


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("What is missing is said at once.", "headless"),
        ("A pool holds the tensor that lies there.", "gesture"),
        ("Compile your model before you flash it.", "you"),
    ],
)
def test_a_rule_is_seen(text: str, rule: str) -> None:
    plain = "The compiler writes const tables."
    assert measure([text]).rates[rule] > 0 == measure([plain]).rates[rule]


def test_only_prose_counts() -> None:
    page = "# What goes\n\nOne two three.\n\n    what lies\n\n| what | holds |\n\n```c\nwho\n```\n"
    assert list(sentences(page)) == ["One two three."]
    assert measure(["word " * 36 + "end.", "One two three."]).long == 50.0


def test_the_words_of_a_source_are_read(tmp_path: Path) -> None:
    source = (
        '# Names what it has,\n# and who.\ndef f(found):\n    """As it is."""\n    return found\n'
    )
    (tmp_path / "m.py").write_text(source)
    (tmp_path / "m.c").write_text("/* SPDX */\n/**\n * What is missing is said.\n */\nint who;\n")
    assert words_of(tmp_path / "m.py") == "As it is.\n\nNames what it has,\nand who."
    assert measure([words_of(tmp_path / "m.c")]).rates["headless"] == 1000 / 5
    (function,) = ast.parse(source).body
    assert has_local(function, "found") and not has_local(function, "it")
