# SPDX-License-Identifier: Apache-2.0
"""`vmcu split`: nodes compute the bytes of the whole network, whatever happens to messages."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import fused_networks, onnx_states, scratch
from builders.networks import random_inputs
from drawn import case, seeds
from test_new import configure, zephyr_tree
from vmcu_bench import oracle, runners
from vmcu_split.nodes import Split, Wire, check_parts
from vmcu_split.pieces import Network, band, can_band, read_network
from vmcu_split.report import figures_of
from vmcu_split.search import SplitSearch
from vmcu_split.tables import node_files
from vmcu_tools import paths
from vmcu_tools.boards.table import known
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import write
from vmcu_tools.machine import reference
from vmcu_tools.planner.registry import DEFAULTS, make_plan

from scripts import script

outputs = script("sample_outputs", "scripts/sample_outputs.py")
ROOT = paths.root()
STORYTELLER = ROOT / "samples" / "storyteller" / "storyteller.onnx"
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"
SAMPLE = ROOT / "samples" / "split"
WORDS, WIDTH = 160, 32
HARNESS = Path(__file__).with_name("split_nodes.c")
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-DVMCU_STREAMS"]
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="not installed: gcc")


def split(folder: Path, model: Path, *options: str) -> dict[str, Any]:
    """The figures of a split, whose files are in `folder`."""
    words = ["split", str(model), "--name", "net", "-o", str(folder), "--quiet"]
    assert main([*words, "--json", str(folder / "split.json"), *options]) == 0
    figures: dict[str, Any] = json.loads((folder / "split.json").read_text())
    return figures


def build(
    folder: Path,
    figures: dict[str, Any],
    inputs: list[int],
    outputs: list[int],
    flags: tuple[str, ...] = (),
) -> Path:
    """A program with all nodes. inputs, outputs: bytes by node."""
    numbers = range(len(figures["nodes"]))
    ram = [f"NET_NODE{n}_RAM_BYTES" for n in numbers]
    steps = (folder / "node0" / "net_node0.c").read_text()
    message = re.search(r"SEND_\w+, \d+, \d+, \d+, \d+, (\d+)", steps)
    arrays = {
        "size_t ram_bytes": ram,
        "size_t in_bytes": inputs,
        "size_t out_bytes": outputs,
        "struct vmcu_node_table *const tables": [f"&net_node{n}" for n in numbers],
    }
    lines = [f'#include "net_node{n}.h"' for n in numbers]
    lines += [
        f"#define NODES {len(numbers)}",
        f"#define MESSAGE_BYTES {message[1] if message else 0}U",
    ]
    for name, values in arrays.items():
        lines.append(f"static const {name}[] = {{{', '.join(map(str, values))}}};")
    (folder / "nodes.h").write_text("\n".join([*lines, ""]))
    sources = [HARNESS, *folder.glob("node*/*.c"), *sorted((paths.runtime() / "link").glob("*.c"))]
    folders = (paths.runtime() / "include", HARNESS.parent, folder, *folder.glob("node*/"))
    includes = [f"-I{path}" for path in folders]
    host = runners.get("host")._defining(dict.fromkeys(("-DVMCU_STREAMS", *flags), True))
    program = folder / "nodes"
    command = ["gcc", *FLAGS, *flags, *includes, *sources, str(host.archive()), "-lm", "-lpthread"]
    done = subprocess.run(
        [*map(str, command), "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return program


def run(program: Path, *words: object) -> str:
    done = subprocess.run(
        [str(program), *map(str, words)],
        cwd=program.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_inputs(folder: Path, figures: dict[str, Any], images: np.ndarray) -> list[int]:
    """Writes the rows that each node's application has of images int8 (N, H, W, C)."""
    sizes = []
    for number, node in enumerate(figures["nodes"]):
        data = np.zeros((len(images), 0), np.int8)
        for rows in node["inputs"]:
            data = images[:, rows["first_row"] : rows["first_row"] + rows["rows"]]
        (folder / f"in{number}.bin").write_bytes(np.ascontiguousarray(data).tobytes())
        sizes.append(data[0].size)
    return sizes


def answers(path: Path, images: np.ndarray) -> np.ndarray:
    """The outputs of the file's runtime, int8 (N, bytes)."""
    judge = oracle.open(path)
    (port,) = judge.graph.outputs
    return np.stack([judge.run([image])[port.tensor].ravel() for image in images])


