# SPDX-License-Identifier: Apache-2.0
"""The pages of doc/ as a browser shows them: on a desktop and a phone, without a network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from browser import DESKTOP, PHONE, Browser, missing

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path.stem for path in (ROOT / "doc").iterdir() if path.suffix in (".md", ".rst"))
WHY = missing() or ("" if shutil.which("doxygen") else "doxygen is not installed")
pytestmark = pytest.mark.skipif(bool(WHY), reason=f"no pages: {WHY}")
# The first column of vmcu's figures in each table, where the window does not show it.
HIDDEN = """return [...document.querySelectorAll('article table')]
    .map(table => [...table.querySelectorAll('th')])
    .map(row => row.find(th => /^(vmcu(?!_)|Ours)/.test(th.innerText)))
    .filter(th => th?.getBoundingClientRect().right > innerWidth).map(th => th.innerText)"""
SIZES = pytest.mark.parametrize("size", (DESKTOP, PHONE), ids=("desktop", "phone"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As scripts/docs.sh builds it, but in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    settings = f"{(ROOT / 'doc' / 'Doxyfile').read_text()}\nOUTPUT_DIRECTORY = {folder}\n"
    subprocess.run(["doxygen", "-"], cwd=ROOT, input=settings, text=True, check=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html"]
    command += ["-D", f"breathe_projects.vmcu={folder / 'xml'}", "doc", str(folder / "html")]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder / "html"


@SIZES
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_asks_for_nothing(
    chromium: Browser, site: Path, name: str, size: tuple[int, int]
) -> None:
    chromium.open(site / f"{name}.html", size)
    assert chromium.sideways <= 0
    assert chromium.run(HIDDEN) == []
    assert chromium.complaints == []
    assert [url for url in chromium.requests if not url.startswith(("file:", "data:"))] == []
    assert chromium.text("h1").strip("¶# \n")


@SIZES
def test_a_reader_sees_where_to_go(chromium: Browser, site: Path, size: tuple[int, int]) -> None:
    """In a narrow window the navigation opens on demand."""
    chromium.open(site / "index.html", size)
    links = chromium.find(".sidebar-tree a")
    shown = {str(link.get_attribute("href")).partition("#")[0] for link in links}
    assert {(site / f"{name}.html").as_uri() for name in PAGES} - shown == {
        (site / "index.html").as_uri()
    }


def test_the_home_page_shows_the_picture(chromium: Browser, site: Path) -> None:
    chromium.open(site / "index.html", DESKTOP)
    pictures = "[...document.querySelectorAll('article img')]"
    shown = chromium.run(f"return {pictures}.map(i => i.complete && i.naturalWidth)")
    assert shown and all(shown)
