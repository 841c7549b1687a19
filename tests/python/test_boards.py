# SPDX-License-Identifier: Apache-2.0
"""The table of boards is that of Zephyr's devicetree; commands know its boards by name and estimate
milliseconds on them."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
from pathlib import Path
from types import ModuleType

import pytest
from builders.networks import network_file
from rich.console import Console
from vmcu_bench.cycles.model import emulated
from vmcu_bench.cycles.timing import TIMINGS
from vmcu_tools.boards.flash import BOARDS
from vmcu_tools.boards.table import CORE_FACTORS, MISSES, Board, candidates, known
from vmcu_tools.cli import main
from vmcu_tools.report.boards import print_boards
from vmcu_tools.report.cycles import cycle_seconds

from scripts import ROOT, script

ZEPHYR = Path(os.environ.get("ZEPHYR_BASE", Path.home() / "zephyrproject" / "zephyr"))
DIGITS = str(ROOT / "samples" / "digits" / "digits.onnx")
HELLO = str(ROOT / "samples" / "hello" / "hello.onnx")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return script("boards", "scripts/boards.py")


@pytest.mark.parametrize(
    ("name", "core", "ram", "flash", "megahertz"),
    [
        ("nrf52840dk/nrf52840", "cortex-m4", 256, 1024, 64),
        ("nrf5340dk/nrf5340/cpuapp", "cortex-m33", 448, 1024, 64),
        ("nrf54l15dk/nrf54l15/cpuapp", "cortex-m33", 188, 1428, 128),
        ("nucleo_f411re", "cortex-m4", 128, 512, 96),
        ("frdm_k64f", "cortex-m4", 192, 1024, 120),
        ("rpi_pico", "cortex-m0+", 264, 2048, 125),
        ("rpi_pico2/rp2350a/m33", "cortex-m33", 520, 4096, 150),
        ("esp32c3_devkitm", "riscv", 320, 4096, 160),
        ("apollo4p_evb", "cortex-m4", 2752, 1952, 96),
        ("ensemble_e8_dk/ae822fa0e5597ls0/rtss_hp", "cortex-m55", 1024, 5632, 400),
        ("ek_ra8m1", "cortex-m85", 896, 2048, None),
        ("xg24_dk2601b", "cortex-m33", 256, 1536, 78),
        ("cc26x2r1_launchxl", "cortex-m4", 80, 352, 48),
    ],
)
def test_boards_of_each_maker(
    name: str, core: str, ram: int, flash: int, megahertz: int | None
) -> None:
    board = known()[name]
    found = board.core, board.ram, board.flash, board.megahertz
    assert found == (core, ram, flash, megahertz)


def test_the_table_is_usable() -> None:
    assert len(known()) >= 60
    assert all(board.ram > 0 and board.flash > 0 for board in known().values())
    assert all(candidates(name) == [name] for name in known())


def test_the_page_has_the_number_of_boards() -> None:
    assert f"lists the boards: {len(known())}," in (ROOT / "doc" / "fit.md").read_text()


def test_the_readme_has_the_estimate_of_build(capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the counted milliseconds of the same network, of which both are modelled."""
    board = "nrf52840dk"
    assert main(["build", str(network_file("mlperf-tiny-vww")), "--board", board]) == 0
    line = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("time "))
    found = re.match(r"time +estimated ([\d.]+) ms at 64 MHz .*: modelled, not measured", line)
    assert found is not None, line
    page = " ".join((ROOT / "README.md").read_text().split())
    assert "modelled, not measured" in page
    wanted = f"`vmcu build --board {board}` models the first network without a run: {found[1]} ms."
    assert wanted in page


