# SPDX-License-Identifier: Apache-2.0
"""A window that moves along time: what is kept from hop to hop gives the bytes of whole windows."""

from __future__ import annotations

import functools
import json
import os
import runpy
import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import online_device as device
import pytest
import random_streams
from builders.tflite_models import TfliteModel
from builders.tflite_states import StatefulModel
from drawn import seeds
from random_builder import Builder
from random_graphs import convolution
from random_streams import Temporal
from vmcu_bench import runners
from vmcu_bench.oracle import whole
from vmcu_bench.runners.compiled import loaded_files
from vmcu_bench.runners.stream import streamed
from vmcu_bench.verify import stream
from vmcu_bench.verify.stream import meaning, stream_of, windows
from vmcu_tools import cli
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit, write
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph, Window
from vmcu_tools.machine import reference
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops.concat import Concat
from vmcu_tools.passes.state.streaming import expand_steps
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.turns import first_rows, macs_of_hop
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.places.hops import in_hop
from vmcu_tools.planner.places.layout import Cut, Layout

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = 24
SANITIZED = "host:sanitize"


drawn = functools.partial(random_streams.drawn, Temporal)
plan_of = functools.partial(random_streams.plan_of, Temporal)


@pytest.mark.parametrize("seed", seeds(NETWORKS, 10))
def test_a_replay_finds_what_lives_from_hop_to_hop(seed: int) -> None:
    """By ring, as two tensors of which one is computed in the other's place have one. The input's
    is among them; a plan may say so of more, such as what a hop only passes on."""
    one = plan_of(seed)
    machine = VirtualMcu(one)
    machine.prove()
    found = rings(one, [machine.names[number] for number in machine.kept])
    assert found <= rings(one, one.kept)
    x = rings(one, [one.graph.inputs[0].tensor])
    assert x <= found or not x <= rings(one, one.kept)


def rings(one: Plan, names: Iterable[str]) -> set[tuple[int, int]]:
    """Where the rings of tensors begin, and how many bytes they have."""
    return {(one.placements[name].base, one.placements[name].ring) for name in names}


def answers(graph: Graph, rows: np.ndarray, hop: int) -> np.ndarray:
    """What each whole window means, int8 (hops, bytes)."""
    found = [reference.run(graph, [window]) for window in windows(graph, rows, hop)]
    ports = graph.outputs
    return np.stack([np.hstack([np.ravel(one[p.tensor]) for p in ports]) for one in found])


def check_hops(graph: Graph, hop: int, plan: Plan, seed: int) -> None:
    """Hops as C and on the virtual MCU, which takes far longer and gets fewer of them."""
    rows = stream_of(graph, hop, 150, seed)
    wanted = answers(graph, rows, hop)
    np.testing.assert_array_equal(streamed(runners.get(SANITIZED), plan, rows), wanted)
    few = len(wanted) // 3
    found = streamed(runners.get("virtual"), plan, rows[: len(rows) - (len(wanted) - few) * hop])
    np.testing.assert_array_equal(found, wanted[:few])


@pytest.mark.parametrize("seed", seeds(NETWORKS, 8))
def test_hops_are_those_of_whole_windows(seed: int) -> None:
    (graph, hop), plan = drawn(seed), plan_of(seed)
    assert emit(plan, "model").files
    check_hops(graph, hop, plan, seed)


@pytest.mark.parametrize("seed", seeds(NETWORKS, 10))
def test_the_first_answer_needs_no_later_row(seed: int) -> None:
    (graph, _), plan = drawn(seed), plan_of(seed)
    shape = graph.tensors[graph.inputs[0].tensor].shape
    waited = first_rows(plan)
    assert waited <= shape[0]
    for draw in range(4):
        window = np.random.default_rng(draw).integers(-128, 128, shape).astype(np.int8)
        changed = window.copy()
        changed[waited:] = ~window[waited:]
        np.testing.assert_array_equal(answers(graph, changed, 1), answers(graph, window, 1))


