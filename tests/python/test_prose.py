# SPDX-License-Identifier: Apache-2.0
"""The pages are readable: sentences, clauses without a noun, verbs and address are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
DOC_WORDS, README_BYTES, README_LINKS = 24_000, 5_000, 12
# Not prose of the project, or lists for its developers.
OTHERS = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "MAINTAINERS.md", "SECURITY.md")
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
    found = [one for page in pages for one in sentences(page)]
    words = sum(len(one.split()) for one in found)
    long = sum(len(one.split()) > LONG for one in found)
    text = " ".join(found)
    rates = {name: 1000 * len(re.findall(rule, text)) / words for name, rule in RULES.items()}
    return Measure(words, 100 * long / len(found), rates)


def texts(pages: list) -> list[str]:
    return [page.read_text(encoding="utf-8") for page in pages]


def test_the_pages_read_well() -> None:
    found = measure(texts(READ))
    assert found.long <= LONG_PERCENT
    assert found.rates["headless"] <= GOALS["headless"], found
    assert found.rates["gesture"] <= GOALS["gesture"], found
    assert found.rates["you"] >= GOALS["you"], found


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