@pytest.mark.skipif(not (ZEPHYR / "boards").is_dir(), reason="there is no Zephyr tree")
@pytest.mark.parametrize(
    "file",
    [
        "nordic/nrf52840dk/nrf52840dk_nrf52840",
        "nordic/nrf5340dk/nrf5340dk_nrf5340_cpunet",
        "st/nucleo_f411re/nucleo_f411re",
        "raspberrypi/rpi_pico/rpi_pico",
        "nxp/mimxrt1060_evk/mimxrt1060_evkb",
        "silabs/dev_kits/xg24_dk2601b/xg24_dk2601b",
    ],
)
def test_the_devicetree_gives_the_row(file: str, generator: ModuleType) -> None:
    tree_version = f"# Zephyr {generator.version_of(ZEPHYR)};"
    if not generator.TABLE.read_text(encoding="utf-8").startswith(tree_version):
        pytest.skip("the table is of another Zephyr")
    refused: list[str] = []
    (row,) = generator.rows(ZEPHYR, [ZEPHYR / "boards" / f"{file}.yaml"], refused)
    line = generator.table("", [row]).splitlines()[-1]
    assert line in generator.TABLE.read_text(encoding="utf-8").splitlines()


def test_later_boards_are_in_the_table_with_their_source(generator: ModuleType) -> None:
    later = {row.name: row for row in generator.read(generator.LATER)}
    assert later and all(row.source for row in later.values())
    listed = {name: board.source for name, board in known().items() if board.source}
    assert listed == {name: row.source for name, row in later.items()}


