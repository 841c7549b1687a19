# SPDX-License-Identifier: Apache-2.0
"""Tables on a narrow terminal have every column and every figure of the piped output."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from builders.networks import network_file
from builders.tflite_models import TfliteModel, weights
from drawn import seeds
from rich.cells import cell_len
from rich.console import Console
from vmcu_tools import paths
from vmcu_tools.cli import main
from vmcu_tools.report import terminal
from vmcu_tools.report.page.names import short_names
from vmcu_tools.report.terminal import Terminal
from vmcu_tools.report.text import ELLIPSIS, LEAST_TEXT, RULE, ReportTable, table

HERE = Path(__file__).parent
SAMPLES = paths.root() / "samples"
DIGITS, GESTURE = (str(SAMPLES / name / f"{name}.onnx") for name in ("digits", "gesture"))
WIDTH = 60
MARK = "\f"
# A word that is a number, whatever its unit; names of layers are none.
FIGURE = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?[%K]?")
STYLE = re.compile(r"\x1b\[[\d;]*m")

# Its report is that of any target, and needs no compiler.
VIRTUAL = ["--on", "virtual"]

COMMANDS: dict[str, list[str]] = {
    "build": ["build", DIGITS, "--all"],
    "build rotated": ["build", DIGITS, "--rotate"],
    "build hop": ["build", GESTURE, "--hop", "4"],
    "build memories": ["build", DIGITS, "--memory", "fast=2K,slow=64K"],
    "build front": ["build", GESTURE, "--pareto"],
    "verify": ["verify", DIGITS, "-n", "2", *VIRTUAL],
    "verify hop": ["verify", GESTURE, "--hop", "4", "-n", "2", *VIRTUAL],
    "verify container": ["verify", "gesture.vmcu", "-n", "2", *VIRTUAL],
    "run": ["run", GESTURE, "--input", "x.npy"],
    "bench": ["bench", DIGITS],
    "bench board": ["bench", DIGITS, "--board", "nucleo_l4r5zi"],
    "bench hop": ["bench", GESTURE, "--hop", "4"],
    "bench kernels": ["bench"],
    "bench wear": ["bench", "--wear", GESTURE],
    "bench wear, paper": ["bench", "--wear"],
    "fit": ["fit", GESTURE, "--ram", "150"],
    "fit grow": ["fit", GESTURE, "--ram", "64K", "--grow"],
    "check": ["check", DIGITS, "--max-ram", "1K", "--baseline", GESTURE],
    "check bundles": ["check", "digits.json", "--baseline", "before.json"],
    "inspect": ["inspect", DIGITS],
    "inspect image": ["inspect", "kept/digits.elf"],
    "inspect operators": ["inspect", "--operators"],
    "inspect unsupported": ["inspect", "float.onnx"],
    "compare": ["compare", DIGITS],
    "compare two": ["compare", DIGITS, GESTURE],
    "place": ["place", "problem.csv"],
    "place memories": ["place", "problem.csv", "--memory", "fast=8,slow=1K:10"],
    "place graph": ["place", "--graph", "graph.json"],
    "container show": ["container", "show", "gesture.vmcu"],
    "container kernels": ["container", "kernels", "gesture.vmcu"],
    "boards": ["boards"],
    "quantize": ["quantize", "float.onnx", "--calibration", "data.npz", "-o", "q.onnx"],
    "quantize --weights": [
        *("quantize", "float.onnx", "--calibration", "data.npz", "-o", "q.onnx"),
        *("--weights", "int4"),
    ],
}


def prepare(folder: Path) -> None:
    """The files that COMMANDS name."""
    import onnx
    from builders.onnx_models import OnnxModel
    from onnx import TensorProto

    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.integers(-128, 128, (1, 3, 45, 1), dtype=np.int8))
    (folder / "problem.csv").write_text("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\n")
    tensors = [{"name": name, "size": size} for name, size in (("a", 1000), ("b", 2000))]
    nodes = [
        {"name": "first", "outputs": ["a"]},
        {"name": "second", "inputs": ["a"], "outputs": ["b"]},
    ]
    (folder / "graph.json").write_text(json.dumps({"tensors": tensors, "nodes": nodes}))
    m = OnnxModel()
    weights = m.rng.normal(size=(4, 3, 3, 3)).astype(np.float32)
    y = m.node("Relu", [m.node("Conv", ["x", m.constant(weights)])])
    shape = (1, 3, 8, 8)
    kinds = {"x": (TensorProto.FLOAT, shape)}, {y: (TensorProto.FLOAT, None)}
    onnx.save(m.proto(*kinds), folder / "float.onnx")
    np.savez(folder / "data.npz", x=rng.normal(size=(4, *shape[1:])).astype(np.float32))
    assert main(["build", GESTURE, "--format", "container", "-o", str(folder)]) == 0
    for words in (["digits.json"], ["before.json", "--target", "portable"]):
        assert main(["build", DIGITS, "--json", str(folder / words[0]), *words[1:]]) == 0
    figures = json.loads((folder / "before.json").read_text())
    (folder / "before.json").write_text(json.dumps(figures | {"model": "digits"}))
    assert main(["bench", DIGITS, "--keep", str(folder / "kept")]) == 0


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """By command, the piped output and that on a terminal. `bench` compiles images, which takes
    long."""
    folder = tmp_path_factory.mktemp("terminal")
    prepare(folder)
    asked = folder / "commands.json"
    asked.write_text(json.dumps({"width": WIDTH, "commands": list(COMMANDS.values())}))
    ours, theirs = os.openpty()
    parts: list[bytes] = []

    def read() -> None:
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:
            pass  # Linux reports the end of a terminal as an error.

    reader = threading.Thread(target=read)
    reader.start()
    with (folder / "piped").open("w+b") as piped:
        command = [sys.executable, str(HERE / "terminal_widths.py"), str(asked)]
        # readline gives COLUMNS to the children of pytest, unless they get Python's environment.
        subprocess.run(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=piped,
            cwd=folder,
            env=dict(os.environ),
            check=True,
            timeout=600,
        )
        os.close(theirs)
        reader.join()
        os.close(ours)
        piped.seek(0)
        plain = piped.read().decode().split(MARK)[1:]
    text = STYLE.sub("", b"".join(parts).decode().replace("\r\n", "\n"))
    seen = text.split(MARK)[1:]
    return dict(zip(COMMANDS, zip(plain, seen, strict=True), strict=True))


def figures(text: str) -> Counter[str]:
    """Numbers that stand alone, but for those of the plan's time, which differs."""
    words = re.sub(r"[\d.]+ s;", "", text).split()
    return Counter(w.strip("(),;:") for w in words if FIGURE.fullmatch(w.strip("(),;:")))


