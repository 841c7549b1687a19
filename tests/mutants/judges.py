# SPDX-License-Identifier: Apache-2.0
"""The test cases that may notice a change of a file: those of test files that import it, then those
of test files that import its package. For C, both are named here, and the first are also those of
test files that import the operator that has the file's name."""

from __future__ import annotations

import ast
import functools
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tree import ALONE, ROOT, Tree

# Of `./test pytest`.
SECONDS = ROOT / "build/test/cases/pytest.json"
# Packages that write kernels, which one test compares with the committed ones.
GENERATING = ("vmcu_kernelgen.", "vmcu_tools.kernels.programs.", "vmcu_tools.kernels.targets.")
# By file or folder of lib/vmcu; the last is for all of it.
C_TESTS = {
    "container": (
        *("container_damages", "container", "container_blocks", "container_checks"),
        *("container_edges", "container_kept", "container_layers", "container_streams"),
        *("container_rotation", "container_tables", "replay", "online", "online_chains", "updates"),
    ),
    "include/vmcu/container.h": ("container_damages", "container", "updates"),
    "kernels": ("kernels_c", "float_sum", "support_c", "split_rows_c", "kept_c"),
    "audio": ("audio",),
    "link": ("split",),
    "endurance": ("wear", "wear_heap", "wear_objects", "endurance"),
    "": ("c", "convert", "rotation", "fusion", "streams", "external_weights"),
}


@dataclass(frozen=True)
class Test:
    name: str
    seconds: float


@dataclass
class Judges:
    """killers: by file, how many of its mutants a test has killed. failed: tests that fail without
    any mutant, which can judge none; passed: those that do not."""

    tree: Tree
    only: tuple[str, ...] = ()
    killers: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failed: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)

    def of(self, file: str, wide: bool) -> list[Test]:
        """First those that have killed mutants of the file, then the cheapest of each test file,
        the next of each, and so on: files look at different things."""
        tests = self.only or test_files(file, wide)
        killers, turns, places = self.killers[file], Counter[str](), {}
        for test in sorted(cases(self.tree, tests), key=lambda test: (test.seconds, test.name)):
            test_file = test.name.partition("::")[0]
            places[test] = (-killers[test.name], turns[test_file], test.seconds, test.name)
            turns[test_file] += 1
        return [
            test for test in sorted(places, key=places.__getitem__) if test.name not in self.failed
        ]

    def passes(self, name: str, tree: Tree) -> bool:
        """Whether a test passes without a mutant; it is run the first time that one asks."""
        if name not in self.passed | self.failed:
            (self.failed if tree.run([name], ALONE)[0] else self.passed).add(name)
        return name in self.passed


def test_files(file: str, wide: bool) -> tuple[str, ...]:
    """Those that import a file, or, wide, a file of its package and not this one."""
    if not file.endswith(".py"):
        within = [tests for part, tests in C_TESTS.items() if file.startswith(f"lib/vmcu/{part}")]
        names = C_TESTS[""] if wide else within[0]
        op = f"vmcu_tools.ops.{Path(file).stem}"
        own = () if wide else (name for name, read in imported().items() if op in read)
        return tuple(dict.fromkeys((*own, *(f"tests/python/test_{name}.py" for name in names))))
    parts = Path(file).with_suffix("").parts[1:]
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    package = ".".join(parts[:-1])
    wanted = {module, "vmcu_kernelgen.generate"} if module.startswith(GENERATING) else {module}
    near = {name for name, read in imported().items() if wanted & read}
    if not wide:
        return tuple(sorted(near))
    far = {
        name
        for name, read in imported().items()
        if any(f"{r}.".startswith(f"{package}.") for r in read)
    }
    return tuple(sorted(far - near))


@functools.cache
def imported() -> dict[str, set[str]]:
    """By test file the modules that it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests" / "python").glob("test_*.py")):
        read = found.setdefault(f"tests/python/{path.name}", set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                read |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                read |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@functools.cache
def cases(tree: Tree, tests: tuple[str, ...]) -> tuple[Test, ...]:
    """With the CPU seconds that they cost last; a second where that is not known."""
    if not tests:
        return ()
    known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    return tuple(Test(name, known.get(name, 1.0)) for name in sorted(tree.tests_of(tests)))