def outputs_of(commands: list[list[str]], until: str) -> list[str]:
    """The outputs of programs that never end and start one after the other, each up to a line that
    begins with `until`."""
    pipe = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    programs: list[subprocess.Popen[str]] = []
    for command in commands:
        programs.append(subprocess.Popen(command, text=True, **pipe))
        time.sleep(1)
    limits = [threading.Timer(60, program.kill) for program in programs]
    texts = []
    for program, limit in zip(programs, limits, strict=True):
        limit.start()
        assert program.stdout is not None
        lines = []
        for line in program.stdout:
            lines.append(line)
            if line.startswith(until):
                break
        texts.append("".join(lines).replace("\r", ""))
    for program, limit in zip(programs, limits, strict=True):
        limit.cancel()
        program.kill()
        program.communicate()
    return texts


def models() -> Path:
    folder = os.environ.get("VMCU_MODELS", ROOT.parent / "shared" / "models")
    return Path(folder)


def check_model(
    folder: Path, path: Path, figures: dict[str, Any], steps: int = 0, flags: tuple[str, ...] = ()
) -> None:
    """Nodes in processes of their own compute what the whole network computes, and up to `steps`
    what the file's runtime does."""
    graph = compile_model(path).graph
    shape = graph.tensors[graph.inputs[0].tensor].shape
    images = np.random.default_rng(1).integers(-128, 128, (3, *shape), np.int8)
    wanted = answers(path, images)
    outputs = [0] * len(figures["nodes"])
    outputs[0 if figures["kind"] == "rows" else -1] = wanted.shape[1]
    program = build(folder, figures, write_inputs(folder, figures, images), outputs, flags)
    run(program, "processes", len(images))
    found = np.frombuffer((folder / "out.bin").read_bytes(), np.int8).reshape(wanted.shape)
    assert np.abs(found.astype(int) - wanted).max() <= steps
    for image, answer in zip(images, found, strict=True):
        output = reference.run(graph, [image])[graph.outputs[0].tensor]
        np.testing.assert_array_equal(answer, output.ravel())


@pytest.mark.slow
@pytest.mark.parametrize("best, most", [("ram", 0.35), ("latency", 1.0)])
def test_rows_of_an_image(best: str, most: float, tmp_path: Path) -> None:
    path = models() / "mlperf-tiny-vww.tflite"
    if not path.exists():
        pytest.skip("no file: mlperf-tiny-vww.tflite in VMCU_MODELS")
    pytest.importorskip("tflite_micro")
    options = ("--nodes", "4", "--link", "1Mbit", "--latency", "1ms", "--best", best)
    figures = split(tmp_path, path, *options)
    assert figures["kind"] == "rows" and figures["one_node"]["ram_bytes"] == 27736
    assert max(node["ram_bytes"] for node in figures["nodes"]) <= most * 27736
    check_model(tmp_path, path, figures)


