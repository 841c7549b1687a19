# SPDX-License-Identifier: Apache-2.0
"""That the application `vmcu new` writes builds, and prints ONNX Runtime's answer to zeros."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from test_variables import listening
from vmcu_bench import runners
from vmcu_bench.fit.figures import MOST_STACK
from vmcu_bench.image.size import size
from vmcu_bench.runners.stream import streamed
from vmcu_bench.runners.workspace import environment
from vmcu_tools import paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit.application import create
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.planner.options import CompileOptions

# Only operators that equal ONNX Runtime to the bit.
GESTURE = paths.root() / "samples" / "gesture" / "gesture.onnx"
TINY = paths.root() / "tests" / "runtime" / "tiny.onnx"
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="not installed: gcc")


def expected(path: Path) -> dict[str, list[int]]:
    """What ONNX Runtime makes of zeros: each output as main.c prints it, channels last."""
    ort = pytest.importorskip("onnxruntime")
    graph = load(path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {port.name: np.zeros(port.file_shape, np.float32) for port in graph.inputs}
    outputs = {}
    for port, values in zip(graph.outputs, session.run(None, feeds), strict=True):
        tensor = graph.tensors[port.tensor]
        if port.dtype == "float32":
            values = np.rint(values / np.float32(tensor.scale)) + tensor.zero_point
        if port.layout == "nchw":
            values = np.moveaxis(values, 1, -1)
        outputs[port.name] = values.astype(int).ravel().tolist()
    return outputs


def printed(text: str) -> dict[str, list[int]]:
    found = re.findall(r"^(\w+):((?: -?\d+)+)(?: \.\.\.)?$", text, re.MULTILINE)
    return {name: [int(value) for value in values.split()] for name, values in found}


def run_here(application: Path, name: str, model: Path, folder: Path, hop: int = 0) -> str:
    """The application's C, with the model compiled as CMakeLists.txt asks for, on this computer."""
    host = runners.get("host:sanitize").suited(compile_model(model, CompileOptions(hop=hop)))
    words = ["build", str(model), "-o", str(folder), "--name", name]
    assert main([*words, "--hop", str(hop)] if hop else words) == 0
    sources = [application / "src" / "main.c", folder / f"{name}.c"]
    sources.append(host.archive(sources))
    flags = ["-Wconversion", f"-I{folder}", "-o", str(folder / "program")]
    host.gcc([*map(str, sources), *flags], folder)
    done = subprocess.run([folder / "program"], check=True, capture_output=True, text=True)
    return done.stdout


def several_ports(path: Path) -> None:
    """Two inputs; one output of more values than are printed, and one of indices."""
    m = OnnxModel()
    params = [m.stated(0.5, 3), m.stated(0.25, -7), m.stated(0.5, 11)]
    x, y = (m.qdq(name, param) for name, param in zip("xy", params, strict=False))
    total = m.qdq(m.node("Add", [x, y]), params[2])
    best = m.node("ArgMax", [total], axis=1)
    shape = (1, 3, 4, 5)
    ends = {total: (FLOAT, shape), best: (INT64, None)}
    onnx.save(m.proto({"x": (FLOAT, shape), "y": (FLOAT, shape)}, ends), path)


