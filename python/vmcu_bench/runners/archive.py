# SPDX-License-Identifier: Apache-2.0
"""The C runtime as archives: each source is compiled once for all processes that have the same
flags, and an image compiles those alone that it refers to."""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from vmcu_tools import paths

# A function or a table at the begin of a line, and a symbol of assembly.
_DEFINED = re.compile(r"^(?:[^\s#*/].*?\b|\s*\.global )(vmcu_\w+)(?:\(|\[| =|$)", re.M)
_WORD = re.compile(r"\bvmcu_\w+")
GC = "-Wl,--gc-sections"
_NAME = re.compile(rb"\0(vmcu_\w+)")
# Files that change the executor or the loader. Kernels are the same without, and compiled once for
# all.
_BESIDE_KERNELS = frozenset({"-DIMAGE_TEAM"}) | frozenset(
    f"-DVMCU_{name}"
    for name in (
        *("STREAMS", "EXTERNAL_WEIGHTS", "PROFILE", "PROBE", "HOOKS", "POOL_GUARD"),
        *("CONTAINER_SIGNED", "CONTAINER_REPLAY", "ONLINE_PLANNER"),
    )
)


class Tools(Protocol):
    """See runners.compiled.Toolchain."""

    @property
    def prefix(self) -> str: ...
    def tool(self, name: str) -> str: ...


class Target(Protocol):
    """See runners.compiled.CompiledRunner."""

    def __hash__(self) -> int: ...
    @property
    def toolchain(self) -> Tools: ...
    @property
    def container(self) -> bool: ...
    @property
    def all_flags(self) -> tuple[str, ...]: ...
    def link_flags(self) -> list[str]: ...
    def without(self, flags: Collection[str]) -> Target: ...
    def gcc(self, arguments: Sequence[str], folder: Path) -> None: ...


def archive(target: Target, files: Iterable[Path] | None = None) -> Path:
    """An archive of the symbols that C files refer to, and all that these refer to; None: the whole
    runtime. A link takes the same members, in the same order, from either."""
    runtime = paths.runtime()
    sources = _sources(runtime, target.container)
    if files is None:
        return _packed(target, objects_of(target, sources))
    index = _index(sources)
    names = {word for file in files for word in _WORD.findall(file.read_text(encoding="utf-8"))}
    folders = (runtime, runtime / "container")
    wanted = {source for source in sources if source.parent in folders}
    # It refers to all kernels. A link that drops sections needs those of the rest alone.
    drops, listed = GC in target.link_flags(), runtime / "container/gen/kernels.c"
    while True:
        missing = {source for name in names for source in index.get(name, ())} - wanted
        wanted |= missing
        objects = dict(zip(sorted(wanted), objects_of(target, sorted(wanted)), strict=True))
        read = (_words(one) for source, one in objects.items() if not drops or source != listed)
        before, names = names, names.union(*read)
        # An entry of the list, vmcu_add_kernel, stands for the kernel vmcu_add that it names.
        names |= {name.removesuffix("_kernel") for name in names}
        if names == before:
            return _packed(target, objects.values())


@functools.cache
def _sources(runtime: Path, container: bool) -> tuple[Path, ...]:
    folders = ("kernels", "container") if container else ("kernels",)
    parts = [file for folder in folders for file in paths.sources(runtime / folder)]
    return tuple(sorted(file for file in [*runtime.glob("*.c"), *parts] if file.name != "all.c"))


@functools.cache
def _index(sources: tuple[Path, ...]) -> dict[str, list[Path]]:
    """Maps each name to the sources that may define it."""
    index: dict[str, list[Path]] = {}
    for source in sources:
        for name in set(_DEFINED.findall(source.read_text(encoding="utf-8"))):
            index.setdefault(name, []).append(source)
    return index


@functools.cache
def _digest(folder: Path) -> bytes:
    """Computes the digest of all headers in a folder."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.h")):
        digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return digest.digest()


def _store() -> Path:
    """Returns the folder where all processes of a user keep objects and archives."""
    # Windows has such a folder for each user.
    user = os.getuid() if hasattr(os, "getuid") else 0
    store = Path(tempfile.gettempdir()) / f"vmcu-runtime-{user}"
    store.mkdir(mode=0o700, exist_ok=True)
    return store


def objects_of(target: Target, sources: Iterable[Path]) -> list[Path]:
    """Objects of sources that read nothing of a model, compiled unless they are there."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda source: _object(target, source), sources))


@functools.cache
def _object(target: Target, source: Path) -> Path:
    runtime = paths.runtime()
    if runtime / "kernels" in source.parents:
        target = target.without(_BESIDE_KERNELS)
    # Of debug information lines alone, which is a fifth of the compiler's work.
    arguments = ["-g1", "-c", str(source)]
    # The class, since it may add flags of its own to every call of the compiler.
    flags = (type(target).__name__, target.toolchain.prefix, *target.all_flags)
    digest = hashlib.sha256("\0".join((*flags, *arguments)).encode())
    digest.update(_digest(runtime) + _digest(source.parent) + source.read_bytes())
    made = _store() / digest.hexdigest()[:32] / f"{source.stem}.o"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=_store()) as name:
            target.gcc(arguments, Path(name))
            made.parent.mkdir(exist_ok=True)
            # In one step, so that nobody links half an object.
            (Path(name) / made.name).replace(made)
    return made


@functools.cache
def _words(compiled: Path) -> frozenset[str]:
    """Names in an object, in one read: those that it refers to, and its own."""
    return frozenset(name.decode() for name in _NAME.findall(compiled.read_bytes()))


def _packed(target: Target, objects: Iterable[Path]) -> Path:
    members = [str(compiled) for compiled in objects]
    digest = hashlib.sha256("\0".join(members).encode())
    made = _store() / f"{digest.hexdigest()[:32]}.a"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=_store()) as name:
            part = Path(name) / made.name
            subprocess.run([target.toolchain.tool("ar"), "rcs", str(part), *members], check=True)
            part.replace(made)
    return made
