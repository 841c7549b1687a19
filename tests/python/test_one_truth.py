# SPDX-License-Identifier: Apache-2.0
"""Every command gives the same figures for the same file, name and options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import vmcu_tools
from builders.networks import network_file
from vmcu_tools.cli import main

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"
# A network, its name in C, keywords of Python and words of the command line.
CASES = [
    ("digits", "a", {}, []),
    ("digits", "n" * 61, {"stream_input": True}, ["--stream-input"]),
    ("digits", "some_name", {"effort": "quick"}, ["--effort", "quick"]),
    ("digits", "b", {"extra_macs": 5}, ["--extra-macs", "5"]),
    ("ds-cnn", "net_2", {"external_input": True}, ["--external-input"]),
    pytest.param(
        "resnet8", "net", {"extra_macs": 5}, ["--extra-macs", "5"], marks=pytest.mark.slow
    ),
]


def told(folder: Path, *words: object) -> dict:  # type: ignore[type-arg]
    out = folder / "told.json"
    main([*map(str, words), "--json", str(out), "--quiet"])
    return json.loads(out.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize(("network", "name", "options", "words"), CASES)
def test_flash_and_ram(
    tmp_path: Path, network: str, name: str, options: dict[str, object], words: list[str]
) -> None:
    model = DIGITS if network == "digits" else network_file(network)
    named = ["--name", name]
    built = told(tmp_path, "build", model, *named, *words)
    flash = built["weights_bytes"] + built["tables_bytes"]
    fitted = told(tmp_path, "fit", model, *named, *words, "--ram", "1M", "--flash", flash)
    assert fitted["measured"]["flash_bytes"] == flash and fitted["fits"]
    assert fitted["measured"]["pool_bytes"] == built["pool_bytes"]
    checked = told(tmp_path, "check", model, *named, *words, "--max-flash", flash)
    assert checked["weights_bytes"] + checked["tables_bytes"] == flash
    limits = ["--max-flash", str(flash - 1)]
    assert main(["check", str(model), *named, *words, *limits, "--quiet"]) == 1
    figures = vmcu_tools.load(model, name=name).plan(**options).report()  # type: ignore[arg-type]
    assert (figures.flash_bytes, figures.bytes) == (flash, built["pool_bytes"])
    if not options:
        assert told(tmp_path, "inspect", model, *named)["flash_bytes"] == flash


def test_a_difference_has_the_same_figures(tmp_path: Path) -> None:
    built = told(tmp_path, "build", DIGITS)
    found = told(tmp_path, "compare", DIGITS, DIGITS)
    flash = built["weights_bytes"] + built["tables_bytes"]
    assert {flash} == {
        figure
        for change in found["changes"]
        if change["figure"] == "flash_bytes"
        for figure in (change["before"], change["after"])
    }