@pytest.mark.parametrize("below", ["b", "my app"])
def test_holds_a_copy_of_the_model(
    below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a" / below
    assert main(["new", str(folder), "--model", str(TINY), "--name", "net"]) == 0
    files = {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}
    assert files == {"CMakeLists.txt", "README.md", "net.onnx", "prj.conf", "src/main.c"}
    assert (folder / "net.onnx").read_bytes() == TINY.read_bytes()
    assert "vmcu_add_model(app NAME net MODEL net.onnx)" in (folder / "CMakeLists.txt").read_text()
    assert "west vmcu inspect build/zephyr/zephyr.elf" in (folder / "README.md").read_text()
    said = capsys.readouterr()
    assert f"west build -b qemu_cortex_m3 {shlex.quote(str(folder))} -t run" in said.out
    warning = f"warning: {folder}: the path has a space"
    assert said.err.startswith(warning) and "hint: " in said.err if " " in below else not said.err


def test_weights_in_other_files_come_along(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(
        onnx.load(TINY), model, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    assert main(["new", str(tmp_path / "app"), "--model", str(model)]) == 0
    (tmp_path / "w.bin").unlink()
    copied, original = (onnx.load(path) for path in (tmp_path / "app" / "model.onnx", TINY))
    for ours, theirs in zip(copied.graph.initializer, original.graph.initializer, strict=True):
        ours, theirs = onnx.numpy_helper.to_array(ours), onnx.numpy_helper.to_array(theirs)
        np.testing.assert_array_equal(ours, theirs)


def test_a_float_model_becomes_int8(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    value = onnx.helper.make_tensor_value_info
    weights = onnx.numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), "w")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    ports = [value("x", FLOAT, (1, 4))], [value("y", FLOAT, (1, 3))]
    graph = onnx.helper.make_graph([node], "float", *ports, [weights])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "f.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).random((8, 4), np.float32))
    words = ["new", str(tmp_path / "app"), "--model", str(tmp_path / "f.onnx")]
    assert main(words) == 1 and not (tmp_path / "app").exists()
    assert main([*words, "--calibration", str(tmp_path / "data.npz")]) == 0
    assert [port.name for port in load(tmp_path / "app" / "f.onnx").inputs] == ["x"]


@needs_gcc
def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    several_ports(model)
    assert main(["new", str(tmp_path / "app"), "--model", str(model)]) == 0
    output = run_here(tmp_path / "app", "model", model, tmp_path)
    wanted = expected(model)
    assert len(wanted) == 2 and {len(values) for values in wanted.values()} == {60, 20}
    assert printed(output) == {name: values[:16] for name, values in wanted.items()}


@needs_gcc
def test_a_window_that_moves(tmp_path: Path) -> None:
    """Zeros in all windows: each answer is that of one."""
    app = tmp_path / "app"
    assert main(["new", str(app), "--model", str(GESTURE), "--hop", "4"]) == 0
    assert "MODEL gesture.onnx HOP 4)" in (app / "CMakeLists.txt").read_text()
    assert "CONFIG_VMCU_STREAMS=y\n" in (app / "prj.conf").read_text()
    output = run_here(app, "gesture", app / "gesture.onnx", tmp_path, hop=4)
    assert printed(output) == expected(GESTURE) and output.count("scores: ") == 3


@needs_gcc
def test_a_file_that_keeps_its_state(tmp_path: Path) -> None:
    app, model = tmp_path / "app", listening("strided", tmp_path)
    assert main(["new", str(app), "--model", str(model)]) == 0
    assert "MODEL strided.tflite HOP 3)" in (app / "CMakeLists.txt").read_text()
    plan = compile_model(model)
    rows = np.full((9, 1, 8), plan.model.tensors[plan.model.inputs[0].tensor].zero_point, np.int8)
    wanted = streamed(runners.get("host"), plan, rows)
    output = run_here(app, "strided", app / "strided.tflite", tmp_path)
    found = re.findall(r"^.+:((?: -?\d+)+)$", output, re.MULTILINE)
    assert [[int(n) for n in line.split()] for line in found] == wanted.reshape(3, -1).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "missing.onnx"], "missing.onnx: no such file"),
        (["--model", str(TINY), "--name", "1st"], "'1st' is not a C identifier"),
        (["--model", str(TINY), "--name", "string"], "string.h, which hides another"),
    ],
)
def test_a_mistake_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["new", str(tmp_path / "app"), *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("error:") == 1 and "hint:" in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "reason"), [("full", "not empty"), ("file", "not a folder")])
def test_keeps_off_what_exists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert main(["new", str(tmp_path / name), "--model", str(TINY)]) == 1
    assert reason in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("exists", [True, False])
