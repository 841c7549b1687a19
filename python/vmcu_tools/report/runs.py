# SPDX-License-Identifier: Apache-2.0
"""Figures that commands wrote, with their models: read from files or folders of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import Problem, UserError
from .sheet import UNREADABLE, of_json

RAM, FLASH, MACS, CYCLES = "ram", "flash", "macs", "cycles"
INSTRUCTIONS, ENERGY, SECONDS = "instructions", "energy", "seconds"
# Kinds of figures of which less is better, and the part by which each may grow by default; None: no
# two runs take as long.
KINDS: dict[str, float | None] = {
    **dict.fromkeys((RAM, FLASH, MACS, CYCLES, INSTRUCTIONS, ENERGY), 0.0),
    SECONDS: None,
}
# In place of a kind: all of them but SECONDS.
ALL = ""
# Of `vmcu bench --json`, but for the figures in a part of their own.
COUNTED = {
    "macs": MACS,
    "cycles": CYCLES,
    "instructions": INSTRUCTIONS,
    "loads_ram": INSTRUCTIONS,
    "loads_flash": INSTRUCTIONS,
    "stores": INSTRUCTIONS,
    "stack_bytes": RAM,
}
PLANNED = {
    "pool_bytes": RAM,
    "flash_bytes": FLASH,
    "file_bytes": FLASH,
    "macs": MACS,
    "cycles": CYCLES,
}
Value = int | float | str


@dataclass(frozen=True)
class Manifest:
    """The data behind a table of a page, as a benchmark's `--write` has it in JSON. versions: of
    the tools; models: SHA-256 by file; kinds: by column, where less is better, of KINDS;
    figures: by row and column, "" where a cell is empty."""

    page: str
    table: str
    command: str
    versions: Mapping[str, str]
    models: Mapping[str, str]
    kinds: Mapping[str, str]
    figures: Mapping[str, Mapping[str, Value]]

    @property
    def name(self) -> str:
        """Names the page and the table."""
        return f"{Path(self.page).stem}/{self.table}"


@dataclass(frozen=True)
class Figure:
    """kind: of KINDS, "" where neither more nor less is better."""

    kind: str
    value: Value


@dataclass(frozen=True)
class Recorded:
    """The figures that one file has, by name, and the tools and models that they were computed
    with."""

    name: str
    figures: Mapping[str, Figure]
    versions: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)


def read(path: Path) -> dict[str, Recorded]:
    """The runs of a file, or of all .json files in a folder and below, by name. Raises UserError
    where there is none, or one that is something else."""
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        remedy = "give it what `vmcu build --json` or a benchmark's --write wrote"
        raise UserError(Problem("there is no .json file in it", remedy, str(path)))
    runs: dict[str, Recorded] = {}
    for file in files:
        run = _run(file)
        if run.name in runs:
            remedy = "compare them file by file"
            raise UserError(Problem(f"'{run.name}' is there twice", remedy, str(file)))
        runs[run.name] = run
    return runs


def _run(path: Path) -> Recorded:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if "steps" in known:
            return _of_plan(path)
        return _of_manifest(known) if "figures" in known else _of_bench(known)
    except UNREADABLE:
        reason = "it has no figures of a run"
        remedy = (
            "give it what `vmcu build --json`, `vmcu bench --json` or a benchmark's --write wrote"
        )
        raise UserError(Problem(reason, remedy, str(path))) from None


def _of_plan(path: Path) -> Recorded:
    sheet = of_json(path)
    known = {name: getattr(sheet, name) for name in PLANNED}
    return Recorded(sheet.model, _figures(known, PLANNED))


def _of_bench(known: Mapping[str, Any]) -> Recorded:
    figures = _figures({name: known[name] for name in COUNTED}, COUNTED)
    parts = (("energy", "microjoule", ENERGY), ("time", "milliseconds", SECONDS))
    for part, name, kind in parts:
        if known[part] is not None:
            figures[name] = Figure(kind, float(known[part][name]))
    compiler = {} if known["compiler"] is None else {"compiler": str(known["compiler"])}
    return Recorded(f"{known['model']} on {known['target']}", figures, compiler)


def _figures(known: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Figure]:
    return {
        name: Figure(kinds[name], int(value)) for name, value in known.items() if value is not None
    }


def _of_manifest(known: Mapping[str, Any]) -> Recorded:
    manifest = Manifest(**known)
    figures = dict(_cells(manifest))
    return Recorded(manifest.name, figures, dict(manifest.versions), dict(manifest.models))


def _cells(manifest: Manifest) -> Iterator[tuple[str, Figure]]:
    for row, cells in manifest.figures.items():
        for column, value in cells.items():
            if not isinstance(value, int | float | str):
                raise TypeError
            kind = manifest.kinds.get(column, "")
            yield f"{row}: {column}", Figure(kind if kind in KINDS else "", value)
