# SPDX-License-Identifier: Apache-2.0
"""Rows of doc/public-models.md whose files are here are computed again."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import pytest
from builders.networks import SHARED

from scripts import script

PAGE = script("public", "benchmarks/public/run.py")
SAMPLES = PAGE.ROOT / "samples"
ROWS = {row["model"]: row for row in PAGE.listed(PAGE.LIST)}
# Whose instructions are counted in seconds.
QUICK = ("ad01", "str_ww_ref_model", "digits", "gesture")
HERE = [
    *("ad01", "kws_ref_model", "pretrainedResnet", "vww_96", "str_ww_ref_model"),
    *("mcunet-vww1", "mcunet-in3", "digits", "gesture", "heartbeat"),
]
MISSING = [p for p in ("qemu-system-arm", "arm-none-eabi-gcc") if shutil.which(p) is None]


@functools.cache
def files() -> dict[str, Path]:
    return PAGE.files_in(SHARED) if SHARED.is_dir() else {}  # type: ignore[no-any-return]


def compare(model: str, cores: tuple[str, ...] | None, folder: Path) -> None:
    """With a row's figures, all but those of other cores."""
    row = ROWS[model]
    file = PAGE.file_of(row, files(), folder)
    if file is None:
        pytest.skip(f"{model}: its file is not in ../shared/models")
    found = PAGE.figures(file, folder, cores)
    assert found.items() <= row.items()


@pytest.mark.parametrize("model", HERE)
def test_ram_and_flash_are_those_of_the_page(model: str, tmp_path: Path) -> None:
    compare(model, (), tmp_path)


@pytest.mark.parametrize(
    "model", [pytest.param(one, marks=[pytest.mark.slow] * (one not in QUICK)) for one in HERE]
)
def test_instructions_are_those_of_the_page(model: str, tmp_path: Path) -> None:
    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}")
    compare(model, None, tmp_path)


def test_files_are_known_by_their_bytes(tmp_path: Path) -> None:
    """Whatever their names; another file is none of the list."""
    row = ROWS["digits"]
    file = PAGE.ROOT / row["path"]
    shutil.copy(file, tmp_path / "renamed.onnx")
    assert PAGE.files_in(tmp_path) == {row["sha256"]: tmp_path / "renamed.onnx"}
    (tmp_path / "renamed.onnx").write_bytes(file.read_bytes() + b"\0")
    public = row | {"repository": "someone/else"}
    assert PAGE.file_of(public, PAGE.files_in(tmp_path), tmp_path) is None
    assert PAGE.updated(public, {}) == public


def test_a_file_that_differs_by_a_step_is_not_exact() -> None:
    """digits has a mean, which ONNX Runtime computes in float."""
    assert PAGE.is_exact(SAMPLES / "gesture" / "gesture.onnx", ())
    assert not PAGE.is_exact(SAMPLES / "digits" / "digits.onnx", ())
    with pytest.raises(SystemExit, match="no such file"):
        PAGE.is_exact(SAMPLES / "none.onnx", ())


def test_the_list_has_twenty_public_files() -> None:
    public = [row for row in ROWS.values() if row["repository"] != PAGE.OWN]
    assert len({row["sha256"] for row in public}) == len(public) >= 20
    assert all(len(row["sha256"]) == 64 and row["exact"] == "yes" for row in public)
