# SPDX-License-Identifier: Apache-2.0
"""The same surroundings for every test, whatever terminal, locale and time zone they run in."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from builders.any_core import PACKED, Core
from builders.any_core import core as with_core
from cpu_seconds import CpuSeconds
from some_slow import SomeSlow

if TYPE_CHECKING:
    from browser import Browser

UNLIMITED = 1_000_000
# What rich, argparse, compilers and the C library look at.
_TERMINAL = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
_TERMINAL += ("COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "JUPYTER_COLUMNS", "GCC_COLORS")
_LOCALE = ("LANG", "LANGUAGE")

for _name in (*_TERMINAL, *_LOCALE, *(name for name in os.environ if name.startswith("LC_"))):
    os.environ.pop(_name, None)
os.environ.update(TERM="xterm", LC_ALL="C.UTF-8", TZ="UTC")
time.tzset()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CpuSeconds(), "cpu-seconds")
    if cases := os.environ.get("VMCU_DRAW"):
        config.pluginmanager.register(SomeSlow(int(cases)), "some-slow")


@pytest.fixture(autouse=True)
def unwrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests read whole sentences and tables; test_terminal.py has the pipe's own width."""
    monkeypatch.setattr("vmcu_tools.report.terminal.PIPE_COLUMNS", UNLIMITED)


@pytest.fixture(scope="session")
def loader(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The runtime with all kernels, and all that containers may ask for, in this process."""
    from online_device import library

    return library(tmp_path_factory.mktemp("loader"))


@pytest.fixture(scope="session")
def rows_loader(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """`loader` of a build with VMCU_STREAMS."""
    from online_device import STREAMS, library

    return library(tmp_path_factory.mktemp("loader"), STREAMS)


@pytest.fixture(scope="module", params=["", *PACKED], ids=lambda name: name or "words")
def core(request: pytest.FixtureRequest) -> Iterator[Core]:
    """This computer with the kernels of each packing, one after the other."""
    with with_core(request.param) as found:
        yield found


@pytest.fixture(scope="module")
def core_loader(core: Core, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """`loader` with the kernels of a packing."""
    from online_device import library

    return library(tmp_path_factory.mktemp("loader"), *core.flags)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the pages of a file; see browser.missing()."""
    from browser import browser

    with browser() as found:
        yield found
