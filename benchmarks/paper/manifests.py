# SPDX-License-Identifier: Apache-2.0
"""What is behind a table of a page: a file beside the pages that says what printed it, with what,
of what, and its figures for programs. `vmcu check --baseline` compares them."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

import vmcu_tools
from vmcu_tools.report import runs
from vmcu_tools.report.runs import Manifest, Value

# What reads models, plans and solves: other versions may find other plans.
PACKAGES = ("flatbuffers", "numpy", "onnx", "pulp", "tflite")
GCC, QEMU = "arm-none-eabi-gcc", "qemu-system-arm"
FOLDER = "manifests"
# What the heading of a column says of its figures, where the table does not.
HEADINGS = (
    ("instructions", runs.INSTRUCTIONS),
    ("cycles", runs.CYCLES),
    ("MACs", runs.MACS),
    ("uJ", runs.ENERGY),
    ("seconds", runs.SECONDS),
    ("ms", runs.SECONDS),
    ("bytes", runs.RAM),
    ("RAM", runs.RAM),
    ("pool", runs.RAM),
)
NUMBER = re.compile(r"[+-]?[\d,]*\d(\.\d+)?")


@dataclass(frozen=True)
class Behind:
    """models: SHA-256 by file; tools: programs that figures come from, of GCC and QEMU; kinds: by
    column, of runs.KINDS, or "", where the heading does not say it."""

    models: Mapping[str, str] = field(default_factory=dict)
    tools: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)


def hashes(files: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of those that are there, by name."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(files)
        if file.is_file()
    }


def manifest(page: str, table: str, block: str, behind: Behind) -> Manifest:
    """Of what stands between the markers of a table, its command first."""
    rows = cells(block)
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    kinds = {}
    for column in columns:
        share = any(row[column].endswith("%") for row in rows.values())
        said = behind.kinds.get(column, "" if share else heading(column))
        if said:
            kinds[column] = said
    figures = {name: {c: value(cell) for c, cell in row.items()} for name, row in rows.items()}
    return Manifest(
        page, table, command(block), versions(behind.tools), dict(behind.models), kinds, figures
    )


def command(block: str) -> str:
    """What prints a table, as it says itself."""
    return block.lstrip("\n").splitlines()[0].strip("`")


def cells(block: str) -> dict[str, dict[str, str]]:
    """A table by row and column. What has no name, or that of one before, is numbered."""
    lines = [line.strip()[1:-1].split("|") for line in block.splitlines() if line[:1] == "|"]
    head, _, *body = lines
    columns = distinct(head[1:])
    names = distinct([row[0] for row in body])
    return {
        name: dict(zip(columns, map(str.strip, row[1:]), strict=True))
        for name, row in zip(names, body, strict=True)
    }


def distinct(names: Sequence[str]) -> list[str]:
    """Names of which no two are the same."""
    found: list[str] = []
    for name in map(str.strip, names):
        base = name or (found[-1] if found else "")
        number, one = 1, base
        while one in found:
            number += 1
            one = f"{base} ({number})"
        found.append(one)
    return found


def heading(column: str) -> str:
    """What the figures below a heading are of."""
    words = re.findall(r"\w+", column)
    return next((kind for word, kind in HEADINGS if word in words), "")


def value(cell: str) -> Value:
    """A cell's number, without its unit of percent; other text as it is."""
    number = cell.removesuffix("%").strip()
    if not NUMBER.fullmatch(number):
        return cell
    plain = number.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def versions(tools: Sequence[str]) -> dict[str, str]:
    """Of vmcu, Python, packages and programs."""
    found = {package: version(package) for package in PACKAGES}
    found |= {"python": platform.python_version(), "vmcu": vmcu_tools.__version__}
    for tool in tools:
        where = shutil.which(tool) or tool
        said = subprocess.run([where, "--version"], capture_output=True, text=True, check=True)
        found[tool] = said.stdout.splitlines()[0]
    return found


def path_of(page: Path, table: str) -> Path:
    """Where the manifest of a page's table is."""
    return page.parent / FOLDER / page.stem / f"{table}.json"


def write(page: Path, table: str, block: str, behind: Behind) -> None:
    """The manifest of a table that was put on a page."""
    path = path_of(page, table)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = asdict(manifest(page.name, table, block, behind))
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
