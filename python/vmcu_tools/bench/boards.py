# SPDX-License-Identifier: Apache-2.0
"""Boards: those whose microcontroller is known, and all that a Zephyr tree describes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import Problem, UserError
from .flash import BOARDS

# A line of a board's description for twister.
_FIELD = re.compile(r"^(identifier|name|type|arch|ram|flash):\s*[\"']?([^\"'#\n]*)", re.MULTILINE)


@dataclass(frozen=True)
class Board:
    """Sizes in kilobytes; 0, None and empty where nothing says so. core: as compilers call it, or
    the architecture; waits: states of one read of flash at that clock."""

    name: str
    title: str
    core: str
    ram: int
    flash: int
    megahertz: int | None = None
    waits: int | None = None


def known() -> list[Board]:
    """Those of the table that `vmcu bench --board` has."""
    return [
        Board(name, "", one.core, one.ram, one.flash_size, one.megahertz, one.flash.waits)
        for name, one in BOARDS.items()
    ]


def of_tree(tree: Path) -> list[Board]:
    """All microcontroller boards of a Zephyr tree, by name; sizes as twister has them. Raises
    UserError for what is no such tree."""
    if not (tree / "boards").is_dir() or not (tree / "scripts" / "zephyr_module.py").is_file():
        raise UserError(
            Problem("it is no Zephyr tree", "name the folder that has boards/", str(tree))
        )
    found = {
        board.name: board for file in sorted(tree.glob("boards/**/*.yaml")) for board in _read(file)
    }
    return [found[name] for name in sorted(found)]


def _read(file: Path) -> Iterator[Board]:
    fields = dict(_FIELD.findall(file.read_text(encoding="utf-8", errors="replace")))
    if fields.get("type", "").strip() != "mcu" or "identifier" not in fields:
        return
    name = fields["identifier"].strip()
    sizes = (fields.get(key, "").strip() for key in ("ram", "flash"))
    ram, flash = (int(size) if size.isdigit() else 0 for size in sizes)
    title, arch = fields.get("name", "").strip(), fields.get("arch", "").strip()
    part = BOARDS.get(name.partition("/")[0])
    if part is None:
        yield Board(name, title, arch, ram, flash)
    else:
        yield Board(name, title, part.core, ram, flash, part.megahertz, part.flash.waits)
