# SPDX-License-Identifier: Apache-2.0
"""Kernels that a container names: which the loader can link, and a refusal of any other."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from builders.any_core import Core
from builders.containers import changed
from layer_checks import Checks
from vmcu_bench.runners import RUNNERS
from vmcu_bench.runners.compiled import CompiledRunner
from vmcu_tools import container, paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.container.kernels import targets_of
from vmcu_tools.kernels.language.packing import WORDS
from vmcu_tools.kernels.programs import programs
from vmcu_tools.kernels.targets import TARGETS, condition, families, named, packings, readers
from vmcu_tools.ops.kernel_type import KERNEL_TYPES, KernelType
from vmcu_tools.ops.values import CStruct

# Without those of builders.any_core.
NAMES = tuple(TARGETS)
DIGITS = paths.root() / "samples" / "digits" / "digits.onnx"


@pytest.mark.parametrize(
    "words",
    [("verify", "--on", "host"), ("bench",), ("container", "kernels")],
    ids=lambda words: words[0],
)
def test_a_kernel_that_is_not_there_is_named(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = container.build(compile_model(DIGITS), "digits")
    name = next(one for one in container.kernels_of(image) if one.startswith("vmcu_pointwise"))
    at = image.index(name.encode() + b"\0") + len(name) - 1
    path = tmp_path / "later.vmcu"
    path.write_bytes(changed(image, at, "B", ord("x")))
    verbs, options = (words, ()) if words[0] == "container" else (words[:1], words[1:])
    assert main([*verbs, str(path), *options]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}: it needs the kernel '{name[:-1]}x'") and "hint" in said


def test_each_kernel_of_an_op_is_linked(core: Core, core_loader: ctypes.CDLL) -> None:
    """container/all.c lists the kernels that ops declare; this build has no models with state."""
    # Those of every core, and those that builders.any_core has here.
    here = {core.packing, *(one.packing for one in families() if one.name.startswith("any_"))}
    wanted = {
        symbol
        for symbol, kind in KERNEL_TYPES.items()
        if not kind.streams and (kind.packing in here or not condition(kind.packing))
    }
    assert set(Checks(core_loader).found) == wanted and len(KERNEL_TYPES) > len(wanted) > 35


def test_every_program_is_a_kernel_that_containers_can_name() -> None:
    """With the checks of its own packing, for as many targets as there are."""
    for packing in packings():
        for program in programs(packing).values():
            named = packing if program.symbol.endswith(packing.suffix or "!") else WORDS
            assert KERNEL_TYPES[program.symbol].packing == named
    for name, target in TARGETS.items():
        found = targets_of([f"vmcu_conv{target.packing.suffix}", "vmcu_add"])
        assert target in found and found == (readers(target.packing) if target.needs else found)
        assert len(found) == len(TARGETS) or target.needs, name
    assert targets_of(["vmcu_conv_helium", "vmcu_conv_pairs"]) == []


@pytest.fixture(scope="module")
def of_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A container of each target."""
    folder = tmp_path_factory.mktemp("targets")
    for name in NAMES:
        words = ["build", str(DIGITS), "--format", "container", "--name", name, "--target", name]
        assert main([*words, "-o", str(folder)]) == 0
    return {name: folder / f"{name}.vmcu" for name in NAMES}


MACHINES = {"helium": "--on qemu:m55"} | dict.fromkeys(
    ("rv32", "v6m"), "--on qemu:m0 or --on qemu:rv32"
)


@pytest.mark.parametrize("words", [("verify",), ("run",), ("bench",)], ids=lambda words: words[0])
@pytest.mark.parametrize("machine", ["host", "qemu:m4"])
def test_a_machine_without_the_kernels_is_refused(
    words: tuple[str, ...],
    machine: str,
    of_target: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    if words[0] == "bench" and machine == "host":
        machine = "qemu:m3"
    if words[0] == "run":
        words = (*words, "--input", "none.npy")
    for name, machines in MACHINES.items():
        path = of_target[name]
        assert main([words[0], str(path), *words[1:], "--on", machine]) == 1
        said = capsys.readouterr().err
        start = f"error: {path}: {machine} cannot run this container, which is for "
        assert said.startswith(start) and f"(--target {name})" in said
        assert said.endswith(f" hint: {machines}\n")


def test_cores_are_shown(of_target: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    for name, path in of_target.items():
        assert main(["container", "show", str(path)]) == 0
        said = capsys.readouterr().out
        assert ("\ncores: " in said) == (name in MACHINES)
        assert (f"{TARGETS[name].title} (--target {name})" in said) == (name in MACHINES)


@pytest.mark.parametrize("name", MACHINES)
def test_commands_run_it_on_a_machine_of_its_target(
    name: str, of_target: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = next(one for one, found in RUNNERS.items() if getattr(found, "family", None) == name)
    path = str(of_target[name])
    assert main(["verify", path, "--on", machine, "-n", "2"]) == 0
    assert f"on {machine}+container: PASSED" in capsys.readouterr().out
    assert main(["bench", path, "--on", machine, "--json", str(tmp_path / "bench.json")]) == 0
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.full((1, 1, 8, 8), 3, np.int8))
    assert main(["run", path, "--input", str(x), "--on", machine, "--output", str(y)]) == 0
    wanted = tmp_path / "wanted.npy"
    words = ["run", str(of_target["dsp"]), "--input", str(x), "--output", str(wanted)]
    assert main(words) == 0
    np.testing.assert_array_equal(np.load(y), np.load(wanted))


@pytest.mark.parametrize("name", NAMES)
def test_kernels_of_other_cores_do_not_compile(
    name: str, of_target: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["container", "kernels", str(of_target[name])]) == 0
    source = tmp_path / "kernels.c"
    source.write_text(capsys.readouterr().out)
    for machine, runner in RUNNERS.items():
        if machine not in ("host", "qemu:m4", "qemu:m55", "qemu:m0", "qemu:rv32"):
            continue
        assert isinstance(runner, CompiledRunner)
        include = f"-I{paths.runtime() / 'include'}"
        command = [runner.toolchain.compiler, *runner.flags, include, "-DVMCU_CONTAINERS"]
        command += ["-fsyntax-only", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        fits = named(runner.family).packing == TARGETS[name].packing or not TARGETS[name].needs
        assert (done.returncode == 0) == fits, done.stderr
        assert (
            fits or f"these kernels run on {readers(TARGETS[name].packing)[0].title}" in done.stderr
        )


def test_a_pointer_that_nothing_checks_is_refused() -> None:
    params = CStruct("vmcu_some_params", "const int8_t *some, *other; bool flag;")
    for arrays in ({}, {"some": "4U"}):
        with pytest.raises(TypeError, match=r"vmcu_some: .*'other'"):
            KernelType("vmcu_some", params, "vmcu_check_calls(c)", arrays=arrays)
    with pytest.raises(TypeError, match="vmcu_none: nothing checks"):
        KernelType("vmcu_none", None)
    assert not {"vmcu_some", "vmcu_none"} & KERNEL_TYPES.keys()
