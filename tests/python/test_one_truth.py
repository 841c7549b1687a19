# SPDX-License-Identifier: Apache-2.0
"""Every command gives the same figures for the same file, name and options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import vmcu_tools
from builders.networks import OWN, network_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vmcu_tools.cli import main

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"
MODELS = [DIGITS, *(network_file(name) for name in OWN if name in ("ds-cnn", "resnet8"))]
OPTIONS: list[dict[str, object]] = [
    {},
    {"stream_input": True},
    {"external_input": True},
    {"tile_cost": 5},
    {"extra_macs": 5},
]
WORDS = {
    "stream_input": ["--stream-input"],
    "external_input": ["--external-input"],
    "tile_cost": ["--tile-cost", "5"],
    "extra_macs": ["--extra-macs", "5"],
}
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,60}", fullmatch=True).filter(lambda n: n != "vmcu")


def told(folder: Path, *words: object) -> dict:  # type: ignore[type-arg]
    out = folder / "told.json"
    main([*map(str, words), "--json", str(out), "--quiet"])
    return json.loads(out.read_text())  # type: ignore[no-any-return]


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(model=st.sampled_from(MODELS), name=NAMES, options=st.sampled_from(OPTIONS))
def test_flash_and_ram(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    model: Path,
    name: str,
    options: dict[str, object],
) -> None:
    words = [word for option in options for word in WORDS[option]]
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
    capsys.readouterr()


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
