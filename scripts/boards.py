# SPDX-License-Identifier: Apache-2.0
"""Writes the table of boards from a Zephyr tree's devicetree: python scripts/boards.py [TREE]

Each board's devicetree is preprocessed and parsed with the tree's own dtlib. RAM and flash are what
`zephyr,sram` and `zephyr,flash` of its /chosen node name. The clock is that of the first CPU, or of
STM32's `rcc`, or of CLOCKS. Pins are left out: they need vendors' HALs and change no size. Boards
that do not parse, or name no RAM or flash, are not in the table. boards_later.csv has boards of
later Zephyr versions, with their source. Without TREE, only their rows are written again.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).resolve().parents[1] / "python" / "vmcu_tools" / "boards" / "boards.csv"
MISSING = re.compile(r"fatal error: (\S+): No such file")
PINS = re.compile(r"\b(?:pinctrl-\w+|pinmux|psels)\s*=[^;{}]*;")
CORE = re.compile(r"^(?:arm,)?(cortex-m\d+(?:plus)?)f?$")
# Of /chosen, and the arches whose cores are those of microcontrollers.
RAM, FLASH = "zephyr,sram", "zephyr,flash"
ARCHES = ("arm", "riscv", "xtensa", "arc")
# Headers that the tree leaves to vendors' HALs, at most, for one board.
MOST_STUBS = 12


# MHz of SoCs whose devicetree has no clock of the CPU, by the beginning of their name. Nordic:
# product specifications, chapter CPU (the nRF5340's application core runs at 64 MHz after reset).
# Ambiq: datasheets, without burst mode. RP2040: its devicetree's sys_clk. i.MX RT1060: Zephyr's
# soc.c, 1,200 MHz of the PLL, halved by arm-podf.
CLOCKS = {
    "nrf51": 16,
    "nrf52": 64,
    "nrf53": 64,
    "nrf91": 64,
    "apollo3": 48,
    "apollo4": 96,
    "rp2040": 125,
    "mimxrt106": 600,
}
# Cortex-M33 without the DSP extension, which kernels with a cycle model need.
NO_DSP = ("nrf5340/cpunet", "lpc55s69/cpu1")
# SoCs that execute from serial flash, which their devicetree describes as the SoC's own.
SERIAL_FLASH = ("rp2040", "esp32", "cyw20829", "da1469")
LATER = Path(__file__).with_name("boards_later.csv")


@dataclass(frozen=True)
class Row:
    """A line of the table; sizes in KB, clock in MHz or empty."""

    name: str
    soc: str
    core: str
    mhz: int | str
    ram: int
    flash: int
    external: str
    source: str = ""


class UnusableBoardError(Exception):
    """A board whose devicetree does not parse, or names no RAM or flash."""


def version_of(tree: Path) -> str:
    """Such as 3.7.1."""
    text = (tree / "VERSION").read_text()
    parts = (
        re.search(rf"{key} *= *(\d+)", text)
        for key in ("VERSION_MAJOR", "VERSION_MINOR", "PATCHLEVEL")
    )
    return ".".join(match.group(1) for match in parts if match)


def preprocessed(tree: Path, dts: Path, arch: str, stubs: Path) -> str:
    """The devicetree source; headers that are absent are empty files in `stubs`."""
    folders = [
        tree / "include",
        tree / "include" / "zephyr",
        tree / "dts" / "common",
        tree / "dts" / arch,
        tree / "dts",
        stubs,
    ]
    command = ["cpp", "-x", "assembler-with-cpp", "-nostdinc", "-P", "-D__DTS__"]
    command += [f"-I{folder}" for folder in folders] + [str(dts)]
    for _ in range(MOST_STUBS):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
        absent = MISSING.search(done.stderr)
        if absent is None:
            break
        stub = stubs / absent.group(1)
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.touch()
    raise UnusableBoardError(done.stderr.strip())


def memory(dt: Any, which: str) -> tuple[int, bool]:
    """Kilobytes of the memory that /chosen names, and whether it is serial flash."""
    chosen = dt.get_node("/chosen").props.get(which)
    if chosen is None:
        raise UnusableBoardError(f"no {which}")
    node = chosen.to_path()
    parent = node.parent.props
    cells = parent["#address-cells"].to_num() if "#address-cells" in parent else 2
    sizes = parent["#size-cells"].to_num() if "#size-cells" in parent else 1
    if "reg" in node.props and sizes:
        words = node.props["reg"].to_nums()[cells : cells + sizes]
        size, serial = sum(word << 32 * (sizes - 1 - i) for i, word in enumerate(words)), False
    elif "size" in node.props:
        # In bits.
        size, serial = int(node.props["size"].to_num()) // 8, True
    else:
        raise UnusableBoardError(f"{which} has no size")
    if size < 1024:
        raise UnusableBoardError(f"{which} is empty")
    return size // 1024, serial


def core_of(dt: Any) -> tuple[str, int | str]:
    """The first core, as compilers call it, and its clock in MHz."""
    cpus = [n for n in dt.get_node("/cpus").nodes.values() if "compatible" in n.props]
    if not cpus:
        raise UnusableBoardError("no core")
    name = cpus[0].props["compatible"].to_strings()[0]
    match = CORE.match(name)
    core = match.group(1) if match else name.partition(",")[2] or name
    clocks = [cpus[0]] + ([dt.label2node["rcc"]] if "rcc" in dt.label2node else [])
    for node in clocks:
        if "clock-frequency" in node.props:
            return core, round(node.props["clock-frequency"].to_num() / 1_000_000) or ""
    return core, ""


def row(tree: Path, description: Path) -> Row:
    """The row of a board. description: its YAML file for twister, beside the devicetree."""
    text = yaml.safe_load(description.read_text(encoding="utf-8"))
    dts = description.with_suffix(".dts")
    if text.get("type") != "mcu" or text.get("arch") not in ARCHES or not dts.is_file():
        raise UnusableBoardError("no microcontroller")
    dtlib = importlib.import_module("devicetree.dtlib")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "board.dts"
        plain = preprocessed(tree, dts, text["arch"], Path(folder) / "stubs")
        source.write_text(PINS.sub("", plain), encoding="utf-8")
        try:
            dt = dtlib.DT(str(source))
            (ram, _), (flash, serial) = memory(dt, RAM), memory(dt, FLASH)
            core, clock = core_of(dt)
        except (dtlib.DTError, KeyError) as error:
            raise UnusableBoardError(str(error)) from error
    name, _, qualifiers = text["identifier"].partition("/")
    about = yaml.safe_load((description.parent / "board.yml").read_text(encoding="utf-8"))
    boards = about["boards"] if "boards" in about else [about["board"]]
    board = next((one for one in boards if one["name"] == name.partition("@")[0]), boards[0])
    soc = qualifiers.partition("/")[0] or board["socs"][0]["name"]
    if qualifiers.endswith(NO_DSP):
        core += "+nodsp"
    clock = next((mhz for start, mhz in CLOCKS.items() if soc.startswith(start)), clock)
    external = "yes" if serial or soc.startswith(SERIAL_FLASH) else "no"
    return Row(text["identifier"], soc, core, clock, ram, flash, external)


def descriptions(tree: Path) -> Iterator[Path]:
    """Files of boards, without variants for the non-secure side, which have part of the memory."""
    for file in sorted((tree / "boards").glob("*/**/*.yaml")):
        if not file.stem.endswith(("_ns", "twister")) and (file.parent / "board.yml").is_file():
            yield file


def rows(tree: Path, files: list[Path], refused: list[str]) -> list[Row]:
    """Their rows; refused: gets a line for each of the others."""
    sys.path.insert(0, str(tree / "scripts" / "dts" / "python-devicetree" / "src"))

    def one(file: Path) -> Row | None:
        try:
            return row(tree, file)
        except UnusableBoardError as error:
            refused.append(f"{file.stem}: {str(error).splitlines()[-1] if str(error) else ''}")
            return None

    with ThreadPoolExecutor(2) as threads:
        return [row for row in threads.map(one, files) if row is not None]


def read(path: Path) -> list[Row]:
    """The rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return [Row(**row) for row in rows]


