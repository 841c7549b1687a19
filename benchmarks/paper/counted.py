# SPDX-License-Identifier: Apache-2.0
"""C of a benchmark on an emulated core: what one of its functions takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vmcu_bench.cores.instructions import Spent
from vmcu_bench.cycles.model import cycles_of
from vmcu_bench.image.elf import Elf
from vmcu_bench.runners.counting import CountingRunner, Markers, blocks_of
from vmcu_bench.runners.qemu import QemuRunner
from vmcu_tools.boards.counts import Caches, Counts


def counted(
    machine: QemuRunner,
    folder: Path,
    sources: Sequence[Path],
    function: str,
    flags: Sequence[str],
    caches: Caches | None = None,
) -> tuple[Counts, Spent]:
    """Compiles the sources, which have main(), and runs them in `folder`, where their files are.

    flags: of the compiler, and objects to link; caches: in front of flash. Returns counts and
    cycles of all calls together; no cycles on a core without timing rules.
    """
    # Without the input and output that images of models have.
    surroundings = [source for source in machine.sources() if source.stem != "io_semihosting"]
    image = folder / f"{function}.elf"
    files = map(str, [*sources, *surroundings])
    machine.gcc([*flags, f"-I{folder}", *files, *machine.link_flags(), "-o", str(image)], folder)
    entry = Elf(image).find(function)
    counting = CountingRunner.of(machine, Markers((entry.address & ~1,), caches=caches))
    _, counts = counting.count(folder, lambda runner: runner._start(image))
    spent = cycles_of(machine, image, blocks_of(folder), 1)
    return counts[0], spent[0] if spent else Spent()
