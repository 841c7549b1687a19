# SPDX-License-Identifier: Apache-2.0
"""The kernels of packings that only some cores read, on this computer: a copy of the runtime where
a target of tests has them in portable C, for the sanitizers."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from vmcu_kernelgen import generate
from vmcu_kernelgen.families import FAMILIES
from vmcu_kernelgen.family import Family
from vmcu_tools import paths
from vmcu_tools.kernels.language.packing import NIBBLE_PAIRS, NIBBLE_VECTORS, WORDS, Packing
from vmcu_tools.kernels.targets import DEFAULT, TARGETS, Target, condition, packings, readers
from vmcu_tools.ops import descriptors, operators_h

from . import any_pairs, any_vectors

# By the names of tests.
PACKED: dict[str, Packing] = {
    p.suffix.strip("_"): p for p in packings() if condition(p) and p.bits == 8
}


@dataclass(frozen=True)
class Core:
    """This computer with the kernels of a packing. flags: of images; target: one whose plans they
    run."""

    packing: Packing
    target: str
    flags: tuple[str, ...] = ()


PLAIN = Core(WORDS, DEFAULT)
MACROS = {name: f"VMCU_ANY_{name.upper()}" for name in PACKED}
# Streams of pairs and vectors are not aligned for this computer.
FLAGS = ("-fno-sanitize=alignment", *(f"-D{macro}" for macro in MACROS.values()))


def _families(name: str) -> tuple[Family, Family]:
    """The family of tests that has the kernels of a packing, and that of its 4 bits."""
    packing, costs = PACKED[name], TARGETS[DEFAULT].costs
    common = "Any core", f"defined({MACROS[name]})"
    nibbles = NIBBLE_VECTORS if packing.vector else NIBBLE_PAIRS
    int4 = Target(f"any_{name}_int4", *common, nibbles, costs)
    target = Target(f"any_{name}", *common, packing, costs, int4)
    if packing.vector:
        return (
            Family(target, any_vectors.BODIES, any_vectors.TILES),
            Family(int4, any_vectors.INT4_BODIES, any_vectors.TILES),
        )
    return (
        Family(target, any_pairs.OWN, any_pairs.HELPERS, later=any_pairs.LATER),
        Family(int4, {}, any_pairs.INT4_HELPERS, later=any_pairs.INT4_LATER),
    )


@contextmanager
def core(name: str) -> Iterator[Core]:
    """While it lasts, this computer has the kernels of PACKED, for tests of one of these, or of
    every core alone. All of PACKED have one runtime, which is compiled once."""
    if name not in PACKED:
        yield PLAIN
        return
    family = readers(PACKED[name])[0].name
    with pytest.MonkeyPatch.context() as patch:
        for families in [_families(one) for one in PACKED]:
            for made in families:
                patch.setitem(FAMILIES, made.target, made)
            patch.setitem(TARGETS, families[0].target.name, families[0].target)
        folder = _copy()
        patch.setattr(paths, "runtime", lambda: folder)
        yield Core(PACKED[name], family, FLAGS)


def _copy() -> Path:
    """The runtime as TARGETS has it, in a folder of what is in it: archives are made once."""
    store = Path(tempfile.gettempdir()) / f"vmcu-runtime-{os.getuid()}"
    store.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store) as name:
        made = Path(name) / "runtime"
        shutil.copytree(paths.runtime(), made)
        generate.write(made / "kernels" / "gen")
        for module in (descriptors, operators_h):
            (made / module.PATH).write_text(module.text())
        digest = hashlib.sha256()
        for file in sorted(file for file in made.rglob("*") if file.is_file()):
            digest.update(str(file.relative_to(made)).encode() + b"\0" + file.read_bytes())
        folder = store / digest.hexdigest()[:32]
        # Another process may have made it since.
        with contextlib.suppress(OSError):
            made.rename(folder)
    return folder
