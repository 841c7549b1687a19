# SPDX-License-Identifier: Apache-2.0
"""Prints the RAM of examples/esp-idf with six wake words, or with those of manifests.

    python benchmarks/wake_words/run.py [MANIFEST...]

Bytes on a Cortex-M4: variables as arm-none-eabi-nm lists them, the driver's buffers as the example
configures them, and the deepest stack below main() in QEMU, over three seconds of noise.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE, MAIN = ROOT / "examples" / "wake_words", ROOT / "examples" / "esp-idf" / "main"
sys.path += [str(EXAMPLE), str(ROOT / "tests" / "python")]

from builders.wake_words import save  # noqa: E402
from wake_words import WakeWord, generate, sources  # noqa: E402

PORT, PLAIN = ROOT / "lib/vmcu/port/freestanding", ROOT / "samples/shared/plain"
INCLUDES = (".", EXAMPLE, MAIN, PORT, ROOT / "lib/vmcu/include")
CORE = ("-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-O2")
GCC = ("arm-none-eabi-gcc", *CORE, "-DVMCU_STREAMS", *(f"-I{path}" for path in INCLUDES))
LINK = ("--specs=nano.specs", "-nostartfiles", f"-T{PORT}/linker.ld", "-Wl,--gc-sections")
REST = (Path(__file__).with_name("main.c"), PLAIN / "newlib.c")
QEMU = "qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none -semihosting-config"
# Variables by the column that they are in; those of the front end are the rest.
COLUMNS = ("models", "front end", "words", "sound", "driver", "stack")
VARIABLES = {"pools": "models", "words": "words", "starts": "words", "block": "sound"}


def output_of(*command: str | Path, folder: str) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def ram(manifests: Sequence[Path]) -> dict[str, int]:
    """Returns bytes by column. Raises CalledProcessError if the image does not build or run."""
    with tempfile.TemporaryDirectory() as folder:
        models = generate([WakeWord(path) for path in manifests], Path(folder))
        output_of(*GCC, "-c", *sources(), MAIN / "main.c", *models, folder=folder)
        objects = sorted(path.name for path in Path(folder).glob("*.o"))
        rest = (*REST, PORT / "startup.c", PORT / "semihosting.c")
        output_of(*GCC, *LINK, *objects, *rest, "-o", "image", folder=folder)
        symbols = output_of("arm-none-eabi-nm", "-S", "-t", "d", *objects, folder=folder)
        command = (*QEMU.split(), "enable=on,target=native", "-kernel", "image")
        *_, driver, stack = output_of(*command, folder=folder).split()
    found = dict.fromkeys(COLUMNS, 0) | {"driver": int(driver), "stack": int(stack)}
    for line in symbols.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "bBdD":
            found[VARIABLES.get(words[3].partition(".")[0], "front end")] += int(words[1])
    return found


def row(name: str, manifests: Sequence[Path]) -> str:
    """A row of a table."""
    sizes = ram(manifests)
    return f"| {name} | {' | '.join(f'{n:,}' for n in (*sizes.values(), sum(sizes.values())))} |"


def main(arguments: Sequence[str]) -> None:
    print(f"| | {' | '.join((*COLUMNS, 'sum'))} |\n| --- |{' ---: |' * (len(COLUMNS) + 1)}")
    if arguments:
        print(row("these", [Path(name).resolve() for name in arguments]))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(row("six of random weights", save(Path(folder))))


if __name__ == "__main__":
    main(sys.argv[1:])