def test_rings_of_single_rows_are_in_use_between_their_calls() -> None:
    """From the call of a hop that writes a row to the one that reads it; the hop's first call is
    the caller's. Rows that a taller window reads stay."""
    for kernels, kept in (((1, 1, 1), ()), ((1, 3, 1), (1,))):
        b = Builder(np.random.default_rng(1))
        rows = [b.input((8, 1, 4))]
        for kernel in kernels:
            height = rows[-1].shape[0] - kernel + 1
            rows.append(convolution(b, rows[-1], Window((kernel, 1)), height, 1, 4))
        layout = Layout(b.graph([rows[-1].name]), (Cut(0, len(kernels)),), streamed=True)
        trace = layout.groups[0].trace
        names = [tensor.name for tensor in trace.tensors]
        for number, tensor in enumerate(rows[:-1]):
            found = in_hop(trace, names.index(tensor.name))
            assert found == ((0, None) if number in kept else (number, number + 1))


def test_states_in_c(tmp_path: Path) -> None:
    seed = next(
        seed for seed in range(NETWORKS) if drawn(seed)[1] == 1 and len(plan_of(seed).kept) > 2
    )
    check_states(plan_of(seed), tmp_path)


def check_states(plan: Plan, tmp_path: Path, loaded: bool = False) -> None:
    """What a hop of one row survives in C: cancelled, saved and restored, reset, and given what is
    no state of it. loaded: from a container."""
    graph, hop = plan.model, plan.graph.state.step_rows
    rows = stream_of(graph, hop, 200 - graph.tensors[graph.inputs[0].tensor].shape[0] + 1, 5)
    (tmp_path / "rows").write_bytes(rows.tobytes())
    (tmp_path / "answers").write_bytes(np.stack(list(meaning(plan, rows))).tobytes())
    files = emit(plan, "model").files
    write(loaded_files(files, "model") if loaded else files, tmp_path)
    defines = ("-DVMCU_STREAMS", "-DVMCU_PROFILE", "-DVMCU_HOOKS")
    target = device.host(defines, loaded)
    given = [f"-I{Path(__file__).parents[1] / 'c'}", f"-I{tmp_path}"]
    given += ["-DCOMPUTED"] if plan.model.state.recurrent else []
    sources = [Path(__file__).with_name("stream_states.c"), tmp_path / "model.c"]
    linked = map(str, (*sources, target.archive(sources)))
    target.gcc([*given, *linked, "-o", str(tmp_path / "states")], tmp_path)
    subprocess.run(["./states", "rows", "answers"], cwd=tmp_path, check=True)