def test_rows_with_a_residual_sum(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    figures = split(tmp_path, DIGITS, "--nodes", "3", "--link", "1Mbit", "--best", "ram")
    assert figures["kind"] == "rows"
    # A step for each sum in float.
    check_model(tmp_path, DIGITS, figures, 2)


def test_a_tensor_goes_past_a_node(tmp_path: Path) -> None:
    """The first node sends one operand of a residual sum to the last one."""
    pytest.importorskip("onnxruntime")
    board = known()["nrf52840dk/nrf52840"]
    search = SplitSearch(read_network(DIGITS, DEFAULTS), 3, Wire(1e6), board, DEFAULTS)
    cuts = enumerate(itertools.pairwise((0, 2, 4, 8)))
    parts = [search.part(node, node, *cut) for node, cut in cuts]
    (port,) = search.network.graph.inputs
    found = Split("pipeline", parts, 3, Wire(1e6), {port.tensor: port.name})
    assert [found.peers(node) for node in range(3)] == [[1, 2], [0, 2], [0, 1]]
    check_parts(search.network.graph, found)
    for node in range(3):
        write(node_files(found, node, "net"), tmp_path / f"node{node}")
    check_model(tmp_path, DIGITS, figures_of("net", "ram", found, search.part(0, 0, 0, 8)), 2)


@pytest.mark.parametrize("flags", [(), ("-DVMCU_POOL_GUARD",)], ids=["", "guard"])
def test_phases_exchange_rows(flags: tuple[str, ...], tmp_path: Path) -> None:
    """Bands of two phases: each node has rows from both neighbours."""
    pytest.importorskip("onnxruntime")
    board = known()["nrf52840dk/nrf52840"]
    search = SplitSearch(read_network(DIGITS, DEFAULTS), 3, Wire(1e6), board, DEFAULTS)
    found = search.banded([0, 1, 5, 8])
    for node in range(3):
        write(node_files(found, node, "net"), tmp_path / f"node{node}")
    kinds = [step.kind for step in found.steps[1]]
    assert kinds.count("NEXT") == 1 and {"RECEIVE", "SEND_INPUT", "SEND_OUTPUT"} <= {*kinds}
    check_model(
        tmp_path, DIGITS, figures_of("net", "ram", found, search.part(0, 0, 0, 8)), 2, flags
    )


@pytest.mark.parametrize("seed", seeds(200, 8))
def test_bands_of_random_networks(seed: int) -> None:
    """Each band of each run of layers has the whole's rows, whatever the windows and branches."""
    graph = fused_networks.Network(seed).made
    values = reference.run(graph, random_inputs(graph, seed))
    network = Network(graph)
    pieces = []
    for first, stop in itertools.combinations([0, *network.borders()], 2):
        nodes = graph.nodes[first:stop]
        ends = [network.crossing(stop), network.crossing(first) or [graph.inputs[0].tensor]]
        read = {name for node in nodes for name in node.inputs}
        alone = first == 0 or graph.inputs[0].tensor not in read
        if not (alone and all(map(can_band, nodes)) and [len(end) for end in ends] == [1, 1]):
            continue
        height = graph.tensors[ends[0][0]].shape[0]
        for rows in (range(0, 1), range(height // 2, height // 2 + 1), range(height // 3, height)):
            piece, need = band(graph, first, stop, rows)
            (source,), (target,) = piece.inputs, piece.outputs
            found = reference.run(piece, [values[source.tensor][need.start : need.stop]])
            wanted = values[target.tensor][rows.start : rows.stop]
            np.testing.assert_array_equal(found[target.tensor], wanted)
            pieces.append(piece)
    assert pieces or not can_band(graph.nodes[0])
    for piece in pieces[seed % 3 :: len(pieces) // 3 + 1]:
        make_plan(piece)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The storyteller on two nodes: its program, and its figures."""
    folder = tmp_path_factory.mktemp("story")
    figures = split(folder, STORYTELLER, "--nodes", "2", "--link", "1Mbit")
    words = np.random.default_rng(2).integers(0, WORDS, 200).astype("<i4")
    (folder / "in0.bin").write_bytes(words.tobytes())
    (folder / "in1.bin").write_bytes(b"")
    plan = compile_model(STORYTELLER)
    wanted = runners.get("host").run_stream(plan, words.view(np.int8).reshape(-1, 1, 4))
    (folder / "expected.bin").write_bytes(wanted.astype(np.int8).tobytes())
    return build(folder, figures, [4, 0], [0, WORDS]), figures


def test_states_of_a_pipeline(story: tuple[Path, dict[str, Any]]) -> None:
    program, figures = story
    assert figures["kind"] == "pipeline" and figures["link_bytes"] <= 2 * WIDTH
    run(program, "processes", 200)
    folder = program.parent
    assert (folder / "out.bin").read_bytes() == (folder / "expected.bin").read_bytes()


@pytest.mark.parametrize("rows", [1, 2])
def test_states_that_are_rows(rows: int, tmp_path: Path) -> None:
    """A call has one row or two; both nodes have a ring buffer."""
    pairs = [(f"in_cache.{n}", f"out_cache.{n}") for n in (1, 2)]
    model = onnx_states.listening(tmp_path / "net.onnx", (3, 2), pairs, rows=rows)
    figures = split(tmp_path, model, "--nodes", "2", "--link", "1Mbit", "--best", "ram")
    images = np.random.default_rng(0).integers(-128, 128, (12, rows, 1, 4), np.int8)
    stream = images.reshape(-1, 1, 4)
    wanted = runners.get("host").run_stream(compile_model(model), stream).astype(np.int8)
    sizes = write_inputs(tmp_path, figures, images)
    program = build(tmp_path, figures, sizes, [0, wanted.shape[1]])
    run(program, "processes", len(images))
    assert (tmp_path / "out.bin").read_bytes() == wanted.tobytes()


def test_a_split_that_is_worse(capsys: pytest.CaptureFixture[str]) -> None:
    slow = ["split", str(DIGITS), "--nodes", "2", "--link", "1kbit"]
    for words, worse in ((slow, True), ([*slow[:-1], "1Mbit"], False)):
        assert main(words) == 0
        assert ("One node is better" in capsys.readouterr().out) == worse


@pytest.mark.parametrize(
    "words, said",
    [
        ("okay_nabu.tflite --nodes 2 --link 1Mbit", "okay_nabu.tflite: the file stores its states"),
        ("model.onnx --nodes 16 --link 1Mbit", "model.onnx: the model cannot be cut into 16 parts"),
        (
            "model.onnx --nodes 2 --link 1Mbit --board 96b_carbon/nrf51822",
            "no estimate of time for 96b_",
        ),
        ("model.onnx --nodes 1 --link 1Mbit", "'1' is not a number from 2 to 16"),
        ("model.onnx --nodes 2 --link 5V", "'5V' has no known unit; write 115200bit or 1Mbit"),
        ("model.onnx --nodes 2 --link 1Mbit --latency 0ms", "write 1ms or 200us"),
    ],
)
def test_refusals(
    words: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(scratch.furnish(tmp_path))
    assert main(["split", *words.split()]) != 0
    error = capsys.readouterr().err
    assert said in error and error.startswith(("error: ", "usage: ")), error


FAULTS = 8 * (48 + 16)


def faults(program: Path, count: int, step: int, start: int) -> list[int]:
    """How many runs there were, right answers, wrong ones, and runs with an error. After each run,
    a second session is right whatever the first has left on the wires."""
    found = [int(n) for n in re.findall(r"\d+", run(program, "faults", count, step, start))]
    assert found[4:] == [found[0] * count, 0]
    return found[:4]


@pytest.mark.parametrize("count", [20, case(200, slow=True)])
def test_faults(count: int, story: tuple[Path, dict[str, Any]]) -> None:
    """Each byte of each message is damaged in each way, in both directions, when it is first sent.

    All answers are right. The first node reports an error where the last acknowledgement is lost,
    as the other node has ended."""
    runs, right, wrong, errors = faults(story[0], count, 1, count + 1)
    assert (runs, right, wrong) == (FAULTS, FAULTS * count, 0) and errors <= 5 * 16


def test_faults_without_end(story: tuple[Path, dict[str, Any]]) -> None:
    """A message that never comes whole ends in an error, not in an answer."""
    runs, right, wrong, errors = faults(story[0], 20, 3, 10)
    assert wrong == 0 and runs * 10 <= right < runs * 20 and errors > runs / 2


def board_images(folder: Path) -> list[Path]:
    """Each node's image, as twister built it for ./test, else built here."""
    if built := os.environ.get("VMCU_SPLIT_IMAGES"):
        return sorted(Path(built).rglob("sample.vmcu.split.node*/zephyr/zephyr.elf"))
    tree, images = zephyr_tree(), []
    for node in range(2):
        build = folder / f"node{node}"
        configured = configure(SAMPLE, build, tree, f"-DNODE={node}")
        assert configured.returncode == 0, configured.stderr
        subprocess.run(["ninja", "-C", build], check=True, capture_output=True)
        images.append(build / "zephyr" / "zephyr.elf")
    return images


@pytest.mark.slow
def test_two_boards(tmp_path: Path) -> None:
    """samples/split in two emulators whose second UARTs are connected."""
    line = tmp_path / "line"
    machine = ["qemu-system-arm", "-M", "lm3s6965evb", "-display", "none", "-monitor", "none"]
    running = []
    for image, server in zip(board_images(tmp_path), (",server=on,wait=on", ""), strict=True):
        serial = ["-serial", "stdio", "-serial", f"unix:{line}{server}", "-kernel", str(image)]
        running.append([*machine, *serial])
    texts = outputs_of(running, "node ")
    said = r"\nnode (\d): (\d+) bytes of RAM, 58 words, error 0, differing from ONNX Runtime: 0"
    assert [re.findall(said, text) for text in texts] == [[("0", "4444")], [("1", "2424")]]
    assert "the end . <end>" in texts[1]
    assert (
        outputs.missing_line(outputs.shown_lines((SAMPLE / "README.md").read_text()), texts[1])
        is None
    )
