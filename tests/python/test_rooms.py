# SPDX-License-Identifier: Apache-2.0
"""Which room of the compiler may import which: only those above it in one list, and no module in a
circle.

The virtual MCU stands above the planners, which replay what they find before they return it, and
places above stages, which are cut by what the places of their tensors cost.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import vmcu_tools

PYTHON = Path(vmcu_tools.__file__).parents[1]
# What stands on the compiler, which works without it.
ABOVE = ("vmcu_bench", "vmcu_check", "vmcu_lab", "vmcu_split", "vmcu_kernelgen")
ROOMS = (
    *(
        "exits",
        "errors",
        "runtimes",
        "progress",
        "paths",
        "collector",
        "training",
        "child",
        "quant",
    ),
    *("graph", "boards", "kernels", "ops", "frontends", "passes"),
    *("plan", "ordering", "machine", "values"),
    *(
        "planner.params",
        "planner.keyword",
        "planner.options",
        "planner.places",
        "planner.stages",
        "planner.regions",
    ),
    *("planner.single", "planner.registry", "planner.rotate", "planner.read_ahead"),
    "planner.workers",
    *("compiler", "training_compiler"),
    *("peaks", "emit", "container"),
    *(
        f"vmcu_bench.{name}"
        for name in ("image", "cores", "probe", "runners", "oracle", "verify", "cycles", "fit")
    ),
    *(f"vmcu_lab.{name}" for name in ("placement", "offline", "distances", "planners", "wear")),
    "vmcu_check",
    *("quantize", "audio", "report", "vmcu_bench.report", "vmcu_lab.report", "model_file", "api"),
    *(f"vmcu_split.{name}" for name in ("pieces", "nodes", "search", "report", "tables")),
    *("commands", "vmcu_lab.commands", "vmcu_bench.commands", "vmcu_split.commands"),
    *("cli", "entry", "__main__"),
    "vmcu_kernelgen",
)
# Other people's graphs and buffers are placed without any of the rest. Checks share nothing with
# what they check.
ALONE = {
    "vmcu_lab.placement": {"vmcu_lab.placement", "ordering", "child"},
    "vmcu_check": {"vmcu_check"},
}
# What makes a plan and its tables, and the packages that it may import: `pip install .` adds them.
PLANNING = {
    room for room in ROOMS if room.partition(".")[0] in ("passes", "plan", "planner", "emit")
}
CORE = {"numpy", "jinja2", "rich"}
HEAVY = ("numpy", "onnx", "pulp", "jinja2", "rich", "tflite")


def name_of(file: Path) -> str:
    """A module by its path; without the name of the compiler's package, which itself has none."""
    parts = file.relative_to(PYTHON).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts[1:] if parts[0] == "vmcu_tools" else parts)


MODULES = {
    name_of(file): file for name in ("vmcu_tools", *ABOVE) for file in (PYTHON / name).rglob("*.py")
}


def imported(module: str, tree: ast.AST) -> set[str]:
    """The modules of these packages that another one imports, wherever in it."""
    here = ("" if module.startswith(ABOVE) else "vmcu_tools.") + module
    here = here.strip(".").split(".")
    package = here if MODULES[module].name == "__init__.py" else here[:-1]
    found = set()
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = [*base, *(node.module.split(".") if node.module else [])]
            names = [".".join([*source, alias.name]) for alias in node.names]
        for name in names:
            top, _, inner = name.partition(".")
            if top in ABOVE:
                inner = name
            if top in ("vmcu_tools", *ABOVE):
                found.add(inner if inner in MODULES else inner.rpartition(".")[0])
    return found - {module}


@functools.cache
def imports() -> dict[str, set[str]]:
    """By module. The package itself names for type checkers what it loads when asked."""
    return {
        name: imported(name, ast.parse(file.read_text())) if name else set()
        for name, file in MODULES.items()
    }


def room(module: str) -> str | None:
    """The room a module is in; None for packages that hold nothing but rooms."""
    rooms = (room for room in ROOMS if f"{module}.".startswith(f"{room}."))
    return next(rooms, None)


def test_every_module_is_in_a_room() -> None:
    assert {module for module in MODULES if room(module) is None} == {
        "",
        "planner",
        "vmcu_bench",
        "vmcu_lab",
        "vmcu_split",
    }


