# SPDX-License-Identifier: Apache-2.0
"""samples/mlperf_tiny and benchmarks/mlperf_tiny/run.py: the serial protocol of MLPerf Tiny on this
computer under sanitizers, both modes on an emulated board, and the tree of a submission."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from drawn import case, seeds
from vmcu_bench.runners import workspace
from vmcu_bench.runners.zephyr import ZephyrRunner
from vmcu_tools import paths
from vmcu_tools.errors import UserError

from scripts import script

ROOT = paths.root()
SAMPLE, SCRIPT = ROOT / "samples" / "mlperf_tiny", ROOT / "benchmarks" / "mlperf_tiny" / "run.py"
KEYWORD = ROOT / "samples" / "keyword" / "keyword.onnx"
BOARD = "mps2/an385"
# Values and quantisation of the model of mlperf_tiny_host.c, which reverses its input.
VALUES, IN, OUT = 40, (0.5, 3), (0.25, -4)
SANITIZERS = "-fsanitize=address,undefined,float-cast-overflow"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The protocol as a program under sanitizers."""
    if shutil.which("gcc") is None:
        pytest.skip("not installed: gcc")
    program = tmp_path_factory.mktemp("host") / "dut"
    sources = [SAMPLE / "src" / "protocol.c", Path(__file__).with_name("mlperf_tiny_host.c")]
    flags = ["-std=c99", "-g", "-Wall", "-Wextra", "-Wconversion", "-Werror", SANITIZERS]
    flags += ["-fno-sanitize-recover=all", f"-I{SAMPLE / 'src'}", "-o", str(program)]
    subprocess.run(["gcc", *flags, *map(str, sources)], check=True)
    return program


def answers(host: Path, commands: bytes, form: str = "int8") -> list[str]:
    """The lines that the device prints."""
    done = subprocess.run([host, form], input=commands, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode("ascii").splitlines()


def load(data: bytes) -> bytes:
    parts = [data[at : at + 31].hex() for at in range(0, len(data), 31)]
    return f"db load {len(data)}%{''.join(f'db {part}%' for part in parts)}".encode()


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("name", "m-name-dut-[vmcu]"),
        ("\r\n  name  ", "m-name-dut-[vmcu]"),
        ("profile", "m-profile-[vmcu] m-model-[host]"),
        ("db load 1%db A5FF%db print", "m-[...] m-ready m-load-done m-ready m-buffer-a5"),
        ("db load 2%db 01%db load 1%db print", "m-[...] m-ready m-ready m-[...] m-ready"),
        ("db load 41", "e-[Command 'db load' must be >0 and <=40 bytes]"),
        ("db load", "e-[Command 'db load' must be >0 and <=40 bytes]"),
        ("db load 4294967297", "e-[Command 'db load' must be >0 and <=40 bytes]"),
        ("db load 1%db a5%db a5", "m-[Expecting 1 bytes] m-ready m-load-done m-ready e-[...]"),
        ("db 00", "e-[...]"),
        ("db", "e-[...]"),
        ("db load 2%db 0", "m-[Expecting 2 bytes] m-ready e-[Invalid hex digit '0']"),
        ("db load 2%db 0g", "m-[Expecting 2 bytes] m-ready e-[Invalid hex digit '0g']"),
        ("db load 2%db +1", "m-[Expecting 2 bytes] m-ready e-[Invalid hex digit '+1']"),
        ("infer 1 0", "e-[Inference requires iterations >0, warmup >=0, 40 bytes]"),
        ("results", "e-[No inference has succeeded]"),
        ("output", "e-[Unknown command: output]"),
        ("na\x1bme\xff", "e-[Unknown command: na?me??]"),
        ("x" * 79, f"e-[Unknown command: {'x' * 79}]"),
        ("x" * 80, "e-[Command has 80 characters or more]"),
        ("x" * 9999 + "%name", "e-[Command has 80 characters or more] m-ready m-name-dut-[vmcu]"),
        ("%%%", "m-ready m-ready m-ready"),
    ],
)
def test_answers(host: Path, command: str, answer: str) -> None:
    pattern = re.escape(f"{answer} m-ready".strip()).replace(re.escape("[...]"), r"\[[^]]*\]")
    assert re.fullmatch(pattern, " ".join(answers(host, f"{command}%".encode())))


