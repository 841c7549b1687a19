# SPDX-License-Identifier: Apache-2.0
"""Boards: the table of this package, and all that a Zephyr tree describes."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import Problem, UserError
from .flash import BOARDS, Flash, SerialFlash

# Of Zephyr's boards; scripts/boards.py writes it.
TABLE = Path(__file__).with_name("boards.csv")
# Cycles of a core for one cycle of a Cortex-M4, by published times of one engine on three boards; a
# test compares them with doc/cycles.md.
CORE_FACTORS = {"cortex-m4": 1.0, "cortex-m33": 0.9, "cortex-m7": 0.61, "cortex-m55": 0.23}
# Of operators whose factor is so many times that of their core, with kernels for MVE.
OPERATOR_FACTORS = {"cortex-m55": {"DepthwiseConv2D": 2.4, "FullyConnected": 0.7, "Add": 1.6}}
# Misses of flash's caches per cycle: the middle of doc/cycles.md's networks.
MISSES = 0.014
# A line of a board's description for twister.
_FIELD = re.compile(r"^(identifier|name|type|arch|ram|flash):\s*[\"']?([^\"'#\n]*)", re.MULTILINE)


@dataclass(frozen=True)
class Board:
    """Sizes in kilobytes; 0, None and empty if unknown. core: as compilers call it, or the
    architecture; waits: wait states of flash at that clock; external: code runs from a serial
    flash; source: where the row comes from, if not from the devicetree of the table's Zephyr."""

    name: str
    title: str
    soc: str
    core: str
    ram: int
    flash: int
    megahertz: int | None = None
    waits: int | None = None
    external: bool = False
    source: str = ""

    @property
    def unknown(self) -> str:
        """Why `vmcu build` cannot estimate its milliseconds; empty if it can."""
        return self.lacks(CORE_FACTORS)

    @property
    def cpu(self) -> str:
        """Returns its core's name in compilers."""
        return self.core.replace("+", "plus")

    def lacks(self, cores: Container[str], is_flash_known: bool = False) -> str:
        """The reason why cycles do not become milliseconds, where those cores have a model;
        empty if they do. is_flash_known: whether a serial flash is described."""
        if self.cpu not in cores:
            return f"there is no cycle model for {self.core}"
        if self.external and not (is_flash_known or self.name in BOARDS):
            return "it executes from external flash, whose reads must be counted"
        return "" if self.megahertz else "its clock is unknown"

    @property
    def cycle_factor(self) -> float:
        """Its cycles for a cycle of a Cortex-M4 without wait states."""
        return CORE_FACTORS[self.core] * (1 + MISSES * (self.waits or 0))


def flash_of(board: Board, described: SerialFlash | None) -> Flash | None:
    """The flash of a board in cycles of its core, `described` if it is given; None if nothing is
    known of it, or of the clock."""
    part = described or BOARDS.get(board.name)
    return None if part is None or board.megahertz is None else part.at(board.megahertz)


@functools.cache
def known() -> dict[str, Board]:
    """The boards of the table by name."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row["name"]: _board(row) for row in rows}


def _board(row: dict[str, str]) -> Board:
    part = BOARDS.get(row["name"])
    waits = part.flash.waits if part and isinstance(part.flash, Flash) else None
    return Board(
        row["name"],
        "",
        row["soc"],
        row["core"],
        int(row["ram"]),
        int(row["flash"]),
        int(row["mhz"]) if row["mhz"] else None,
        waits,
        row["external"] == "yes",
        row["source"],
    )


def candidates(name: str) -> list[str]:
    """The boards of the table that a name stands for, with or without revision and qualifiers. If
    one board has several SoCs, the SoC in the board's name decides."""
    board, *qualifiers = name.split("/")
    board = board.partition("@")[0]
    full = "/".join([board, *qualifiers])
    if full in known():
        return [full]
    if board in known():
        return [board] if qualifiers[:1] in ([], [known()[board].soc]) else []
    boards = [one for one in known() if one.startswith(f"{full}/")]
    named = [one for one in boards if known()[one].soc in board]
    return named or boards


def of_tree(tree: Path) -> list[Board]:
    """All microcontroller boards of a Zephyr tree, by name; sizes as twister has them. Raises
    UserError for any other folder."""
    if not (tree / "boards").is_dir() or not (tree / "scripts" / "zephyr_module.py").is_file():
        raise UserError(
            Problem("it is no Zephyr tree", "name the folder that has boards/", str(tree))
        )
    boards = {
        board.name: board for file in sorted(tree.glob("boards/**/*.yaml")) for board in _read(file)
    }
    return [boards[name] for name in sorted(boards)]


def _read(file: Path) -> Iterator[Board]:
    fields = dict(_FIELD.findall(file.read_text(encoding="utf-8", errors="replace")))
    if fields.get("type", "").strip() != "mcu" or "identifier" not in fields:
        return
    name = fields["identifier"].strip()
    sizes = (fields.get(key, "").strip() for key in ("ram", "flash"))
    ram, flash = (int(size) if size.isdigit() else 0 for size in sizes)
    title, arch = fields.get("name", "").strip(), fields.get("arch", "").strip()
    part = known().get(name)
    if part is None:
        yield Board(name, title, "", arch, ram, flash)
    else:
        yield replace(part, title=title, ram=ram, flash=flash)
