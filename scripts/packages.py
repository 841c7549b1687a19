# SPDX-License-Identifier: Apache-2.0
"""Writes the packages of vmcu for each tool chain: python scripts/packages.py OUT.

OUT/python has the wheel and the sdist; OUT/arduino, platformio, esp-idf, cmsis-pack and zephyr have
one archive each. The same commit gives the same bytes in any folder. The templates are in
scripts/packages, a folder for each kind.
"""

from __future__ import annotations

import gzip
import io
import os
import runpy
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from time import gmtime

from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from jinja2 import Environment, StrictUndefined

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = "scripts/packages/"
LIB = "lib/vmcu/"
PUBLIC = LIB + "include/"
# Every file of an archive has this time: 1 January 2020, unless SOURCE_DATE_EPOCH is set.
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", 1577836800))
# Macros of vmcu/config.h that a user chooses; equal for all C files.
OPTIONS = {
    "VMCU_STREAMS": "Models that keep state: --hop, --state and recurrent layers",
    "VMCU_POOL_ROTATE": "Models whose pools rotate: --rotate",
    "VMCU_SEVERAL_POOLS": "Pools in several memories: --memory",
    "VMCU_EXTERNAL_WEIGHTS": "Weights outside the internal flash: --external-weights",
    "VMCU_CONTAINERS": "Models from files: vmcu/container.h",
    "VMCU_ONLINE_PLANNER": "Containers that are planned on the device, with VMCU_CONTAINERS",
    "VMCU_CONTAINER_REPLAY": "Plans of containers are proven before use, with VMCU_CONTAINERS",
    "VMCU_CORTEX_M7": "The kernels for Cortex-M7",
}
ON = ("VMCU_STREAMS",)
# The Zephyr module, with the compiler and the samples.
MODULE = (
    *("CMakeLists.txt", "Kconfig", "LICENSE", "LICENSES", "README.md", "boards", "cmake"),
    *("doc/*.md", "lib", "python", "samples", "scripts", "soc", "tests/boards_3_7", "west.yml"),
    "zephyr",
)

Files = dict[str, bytes]


@dataclass(frozen=True)
class Sources:
    """C and assembly files below lib/vmcu, by the lists of cmake/sources.cmake; headers of all."""

    runtime: tuple[str, ...]
    containers: tuple[str, ...]
    audio: tuple[str, ...]
    link: tuple[str, ...]
    headers: tuple[str, ...]

    def folders(self) -> list[str]:
        listed = (*self.runtime, *self.containers, *self.audio, *self.link)
        return sorted({str(PurePosixPath(LIB + name).parent) for name in listed})


def tracked(*patterns: str) -> Files:
    """The files of the checkout that git knows; links as the files that they name."""
    command = ["git", "ls-files", "-z", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {
        name: (ROOT / name).read_bytes()
        for name in sorted(listed.split("\0"))
        if (ROOT / name).is_file()
    }


def mode(data: bytes) -> int:
    return 0o755 if data.startswith(b"#!") else 0o644


def write_zip(path: Path, files: Files) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(name, gmtime(EPOCH)[:6])
            info.create_system, info.external_attr = 3, (0o100000 | mode(data)) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)


def write_tar(path: Path, files: Files) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("wb") as out,
        gzip.GzipFile("", "wb", 9, out, mtime=EPOCH) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(data), EPOCH, mode(data)
            archive.addfile(info, io.BytesIO(data))


def read_sources(stage: Path) -> Sources:
    """Runs cmake/sources.cmake; `stage` is a copy of the checkout."""
    script = stage / "lists.cmake"
    lists = ("", "_CONTAINER", "_AUDIO", "_LINK")
    names = [f"VMCU{name}_SOURCES" for name in lists]
    lines = [f'set(VMCU_ROOT "{stage}")\ninclude("{stage}/cmake/sources.cmake")\n']
    lines += [f'message("${{{name}}}")\n' for name in names]
    script.write_text("".join(lines))
    run = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True, check=True)
    script.unlink()
    base = f"{stage}/{LIB}"
    runtime, containers, audio, link = (
        [name.removeprefix(base) for name in line.split(";")] for line in run.stderr.splitlines()
    )
    elsewhere = (LIB + "port/", LIB + "endurance/")
    headers = [
        name.removeprefix(LIB) for name in tracked(f"{LIB}*.h") if not name.startswith(elsewhere)
    ]
    # The list of all kernels is an option of the build by CMake.
    containers.append("container/all.c")
    return Sources(*map(tuple, (runtime, containers, audio, link, headers)))


def library(stage: Path, sources: Sources, options: bool) -> Files:
    """The runtime below lib/vmcu. Files of the container loader are empty without VMCU_CONTAINERS.

    options: every file includes vmcu_options.h, assembly files without vmcu/config.h.
    """
    compiled = (*sources.runtime, *sources.containers, *sources.audio, *sources.link)
    names = (*compiled, *sources.headers)
    texts = {LIB + name: (stage / LIB / name).read_text(encoding="utf-8") for name in names}
    for name in sources.containers:
        head, code = texts[LIB + name].split("*/\n", 1)
        guard = "#include <vmcu/config.h>\n\n#if defined(VMCU_CONTAINERS)"
        texts[LIB + name] = f"{head}*/\n\n{guard}\n{code}\n#endif /* VMCU_CONTAINERS */\n"
    if options:
        include = "#include <vmcu_options.h>\n\n"
        for name in (PUBLIC + "vmcu/config.h", *(n for n in texts if n.endswith(".S"))):
            head, code = texts[name].split("*/\n\n", 1)
            texts[name] = f"{head}*/\n\n{include}{code}"
    return {name: text.encode() for name, text in texts.items()}


