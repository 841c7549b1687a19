# SPDX-License-Identifier: Apache-2.0
"""Prints which packages of requirements.txt this interpreter lacks, none when all is well."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def missing(requirements: Path) -> list[str]:
    names = []
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"[A-Za-z0-9._-]+", line):
            try:
                version(match.group())
            except PackageNotFoundError:
                names.append(match.group())
    return names


if __name__ == "__main__":
    print(", ".join(missing(Path(__file__).with_name("requirements.txt"))))
