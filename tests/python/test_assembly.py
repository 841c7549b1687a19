# SPDX-License-Identifier: Apache-2.0
"""The assembly files: which cores they are for, and that debuggers find the callers."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from vmcu_bench import runners
from vmcu_bench.cycles import kernels
from vmcu_bench.runners.base import sample_bytes
from vmcu_bench.runners.compiled import INPUT_FILE
from vmcu_bench.runners.qemu import ARM, QemuRunner
from vmcu_bench.runners.samples import make_samples
from vmcu_kernelgen.assembly import SAVED
from vmcu_kernelgen.families import families
from vmcu_tools import paths
from vmcu_tools.emit import emit
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.registry import make_plan

pytestmark = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="needs arm-none-eabi-gcc and qemu-system-arm",
)

# By how the names of files for Arm end.
BOARD = {
    "helium": "qemu:m55",
    "dsp": "qemu:m4",
    "dual": "qemu:m7",
    "v6m": "qemu:m0",
    "v7m": "qemu:m3",
}


def target_of(path: Path) -> str:
    """What ends a file's name; files of int4 weights are for the same cores."""
    return path.stem.replace("_int4", "").rpartition("_")[2]


FILES = sorted(
    path for path in (paths.runtime() / "kernels" / "gen").glob("*.S") if target_of(path) in BOARD
)
FUNCTIONS = {
    suffix: [
        f.name
        for family in families()
        if family.folder.endswith(f"/{target}")
        for functions in family.assembly.values()
        for f in functions
    ]
    for suffix, target in (
        *(("helium", "helium"), ("dsp", "dsp"), ("dual", "dsp")),
        *(("v6m", "v6m"), ("v7m", "v7m")),
    )
}
SP, LR, PC = 13, 14, 15
NUMBER = {"sp": SP, "lr": LR, "pc": PC} | {f"r{number}": number for number in range(13)}
STEPS = 300
LAYERS = {
    "1x1": kernels.Case("", "conv", 5, 18, 20),
    "3x3": kernels.Case("", "conv", 5, 8, 12, 3),
    "depthwise 3x3": kernels.Case("", "depthwise", 13, 8, 8, 3),
    "depthwise 3x3, stride 2": kernels.Case("", "depthwise", 13, 8, 8, 3, 2),
    "depthwise 7x7": kernels.Case("", "depthwise", 9, 8, 8, 7),
    "depthwise 2x2": kernels.Case("", "depthwise", 6, 8, 8, 2),
    "dense": kernels.Case("", "dense", 1, 20, 12),
}


def board(target: str) -> QemuRunner:
    found = runners.get(BOARD[target])
    assert isinstance(found, QemuRunner)
    return found


@dataclass
class Frames:
    """The functions of an image, and its call frame information."""

    starts: list[int]
    names: list[str]
    entries: list[FDE]

    @staticmethod
    def of(image: Path) -> Frames:
        with image.open("rb") as file:
            elf = ELFFile(file)
            table = elf.get_section_by_name(".symtab")
            found = {
                symbol["st_value"] & ~1: symbol.name
                for symbol in table.iter_symbols()
                if symbol["st_info"]["type"] == "STT_FUNC"
            }
            # Those of functions that the linker has dropped begin at address zero.
            entries = [
                one
                for one in elf.get_dwarf_info().CFI_entries()
                if isinstance(one, FDE) and one["initial_location"] in found
            ]
            for entry in entries:
                entry.get_decoded()
        starts = sorted(found)
        return Frames(starts, [found[start] for start in starts], entries)

    def name(self, address: int) -> str:
        return self.names[bisect_right(self.starts, address) - 1]

    def row(self, address: int) -> dict:
        """The rules at an instruction."""
        (entry,) = (
            one
            for one in self.entries
            if one["initial_location"] <= address < one["initial_location"] + one["address_range"]
        )
        return [row for row in entry.get_decoded().table if row["pc"] <= address][-1]


def linked(target: str, folder: Path) -> Path:
    """All assembly of a target."""
    gcc = [ARM.tool("gcc"), *board(target).flags, "-nostdlib"]
    image, symbols = folder / "all.elf", FUNCTIONS[target]
    link = [f"-Wl,--entry={symbols[0]}", "-Wl,--unresolved-symbols=ignore-all"]
    files = [str(path) for path in FILES if target_of(path) == target]
    subprocess.run([*gcc, *link, *files, "-o", str(image)], check=True)
    return image


