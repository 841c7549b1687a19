# SPDX-License-Identifier: Apache-2.0
"""`vmcu verify --serial`: layers compared over an emulated UART, and faults that are planted."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from vmcu_bench import runners
from vmcu_bench.probe.link import started
from vmcu_bench.probe.locate import Board, Inspected, _words, inspect
from vmcu_bench.probe.session import Firmware, Session, StoppedError
from vmcu_bench.runners.qemu import QemuRunner
from vmcu_bench.runners.samples import make_samples
from vmcu_tools import paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit
from vmcu_tools.errors import UserError
from vmcu_tools.plan.plan import Plan

DIGITS = paths.root() / "samples" / "digits" / "digits.onnx"
GESTURE = paths.root() / "samples" / "gesture" / "gesture.onnx"
RUNS = 3
FEW, MANY = 12, 200
# Of a layer's row in the table, 4 bytes each: the kernel, and what it reads.
LAYER_BYTES = 28


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    for program in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(program) is None:
            pytest.skip(f"not installed: {program}")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_model(DIGITS)


def target_of(plan: Plan, name: str = "qemu:m4") -> QemuRunner:
    runner = runners.get(name)
    assert isinstance(runner, QemuRunner)
    return runner.suited(plan).probing()


@pytest.fixture(scope="module")
def image(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = emit(plan, "model").all_files
    return target_of(plan).build(files, "model", tmp_path_factory.mktemp("probe"))


def firmware_of(plan: Plan, image: Path) -> Firmware:
    command = target_of(plan).command(image)
    return lambda: started(command, 120, folder=str(image.parent))


def inspected(plan: Plan, image: Path) -> Inspected:
    sample = make_samples(plan.graph, 1, 0, 0)[0]
    with Board(plan, firmware_of(plan, image)) as board:
        return inspect(board, sample)


def places(image: Path) -> dict[str, tuple[int, int]]:
    """Offset in the file and size of each constant."""
    found = {}
    with image.open("rb") as file:
        elf = ELFFile(file)
        for symbol in elf.get_section_by_name(".symtab").iter_symbols():
            at, size = symbol["st_value"], symbol["st_size"]
            for segment in elf.iter_segments("PT_LOAD"):
                inside = at - segment["p_vaddr"]
                if size and 0 <= inside < segment["p_filesz"]:
                    found[symbol.name] = segment["p_offset"] + inside, size
    return found


def test_sound_firmware(plan: Plan, image: Path) -> None:
    outcome = inspected(plan, image)
    assert outcome.fault is None and outcome.layers == len(plan.steps)
    sample = make_samples(plan.graph, 1, 0, 0)[0]
    (expected,) = runners.get("host").run(plan, [sample])
    assert outcome.outputs == expected[0].tobytes()


def planted(plan: Plan, image: Path, folder: Path, seed: int) -> tuple[int, Inspected]:
    """Damages constants or the kernel of one layer; returns its number, and what was found."""
    rng = np.random.default_rng(seed)
    data, where = bytearray(image.read_bytes()), places(image)
    number = int(rng.integers(len(plan.steps)))
    own = sorted(name for name in where if name.startswith(f"model_{number:02d}_"))
    at, size = where[own[int(rng.integers(len(own)))]]
    if seed % 4 == 0:
        # The kernel of another layer.
        table, of_table = where["model_layers"]
        rows = of_table // LAYER_BYTES
        another = (number + int(rng.integers(1, rows))) % rows
        at, other = table + number * LAYER_BYTES, table + another * LAYER_BYTES
        data[at : at + 4] = data[other : other + 4]
    else:
        for _ in range(4):
            data[at + int(rng.integers(size))] ^= int(rng.integers(1, 256))
    damaged = folder / f"damaged{seed}.elf"
    damaged.write_bytes(data)
    return number, inspected(plan, damaged)


def check_planted(plan: Plan, image: Path, folder: Path, seeds: range) -> int:
    """Checks the layer of each fault that changes a byte; returns how many do."""
    visible = 0
    for seed in seeds:
        number, outcome = planted(plan, image, folder, seed)
        if outcome.fault is not None:
            visible += 1
            assert outcome.fault.number == number, seed
            assert outcome.fault.runs <= RUNS
    return visible


def test_planted_faults(plan: Plan, image: Path, tmp_path: Path) -> None:
    assert check_planted(plan, image, tmp_path, range(FEW)) >= FEW // 2


@pytest.mark.slow
def test_many_planted_faults(plan: Plan, image: Path, tmp_path: Path) -> None:
    assert check_planted(plan, image, tmp_path, range(MANY + MANY // 2)) >= MANY


def wrapped(plan: Plan, folder: Path, number: int, body: str) -> Path:
    """An image in which a function calls the kernel of a layer."""
    files = dict(emit(plan, "model").all_files)
    text = str(files["model.c"])
    row = next(m for i, m in enumerate(re.finditer(r"\.kernel = (\w+),", text)) if i == number)
    table = text.index("static const struct vmcu_layer model_layers[]")
    wrapper = f"static void wrong(const struct vmcu_call *call)\n{{\n\t{row[1]}(call);\n{body}}}\n"
    wrapper = f"#include <vmcu/access.h>\n\n{wrapper}\n"
    changed = text[: row.start()] + ".kernel = wrong," + text[row.end() :]
    files["model.c"] = f"{changed[:table]}{wrapper}{changed[table:]}"
    return target_of(plan).build(files, "model", folder)


@pytest.mark.parametrize("number", [0, 2, 5, 7])
def test_the_first_wrong_byte(plan: Plan, tmp_path: Path, number: int) -> None:
    out = plan.graph.tensors[plan.steps[number].node.outputs[0]].shape
    y, x, channel = out[0] - 1, out[1] // 2, out[2] - 1
    body = (
        f"\tif (call->y == {y} && call->x <= {x} && call->x + call->columns > {x}) {{\n"
        f"\t\tvmcu_pixel(call->pool, vmcu_call_output(call), {y}, {x})[{channel}] ^= 0x40;\n\t}}\n"
    )
    image = wrapped(plan, tmp_path, number, body)
    fault = inspected(plan, image).fault
    assert fault is not None and fault.actual is not None and fault.expected is not None
    assert (fault.number, fault.y, fault.x, fault.channel) == (number, y, x, channel)
    assert fault.actual ^ fault.expected == 0x40 and fault.runs == RUNS
    assert fault.tensor == plan.steps[number].node.outputs[0]


def test_a_kernel_that_stops_the_core(plan: Plan, tmp_path: Path) -> None:
    body = "\tif (call->y == 2) {\n\t\t*(volatile int *)0xfffffff1 = 1;\n\t}\n"
    fault = inspected(plan, wrapped(plan, tmp_path, 3, body)).fault
    assert fault is not None and fault.number == 3 and fault.y == 2
    assert fault.reason.startswith("the firmware stopped")


@pytest.mark.parametrize("machine", ["qemu:m0", "qemu:m3", "qemu:m55", "qemu:rv32"])
def test_the_command(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    emulator = "qemu-system-riscv32" if machine == "qemu:rv32" else "qemu-system-arm"
    if shutil.which(emulator) is None:
        pytest.skip(f"not installed: {emulator}")
    words = ["verify", str(DIGITS), "--on", machine, "--serial", "emulated", "-n", "1"]
    assert main(words) == 0
    assert f"digits on {machine}: PASSED" in capsys.readouterr().out


def test_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--hop", "4", "-n", "5", "--on", "qemu:m4", "--serial", "emulated"]
    assert main(["verify", str(GESTURE), *words]) == 0
    assert "5 inputs, 3 layers of each: every digest matches" in capsys.readouterr().out


def test_a_fault_is_printed(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "\tvmcu_row(call->pool, vmcu_call_output(call), 0)[0] ^= 1;\n"
    image = wrapped(plan, tmp_path, 6, body)
    monkeypatch.setattr(QemuRunner, "build", lambda *_: image)
    words = ["--on", "qemu:m4", "--serial", "emulated", "-n", "1"]
    assert main(["verify", str(DIGITS), *words]) == 1
    said = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "input 0: layer 6 " in said and ", row 0, column 0, channel 0 is " in said
    assert "digits on qemu:m4: FAILED" in said


def test_accuracy(tmp_path: Path, plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    port = plan.graph.inputs[0]
    values = rng.normal(0, 1, (6, *port.file_shape[1:])).astype(port.dtype)
    data = tmp_path / "set.npz"
    np.savez(data, labels=np.zeros(6, np.int64), **{port.name: values})
    words = ["verify", str(DIGITS), "--on", "qemu:m4", "--serial", "emulated", "--data"]
    assert main([*words, str(data)]) == 0
    said = re.sub(r"\s+", " ", capsys.readouterr().out)
    shares = re.search(r"board: ([\d.]+)% of 6 inputs; .* runtime: ([\d.]+)%; same answer: 6", said)
    assert shares is not None and shares[1] == shares[2]
    np.savez(data, labels=np.zeros(6, np.int64), wrong=values)
    assert main([*words, str(data)]) == 1
    assert "expected labels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--serial", "emulated"], "add --on qemu:m4"),
        (["--board", "nucleo_f411re"], "--board requires --serial"),
        (["--data", "x.npz"], "--data requires --serial"),
        (["--on", "host", "--serial", "emulated"], "'host' has no serial port"),
        (["--on", "qemu:m4", "--serial", "/dev/ttyACM0"], "'qemu:m4' has no serial port"),
    ],
)
def test_options(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(DIGITS), *words]) == 1
    assert said in capsys.readouterr().err


class Scripted:
    """A link that answers from a list."""

    def __init__(self, answer: Callable[[str], list[str]]):
        self.answer, self.lines = answer, list[str]()

    def write(self, text: str) -> None:
        self.lines += self.answer(text.strip())

    def read(self, seconds: float) -> str | None:
        return self.lines.pop(0) if self.lines else None


def test_other_firmware(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="version 1 of the probe and 3 layers"):
        Session(Scripted(lambda _: ["= 1 3 0 other"]), plan)
    monkeypatch.setattr("vmcu_bench.probe.session.START_S", 0.05)
    monkeypatch.setattr("vmcu_bench.probe.session.ASK_S", 0.01)
    with pytest.raises(StoppedError, match="hard fault"):
        Session(Scripted(lambda _: ["hard fault"]), plan)


def test_bytes_that_change_on_the_way(plan: Plan) -> None:
    answers = {"?": [f"= 1 {len(plan.steps):x} 0 model"]}
    session = Session(Scripted(lambda text: answers.get(text, ["= 1234"])), plan)
    with pytest.raises(UserError, match="received other bytes"):
        session.send_row(0, 0, np.zeros(8, np.int8))


def test_text_in_the_middle_of_a_line() -> None:
    """As of QEMU's messages and fault handlers."""
    assert _words(["c 5 1 0", "c 5 1qemu-system-arm: fault", "c 5 hard fault"]) == (
        ("5", "1", "0"),
        ("5",),
        ("5",),
    )


@pytest.mark.parametrize(("options", "most"), [((), 0), (("-DVMCU_PROBE",), 1536)])
def test_bytes_of_the_probe(tmp_path: Path, options: tuple[str, ...], most: int) -> None:
    made = tmp_path / "probe.o"
    flags = ("-mcpu=cortex-m4", "-mthumb", "-std=c99", "-Os", f"-I{paths.runtime() / 'include'}")
    source = str(paths.runtime() / "probe.c")
    command = ["arm-none-eabi-gcc", *flags, *options, "-c", source, "-o", str(made)]
    subprocess.run(command, check=True)
    said = subprocess.run(["arm-none-eabi-size", str(made)], capture_output=True, check=True)
    code, data, zeroed = map(int, said.stdout.split()[6:9])
    assert code <= most and (code > 0) == (most > 0) and data == zeroed == 0