def test_a_write_that_fails_is_taken_back(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "a" / "b"
    if exists:
        folder.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    # "x" cannot be both.
    with pytest.raises(UserError, match="cannot write there"):
        create({"src/main.c": b"", "x": b"", "x/y": b""}, folder)
    assert sorted(tmp_path.rglob("*")) == before


def zephyr_tree() -> Path:
    """As ./test finds it; skips where there is none, or nothing to build it with."""
    tree = Path(os.environ.get("ZEPHYR_BASE") or Path.home() / "zephyrproject" / "zephyr")
    if not (tree / "scripts" / "zephyr_module.py").is_file():
        pytest.skip("no Zephyr tree")
    for tool in ("cmake", "ninja", "dtc", "arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"not installed: {tool}")
    return tree


def configure(
    source: Path, build: Path, tree: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    variables = environment(tree) | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    options = ("-DBOARD=qemu_cortex_m3", f"-DEXTRA_ZEPHYR_MODULES={paths.root()}", *options)
    command = ["cmake", "-G", "Ninja", *options, "-S", str(source), "-B", str(build)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def console(image: Path, until: str) -> str:
    """What an image that never ends prints, up to a line that begins with `until`."""
    command = ["qemu-system-arm", "-M", "lm3s6965evb", "-display", "none", "-monitor", "none"]
    lines = []
    with subprocess.Popen(
        [*command, "-serial", "stdio", "-kernel", str(image)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        limit = threading.Timer(60, process.kill)
        limit.start()
        for line in process.stdout:
            lines.append(line)
            if line.startswith(until):
                break
        limit.cancel()
        process.kill()
    return "".join(lines)


@pytest.fixture(scope="module")
def application_of_tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What `vmcu new` writes, and a Zephyr tree."""
    tree, folder = zephyr_tree(), tmp_path_factory.mktemp("new")
    assert main(["new", str(folder / "app"), "--model", str(TINY)]) == 0
    return folder / "app", tree


@pytest.mark.parametrize(
    "options",
    [
        # Each case compiles Zephyr; twister's samples have the default.
        ("SPEED_OPTIMIZATIONS",),
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                ("SIZE_OPTIMIZATIONS",),
                ("DEBUG_OPTIMIZATIONS",),
                ("NO_OPTIMIZATIONS",),
                ("NO_OPTIMIZATIONS", "VMCU_SPEED=n"),
            )
        ),
    ],
    ids=["O2", "Os", "Og", "O0", "O0 of the runtime, too"],
)
def test_runs_on_zephyr(
    application_of_tiny: tuple[Path, Path], options: tuple[str, ...], tmp_path: Path
) -> None:
    app, tree = application_of_tiny
    settings = [f"-DCONFIG_{name}{'' if '=' in name else '=y'}" for name in options]
    done = configure(app, tmp_path, tree, *settings)
    if done.returncode != 0:
        hello = configure(tree / "samples" / "hello_world", tmp_path / "hello", tree)
        assert hello.returncode != 0, done.stderr
        pytest.skip(f"{tree} cannot configure its own hello_world")
    made = subprocess.run(["ninja", "-C", tmp_path], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout
    elf = tmp_path / "zephyr" / "zephyr.elf"
    assert printed(console(elf, "y:")) == expected(TINY)
    # The emulated board notices no overflow: what the build says of stacks must be true.
    config = (tmp_path / "zephyr" / ".config").read_text()
    thread, stack = (
        int(re.search(rf"^CONFIG_{name}=(\d+)$", config, re.MULTILINE)[1])
        for name in ("VMCU_THREAD_STACK_SIZE", "MAIN_STACK_SIZE")
    )
    most = MOST_STACK if len(options) == 1 else 4096
    assert size(elf).stacks["tiny"] <= most == thread - 512 == stack - 1536


@pytest.mark.slow
def test_stacks_that_are_too_small_stop_a_build(
    application_of_tiny: tuple[Path, Path], tmp_path: Path
) -> None:
    """And what the messages say to set is enough."""
    app, tree = application_of_tiny
    options = ["-DCONFIG_SHELL=y", "-DCONFIG_VMCU_SHELL=y", "-DCONFIG_VMCU_ASYNC=y"]
    least = {"MAIN": 2048, "SYSTEM_WORKQUEUE": 2048, "SHELL": 3072}
    less = [f"-DCONFIG_{name}_STACK_SIZE={size - 8}" for name, size in least.items()]
    done = configure(app, tmp_path, tree, *options, *less)
    told = re.findall(r"set (\S+_STACK_SIZE=\d+) or more", " ".join(done.stderr.split()))
    assert done.returncode != 0
    assert told == [f"CONFIG_{name}_STACK_SIZE={size}" for name, size in least.items()]
    options += ["-DCONFIG_VMCU_MAIN=n", less[0], *(f"-D{one}" for one in told[1:])]
    assert configure(app, tmp_path, tree, *options).returncode == 0