def table(version: str, lines: list[Row]) -> str:
    """The table as it is in the package, of a version of Zephyr."""
    text = io.StringIO()
    text.write(f"# Zephyr {version}; python scripts/boards.py TREE\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Row))
    unique = {line.name: line for line in lines}
    writer.writerows(astuple(unique[name]) for name in sorted(unique))
    return text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", nargs="?", type=Path, help="the folder that has boards/ and dts/")
    parser.add_argument("--output", type=Path, default=TABLE)
    args = parser.parse_args()
    refused: list[str] = []
    if args.tree:
        version = version_of(args.tree)
        lines = rows(args.tree, list(descriptions(args.tree)), refused)
    else:
        version = TABLE.read_text(encoding="utf-8").split()[2].rstrip(";")
        lines = [row for row in read(TABLE) if not row.source]
    names = {line.name for line in lines}
    added = [row for row in read(LATER) if row.name not in names]
    args.output.write_text(table(version, [*added, *lines]), encoding="utf-8")
    lines += added
    print(f"{len(lines)} boards; left out: {len(refused)}")
    for row in read(LATER):
        if row.name in names:
            print(f"the tree has {row.name}: remove its row from {LATER.name}")
    print("\n".join(refused), file=sys.stderr)


if __name__ == "__main__":
    main()
