# SPDX-License-Identifier: Apache-2.0
"""The Zephyr tree and toolchain to build with."""

from __future__ import annotations

import configparser
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from vmcu_tools import paths
from vmcu_tools.errors import Problem, UserError

# Where Zephyr's getting started guide puts it.
USUAL = Path.home() / "zephyrproject" / "zephyr"


def zephyr_base() -> Path:
    """$ZEPHYR_BASE, else the tree of the west workspace around the current folder or around vmcu,
    else the usual place. UserError if there is none."""
    for tree in _candidates():
        if (tree / "cmake" / "modules" / "zephyr_default.cmake").is_file():
            return tree
    raise UserError(
        Problem(
            "no Zephyr tree found",
            "call it inside a west workspace, or set ZEPHYR_BASE to the folder zephyr of one",
        )
    )


def _candidates() -> Iterator[Path]:
    chosen = os.environ.get("ZEPHYR_BASE")
    if chosen:
        # Not another one, if this one is wrong.
        yield Path(chosen)
        return
    for start in (Path.cwd(), paths.root()):
        for folder in (start, *start.parents):
            config = folder / ".west" / "config"
            if config.is_file():
                values = configparser.ConfigParser()
                values.read(config)
                yield folder / values.get("zephyr", "base", fallback="zephyr")
    yield USUAL


def has_toolchain() -> bool:
    """True if the user has chosen a toolchain for Zephyr or installed Zephyr's SDK."""
    chosen = {"ZEPHYR_TOOLCHAIN_VARIANT", "ZEPHYR_SDK_INSTALL_DIR"} & set(os.environ)
    return bool(chosen) or (Path.home() / ".cmake" / "packages" / "Zephyr-sdk").exists()


def environment(tree: Path) -> dict[str, str]:
    """The user's, and Debian's Arm compiler where no toolchain is chosen and no SDK installed."""
    result = {**os.environ, "ZEPHYR_BASE": str(tree)}
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler and not has_toolchain():
        result["ZEPHYR_TOOLCHAIN_VARIANT"] = "gnuarmemb"
        result["GNUARMEMB_TOOLCHAIN_PATH"] = str(toolchain_folder(Path(compiler)))
    return result


def toolchain_folder(compiler: Path) -> Path:
    """The folder whose bin has a GCC and its companions, also where `compiler`, as PATH finds it,
    is a link or a program such as ccache that calls it."""
    command = [str(compiler), "-print-search-dirs"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    # GCC keeps its own files in FOLDER/lib/gcc/TARGET/VERSION.
    install = re.search(r"^install: (.+)$", done.stdout, re.MULTILINE)
    folders = Path(os.path.normpath(install[1])).parents if install else ()
    if len(folders) > 3 and (folders[3] / "bin" / compiler.name).exists():
        return folders[3]
    return compiler.parent.parent


def board_module(tree: Path) -> Path:
    """The Zephyr module of vmcu's own emulated boards, described as this tree wants them: 4.4 asks
    for a full_name that 3.7 refuses; twister's word for an emulator was a string, then a list."""
    schema = tree / "scripts" / "schemas" / "twister" / "platform-schema.yaml"
    is_string = re.search(r'"simulation":\s+type: str', schema.read_text(encoding="utf-8"))
    return paths.root() / ("tests/boards_3_7" if is_string else "boards")


def cmake_options(board: str, tree: Path) -> list[str]:
    """Returns CMake's options for vmcu as a module, its own emulated boards, and a Python with
    Zephyr's packages."""
    root = paths.root()
    modules = [root]
    if any((root / "boards").rglob(f"{board}.yaml")):
        modules.append(board_module(tree))
    options = [f"-DBOARD={board}", f"-DEXTRA_ZEPHYR_MODULES={';'.join(map(str, modules))}"]
    if importlib.util.find_spec("pykwalify"):
        options.append(f"-DPython3_EXECUTABLE={sys.executable}")
    return options


def console_options(board: str, tree: Path) -> list[str]:
    """CMake's options for a first UART that is the process's own input and output, where a board is
    a program of this computer."""
    if not board.startswith("native_sim"):
        return []
    kconfig = "".join(
        file.read_text(encoding="utf-8") for file in (tree / "drivers" / "serial").glob("*native*")
    )
    names = ("UART_NATIVE_PTY_0_ON_STDINOUT", "NATIVE_UART_0_ON_STDINOUT")
    return [f"-DCONFIG_{name}=y" for name in names if f"config {name}\n" in kconfig][:1]