def headers(text: str) -> Counter[str]:
    """The words of the lines above each table's first rule."""
    found: Counter[str] = Counter()
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line and set(line) == {RULE}:
            above = number
            while above and lines[above - 1].strip() and number - above < 4:
                above -= 1
            block = lines[above:number]
            if all(not FIGURE.fullmatch(word) for word in block[-1].split()) if block else False:
                found.update(word for one in block for word in one.split())
    return found


def tables(text: str) -> list[str]:
    """The lines that belong to tables: paragraphs with a rule."""
    return [
        line
        for part in re.split(r"\n\s*\n", text)
        if any(one and set(one) == {RULE} for one in part.split("\n"))
        for line in part.split("\n")
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_lost(shown: dict[str, tuple[str, str]], name: str) -> None:
    plain, text = shown[name]
    assert plain.strip(), "the command printed nothing"
    timed = name.startswith(("place", "compare"))
    lost = {} if timed else figures(plain) - figures(text)
    assert not lost
    assert not headers(plain) - headers(text)
    assert not [line for line in tables(text) if cell_len(line) > WIDTH]


LONG_NAME = f"{'a' * 16}…{'z' * 16}"
PIPED = ["build --all", "inspect", "verify -n 1", "fit --ram 20K", "compare"]


@pytest.mark.parametrize("words", PIPED)
def test_a_pipe_has_100_columns(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "PIPE_COLUMNS", 100)
    monkeypatch.setenv("COLUMNS", "300")
    command, *options = words.split()
    main([command, str(network_file("mlperf-tiny-kws")), *options])
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) > 3 and max(map(cell_len, lines)) <= 100
    named = [line for line in lines if "activation_3" in line.split()]
    assert len(named) == (command in ("build", "inspect"))


@pytest.mark.parametrize(
    ("full", "short"),
    [
        (["functional_1/activation/Relu;functional_1/conv2d/BiasAdd"], ["activation"]),
        (["model/dense/MatMul", "model/dense/BiasAdd"], ["dense/MatMul", "dense/BiasAdd"]),
        (["model/a/Relu", "a"], ["a/Relu", "a"]),
        (["a/Relu;b", "a/Relu;c"], ["a/Relu;b", "a/Relu;c"]),
        (["/0/Conv", "Identity", "model/add/add"], ["0/Conv", "Identity", "add/add"]),
        (["m/inverted_bottleneck/x/bn/Relu", "m/b"], ["inverted_bottleneck/x/bn", "m/b"]),
        (["model/sequential", "x"], ["sequential", "x"]),
        (
            [f"{'a' * 20}{n}{'z' * 20}" for n in "bcd"],
            [f"{LONG_NAME}{n}" for n in ("", "~2", "~3")],
        ),
    ],
)
def test_names_of_converters(full: list[str], short: list[str]) -> None:
    assert list(short_names(full).values()) == short


