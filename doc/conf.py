# SPDX-License-Identifier: Apache-2.0
"""Sphinx: the pages are those that one reads in the repository, and Doxygen's view of the C API."""

from pathlib import Path

project = "vmcu"
author = "the vmcu authors"
copyright = author

extensions = ["myst_parser", "breathe"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 3
breathe_projects = {"vmcu": str(Path(__file__).parents[1] / "build" / "docs" / "xml")}
breathe_default_project = "vmcu"
breathe_domain_by_extension = {"h": "c"}

html_theme = "furo"
html_title = "vmcu"
# Devicetree, Kconfig fragments and consoles have no lexer here.
highlight_language = "none"