@pytest.mark.parametrize("form", ["int8", "uint8", "float32"])
def test_inferences(host: Path, form: str) -> None:
    rng = np.random.default_rng(len(form))
    data = rng.integers(-128, 128, VALUES).astype(np.int8)
    reals = rng.normal(0, 40, VALUES).astype("<f4")
    # Halves in both directions, beyond the range, and the number below 0.5.
    reals[:6] = np.float32([0.25, -0.25, 1e4, -1e4, 127.25, np.nextafter(np.float32(0.25), 0)])
    scaled = reals.astype(np.float64) / IN[0]
    steps = np.clip(np.trunc(scaled + np.copysign(0.5, scaled)) + IN[1], -128, 127)
    sent = {"int8": data, "uint8": data ^ np.int8(-128), "float32": reals}[form].tobytes()
    output = (steps.astype(np.int8) if form == "float32" else data)[::-1]
    command = load(sent) + b"infer 3 2%output%db print%infer%"
    said = answers(host, command, form)
    assert "m-warmup-start-10" in said and "m-infer-start-1" in said
    at = said.index("m-warmup-start-2")
    results = said.pop(at + 6)
    assert said[at : at + 7] == [
        *("m-warmup-start-2", "m-warmup-done", "m-infer-start-3"),
        *("m-lap-us-2000", "m-lap-us-5000", "m-infer-done", "m-ready"),
    ]
    lines = {name: "".join(s[9:] for s in said if s.startswith(name)) for name in ("m-o", "m-b")}
    assert bytes.fromhex(lines["m-o"].replace("-", "")) == output.tobytes()
    assert bytes.fromhex(lines["m-b"].replace("-", "")) == sent
    values = (output.astype(np.float32) - OUT[1]) * np.float32(OUT[0])
    if form == "float32":
        error = np.mean((values - reals) ** 2, dtype=np.float64)
        assert float(results[11:-1]) == pytest.approx(error, rel=1e-5)
    else:
        assert results == f"m-results-[{','.join(f'{value:.3f}' for value in values)}]"


@pytest.mark.parametrize("seed", seeds(60, quick=6))
def test_damaged_commands_touch_nothing_outside(host: Path, seed: int) -> None:
    dice = random.Random(seed)
    form = dice.choice(["int8", "uint8", "float32"])
    parts = [load(dice.randbytes(VALUES * (4 if form == "float32" else 1)))]
    parts += [b"infer 2 1%", b"results%", b"output%", b"db print%", b"name%", b"db load 7%"]
    commands = bytearray(b"".join(dice.choices(parts, k=30)))
    for _ in range(dice.randrange(60)):
        at = dice.randrange(len(commands))
        commands[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(4))
    # No loops of minutes.
    commands = bytearray(re.sub(rb"\d{4,}", b"999", commands))
    said = answers(host, bytes(commands), form)
    assert sum(line == "m-ready" for line in said) == commands.count(b"%")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return script("mlperf_tiny_run", str(SCRIPT.relative_to(ROOT)))


def test_quality(runner: ModuleType) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    labels, errors = np.arange(9) % 2, rng.integers(0, 4, (9, 3)) / 4
    windows = [runner.Sample(str(i), labels[i], b"") for i in range(9) for _ in range(3)]
    wanted = metrics.roc_auc_score(labels, errors.mean(axis=1))
    assert runner.quality(windows, errors.reshape(-1, 1).tolist()) == f"AUC = {wanted:.3f}"
    few = [runner.Sample("", label, b"") for label in (0, 1, 2)]
    assert runner.quality(few, [[3, 1, 2], [0, 1, 0], [9, 0, 0]]) == "Top 1% = 66.7"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for builds, where Zephyr can build."""
    try:
        workspace.zephyr_base()
    except UserError:
        pytest.skip("no Zephyr tree")
    programs = ("cmake", "ninja", "arm-none-eabi-gcc", "qemu-system-arm")
    if absent := [program for program in programs if shutil.which(program) is None]:
        pytest.skip(f"not installed: {', '.join(absent)}")
    pytest.importorskip("pykwalify", reason="Zephyr's Python packages are missing")
    pytest.importorskip("onnxruntime")
    yield tmp_path_factory.mktemp("images")


def image(folder: Path, model: Path, benchmark: str) -> Path:
    """A build of the sample; the same in each call."""
    build = folder / f"{benchmark}_{model.stem}"
    options = [f"-DMODEL={model}", f"-DBENCHMARK={benchmark}"]
    if not build.exists():
        ZephyrRunner(BOARD).build(SAMPLE, build, workspace.zephyr_base(), options)
    return build


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def data_set(runner: ModuleType, folder: Path, model: Path, benchmark: str) -> list[str]:
    """Inputs with the labels that the model's runtime gives them; for ad01 files of two windows."""
    folder.mkdir()
    reference, rows = runner.Reference(model, benchmark), []
    for index, sample in enumerate(reference.random(4)):
        data = sample.data + sample.data[:512] if benchmark == "ad01" else sample.data
        (folder / f"{index}.bin").write_bytes(data)
        results = reference.compute(sample.data)[1]
        windows = f"{index % 2},2560,512" if benchmark == "ad01" else str(np.argmax(results))
        rows.append(f"{index}.bin, {len(results)}, {windows}")
    (folder / "y_labels.csv").write_text("\n".join(rows))
    return rows


