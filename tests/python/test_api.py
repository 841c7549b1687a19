# SPDX-License-Identifier: Apache-2.0
"""`vmcu.load().plan().report()` gives what `vmcu build` writes, and says what it says."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import numpy as np
import pytest
import vmcu
import vmcu_tools
from builders import onnx_models
from vmcu_lab.placement.complaints import Complaint, InputError
from vmcu_tools import cli
from vmcu_tools.api import PlanOptions
from vmcu_tools.commands import build
from vmcu_tools.peaks import _known
from vmcu_tools.plan.pools import Region

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"
TINY = ROOT / "tests" / "runtime" / "tiny.onnx"
PAGE = ROOT / "doc" / "python.md"
SEVERAL = r"Mapping\[str, int \| str\] \| tuple\[Region, \.\.\.\] \| str \| None"
# Asked for by a keyword, and by words of the command line.
ASKED = [
    ({}, ()),
    ({"ram": "64K"}, ("--ram", "64K")),
    ({"ram": 4000, "target": "portable"}, ("--ram", "4000", "--target", "portable")),
    ({"stream_input": True}, ("--stream-input",)),
    ({"external_input": True}, ("--external-input",)),
    ({"rotate": True}, ("--rotate",)),
    ({"extra_macs": 8, "effort": "quick"}, ("--extra-macs", "8", "--effort", "quick")),
    (
        {"extra_macs": np.float64(0.5), "ram": np.int64(4096)},
        ("--extra-macs", "0.5", "--ram", "4K"),
    ),
    ({"memory": {"fast": "2K", "slow": 65536}}, ("--memory", "fast=2K,slow=64K")),
    ({"workers": 2}, ("--workers", "2")),
    ({"hop": 1}, ("--hop", "1")),
    ({"hop": 1, "time": "w"}, ("--hop", "1", "--time", "w")),
    ({"state": ["none"]}, ("--state", "none")),
    ({"state": ("none",)}, ("--state", "none")),
]


def timeless(figures: dict) -> dict:
    """Without what no two runs have in common."""
    return {k: v for k, v in figures.items() if k not in ("solve_seconds", "notes")}


@pytest.mark.parametrize(("keywords", "words"), ASKED, ids=lambda one: str(one)[:30])
def test_it_is_what_build_writes(keywords: dict, words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "build.json"
    out = tmp_path / "built"
    assert cli.main(["build", str(DIGITS), "-o", str(out), "--json", str(file), *words]) == 0
    plan = vmcu.load(DIGITS).plan(**keywords)
    # As JSON has no tuples.
    found = json.loads(json.dumps(plan.report().as_dict()))
    assert timeless(found) == timeless(json.loads(file.read_text()))
    for path in plan.write(tmp_path / "here"):
        assert path.read_bytes() == (out / path.name).read_bytes()


def test_every_option_of_planning_is_a_keyword() -> None:
    """But for those that say how files are laid out and calibrated, or that tests only need."""
    parser = build.add(argparse.ArgumentParser().add_subparsers())
    others = {"help", "model", "output", "format", "online", "name", "pareto", "json", "html"}
    others |= {"picture", "input_layout", "calibration", "calibration_method", "per_tensor"}
    others |= {"constant", "product", "model_version", "all", "board", "flash_bus", "report"}
    options = {action.dest for action in parser._actions} - others
    keywords = {field.name for field in fields(PlanOptions)}
    assert keywords == options
    page = PAGE.read_text()
    assert [k for k in keywords if f"| `{k}` | `--" not in page] == []


@pytest.mark.parametrize(
    ("keywords", "kind"),
    [
        ({"stream_input": "no"}, "bool"),
        ({"rotate": 1}, "bool"),
        ({"ram": 1.5}, r"int \| str \| None"),
        ({"ram": True}, r"int \| str \| None"),
        ({"ram": b"64K"}, r"int \| str \| None"),
        ({"ram": [4096]}, r"int \| str \| None"),
        ({"hop": "1"}, "int"),
        ({"hop": None}, "int"),
        ({"time": 1}, r"str \| None"),
        ({"effort": None}, "str"),
        ({"effort": 1}, "str"),
        ({"target": Path("dsp")}, r"str \| None"),
        ({"extra_macs": False}, "float"),
        ({"external_input": None}, "bool"),
        ({"external_weights": 8e6}, r"WeightStore \| str \| None"),
        ({"state": {"a": "b"}}, r"Sequence\[str\] \| None"),
        ({"memory": ["fast=2K"]}, SEVERAL),
        ({"memory": ("fast=2K",)}, SEVERAL),
        ({"hop": 1.0}, "int"),
        ({"extra_macs": "3"}, "float"),
        ({"state": "a:b"}, r"Sequence\[str\] \| None"),
        ({"state": [1]}, r"Sequence\[str\] \| None"),
        ({"memory": {"fast": 1.5}}, SEVERAL),
        ({"memory": {1: 64}}, SEVERAL),
    ],
)
def test_values_of_other_types(keywords: dict, kind: str) -> None:
    (value,) = keywords.values()
    with pytest.raises(TypeError, match=rf"is {re.escape(repr(value))}, not of type {kind}$"):
        vmcu.load(DIGITS).plan(**keywords)


def test_unknown_keywords() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'tile_cost'"):
        vmcu.load(DIGITS).plan(tile_cost=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        vmcu.load(DIGITS).plan("64K")  # type: ignore[call-arg]


def test_options_convert_once_and_stay() -> None:
    options = PlanOptions(ram="64K", memory={"fast": "2K"}, state=["a:b"], external_weights="8MB/s")
    assert (options.ram, options.state) == (65536, ("a:b",))
    assert options.memory == (Region("fast", 2048, 0.0),)
    assert replace(options) == options and hash(replace(options)) == hash(options)
    assert pickle.loads(pickle.dumps(options)) == options
    assert options.given() == {"ram", "memory", "state", "external_weights"}
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'ram'"):
        options.ram = 1


def test_figures() -> None:
    report = vmcu.load(DIGITS, name="mine").plan().report()
    assert report.bytes == vmcu.peak(DIGITS) == report.figures.pool_bytes
    assert sum(layer.macs for layer in report.layers) == report.macs + report.macs_extra
    assert report.flash_bytes == report.figures.weights_bytes + report.figures.tables_bytes
    assert report.figures.model == "mine"
    assert f"RAM    {report.bytes:,} bytes" in str(report)


def test_a_notebook_shows_the_picture(tmp_path: Path) -> None:
    report = vmcu.load(DIGITS).plan().report()
    svg = tmp_path / "pool.svg"
    assert cli.main(["build", str(DIGITS), "--picture", str(svg)]) == 0
    assert report._repr_svg_() == svg.read_text()
    shown = report._repr_html_()
    ET.fromstring(shown.replace("><p>", "/><p>", 1).join(("<cell>", "</cell>")))
    assert "http" not in re.sub(r"base64,[^\"]*", "", shown)
    assert f"{report.bytes:,} bytes of RAM" in shown


def test_save(tmp_path: Path) -> None:
    report = vmcu.load(DIGITS).plan().report()
    assert report.save(tmp_path / "a.svg").read_text() == report.svg()
    assert "<html" in report.save(str(tmp_path / "a.html")).read_text()
    assert json.loads(report.save(tmp_path / "a.json").read_text())["pool_bytes"] == report.bytes
    with pytest.raises(vmcu.UserError, match=r"'\.pdf' file"):
        report.save(tmp_path / "a.pdf")
    assert not (tmp_path / "a.pdf").exists()


def test_a_float_model_is_quantised_once(tmp_path: Path) -> None:
    path = onnx_models.float_network(tmp_path / "float.onnx")
    samples = np.random.default_rng(1).normal(size=(4, 3, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", samples)
    model = vmcu.load(path, calibration=tmp_path / "samples.npz")
    assert model.plan().report().bytes == model.plan(target="dsp").report().bytes > 0
    assert model._int8 is model._int8
    with pytest.raises(vmcu.UserError):
        vmcu.load(path).plan()


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"ram": "64Q"}, "ram: '64Q' is not a size"),
        ({"ram": 0}, "ram: '0' is not a size"),
        ({"ram": 10}, "does not fit"),
        ({"hop": -1}, "hop: '-1' is not a count"),
        ({"target": "none"}, "target: there is no target 'none'"),
        ({"extra_macs": -1}, "extra_macs: '-1' is not a percentage"),
        ({"memory": {"a b": 1}}, "is not a memory"),
        ({"memory": "a=1K", "ram": 1000}, "--memory cannot be combined with --ram"),
        ({"stream_input": True, "external_input": True}, "cannot be combined with --stream-input"),
        ({"hop": 1, "time": "x"}, "time: there is no 'x'"),
        (
            {"effort": "most"},
            "effort: there is no 'most'. hint: choose one of: quick, normal, long",
        ),
        ({"external_weights": "fast"}, "external_weights: 'fast' is no memory for weights"),
        ({"memory": {}}, "memory: '' is not a memory"),
        ({"extra_macs": float("nan")}, "extra_macs: 'nan' is not a percentage"),
        ({"hop": 1, "rotate": True}, "--hop cannot be combined with --rotate"),
    ],
)
def test_what_is_wrong_is_said(keywords: dict, said: str) -> None:
    with pytest.raises(vmcu.UserError, match=re.escape(said)):
        vmcu.load(TINY).plan(**keywords)


def test_files_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(vmcu.UserError, match="no such file"):
        vmcu.load(tmp_path / "none.onnx")
    with pytest.raises(vmcu.UserError, match="not a C identifier"):
        vmcu.load(DIGITS, name="no name")


def test_the_package_has_what_the_compiler_has() -> None:
    assert (vmcu_tools.load, vmcu_tools.peak) == (vmcu.load, vmcu.peak)
    assert vmcu.__version__ == vmcu_tools.__version__
    light = "import vmcu_tools, sys; print('numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", light], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    code = "".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S))
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    printed = io.StringIO()
    here = Path.cwd()
    try:
        os.chdir(tmp_path)
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), {})
    finally:
        os.chdir(here)
    assert "1000 are allowed" in printed.getvalue()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "report.html", "samples"]


def test_what_is_wrong_comes_out_of_a_pool_of_processes() -> None:
    with pytest.raises(vmcu.UserError) as caught:
        vmcu.load(TINY).plan(ram=10)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems and str(again) == str(caught.value)
    refused = InputError(Complaint("too large", "allow more", "x.csv"))
    assert pickle.loads(pickle.dumps(refused)).complaints == refused.complaints


def test_the_folder_of_known_peaks(tmp_path: Path) -> None:
    """Named by a string, and with an entry that is none."""
    _known.clear()
    first = vmcu.peak(DIGITS, cache=str(tmp_path))
    (entry,) = tmp_path.iterdir()
    assert entry.read_text() == str(first)
    entry.write_text("cut of")
    _known.clear()
    assert vmcu.peak(DIGITS, cache=tmp_path) == first
