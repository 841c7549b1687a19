# SPDX-License-Identifier: Apache-2.0
"""Archives have the same bytes wherever they are made, and each tool chain's own tool accepts its
package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packed import ROOT, run, tool, unpack

Unpacked = Callable[[str], Path]
KINDS = {"python", "arduino", "platformio", "esp-idf", "cmsis-pack", "zephyr"}
# The categories of the specification of Arduino libraries.
CATEGORIES = ["Display", "Communication", "Sensors", "Timing", "Other"]
CATEGORIES += ["Signal Input/Output", "Device Control", "Data Storage", "Data Processing"]
# PlatformIO asks the network for the list of licences.
PIO_PACK = """
import sys
from platformio.package.manifest.schema import ManifestSchema
from platformio.package.pack import PackagePacker

ManifestSchema.load_spdx_licenses = lambda self: {"licenses": [{"licenseId": "Apache-2.0"}]}
print(PackagePacker(sys.argv[1]).pack(sys.argv[2]))
"""
# Prints the options that are on.
KCONFIG = """
import sys
from kconfiglib import Kconfig

symbols = Kconfig(sys.argv[1]).unique_defined_syms
print(*(one.name for one in symbols if one.str_value == "y"))
"""


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_archives_are_reproducible(built: Path, tmp_path: Path) -> None:
    """From a copy in another folder, with another umask, its files as new as the copy."""
    copy = tmp_path / "copy"
    names = run(["git", "ls-files", "-z"], ROOT).split("\0")
    for name in (name for name in names if name and (ROOT / name).exists()):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            (copy / name).symlink_to((ROOT / name).readlink())
        else:
            (copy / name).write_bytes((ROOT / name).read_bytes())
    run(["git", "init", "-q"], copy)
    run(["git", "add", "-A", "-f"], copy)
    command = [sys.executable, "scripts/packages.py", tmp_path / "again"]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=copy, env=kept, umask=0o077, check=True)
    first, second = contents(built), contents(tmp_path / "again")
    assert {Path(name).parts[0] for name in first} == KINDS and list(first) == list(second)
    assert [name for name in first if first[name] != second[name]] == []


def modes(archive: Path) -> set[tuple[int, int]]:
    """Permissions and owners of the files of an archive."""
    if zipfile.is_zipfile(archive):
        return {(one.external_attr >> 16 & 0o777, 0) for one in zipfile.ZipFile(archive).infolist()}
    with tarfile.open(archive) as packed:
        return {(one.mode, one.uid | one.gid) for one in packed if one.isfile()}


def test_everybody_can_read_the_files_and_root_owns_them(built: Path) -> None:
    for archive in (path for path in built.rglob("*") if path.is_file()):
        assert {(0o644, 0)} <= modes(archive) <= {(0o644, 0), (0o755, 0)}, archive


def test_twine_accepts_the_wheel_and_the_sdist(built: Path) -> None:
    files = list((built / "python").iterdir())
    printed = run([tool("twine"), "check", "--strict", *files], NO_COLOR="1")
    assert printed.count("PASSED") == len(files) == 2


def test_the_sdist_gives_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (sdist,), (wheel,) = ((built / "python").glob(f"*{end}") for end in (".tar.gz", ".whl"))
    (tree,) = unpack(sdist, tmp_path / "sdist").iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    run(command, tree, SOURCE_DATE_EPOCH="1577836800")
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_platformio_accepts_its_package(built: Path, unpacked: Unpacked, tmp_path: Path) -> None:
    (archive,) = (built / "platformio").iterdir()
    script = [tool("python"), "-c", PIO_PACK, archive, tmp_path / "again.tar.gz"]
    run(script, PLATFORMIO_CORE_DIR=str(tmp_path), PLATFORMIO_SETTING_ENABLE_TELEMETRY="no")
    again = contents(unpack(tmp_path / "again.tar.gz", tmp_path / "again"))
    # PlatformIO notes the folder that it has packed.
    assert set(again) - {".piopm"} == set(contents(unpacked("platformio")))


def test_compote_accepts_the_component(unpacked: Unpacked, tmp_path: Path) -> None:
    component = unpacked("esp-idf")
    pack = ["component", "pack", "--name", "vmcu", "--dest-dir", tmp_path]
    run([tool("compote"), *pack], component, IDF_TOOLS_PATH=str(tmp_path))
    (archive,) = tmp_path.glob("*.tgz")
    again = contents(unpack(archive, tmp_path / "again"))
    assert set(again) - {"CHECKSUMS.json"} == set(contents(component))


def test_kconfig_has_the_options(unpacked: Unpacked) -> None:
    printed = run([tool("python"), "-c", KCONFIG, unpacked("esp-idf") / "Kconfig"])
    assert printed.split() == ["VMCU_STREAMS"]


def test_arduino_library(unpacked: Unpacked) -> None:
    """The rules of the specification of Arduino libraries, which arduino-lint checks."""
    (library,) = unpacked("arduino").iterdir()
    lines = (library / "library.properties").read_text().splitlines()
    entries = dict(line.split("=", 1) for line in lines)
    required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "url"}
    assert required | {"category", "architectures"} <= {name for name in entries if entries[name]}
    assert re.fullmatch(r"[A-Za-z0-9][\w .-]{0,62}", entries["name"]) and len(lines) == len(entries)
    assert re.fullmatch(r"\d+\.\d+\.\d+", entries["version"])
    assert entries["name"] == library.name and entries["category"] in CATEGORIES
    assert all((library / "src" / name).is_file() for name in entries["includes"].split(","))
    for sketch in (library / "examples").iterdir():
        assert (sketch / f"{sketch.name}.ino").is_file()
    folders = {path.parent.name for path in library.rglob("*.[chS]")}
    assert not [path for path in library.rglob("*") if path.is_symlink()] and "src" in folders


def test_the_pack_has_the_files_of_its_description(unpacked: Unpacked) -> None:
    pack = unpacked("cmsis-pack")
    (description,) = pack.glob("*.pdsc")
    package = ET.parse(description).getroot()
    assert description.stem == f"{package.findtext('vendor')}.{package.findtext('name')}"
    named = [one.get("name", "") for one in package.iter("file")]
    assert len(set(named)) == len(named)
    assert [name for name in named if not (pack / name).exists()] == []
    code = {str(path.relative_to(pack)) for end in "cS" for path in pack.rglob(f"*.{end}")}
    assert code <= set(named)
    groups = {one.get("Csub") for one in package.iter("component")}
    assert groups == {"Runtime", "Container Loader", "Audio Front End", "Link"}
    known = {one.get("id") for one in package.iter("condition")}
    assert {one.get("condition") for one in package.iter("component")} <= known


def test_the_schema_of_packs_accepts_the_description(unpacked: Unpacked) -> None:
    """No package index has the schema: set VMCU_PACK_XSD to Open-CMSIS-Pack's PACK.xsd."""
    schema = os.environ.get("VMCU_PACK_XSD")
    if not schema:
        pytest.skip("VMCU_PACK_XSD is not set to Open-CMSIS-Pack's PACK.xsd")
    (description,) = unpacked("cmsis-pack").glob("*.pdsc")
    run([tool("xmlschema-validate"), "--schema", schema, description])


def test_the_module_is_a_module_of_west(unpacked: Unpacked) -> None:
    """With the files that its manifest and cmake/vmcu.cmake name."""
    (root,) = unpacked("zephyr").iterdir()
    assert (root / "zephyr" / "module.yml").is_file()
    called = re.findall(r"VMCU_ROOT}/(scripts/\w+\.py)", (root / "cmake/vmcu.cmake").read_text())
    assert len(called) > 1
    for name in (*called, "scripts/west-commands.yml", "python/vmcu_tools/entry.py"):
        assert (root / name).is_file()
