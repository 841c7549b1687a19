# SPDX-License-Identifier: Apache-2.0
"""The tool that tests the tests: what it draws, what it lists, whom it asks."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mutants"))
import c_mutants
import judges
import python_mutants
import tree
from mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
# Under another name: benchmarks have a run.py, too.
_SPEC = importlib.util.spec_from_file_location("mutants_run", ROOT / "tests" / "mutants" / "run.py")
run = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = run
_SPEC.loader.exec_module(run)


def drawn(file: str, data: bytes) -> list[Mutant]:
    return (python_mutants if file.endswith(".py") else c_mutants).mutants(file, data)


def changed(file: str, text: str) -> set[str]:
    """The texts that mutants make of one."""
    data = text.encode()
    return {mutant.applied(data).decode() for mutant in drawn(file, data)}


def test_every_mutant_that_may_live_is_drawn() -> None:
    """A line whose source has changed since would excuse nothing."""
    known: dict[str, set[str]] = {}
    for name, reason in run.accepted().items():
        file = name.partition(" :: ")[0]
        if file not in known:
            known[file] = {mutant.name for mutant in drawn(file, (ROOT / file).read_bytes())}
        assert reason and name in known[file], name


def test_c_has_tests() -> None:
    for part, names in judges.C_TESTS.items():
        assert (ROOT / "lib/vmcu" / part).exists()
        assert all((ROOT / f"tests/python/test_{name}.py").exists() for name in names), part


def test_mutants_of_python() -> None:
    source = "if a < 1 and not b:\n    c += 2\nreturn x or None\n"
    assert changed("m.py", source) == {
        "if (a <= 1) and not b:\n    c += 2\nreturn x or None\n",
        "if a < 2 and not b:\n    c += 2\nreturn x or None\n",
        "if a < 0 and not b:\n    c += 2\nreturn x or None\n",
        "if (a < 1 or not b):\n    c += 2\nreturn x or None\n",
        "if a < 1 and b:\n    c += 2\nreturn x or None\n",
        "if (not (a < 1 and (not b))):\n    c += 2\nreturn x or None\n",
        "if a < 1 and not b:\n    pass\nreturn x or None\n",
        "if a < 1 and not b:\n    c += 3\nreturn x or None\n",
        "if a < 1 and not b:\n    c += 2\nreturn None\n",
        "if a < 1 and not b:\n    c += 2\nreturn (x and None)\n",
    }
    assert not changed("m.py", '"""1 + 1"""\nfrom a import b\nx: int | None\ny = f"{a + 1}"\n')
    assert not changed("m.py", "for a in zip(b, c, strict=True):\n    pass\n")


def test_mutants_of_c() -> None:
    source = "\tif (a < 3U) {\n\t\tb = *c - 1;\n\t}\n"
    assert changed("m.c", source) == {
        "\tif (a <= 3U) {\n\t\tb = *c - 1;\n\t}\n",
        "\tif (a < 4U) {\n\t\tb = *c - 1;\n\t}\n",
        "\tif (!(a < 3U)) {\n\t\tb = *c - 1;\n\t}\n",
        "\tif (a < 3U) {\n\t\t;\n\t}\n",
        "\tif (a < 3U) {\n\t\tb = *c + 1;\n\t}\n",
        "\tif (a < 3U) {\n\t\tb = *c - 2;\n\t}\n",
    }
    nothing = '/* 1 + 1 */\n#define A 1\nstatic int f(const struct s *t, char *u);\nx("1");\n'
    assert changed("m.c", nothing) == {nothing.replace('x("1");', ";")}


def test_what_loaders_may_be_asked_for_is_compiled() -> None:
    """Or else a mutant of it were taken for no change."""
    sources = (ROOT / "lib" / "vmcu" / "container").glob("*.c")
    asked = {
        name for file in sources for name in re.findall(r"defined\((VMCU_\w+)\)", file.read_text())
    }
    assert asked == {option.removeprefix("-D") for options in tree.LOADERS for option in options}


def test_what_the_runtime_may_be_asked_for_is_compiled() -> None:
    """Profiles are tested on emulated boards."""
    sources = (ROOT / "lib" / "vmcu").glob("*.c")
    asked = {
        name for file in sources for name in re.findall(r"defined\((VMCU_\w+)\)", file.read_text())
    }
    compiled = {option.removeprefix("-D") for options in tree.OPTIONS for option in options}
    containers = {option.removeprefix("-D") for option in tree.CONTAINERS}
    assert asked - compiled - containers == {"VMCU_PROFILE"}


@pytest.mark.parametrize(
    ("objects", "outcome"),
    [(([], []), run.NO_OBJECT), (([b"a"], [b"a"]), run.SAME), (([b"a"], None), run.SAME)],
)
def test_c_without_another_object_is_not_judged(
    objects: tuple[list[bytes], list[bytes] | None], outcome: str, tmp_path: Path
) -> None:
    """And none of it counts as killed or as survived."""
    made = iter(objects)
    copy = SimpleNamespace(folder=tmp_path, compiled=lambda file: next(made))
    (tmp_path / "m.c").write_text("1")
    known = SimpleNamespace(of=lambda file, wide: [judges.Test("a::b", 1)])
    result = run.judge(Mutant("m.c", 1, 0, 1, "2", "1", "1 -> 2"), copy, known, 60.0)
    assert result.outcome == outcome and run.report([result], {}) == 0
    assert (tmp_path / "m.c").read_text() == "1"


def test_the_stand_in_calls_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not ccache, which would call the stand-in."""
    for folder in ("links", "own"):
        (tmp_path / folder).mkdir()
    for program in (tmp_path / "ccache", tmp_path / "own" / "gcc"):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (tmp_path / "links" / "gcc").symlink_to(tmp_path / "ccache")
    monkeypatch.setenv("PATH", f"{tmp_path / 'links'}:{tmp_path / 'own'}")
    assert tree.own_gcc() == str(tmp_path / "own" / "gcc")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert tree.own_gcc() == ""


def test_tests_that_fit_into_the_time() -> None:
    tests = [judges.Test(name, seconds) for name, seconds in (("a", 50.0), ("b", 20.0), ("c", 9.0))]
    assert run.within(tests, 60.0) == [tests[0], tests[2]]
    assert run.within(tests, 1.0) == [tests[0]]


def test_who_judges_a_mutant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has noticed mutants of the file first, then the cheapest of each test file in turn."""
    fast, slow, other = judges.Test("a::fast", 1), judges.Test("a::slow", 2), judges.Test("b::b", 5)
    monkeypatch.setattr(judges, "cases", lambda tree, tests: (slow, other, fast))
    known = judges.Judges(SimpleNamespace(), ("any",))
    assert known.of("m.py", False) == [fast, other, slow]
    known.killers["m.py"]["a::slow"] += 1
    assert known.of("m.py", False) == [slow, fast, other]
    known.failed.add("a::fast")
    assert known.of("m.py", True) == [slow, other]


def test_importers_come_before_importers_of_the_package() -> None:
    file = "python/vmcu_tools/planner/places/overlap.py"
    near, far = (judges.test_files(file, wide) for wide in (False, True))
    assert "tests/python/test_distances.py" in near and "tests/python/test_fusion.py" in far
    assert not set(near) & set(far)
    found = judges.test_files("python/vmcu_kernelgen/families/rv32/depthwise.py", False)
    assert "tests/python/test_generated.py" in found
    found = judges.test_files("lib/vmcu/kernels/rms_norm.c", False)
    assert {"tests/python/test_rms_norm.py", "tests/python/test_kernels_c.py"} < set(found)