def vmcu(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main([str(word) for word in words])
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A .tflite file of 12 rows: depthwise, pooling with a stride of two, and a layer that sees all
    that is left."""
    made = TfliteModel(7)
    x = made.activation((1, 12, 1, 8))
    weights = made.constant(
        made.rng.integers(-127, 128, (1, 3, 1, 8)).astype(np.int8), [0.02] * 8, 3
    )
    bias = made.constant(
        made.rng.integers(-900, 900, 8).astype(np.int32), made.scale(x) * [0.02] * 8
    )
    y = made.activation((1, 10, 1, 8))
    options = {"padding": 1, "strideH": 1, "strideW": 1, "depthMultiplier": 1}
    made.op("DEPTHWISE_CONV_2D", [x, weights, bias], y, "DepthwiseConv2D", **options)
    z = made.like(y, (1, 5, 1, 8))
    pool = {"padding": 1, "strideH": 2, "strideW": 1, "filterHeight": 2, "filterWidth": 1}
    made.op("MAX_POOL_2D", [y], z, "Pool2D", **pool)
    flat = made.like(z, (1, 40))
    made.op(
        "RESHAPE",
        [z, made.constant(np.array([1, 40], np.int32))],
        flat,
        "Reshape",
        newShape=[1, 40],
    )
    dense = made.constant(made.rng.integers(-127, 128, (3, 40)).astype(np.int8), [0.01])
    out = made.activation((1, 3))
    made.op(
        "FULLY_CONNECTED",
        [flat, dense, made.constant(np.zeros(3, np.int32), made.scale(flat) * [0.01])],
        out,
        "FullyConnected",
    )
    path = tmp_path_factory.mktemp("listener") / "listener.tflite"
    made.save(path, [x], [out])
    return path


def test_commands(listener: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    code, said, _ = vmcu(capsys, "build", listener, "--hop", 2, "--json", report, "-o", tmp_path)
    figures = json.loads(report.read_text())
    plan = compile_model(listener, CompileOptions(hop=2))
    # Of a hop: two rows of the depthwise layer, and the last layer once.
    macs, whole = 2 * 3 * 8 + 40 * 3, 10 * 3 * 8 + 40 * 3
    kept = sum(one["bytes"] for one in figures["hop"]["kept"])
    assert code == 0 and figures["pool_bytes"] == plan.pool_bytes
    assert figures["macs"] == macs and figures["hop"]["macs_window"] == whole
    assert figures["hop"]["state_bytes"] == kept and {
        one["rows"] for one in figures["hop"]["kept"]
    } >= {5}
    assert f"A hop has {macs:,} MACs, a whole window {whole:,}." in said
    assert f"The state has {kept:,} bytes of the pool." in said
    assert "--hop 2" in (tmp_path / "listener.c").read_text()
    header = (tmp_path / "listener.h").read_text()
    assert "LISTENER_WINDOW_ROWS 12" in header and "LISTENER_HOP_ROWS 2" in header
    for target in ("virtual", "host"):
        code, said, _ = vmcu(capsys, "verify", listener, "--hop", 2, "-n", 60, "--on", target)
        assert code == 0 and "0 of 60 hops differ from the file's own runtime" in said


@pytest.mark.parametrize("target", ["virtual", "qemu:m4"])
def test_vmcu_run_answers_for_each_window(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real values in the order of the file's axes, channels first, against ONNX Runtime."""
    model = ROOT / "samples/gesture/gesture.onnx"
    values = np.random.default_rng(5).normal(0, 12, (1, 3, 45 + 4 * 6, 1)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    words = ("run", model, "--hop", 4, "--input", tmp_path / "x.npy", "--on", target)
    code, said, _ = vmcu(capsys, *words)
    assert code == 0 and "scores float32 [7, 1, 4]" in said
    assert vmcu(capsys, *words, "--output", tmp_path / "y.npy")[0] == 0
    judge, _ = whole.runner(model, load(model))
    wanted = [judge([values[:, :, at : at + 45]])[0] for at in range(0, 28, 4)]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.stack(wanted))
    loaded = (*words[:-1], "host+container", "--output", tmp_path / "z.npy")
    assert vmcu(capsys, *loaded)[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), np.stack(wanted))
    np.save(tmp_path / "x.npy", values[:, :, :44])
    code, _, said = vmcu(capsys, *words)
    assert code == 1 and "the array has 132 values [1, 3, 44, 1]" in said
    assert "hint: give an array of that shape, with 45 rows or more" in said


def test_a_hop_that_differs_is_seen(
    listener: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*args: object) -> np.ndarray:
        found = streamed(*args).copy()
        found[17, 1] ^= 1
        return found

    monkeypatch.setattr(stream, "streamed", wrong)
    code, said, _ = vmcu(capsys, "verify", listener, "--hop", 2, "-n", 40)
    assert code == 1 and "1 of 40 hops differ" in said and "1 of 120 bytes, by 1 at most" in said


