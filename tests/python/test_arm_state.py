# SPDX-License-Identifier: Apache-2.0
"""Cortex-A and Cortex-R: what is assembled in Arm and in Thumb state, and that its bytes are right;
and that cores of the other byte order are refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from random_graphs import disjoint, groups, random_inputs, random_layers
from vmcu_bench.runners.compiled import COMMON_FLAGS, IMAGE
from vmcu_bench.runners.qemu import ARM, QemuRunner
from vmcu_tools import paths
from vmcu_tools.machine import reference

pytestmark = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="needs arm-none-eabi-gcc and qemu-system-arm",
)

STATES = ("-marm", "-mthumb")
# What no compiler makes of C.
DSP = re.compile(r"\tsmlad\t")
PORT = paths.runtime() / "port" / "freestanding"


@dataclass(frozen=True)
class CortexA(QemuRunner):
    """An emulated Cortex-A9 with images in its RAM, which begins at 0x60000000."""

    def sources(self) -> list[Path]:
        startup = Path(__file__).parent / "arm_state.c"
        return [IMAGE / "io_semihosting.c", startup, PORT / "semihosting.c", PORT / "memory.c"]

    def link_flags(self) -> list[str]:
        places = {"vmcu_flash_base": 0x60000000, "vmcu_ram_base": 0x61000000}
        defines = [f"-Wl,--defsym={name}={place:#x}" for name, place in places.items()]
        return [*super().link_flags(), *defines]


def board(cpu: str, state: str) -> CortexA:
    # All memory is a device's while the MMU is off, and devices want aligned accesses.
    flags = (f"-mcpu={cpu}", state, "-ffreestanding", "-mno-unaligned-access")
    return CortexA(f"{cpu} {state}", "", ARM, flags, machine="vexpress-a9")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("cpu", ["cortex-a9", "cortex-r5"])
def test_the_kernels_of_each_state(cpu: str, state: str) -> None:
    kernels = board(cpu, state).archive(paths.runtime().glob("kernels/gen/[acd]*[a-z].c"))
    command = [ARM.tool("objdump"), "-d", "--no-show-raw-insn", str(kernels)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = len(DSP.findall(done.stdout))
    assert found > 100 if state == "-mthumb" else found == 0


@pytest.mark.parametrize("kinds", groups(), ids="+".join)
def test_layers_in_arm_state(kinds: tuple[str, ...]) -> None:
    graph = random_layers(kinds, 12, seed=9)
    sample = random_inputs(graph, 9)
    (outputs,) = board("cortex-a9", "-marm").run(disjoint(graph), [sample])
    wanted = reference.run(graph, sample)
    for port, output in zip(graph.outputs, outputs, strict=True):
        np.testing.assert_array_equal(output, wanted[port.tensor])


@pytest.mark.parametrize("header", ["model.h", "vmcu.h", "kernels.h", "convert.h"])
def test_big_endian_cores_are_refused(header: str, tmp_path: Path) -> None:
    source = tmp_path / "one.c"
    source.write_text(f"#include <vmcu/{header}>\n")
    include = f"-I{paths.runtime() / 'include'}"
    command = [ARM.tool("gcc"), *COMMON_FLAGS, "-ffreestanding", include, "-c", str(source)]
    results = []
    for order in ("-mlittle-endian", "-mbig-endian"):
        options = ["-mcpu=cortex-r5", order, "-o", str(tmp_path / "one.o")]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        results.append((done.returncode == 0, "supports little-endian cores only" in done.stderr))
    assert results == [(True, False), (False, True)]
