#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the text of a tag: the section of CHANGELOG.md of that version, the newest one by default.

python scripts/tag_text.py [VERSION] | git tag -a vVERSION -F -
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def tag_text(changelog: str, version: str = r"\d[\w.]*") -> str:
    """The section of `version`. Raises ValueError if there is none."""
    section = re.search(
        rf"^## \[({version})\][^\n]*\n+(.*?)(?=^## \[|^\[|\Z)", changelog, re.M | re.S
    )
    if section is None:
        raise ValueError(f"CHANGELOG.md has no section [{version}]")
    # git takes lines that begin with # for comments.
    body = re.sub(r"^#+ (.*)$", r"\1:", section[2], flags=re.M)
    return f"vmcu {section[1]}\n\n{body.strip()}\n"


if __name__ == "__main__":
    print(tag_text(CHANGELOG.read_text(encoding="utf-8"), *map(re.escape, sys.argv[1:2])), end="")
