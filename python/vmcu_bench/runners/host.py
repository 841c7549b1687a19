# SPDX-License-Identifier: Apache-2.0
"""This computer."""

from __future__ import annotations

from pathlib import Path

from .compiled import IMAGE, CompiledRunner, Toolchain

NATIVE = Toolchain("", "gcc")


class HostRunner(CompiledRunner):
    """This computer: the image is a program."""

    def command(self, image: Path) -> list[str]:
        return [str(image)]

    def sources(self) -> list[Path]:
        return [IMAGE / "io_host.c"]


# Code of sanitizers is not worth optimising twice as long, and not in each caller of a function
# that is VMCU_INLINE. Lines are all that reports name. Checks of addresses are calls, which the
# compiler finishes in four fifths of the time.
_CHECKED = "-DVMCU_ASSERT(promise)=((promise) ? (void)0 : __builtin_trap())"
_SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_CALLS = "--param=asan-instrumentation-with-call-threshold=0"
# The linker need not look for each symbol of the sanitizers' libraries, which takes 0.1 s.
_LINK = "-Wl,--allow-shlib-undefined"
SANITIZERS = (*_SANITIZED, _CALLS, _LINK, "-O1", "-g1", "-Dalways_inline=unused", _CHECKED)

HOSTS = (
    HostRunner("host", "this computer", NATIVE),
    HostRunner(
        "host:sanitize",
        "this computer, under the address and undefined behaviour sanitizers",
        NATIVE,
        flags=SANITIZERS,
    ),
)
