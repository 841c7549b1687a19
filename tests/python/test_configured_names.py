# SPDX-License-Identifier: Apache-2.0
"""A library, a model and an application of different options do not link."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from vmcu_bench import runners
from vmcu_tools import paths
from vmcu_tools.emit.model import emit
from vmcu_tools.emit.output import write
from vmcu_tools.frontends import load
from vmcu_tools.passes import optimize
from vmcu_tools.planner.registry import make_plan

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="not installed: gcc")

TINY = paths.root() / "tests" / "runtime" / "tiny.onnx"
EXECUTOR = paths.runtime() / "executor.c"
# Each changes a struct or what a kernel does.
BUILDS = {
    "plain": (),
    "guard": ("VMCU_POOL_GUARD",),
    "rotate": ("VMCU_POOL_ROTATE",),
    "profile": ("VMCU_PROFILE",),
    "probe": ("VMCU_PROBE",),
    "counters": ("VMCU_COUNTERS",),
    "several_pools": ("VMCU_SEVERAL_POOLS",),
    "streams": ("VMCU_STREAMS",),
    "containers": ("VMCU_CONTAINERS",),
    "without_fixed": ("VMCU_NO_REQUANT_FIXED",),
    "rotate and containers": ("VMCU_POOL_ROTATE", "VMCU_CONTAINERS"),
}
MAIN = """
#include <vmcu/vmcu.h>
#include "m.h"
static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(m));
int main(void)
{
	static struct vmcu_context ctx;

	return vmcu_init(&ctx, &m_model, pool, sizeof(pool));
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("names")
    write(emit(make_plan(optimize(load(TINY))), "m").files, made)
    (made / "main.c").write_text(MAIN)
    return made


def compiled(folder: Path, source: Path, options: Sequence[str]) -> Path:
    """The object of a file in a build with options."""
    made = folder / f"{source.stem}-{'-'.join(options)}.o"
    include = [f"-I{paths.runtime() / 'include'}", f"-I{folder}"]
    defined = [f"-D{name}" for name in options]
    command = ["gcc", "-std=c99", "-Werror", *include, *defined, "-c", str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    return made


def names(made: Path, kind: str) -> set[str]:
    """Functions that set up structs, and models, of an object; kind: of nm."""
    command = ["nm", f"--{kind}-only", str(made)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {line.split()[-1] for line in text.splitlines()}
    return {name for name in found if name.startswith(("vmcu_init", "m_model"))}


def test_objects_of_different_options_do_not_link(folder: Path) -> None:
    defined, missing = {}, {}
    for build, options in BUILDS.items():
        runtime = names(compiled(folder, EXECUTOR, options), "defined")
        defined[build] = runtime, names(compiled(folder, folder / "m.c", options), "defined")
        missing[build] = names(compiled(folder, folder / "main.c", options), "undefined")
    for application, library in itertools.product(BUILDS, BUILDS):
        runtime, model = defined[library]
        fits = application == library
        assert (len(missing[application] & runtime) == 1) == fits, (application, library)
        assert (len(missing[application] & model) == 1) == fits, (application, library)


def test_a_rotating_library_does_not_link_with_a_plain_application(folder: Path) -> None:
    target = runners.get("host")
    rotating = replace(target, flags=(*target.flags, "-DVMCU_POOL_ROTATE"))
    archive = rotating.archive([folder / "main.c", folder / "m.c"])
    for options in ((), ("VMCU_POOL_ROTATE",)):
        objects = [compiled(folder, folder / name, options) for name in ("main.c", "m.c")]
        command = ["gcc", *map(str, objects), str(archive), "-lm", "-o", str(folder / "a.out")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == bool(options), done.stderr
        assert options or "undefined reference to `vmcu_init'" in done.stderr