def example(stage: Path, folder: str, main: str) -> Files:
    """The keyword sample with its generated C. main: its main file in scripts/packages/example."""
    out = stage / "build" / "keyword"
    if not out.is_dir():
        command = [sys.executable, "-m", "vmcu_tools", "build", "samples/keyword/keyword.onnx"]
        environment = {**os.environ, "PYTHONPATH": str(stage / "python")}
        options = ["--name", "keyword", "-o", str(out), "--quiet"]
        subprocess.run([*command, *options], cwd=stage, env=environment, check=True)
    paths = (out / "keyword.c", out / "keyword.h", stage / "samples/keyword/src/clips.h")
    files = {folder + path.name: path.read_bytes() for path in paths}
    source = "keyword.ino" if main == "main.cpp" else main
    return {**files, folder + main: (stage / TEMPLATES / "example" / source).read_bytes()}


class Packages:
    """Renders templates and writes archives; stage: a copy of the checkout's tracked files."""

    def __init__(self, stage: Path, out: Path) -> None:
        project = ProjectMetadata(str(stage), PluginManager())
        self.stage, self.out, self.version = stage, out, project.version
        self.sources = read_sources(stage)
        urls = project.core.urls
        self.absolute = runpy.run_path(str(ROOT / "scripts" / "long_description.py"))["absolute"]
        self.documentation = urls["Documentation"]
        self.facts = {
            "name": "vmcu",
            "version": project.version,
            "description": project.core.description,
            "licence": project.core.license_expression,
            "author": project.core.authors[0]["name"],
            "keywords": project.core.keywords,
            "urls": urls,
            "sources": self.sources,
            "options": OPTIONS,
            "on": ON,
        }

    def rendered(self, kind: str) -> Files:
        """The templates of a kind: NAME.j2 becomes NAME."""
        environment = Environment(
            undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True
        )
        files = {}
        for name, data in tracked(f"{TEMPLATES}{kind}").items():
            text = environment.from_string(data.decode()).render(self.facts)
            files[name.removeprefix(f"{TEMPLATES}{kind}/").removesuffix(".j2")] = text.encode()
        return files

    def common(self, kind: str) -> Files:
        """The templates, the page of a kind as README.md, and the licence."""
        page = (self.stage / "doc" / f"{kind}.md").read_text(encoding="utf-8")
        readme = self.absolute(page, self.documentation, "doc/")
        licence = (self.stage / "LICENSE").read_bytes()
        return {**self.rendered(kind), "README.md": readme.encode(), "LICENSE": licence}

    def headers(self, folder: str) -> Files:
        return {folder + name: data for name, data in self.rendered("headers").items()}

    def python(self) -> None:
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(self.out / "python")]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
        subprocess.run(command, cwd=self.stage, env=environment, check=True, stdout=sys.stderr)

    def arduino(self) -> None:
        """Arduino compiles src/ with -Isrc: public headers are there, the rest in src/runtime."""
        files = {
            name.replace(PUBLIC, "src/").replace(LIB, "src/runtime/"): data
            for name, data in library(self.stage, self.sources, True).items()
        }
        files |= self.common("arduino") | self.headers("src/")
        files |= example(self.stage, "examples/keyword/", "keyword.ino")
        path = self.out / "arduino" / f"vmcu-{self.version}.zip"
        write_zip(path, {f"vmcu/{name}": data for name, data in files.items()})

    def platformio(self) -> None:
        files = library(self.stage, self.sources, True) | self.common("platformio")
        files |= self.headers(PUBLIC)
        files |= example(self.stage, "examples/keyword/src/", "main.cpp")
        write_tar(self.out / "platformio" / f"vmcu-{self.version}.tar.gz", files)

    def esp_idf(self) -> None:
        """Kconfig has the options."""
        files = library(self.stage, self.sources, False) | self.common("esp-idf")
        files |= example(self.stage, "examples/keyword/main/", "main.c")
        write_tar(self.out / "esp-idf" / f"vmcu_{self.version}.tgz", files)

    def cmsis_pack(self) -> None:
        files = library(self.stage, self.sources, True) | self.common("cmsis-pack")
        files["config/vmcu_options.h"] = self.rendered("headers")["vmcu_options.h"]
        files |= example(self.stage, "examples/keyword/", "main.c")
        write_zip(self.out / "cmsis-pack" / f"vmcu.vmcu.{self.version}.pack", files)

    def zephyr(self) -> None:
        files = {f"vmcu/{name}": data for name, data in tracked(*MODULE).items()}
        write_tar(self.out / "zephyr" / f"vmcu-{self.version}-zephyr.tar.gz", files)


def copy_checkout(stage: Path) -> None:
    for name, data in tracked().items():
        path = stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder).resolve()
        copy_checkout(stage)
        packages = Packages(stage, Path(arguments[0]).resolve())
        packages.python()
        packages.arduino()
        packages.platformio()
        packages.esp_idf()
        packages.cmsis_pack()
        packages.zephyr()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