@pytest.mark.parametrize("lies", [False, True])
def test_sequences_in_one_dimension(
    lies: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Keras has them converted: rows are made columns of one row around each convolution."""
    m = StatefulModel(11)
    m.model.subgraphs.pop()
    m.graph.operators.clear()
    x = m.activation((1, 1, 16, 4) if lies else (1, 16, 4), 0.05)
    y = x if lies else m.reshaped(x, (1, 1, 16, 4))
    for kernel in (3, 4):
        y = m.convolved(y, 8, kernel, across=True)
        if not lies:
            y = m.reshaped(
                m.reshaped(y, (1, *m.graph.tensors[y].shape[2:])), m.graph.tensors[y].shape
            )
    path = m.save(tmp_path / "flat.tflite", [x], [m.dense(y, 3)])
    rows = np.random.default_rng(1).integers(-128, 128, (1, 1, 40, 4) if lies else (1, 40, 4))
    np.save(tmp_path / "x.npy", rows.astype(np.int8))
    ends = ("--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert vmcu(capsys, "run", path, "--hop", 1, *ends)[0] == 0
    assert np.load(tmp_path / "y.npy").shape == (25, 1, 3)
    plan = compile_model(path, CompileOptions(hop=1))
    assert plan.graph.tensors[plan.graph.inputs[0].tensor].shape[1:] == (1, 4)
    assert sum(macs_of_hop(plan)) == 3 * 4 * 8 + 4 * 8 * 8 + 11 * 8 * 3
    code, said, _ = vmcu(capsys, "verify", path, "--hop", 1, "-n", 100, "--on", "host")
    assert code == 0 and "0 of 100 hops differ from the file's own runtime" in said


BESIDE = (
    ("--stream-input",),
    ("--external-input",),
    ("--rotate",),
    ("--memory", "a=9K,b=9K"),
    ("--extra-macs", "5"),
    ("--pareto",),
)


def test_an_effort_changes_no_plan_of_a_stream(listener: Path, tmp_path: Path) -> None:
    tables = []
    for name, options in (("a", []), ("b", ["--effort", "long"])):
        out = ["-o", str(tmp_path / name), "--name", "heard"]
        assert main(["build", str(listener), "--hop", "2", *options, *out, "--quiet"]) == 0
        tables.append((tmp_path / name / "heard.c").read_text().split("#include", 1)[1])
    assert tables[0] == tables[1]


@pytest.mark.parametrize("options", BESIDE, ids=lambda options: options[0])
def test_what_does_not_go_with_hops(
    listener: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    code, _, said = vmcu(capsys, "build", listener, "--hop", 2, *options)
    assert code == 1 and f"--hop cannot be combined with {options[0]}" in said and "hint:" in said


def test_windows_that_cannot_move(listener: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = vmcu(capsys, "build", listener, "--hop", 12)
    assert code == 1 and "choose a hop from 1 to 11" in said
    b = Builder(np.random.default_rng(1))
    one, two = b.input((9, 1, 4)), b.input((9, 1, 4))
    out = b.node(Concat(2, (None, None)), [one, two], (9, 1, 8))
    with pytest.raises(UserError, match="2 inputs; rows can be pushed into one only"):
        expand_steps(b.graph([out.name]), 1, 3)
    code, _, said = vmcu(capsys, "build", listener, "--hop", 0)
    assert code == 2 and "a window that does not move" in said


MODELS = Path(os.environ.get("VMCU_MODELS", ROOT.parent / "shared/models"))
WAKE_WORD = MODELS / "mlperf-tiny-sww.tflite"


@pytest.mark.skipif(not WAKE_WORD.exists(), reason="VMCU_MODELS has no streaming wake word")
@pytest.mark.parametrize(
    "number", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 2))]
)
def test_figures_are_those_of_the_page(number: int) -> None:
    """All of a row but for the number of hops that are compared, which takes a minute."""
    script = runpy.run_path(str(ROOT / "benchmarks/streams/run.py"))
    page = (ROOT / "doc/streaming.md").read_text()
    name, hop = script["MODELS"][number]
    *figures, differing = script["row"](MODELS / name, hop, 9)
    assert differing == "0 of 9" and " | ".join(figures) in page, figures
    if number == 0:
        pool, _, macs, _, usual, worst, _ = (int(cell.replace(",", "")) for cell in figures[2:])
        assert pool <= 4200 and macs == 46_040 and usual <= worst <= 120_000


def test_a_model_whose_runtime_is_a_step_off(capsys: pytest.CaptureFixture[str]) -> None:
    """ONNX Runtime may be a step off in a node; hops are exact beside the nodes' meaning."""
    path = ROOT / "samples/keyword/keyword.onnx"
    code, said, _ = vmcu(capsys, "verify", path, "--hop", 4, "-n", 60, "--on", "host")
    assert code == 0 and "0 of 60 hops differ from the reference" in said
    assert "hops differ from the file's own runtime on whole windows" in said