def test_imports_go_up() -> None:
    ranks = {module: ROOMS.index(room(module) or ROOMS[0]) for module in MODULES}
    down = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if ranks[other] > ranks[module]
    ]
    assert down == []


@pytest.mark.parametrize("alone", ALONE)
def test_what_stands_alone(alone: str) -> None:
    others = {room(o) for m, found in imports().items() if room(m) == alone for o in found}
    assert others <= ALONE[alone]


# An editable installation has the whole checkout on the path.
ALONE_ONLY = """
import runpy, sys
from pathlib import Path
sys.path[:] = [sys.argv.pop(1), *(p for p in sys.path if not (Path(p) / "vmcu_bench").exists())]
"""


def test_the_compiler_works_alone(tmp_path: Path) -> None:
    """Without the packages that stand on it; what needs one says so in a line."""
    for name in ("vmcu", "vmcu_tools"):
        shutil.copytree(PYTHON / name, tmp_path / "site" / name)
    model = PYTHON.parent / "samples" / "digits" / "digits.onnx"

    def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", ALONE_ONLY + code, str(tmp_path / "site"), *words],
            env={**os.environ, "PYTHONPATH": "", "VMCU_ROOT": str(PYTHON.parent)},
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )

    planned = run("import vmcu; print(vmcu.load(sys.argv[1]).plan().report().bytes)", str(model))
    assert planned.stdout == "2604\n", planned.stderr
    command = "runpy.run_module('vmcu_tools', run_name='__main__', alter_sys=True)"
    built = run(command, "build", str(model), "-o", "out")
    assert built.returncode == 0 and (tmp_path / "out" / "digits.c").exists(), built.stderr
    refused = run(command, "verify", str(model))
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert "'verify' is in the package vmcu_bench, which is not installed" in refused.stderr
    listed = run(command, "--help")
    assert listed.returncode == 0 and "  build " in listed.stdout and "verify" not in listed.stdout


def test_no_circle_between_modules() -> None:
    try:
        graphlib.TopologicalSorter(imports()).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def packages(module: str) -> set[str]:
    """The packages of others that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        found |= {name.partition(".")[0] for name in names}
    return found - {"vmcu_tools", *sys.stdlib_module_names}


def test_no_plan_depends_on_an_optional_package() -> None:
    """Neither what plans and writes tables, nor a module that it imports."""
    reached = {module for module in MODULES if room(module) in PLANNING}
    while more := {other for module in reached for other in imports()[module]} - reached:
        reached |= more
    assert "ordering.search" in reached
    users = {module for module in reached if not packages(module) <= CORE}
    assert users == set()
    assert packages("vmcu_lab.placement.program") == {"pulp"}, (
        "it needs one, so the test would see it"
    )


def test_a_class_means_one_thing_from_the_plan_on() -> None:
    rooms = {*ROOMS[ROOMS.index("plan") :]} - {"vmcu_kernelgen"}
    names = [
        node.name
        for module, file in MODULES.items()
        if room(module) in rooms
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert len(names) > 100
    assert [name for name in set(names) if names.count(name) > 1] == []


@pytest.mark.parametrize("words", ([], ["build"], ["bench"], ["place"], ["check"]))
def test_help_waits_for_nothing(words: list[str]) -> None:
    asked = (
        "import sys; from vmcu_tools.cli import main; main(sys.argv[1:]); "
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    command = [sys.executable, "-c", asked, *words, "--help"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "usage: vmcu" in run.stdout
    assert {name.partition(".")[0] for name in run.stderr.split()} & set(HEAVY) == set()


def test_a_constant_of_planning_has_one_value() -> None:
    """A name in capitals means the same in each module that plans."""
    values: dict[str, set[str]] = {}
    for module, file in MODULES.items():
        if room(module) not in (
            "planner",
            "vmcu_lab.placement",
            "ordering",
            "plan",
            "machine",
            "passes",
        ):
            continue
        for node in ast.parse(file.read_text()).body:
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                given = node.value.elts if several else [node.value] * len(names)
                for name, value in zip(names, given, strict=True):
                    if isinstance(name, ast.Name) and name.id.isupper():
                        values.setdefault(name.id, set()).add(ast.unparse(value))
    assert len(values) > 50
    assert {name: found for name, found in values.items() if len(found) > 1} == {}