def test_a_board_by_hand_needs_no_tree(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As CONTRIBUTING.md says: a row, then the script."""
    row = "own/chip,chip,cortex-m4,100,128,512,no,its manual"
    later, table = tmp_path / "later.csv", tmp_path / "boards.csv"
    later.write_text(generator.LATER.read_text() + row + "\n")
    monkeypatch.setattr(generator, "LATER", later)
    monkeypatch.setattr("sys.argv", ["boards.py", "--output", str(table)])
    generator.main()
    before = generator.TABLE.read_text().splitlines()
    assert [line for line in table.read_text().splitlines() if line not in before] == [row]
    assert len(table.read_text().splitlines()) == len(before) + 1


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nrf52840dk/nrf52840", ["nrf52840dk/nrf52840"]),
        # It also has a variant that emulates an nRF52811.
        ("nrf52840dk", ["nrf52840dk/nrf52840"]),
        ("nrf52840dk@1.0.0/nrf52840", ["nrf52840dk/nrf52840"]),
        ("nucleo_l4r5zi/stm32l4r5xx", ["nucleo_l4r5zi"]),
        ("nucleo_l4r5zi/stm32f411xe", []),
        ("nrf5340dk", ["nrf5340dk/nrf5340/cpuapp", "nrf5340dk/nrf5340/cpunet"]),
        ("nrf5340dk/nrf5340", ["nrf5340dk/nrf5340/cpuapp", "nrf5340dk/nrf5340/cpunet"]),
        ("nrf528", []),
    ],
)
def test_names_with_and_without_qualifiers(name: str, found: list[str]) -> None:
    assert candidates(name) == found


@pytest.mark.parametrize("command", ["build", "fit", "check", "bench"])
@pytest.mark.parametrize(
    ("board", "said"),
    [
        ("nrf52840-dk", "unknown board 'nrf52840-dk'. hint: did you mean 'nrf52840dk'"),
        ("0", "unknown board '0'. hint: `vmcu boards` lists them"),
        ("nrf5340dk", "hint: name one of nrf5340dk/nrf5340/cpuapp, nrf5340dk/nrf5340/cpunet"),
    ],
)
def test_an_unknown_board_is_a_usage_error(
    command: str, board: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, DIGITS, "--board", board]) == 2
    assert said in capsys.readouterr().err


def test_the_estimate_is_that_of_the_layers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "build.json"
    assert main(["build", DIGITS, "--board", "nrf52840dk", "--json", str(out)]) == 0
    cycles = sum(step["cycles"] for step in json.loads(out.read_text())["steps"])
    said = " ".join(capsys.readouterr().out.split())
    wanted = f"estimated {cycles / 64000:.3g} ms at 64 MHz on nrf52840dk/nrf52840: modelled"
    assert wanted in said and "times the estimate, and longer if its flash has" in said


def test_without_a_model_the_reason_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    external = "it executes from external flash, whose reads must be counted"
    no_core = "there is no cycle model for cortex-"
    for board, reason, of_bench in (
        ("adafruit_kb2040", f"{no_core}m0+", external),
        ("bbc_microbit", f"{no_core}m0", f"{no_core}m0"),
        ("teensy41", external, external),
        ("frdm_k22f", "its clock is unknown", "its clock is unknown"),
        ("nrf5340dk/nrf5340/cpunet", f"{no_core}m33+nodsp", f"{no_core}m33+nodsp"),
    ):
        assert main(["build", DIGITS, "--board", board]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert f"no estimate of milliseconds on {board}: {reason}" in said
        assert main(["bench", DIGITS, "--board", board]) == 1
        assert f"no estimate for {board}: {of_bench}" in capsys.readouterr().err


def test_a_board_is_counted_with_its_kernels(tmp_path: Path) -> None:
    by_board, by_machine = tmp_path / "board.json", tmp_path / "machine.json"
    assert main(["bench", DIGITS, "--board", "nucleo_g071rb", "--json", str(by_board)]) == 0
    words = ["bench", DIGITS, "--on", "qemu:m0", "--target", "v6m", "--json", str(by_machine)]
    assert main(words) == 0
    board, machine = (json.loads(one.read_text()) for one in (by_board, by_machine))
    assert board["cycles"] == machine["cycles"] and board["time"]


def test_cores_and_wait_states_cost_cycles() -> None:
    plain = Board("b", "", "s", "cortex-m4", 1, 1, 100)
    assert 1000 * 100_000 * cycle_seconds(plain) == 1
    slower = dataclasses.replace(plain, core="cortex-m7", waits=5)
    assert 1000 * 100_000 * cycle_seconds(slower) == CORE_FACTORS["cortex-m7"] * (1 + 5 * MISSES)


@pytest.mark.parametrize("name", BOARDS)
def test_boards_with_known_flash_count(name: str) -> None:
    board = known()[name]
    flash = BOARDS[name].at(board.megahertz or 0)
    assert board.external == bool(flash.bus)
    assert board.external or (board.waits == flash.waits > 0 and not board.unknown)
    assert flash.caches.code > 0
    assert emulated(board.cpu).startswith("qemu:") and not board.lacks(TIMINGS, bool(flash.bus))


def test_patterns_match_boards_and_socs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "boards.json"
    assert main(["boards", "stm32f411xe", "--json", str(out)]) == 0
    names = [board["name"] for board in json.loads(out.read_text())]
    assert "nucleo_f411re" in names and all(known()[n].soc == "stm32f411xe" for n in names)
    assert main(["boards", "nrf52840dk", "--json", str(out)]) == 0
    assert {board["estimate"] for board in json.loads(out.read_text())} == {True}
    assert "nrf52840dk/nrf52811" in capsys.readouterr().out


@pytest.mark.parametrize("width", [60, 80])
def test_no_name_or_figure_is_cut(width: int) -> None:
    console = Console(width=width, file=io.StringIO())
    print_boards(list(known().values()), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text and "32,768K" in text
    assert max(map(len, text.splitlines()[:-2])) <= width


def test_a_board_is_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    board = ["--board", "nucleo_f411re"]
    assert main(["check", DIGITS, *board]) == 0
    assert f"of {(128 - 16) * 1024:,} allowed" in capsys.readouterr().out
    # Of a network with few variants, all of which a search tries.
    assert main(["check", HELLO, *board, "--max-ram", "4"]) == 1
    assert main(["fit", HELLO, *board, "--ram", "4", "--quiet"]) == 1
    assert main(["check", DIGITS, "--board", "nucleo_l011k4"]) == 1
    assert "leave nothing of nucleo_l011k4" in capsys.readouterr().err


def test_boards_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["boards", "nrf52840dkk"]) == 1
    assert (
        "error: no board or SoC is called 'nrf52840dkk'. hint: did you mean"
        in capsys.readouterr().err
    )
    assert main(["boards", "nrf99"]) == 1
    assert "mean 'nrf9160', 'nrf9151' or 'nrf9131'?" in capsys.readouterr().err
    assert main(["boards", "zzz"]) == 1
    assert "hint: write a part of a name as '*part*'" in capsys.readouterr().err
    assert main(["boards", "*nrf52840dk*"]) == 0
