# SPDX-License-Identifier: Apache-2.0
"""The committed C kernels are what the Python programs generate."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest
from vmcu_kernelgen import generate
from vmcu_kernelgen.families import FAMILIES
from vmcu_kernelgen.family import portable_body
from vmcu_tools import paths
from vmcu_tools.kernels.language.instruction import WIDTH
from vmcu_tools.kernels.programs import PROGRAMS
from vmcu_tools.kernels.targets import PORTABLE, TARGETS
from vmcu_tools.kernels.targets.portable import COMPOUND, INSTRUCTIONS
from vmcu_tools.ops import descriptors, operators_h

FOLDER = paths.runtime() / "kernels" / "gen"
DIGEST = """
import hashlib
from vmcu_kernelgen.generate import files
print(hashlib.sha256(repr(files()).encode()).hexdigest())
"""


def test_committed_files_are_what_is_generated() -> None:
    committed = {path.name: path.read_text() for path in FOLDER.iterdir()}
    generated = generate.files()
    assert sorted(committed) == sorted(generated)
    for name, text in generated.items():
        assert committed[name] == text, f"{name}: run `python -m vmcu_kernelgen`"


@pytest.mark.parametrize("made", [operators_h, descriptors])
def test_the_c_of_ops_is_what_is_generated(made: ModuleType) -> None:
    committed = (paths.runtime() / made.PATH).read_text()
    assert committed == made.text(), "run `python -m vmcu_tools.ops`"


def test_generation_does_not_depend_on_hashes() -> None:
    digests = set()
    for seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", DIGEST]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        digests.add(done.stdout)
    assert len(digests) == 1


def test_nothing_is_written_twice(tmp_path) -> None:
    assert len(generate.write(tmp_path)) == len(list(FOLDER.iterdir()))
    assert generate.write(tmp_path) == []


@pytest.mark.parametrize("symbol", PROGRAMS)
def test_programs_are_declared(symbol: str) -> None:
    header = (paths.runtime() / "include" / "vmcu" / "kernels.h").read_text()
    assert f"void {symbol}(const struct vmcu_call *call);" in header


@pytest.mark.parametrize("name", TARGETS)
def test_a_targets_header_holds_what_differs(name: str) -> None:
    target, portable = TARGETS[name], (FOLDER / "isa_portable.h").read_text()
    family = FAMILIES[target]
    for made in (*INSTRUCTIONS.values(), *COMPOUND.values()):
        head = f"VMCU_{'ONCE' if made.apart else 'INLINE'} void {made.symbol}("
        # Some instructions are those of other packings only.
        common = bool(portable_body(made, PORTABLE.packing))
        assert portable.count(head) == common
        if target is not PORTABLE:
            own = (FOLDER / f"isa_{name}.h").read_text()
            assert own.count(head) == (made in family.own)
        if made in family.own:
            assert family.body(made) != portable_body(made, target.packing)
            assert not common or f"#ifndef VMCU_OWN_{made.name.upper()}\n" in portable


def test_portable_c_is_chosen_last() -> None:
    assert list(TARGETS.values())[-1] is PORTABLE
    assert PORTABLE.guard == "1"


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_generated_c_is_readable(name: str) -> None:
    for number, line in enumerate((FOLDER / name).read_text().splitlines(), 1):
        width = len(line.expandtabs(8))
        assert width <= WIDTH, f"{name}:{number} has {width} columns"
        assert line == line.rstrip(), f"{name}:{number} ends in blanks"