def test_both_modes_and_the_tree(runner: ModuleType, images: Path, tmp_path: Path) -> None:
    built = image(images, KEYWORD, "kws01")
    rows = data_set(runner, tmp_path / "inputs", KEYWORD, "kws01")
    options = ["--benchmark", "kws01", "--image", built, "--inputs", tmp_path / "inputs"]
    done = call(KEYWORD, *options, "--seconds", "1.5", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "this is no measurement" in done.stdout and "4 outputs equal" in done.stdout
    top = tmp_path / "out" / "closed" / "SUBMITTER"
    assert json.loads((top / "systems" / "mps2_an385.json").read_text())["Status"] == "RDI"
    kws = top / "results" / "mps2_an385" / "kws"
    for mode in ("accuracy", "performance"):
        assert {f.name for f in (kws / mode).iterdir()} == {
            "log.txt",
            "results.json",
            "results.txt",
        }
    # The patterns of the submission checker.
    text = (kws / "accuracy" / "results.txt").read_text()
    assert float(re.match(r".* Top[- ]1%?\s?[:=] ([\d\.]+).*", text)[1]) == 100
    assert len(json.loads((kws / "accuracy" / "results.json").read_text())) == len(rows)
    runs = [run["infer"] for run in json.loads((kws / "performance" / "results.json").read_text())]
    assert len(runs) == 5
    assert all(i["elapsed_time"] >= 1.5e6 and i["iterations"] >= 10 for i in runs)
    text = (kws / "performance" / "results.txt").read_text()
    median = float(re.match(r".* Median throughput is\s+([\d\.]+) inf\./sec\..*", text)[1])
    rates = sorted(1e6 * i["iterations"] / i["elapsed_time"] for i in runs)
    assert median == pytest.approx(rates[2], abs=0.001)
    assert "m-infer-done" in (kws / "performance" / "log.txt").read_text()
    readme = (top / "code" / "mps2_an385" / "kws" / "README.md").read_text()
    assert len(re.findall(r"^SHA-256 of \S+: [0-9a-f]{64}$", readme, re.M)) == 2


def test_a_wrong_output_is_found(images: Path, tmp_path: Path) -> None:
    model = onnx.load(KEYWORD)
    weights = max(model.graph.initializer, key=lambda w: w.ByteSize())
    values = onnx.numpy_helper.to_array(weights).copy()
    values.flat[0] ^= 64
    weights.CopyFrom(onnx.numpy_helper.from_array(values, weights.name))
    onnx.save(model, tmp_path / "wrong.onnx")
    built = image(images, tmp_path / "wrong.onnx", "keyword")
    done = call("--image", built, "--seconds", "0")
    assert done.returncode == 1
    assert "random 0: the device's output differs from that of the model's runtime" in done.stderr
    done = call("--image", built, "--benchmark", "kws01")
    assert done.returncode == 1 and "the device has another benchmark" in done.stderr


@pytest.mark.parametrize(
    ("benchmark", "name"),
    [
        case("ad01", "ad", slow=True),
        case("ic01", "resnet8", slow=True),
        case("kws01", "kws", slow=True),
        case("sww01", "sww", slow=True),
        case("vww01", "vww", slow=True),
    ],
)
def test_networks(
    runner: ModuleType, images: Path, tmp_path: Path, benchmark: str, name: str
) -> None:
    pytest.importorskip("tflite_micro")
    folder = Path(os.environ.get("VMCU_MODELS", ROOT.parent / "shared" / "models"))
    model = folder / f"mlperf-tiny-{name}.tflite"
    if not model.exists():
        pytest.skip(f"{model} is absent")
    data_set(runner, tmp_path / "inputs", model, benchmark)
    options = ["--benchmark", benchmark, "--inputs", tmp_path / "inputs", "--seconds", "0"]
    done = call(model, *options, "--image", image(images, model, benchmark))
    assert done.returncode == 0, done.stderr
    count, quality = (8, "AUC = ") if benchmark == "ad01" else (4, "Top 1% = 100.0")
    assert re.search(rf"^{count} outputs equal .* It has: ({quality}\S*)\n\1$", done.stdout, re.M)
