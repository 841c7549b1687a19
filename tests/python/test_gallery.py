# SPDX-License-Identifier: Apache-2.0
"""The gallery shows the plans of now."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GALLERY = runpy.run_path(str(ROOT / "scripts" / "gallery.py"))


@pytest.mark.parametrize("name", GALLERY["PLANS"])
def test_a_picture_is_that_of_the_plan(name: str) -> None:
    picture, text = GALLERY["drawn"](name)
    file = GALLERY["PICTURES"] / f"{name}.svg"
    assert file.read_text(encoding="utf-8") == picture, "python scripts/gallery.py"
    assert text in GALLERY["PAGE"].read_text(encoding="utf-8"), "python scripts/gallery.py"


def test_every_picture_is_shown() -> None:
    assert {file.stem for file in GALLERY["PICTURES"].iterdir()} == set(GALLERY["PLANS"])
