# SPDX-License-Identifier: Apache-2.0
"""Sphinx: the pages are those that one reads in the repository, and Doxygen's view of the C API."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _stated(file: str, pattern: str) -> str:
    """The first group of a pattern in a file: each fact has one place."""
    found = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert found, pattern
    return found[1]


project = "vmcu"
author = "the vmcu authors"
copyright = author
release = version = _stated("python/vmcu_tools/__init__.py", r'^__version__ = "([^"]+)"')
repository = _stated("pyproject.toml", r'^Repository = "([^"]+)"')

extensions = ["myst_parser", "breathe"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 3
breathe_projects = {"vmcu": str(ROOT / "build" / "docs" / "xml")}
breathe_default_project = "vmcu"
breathe_domain_by_extension = {"h": "c"}

# Quotes and dashes stay as typed: `--on` is an option.
smartquotes = False
html_theme = "furo"
html_title = f"vmcu {release}"
html_theme_options = {
    "footer_icons": [{"name": "Repository", "url": repository, "html": "Repository", "class": ""}],
    "announcement": f'vmcu {release} &middot; <a href="{repository}">Repository</a>',
}
# Devicetree, Kconfig fragments and consoles have no lexer here.
highlight_language = "none"