def instructions(image: Path) -> Iterator[tuple[str, int, str, str]]:
    """(function, address, mnemonic, operands) of an image's code."""
    command = [ARM.tool("objdump"), "-d", "--no-show-raw-insn", str(image)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    name = ""
    for line in text.splitlines():
        if head := re.fullmatch(r"[0-9a-f]+ <(\w+)>:", line):
            name = head[1]
        elif found := re.match(r" *([0-9a-f]+):\t(\S+)\s*([^@;]*)", line):
            yield name, int(found[1], 16), found[2].partition(".")[0], found[3].strip()


def listed(operands: str) -> list[str]:
    """The registers of a list in braces, some of which are a range."""
    names = []
    for part in operands.partition("{")[2].rstrip("}").split(", "):
        first, _, last = part.partition("-")
        numbers = range(int(first[1:]), int(last[1:]) + 1) if last else ()
        names += [f"r{number}" for number in numbers] or [first]
    return [{"sl": "r10", "fp": "r11", "ip": "r12"}.get(name, name) for name in names]


@pytest.mark.parametrize("target", BOARD)
def test_frames_follow_the_stack(target: str, tmp_path: Path) -> None:
    """At each instruction the frame information says how far SP has moved, and where the registers
    are that the function must preserve."""
    image = linked(target, tmp_path)
    frames = Frames.of(image)
    depth, places, copies = 0, dict[str, int](), dict[str, str]()
    restored, last, seen = False, "", set()
    for name, address, mnemonic, operands in instructions(image):
        if mnemonic == "nop":
            # Some are between functions.
            continue
        row = frames.row(address)
        if name != last:
            depth, places, copies, restored, last = 0, {}, {}, False, name
            if name.startswith("vmcu_sums_") and target in ("dsp", "dual"):
                # On the stack of vmcu_strip_words().
                depth = row["cfa"].offset
                places = {saved: -4 * (len(SAVED) - at) for at, saved in enumerate(SAVED)}
        assert (row["cfa"].reg, row["cfa"].offset) == (SP, depth), f"{name} at {address:#x}"
        rules = {name: row[number].arg for name, number in NUMBER.items() if number in row}
        assert rules == places, f"{name} at {address:#x}"
        seen.add(name)
        if mnemonic == "push" or (mnemonic == "stmdb" and operands.startswith("sp!")):
            names = listed(operands)
            depth += 4 * len(names)
            if not places:
                places = {one: 4 * at - depth for at, one in enumerate(names)}
            # Cores of ARMv6-M push those above R7 by way of those below.
            moved = {copies[one]: 4 * at - depth for at, one in enumerate(names) if one in copies}
            places |= moved
            copies = {}
        elif mnemonic == "pop" and "pc}" not in operands:
            depth -= 4 * len(listed(operands))
            restored = True
        elif restored and mnemonic == "mov":
            del places[listed(f"{{{operands.split(', ')[0]}}}")[0]]
        elif mnemonic == "mov" and re.fullmatch("r[4-7], (r8|r9|sl|fp)", operands):
            low, high = operands.split(", ")
            copies[low] = listed(f"{{{high}}}")[0]
        elif mnemonic in ("vpush", "vpop"):
            low, high = map(int, re.findall(r"d(\d+)", operands))
            depth += (8 if mnemonic == "vpush" else -8) * (high - low + 1)
        elif mnemonic in ("sub", "add") and operands.startswith("sp, #"):
            size = int(operands.partition("#")[2])
            depth += size if mnemonic == "sub" else -size
        else:
            returns = mnemonic in ("pop", "ldmia") and "pc}" in operands
            moves = operands.startswith(("sp!", "sp, ")) or re.search(r"\[sp.*(]!|], )", operands)
            assert returns or not moves or mnemonic == "stmia", f"{mnemonic} {operands}"
    assert seen == {*FUNCTIONS[target]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_other_cores_get_nothing(path: Path, tmp_path: Path) -> None:
    target = target_of(path)
    # Cortex-M55 has the DSP extension.
    others = {suffix: board(suffix).flags for suffix in BOARD if suffix not in (target, "helium")}
    made = tmp_path / "one.o"
    cores = [*others.values(), ("-mcpu=cortex-a9", "-marm")]
    cores.append((*board(target).flags, "-DVMCU_PORTABLE"))
    for flags in cores:
        subprocess.run([ARM.tool("gcc"), *flags, "-c", str(path), "-o", str(made)], check=True)
        size = subprocess.run(
            [ARM.tool("size"), str(made)], check=True, capture_output=True, text=True
        )
        assert size.stdout.splitlines()[1].split()[:3] == ["0"] * 3, flags


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_hosts_need_no_executable_stack(path: Path, tmp_path: Path) -> None:
    made = tmp_path / "one.o"
    subprocess.run(["gcc", "-c", str(path), "-o", str(made)], check=True)
    with made.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".note.GNU-stack")
        assert section is not None and section["sh_flags"] == 0


class Debugger:
    """Speaks to QEMU as a debugger does: the remote protocol of GDB."""

    def __init__(self, port: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        end = time.monotonic() + 30
        while True:
            try:
                self.socket.connect(str(port))
                break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.02)
        self.received = b""

    def ask(self, packet: str) -> str:
        data = packet.encode()
        self.socket.sendall(b"$%s#%02x" % (data, sum(data) % 256))
        while not (found := re.search(rb"\$([^#]*)#..", self.received, re.DOTALL)):
            more = self.socket.recv(4096)
            assert more, "QEMU has ended"
            self.received += more
        self.received = self.received[found.end() :]
        self.socket.sendall(b"+")
        return found[1].decode()

    def registers(self) -> list[int]:
        data = bytes.fromhex(self.ask("g")[: 8 * 16])
        return [int.from_bytes(data[i : i + 4], "little") for i in range(0, 64, 4)]

    def word(self, address: int) -> int:
        return int.from_bytes(bytes.fromhex(self.ask(f"m{address:x},4")), "little")

    def go_to(self, address: int) -> None:
        assert self.ask(f"Z0,{address:x},2") == "OK"
        assert self.ask("c").startswith("T05")
        assert self.ask(f"z0,{address:x},2") == "OK"

    def chain(self, frames: Frames) -> list[tuple[str, int]]:
        """The functions that have called each other, the innermost first, each with its frame's
        address."""
        registers, found = self.registers(), []
        while True:
            # A return address may be that of the next function.
            address = registers[PC] - (2 if found else 0)
            row = frames.row(address)
            frame = (registers[row["cfa"].reg] + row["cfa"].offset) & 0xFFFFFFFF
            found.append((frames.name(address), frame))
            if found[-1][0] == "main":
                return found
            before = list(registers)
            for number in range(16):
                if number in row and row[number].type == "OFFSET":
                    registers[number] = self.word(frame + row[number].arg)
            assert registers != before or len(found) == 1, found
            registers[PC], registers[SP] = registers[LR] & ~1, frame


@contextmanager
def debugged(image: Path, plan: Plan, target: QemuRunner) -> Iterator[Debugger]:
    """A board that has not begun to run."""
    sample = make_samples(plan.graph, 1, 0, 0)
    (image.parent / INPUT_FILE).write_bytes(sample_bytes(plan, sample))
    port = image.parent / "gdb"
    command = [*target.command(image), "-S", "-gdb", f"unix:{port},server=on,wait=off"]
    process = subprocess.Popen(command, cwd=image.parent, stdin=subprocess.DEVNULL)
    try:
        yield Debugger(port)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("target", "layer", "function"),
    [
        ("dsp", "1x1", "vmcu_run_of_wide"),
        ("dsp", "1x1", "vmcu_widen_words_4"),
        ("dsp", "3x3", "vmcu_run_of_narrow"),
        ("dsp", "depthwise 3x3", "vmcu_strip_words"),
        ("dsp", "depthwise 3x3, stride 2", "vmcu_strip_words"),
        ("dsp", "depthwise 7x7", "vmcu_strip_words"),
        ("dsp", "depthwise 2x2", "vmcu_direct_fours"),
        ("dsp", "dense", "vmcu_run_of_dense"),
        ("dual", "1x1", "vmcu_run_of_wide"),
        ("dual", "depthwise 3x3", "vmcu_strip_words"),
        ("v6m", "1x1", "vmcu_paired_4x2"),
        ("v6m", "depthwise 3x3", "vmcu_strip_words"),
        ("v6m", "dense", "vmcu_paired_1x4"),
        ("v7m", "1x1", "vmcu_sums_words_4x2"),
        ("helium", "1x1", "vmcu_run_of_vectors"),
        ("helium", "depthwise 3x3", "vmcu_vectors_of_nine"),
    ],
)
def test_debuggers_find_the_callers(target: str, layer: str, function: str, tmp_path: Path) -> None:
    """At each of the first instructions of a function, wherever they jump."""
    graph = kernels.case_graph(LAYERS[layer], 0)
    plan = make_plan(replace(graph, target=board(target).family or graph.target))
    image = board(target).build(emit(plan, "model").files, "model", tmp_path)
    frames = Frames.of(image)
    start = dict(zip(frames.names, frames.starts, strict=True))[function]
    with debugged(image, plan, board(target)) as debugger:
        debugger.go_to(start)
        first, *callers = debugger.chain(frames)
        assert first[0] == function
        met = set()
        for _ in range(STEPS):
            assert debugger.ask("s").startswith("T05")
            chain = debugger.chain(frames)
            if chain[-len(callers) :] != callers or chain == callers:
                assert chain[0][0] == callers[0][0], chain
                break
            met.add(chain[0][0])
        assert function in met
        if function == "vmcu_strip_words" and target != "v6m":
            assert any(name.startswith("vmcu_sums_") for name in met), met
