# SPDX-License-Identifier: Apache-2.0
"""Targets: what they say when something is missing, and what their image watches over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_graphs import Builder, disjoint, random_inputs, random_layers
from vmcu_tools import paths, runners
from vmcu_tools.emit import emit
from vmcu_tools.errors import UserError
from vmcu_tools.ops.requantize import Requantize
from vmcu_tools.plan.plan import Plan
from vmcu_tools.runners.base import RunnerError
from vmcu_tools.runners.compiled import CompiledRunner

IMAGES = ("host", "qemu:m3", "qemu:m4", "qemu:m7", "qemu:m33")


def compiled(name: str) -> CompiledRunner:
    target = runners.get(name)
    assert isinstance(target, CompiledRunner)
    return target


def copy_plan() -> Plan:
    """One layer that copies 2 x 3 x 4 bytes."""
    builder = Builder(np.random.default_rng(0))
    out = builder.node(Requantize(None), [builder.input((2, 3, 4))], (2, 3, 4))
    return disjoint(builder.graph([out.name]))


def test_unknown_target_lists_the_known() -> None:
    with pytest.raises(UserError, match=r"'m0'(.|\n)*virtual, host, .*qemu:m3, qemu:m4,"):
        runners.get("m0")


@pytest.mark.parametrize(("name", "package"), [("host", "gcc"), ("qemu:m4", "gcc-arm-none-eabi")])
def test_missing_compiler(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=f"apt-get install {package}"):
        runners.get(name).run(copy_plan(), [])


def test_missing_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="apt-get install qemu-system-arm"):
        compiled("qemu:m4").command(Path("image.elf"))


@pytest.mark.parametrize("name", ["virtual", *IMAGES])
def test_samples_come_back_in_order(name: str) -> None:
    plan = copy_plan()
    samples = [random_inputs(plan.graph, seed) for seed in range(5)]
    results = runners.get(name).run(plan, samples)
    assert [len(outputs) for outputs in results] == [1] * 5
    for sample, outputs in zip(samples, results, strict=True):
        np.testing.assert_array_equal(outputs[0], sample[0])


@pytest.mark.parametrize("name", IMAGES)
def test_image_notices_a_write_outside_the_pool(name: str, tmp_path: Path) -> None:
    plan = copy_plan()
    files = emit(plan, "m").files
    files["m.c"] = files["m.c"].replace(".base = 24,", ".base = 25,")
    target = compiled(name)
    image = target.build(files, "m", tmp_path)
    with pytest.raises(RunnerError, match="outside the pool"):
        target.execute(image, plan, [random_inputs(plan.graph, 0)])


def test_sanitizer_notices_a_read_outside_the_pool(tmp_path: Path) -> None:
    plan = copy_plan()
    files = emit(plan, "m").files
    files["m.c"] = files["m.c"].replace(".base = 0,", ".base = 25,")
    files["m.c"] = files["m.c"].replace(".stride = 12,", ".stride = 20,", 1)
    target = compiled("host:sanitize")
    image = target.build(files, "m", tmp_path)
    with pytest.raises(RunnerError, match="AddressSanitizer"):
        target.execute(image, plan, [random_inputs(plan.graph, 0)])


def test_model_larger_than_the_board() -> None:
    builder = Builder(np.random.default_rng(0))
    x = builder.input((1000, 60, 60))
    out = builder.node(Requantize(None), [x], x.shape)
    with pytest.raises(UserError, match="does not fit into qemu:m3"):
        runners.get("qemu:m3").run(disjoint(builder.graph([out.name])), [])


def test_an_image_holds_only_the_kernels_it_needs(tmp_path: Path) -> None:
    plan = disjoint(random_layers("max_pool", 1, seed=0))
    image = compiled("qemu:m3").build(emit(plan, "m").files, "m", tmp_path).read_bytes()
    assert b"vmcu_max_pool" in image
    assert b"vmcu_conv2d" not in image


def test_missing_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(paths.ROOT_VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match="set VMCU_ROOT"):
        paths.runtime()