def test_a_report_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three lines, and in the file all that the command prints without it, but for seconds."""
    file, words = tmp_path / "report.txt", ["build", DIGITS, "--board", "nrf52840dk"]
    assert main([*words, "--report", str(file)]) == 0
    ram, flash, rest = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"digits: RAM [\d,]+ bytes", ram) and re.fullmatch(r"  flash .*s", flash)
    assert re.fullmatch(r"  [\d.]+ ms on nrf52840dk, estimated; report: .*/report.txt", rest)
    assert main(words) == 0
    printed = re.sub(r"[\d.]+ s;", "", capsys.readouterr().out)
    text = re.sub(r"[\d.]+ s;", "", file.read_text())
    assert printed.startswith(text) and "next:" in printed and "next:" not in text


def test_every_figure_of_a_build_is_in_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "digits.json"
    assert main(["build", DIGITS, "--all", "--json", str(file)]) == 0
    text, report = capsys.readouterr().out, json.loads(file.read_text())
    rows = [line.split() for line in text.split("\n") if line[:1].isdigit()]
    peak = max(step["pool_bytes"] for step in report["steps"])
    for row, step in zip(rows, report["steps"], strict=True):
        assert row[1] in step["name"]
        assert row[2:5] == [step["op"], f"{step['pool_bytes']:,}", f"{step['macs']:,}"]
        assert ("peak" in row) == (step["pool_bytes"] == peak)
    flash = report["weights_bytes"] + report["tables_bytes"]
    assert f"RAM    {report['pool_bytes']:,} bytes" in text and f"flash  {flash:,} bytes" in text
    assert text.index("RAM ") < text.index("pool bytes") < text.index("The peak is layer")


def test_a_build_lists_the_largest_layers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    m = TfliteModel(1)
    x = first = m.activation((1, 20, 1, 8), 0.05, 0)
    steps = dict.fromkeys(("strideH", "strideW", "dilationHFactor", "dilationWFactor"), 1)
    for depth in range(8, 36, 2):
        y = m.activation((1, 20, 1, depth + 2), 0.05, 0)
        constants, _ = weights(m, x, (depth + 2, 1, 1, depth), depth + 2, 0, True, True)
        m.op("CONV_2D", [x, *constants], y, "Conv2D", **steps)
        x = y
    model, file = str(m.save(tmp_path / "deep.tflite", [first], [x])), tmp_path / "r.json"
    assert main(["build", model, "--json", str(file)]) == 0
    few = capsys.readouterr().out
    steps = json.loads(file.read_text())["steps"]
    assert main(["build", model, "--all"]) == 0
    every = capsys.readouterr().out

    def listed(text: str) -> list[int]:
        return [int(line.split()[0]) for line in text.split("\n") if re.match(r"\d+ {2,}\S", line)]

    sizes = [step["pool_bytes"] for step in steps]
    assert listed(every) == list(range(len(steps))) and len(steps) > 10
    assert sorted(sizes[n] for n in listed(few)) == sorted(sizes)[-10:]
    assert listed(few) == sorted(listed(few))
    assert "--all lists all" in few and "--all lists all" not in every


def drawn(rng: random.Random) -> ReportTable:
    left = rng.randint(0, 3)
    count = left + rng.randint(1, 9)
    words = ("loads", "of", "flash", "MACs", "per", "instructions")
    columns = [" ".join(rng.choices(words, k=rng.randint(1, 3))) for _ in range(count)]
    found = table(*columns, left=left, keys=rng.randint(0, left))
    for _ in range(rng.randint(0, 5)):
        texts = ["".join(rng.choices("ab /_テ", k=rng.randint(0, 60))) for _ in range(left)]
        numbers = [f"{rng.randrange(10 ** rng.randint(1, 10)):,}" for _ in range(count - left)]
        found.add_row(*texts, *numbers, end_section=rng.random() < 0.2)
    return found


def printed(grid: ReportTable, width: int) -> str:
    file = io.StringIO()
    Terminal(file=file, width=width).print(grid)
    return file.getvalue()


@pytest.mark.parametrize("seed", seeds(200, 60))
def test_any_table_at_any_width(seed: int) -> None:
    rng = random.Random(seed)
    grid = drawn(rng)
    wide = printed(grid, 1_000_000)
    assert ELLIPSIS not in wide
    for width in (1, 20, 40, 60, 80, 100, 150):
        text = printed(grid, width)
        for header, *cells in zip(grid.headers, *grid.rows, strict=True):
            assert not Counter(header.split()) - Counter(text.split())
            numbers = [cell for cell in cells if FIGURE.fullmatch(cell)]
            assert not Counter(numbers) - Counter(text.split())
        keys = sum(min(LEAST_TEXT, grid._natural(n)) + 2 for n in range(grid.keys))
        widest = max(grid._least(n) for n in range(len(grid.headers)))
        if keys + widest <= width:
            assert all(cell_len(line) <= width for line in text.split("\n"))


def test_a_long_name_keeps_its_ends() -> None:
    grid = table("layer", "bytes", left=1)
    grid.add_row("model/" + "x" * 60 + "/conv_7", "1,234,567")
    text = printed(grid, 40)
    assert "model/x" in text and "/conv_7" in text and ELLIPSIS in text and "1,234,567" in text


def test_a_terminal_without_unicode() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    grid = table("layer", "bytes", left=1)
    grid.add_row("x" * 60, "1")
    Console(file=file, width=30).print(grid)
    file.flush()
    assert b"---" in file.buffer.getvalue() and b"~" in file.buffer.getvalue()
