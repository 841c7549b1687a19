# SPDX-License-Identifier: Apache-2.0
"""A target with a packing of its own: streams, programs and their meaning follow it."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pool_log import interpret
from random_builder import Builder
from random_graphs import convolution, depthwise_of, disjoint, random_inputs, random_layers
from vmcu_bench import runners
from vmcu_kernelgen import generate
from vmcu_tools import paths
from vmcu_tools.cli import main
from vmcu_tools.emit import emit, write
from vmcu_tools.errors import UserError
from vmcu_tools.exits import EXIT_DONE
from vmcu_tools.graph import Graph, Node, Port, Tensor, Window
from vmcu_tools.kernels.depthwise_streams import together
from vmcu_tools.kernels.language.evaluate import Head
from vmcu_tools.kernels.language.packing import PAIRED_TAPS, PAIRS, Packing, in_order, paired_code
from vmcu_tools.kernels.language.target import Target
from vmcu_tools.kernels.programs import PACKED
from vmcu_tools.kernels.targets import DEFAULT, TARGETS
from vmcu_tools.ops import ProgramLayer, bind
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.stages.costs import calls_of
from vmcu_tools.planner.stages.variants import without_extra_macs
from vmcu_tools.quant import FixedPoint, FloatScale, wrap_int32

KINDS = ("conv2d", "pointwise", "column", "depthwise", "depthwise_square", "fully_connected")
TINY = paths.root() / "tests" / "runtime" / "tiny.onnx"


def side_by_side(count: int) -> list[tuple[int, int]]:
    """Pairs of weights in their order."""
    return [(2 * i, 2 * i + 1) for i in range(count)]


PACKINGS = {
    "eight consecutive taps": Packing(lanes=8, step=8, weave=in_order, suffix="_other"),
    "two groups a step": Packing(lanes=8, step=16, suffix="_other"),
    "sixteen taps of four channels": Packing(16, 16, channels=4, dense=2, suffix="_other"),
    "pairs of pixels": replace(PAIRS, suffix="_other"),
    "depthwise in order": Packing(pixels=6, pairs=side_by_side, suffix="_other"),
    "helium": replace(TARGETS["helium"].packing, suffix="_other"),
}


@pytest.fixture
def other(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target whose streams no other one reads."""
    costs, packing = TARGETS[DEFAULT].costs, PACKINGS[request.param]
    target = Target("other", "Others", "defined(VMCU_OTHER)", packing, costs)
    monkeypatch.setitem(TARGETS, target.name, target)
    return target


def layers(kind: str, target: Target, count: int = 12) -> Graph:
    return replace(random_layers(kind, count, seed=3), target=target.name)


@pytest.mark.parametrize("other", PACKINGS, indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_programs_mean_the_layer(kind: str, other: Target) -> None:
    graph = layers(kind, other)
    inputs = random_inputs(graph, 3)
    ports = [port.tensor for port in graph.inputs]
    for node in graph.nodes:
        layer = bind(graph, node)
        assert isinstance(layer, ProgramLayer)
        assert layer.symbol.endswith("_other")
        data = [inputs[ports.index(name)] for name in node.inputs]
        machine = interpret(layer, data)
        np.testing.assert_array_equal(machine.output, layer.rows(data, 0, layer.height))


@pytest.mark.parametrize("other", ["eight consecutive taps"], indirect=True)
def test_eight_consecutive_taps(other: Target) -> None:
    """Behind head and biases, a block has eight taps of one channel, then of the next, which is
    joined to it."""
    graph = layers("pointwise", other)
    for node in graph.nodes:
        layer = bind(graph, node)
        weights = node.op.weights.reshape(len(node.op.bias), -1)
        block = 4 if "narrow" in layer.symbol else 2
        if len(weights) < block or "dense" in layer.symbol:
            continue
        taps = np.zeros((block, 8), np.int8)
        first = weights[:block, :8]
        taps[:, : first.shape[1]] = first
        if not Head.of(int(np.frombuffer(layer.binding.stream[:4], np.uint32)[0])).apart:
            taps[1::2] -= taps[0::2] < 0
        start = 4 + 4 * block
        assert layer.binding.stream[start : start + taps.size] == taps.tobytes()


@pytest.mark.parametrize(("size", "columns"), [(4, 3), (2, 8)])
def test_words_have_two_taps_of_two_channels(size: int, columns: int) -> None:
    """Of two channels of a wide tile, of four of a narrow one: the even taps, then the odd ones,
    each with those of the second channel joined to the first one's."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (size, 1, 1, 4)).astype(np.int8)
    op = Conv2D(weights, np.zeros(size, np.int32), Window(), FixedPoint.of(np.full(size, 0.01)))
    tensors = {n: Tensor(n, (1, columns, c), 0.1, 0) for n, c in (("in", 4), ("out", size))}
    node = Node("one", op, ("in",), ("out",))
    ports = (Port("in", "in", (1, 1, columns, 4), "int8"),)
    layer = bind(Graph("one", "one", tensors, (node,), ports, ()), node)
    start, taps = 4 + 4 * size, weights[:, 0, 0]
    halves = [
        256 * int(taps[a + 1, tap]) + int(taps[a, tap])
        for even in (0, 1)
        for a in range(0, size, 2)
        for tap in (even, even + 2)
    ]
    assert layer.binding.stream[start : start + 4 * size] == np.array(halves, "<i2").tobytes()


@pytest.mark.parametrize("other", ["eight consecutive taps"], indirect=True)
def test_other_cores_are_refused(other: Target, tmp_path: Path) -> None:
    emitted = emit(disjoint(layers("fully_connected", other, 2)), "kws")
    write(emitted.files, tmp_path)
    include = [f"-I{paths.runtime() / 'include'}", f"-I{tmp_path}"]
    renamed = [f"-Dvmcu_{name}_other=vmcu_{name}" for name in ("dense", "pointwise")]
    command = ["gcc", "-std=c99", "-fsyntax-only", *include, *renamed, str(tmp_path / "kws.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "kws was built with --target other: it runs on Others only" in done.stderr
    assert done.returncode != 0
    subprocess.run([*command, "-DVMCU_OTHER"], check=True)


@pytest.mark.parametrize("other", ["eight consecutive taps"], indirect=True)
def test_kernels_are_written_beside_the_others(other: Target, tmp_path: Path) -> None:
    shutil.copytree(paths.runtime(), tmp_path, dirs_exist_ok=True)
    gen = tmp_path / "kernels" / "gen"
    assert all("other" in path.name for path in generate.write(gen))
    compiler = ["gcc", "-std=c99", f"-I{tmp_path / 'include'}", "-o", "kernel.o", "-c"]
    made = {name: programs(other.packing) for name, programs in PACKED.items()}
    for name, programs in ((name, found) for name, found in made.items() if found):
        for flags in ([], ["-DVMCU_OTHER"]):
            subprocess.run([*compiler, *flags, f"{name}_other.c"], cwd=gen, check=True)
            command = ["nm", "--defined-only", "kernel.o"]
            done = subprocess.run(command, cwd=gen, capture_output=True, text=True, check=True)
            wanted = [program.symbol for program in programs] if flags else []
            assert re.findall(r" T (\w+)", done.stdout) == sorted(wanted)


def test_tables_are_one_for_all_that_read_a_packing(tmp_path: Path) -> None:
    texts: dict[Packing, set[str]] = {}
    for name, target in TARGETS.items():
        assert main(["build", str(TINY), "--target", name, "-o", str(tmp_path)]) == EXIT_DONE
        runs = f"it runs on {target.title} only" if target.needs else "every core runs it"
        text = (tmp_path / "tiny.c").read_text()
        assert runs in text.replace("\n * ", " ")
        alike = texts.setdefault(target.packing, set())
        text = re.sub(r"#if !\(.*\n#error .*\n", "", text)
        alike.add(re.sub(f"Laid out for target {name}, .*| --target {name}", "", text))
    assert len(texts) < len(TARGETS)
    assert all(len(alike) == 1 for alike in texts.values())
    assert main(["build", str(TINY), "-o", str(tmp_path)]) == EXIT_DONE
    assert f"for target {DEFAULT}," in (tmp_path / "tiny.c").read_text()


def test_costs_of_a_target_weigh_cycles_against_bytes() -> None:
    """On a Cortex-M3, calls are a smaller part of what a layer costs: smaller tiles pay. An
    inverted bottleneck of MCUNet, in rings of tiles."""
    b = Builder(np.random.default_rng(0))
    x = b.input((44, 44, 16))
    e = convolution(b, x, Window(), 44, 44, 64)
    d = depthwise_of(b, e, Window((5, 5), pad=(2, 2, 2, 2)), 44, 44, 1)
    graph = b.graph([convolution(b, d, Window(), 44, 44, 24).name])
    peaks, calls = {}, {}
    for name in TARGETS:
        variant = without_extra_macs(replace(graph, target=name), CompileOptions())
        search = variant.partitioner
        peaks[name] = search.best_trade_off(variant.least)
        cuts = search.cheapest(peaks[name])
        calls[name] = sum(calls_of(one) for cut in cuts for one in search.binder.stage(cut))
    assert peaks["v7m"] < peaks["dsp"]
    assert calls["v7m"] > calls["dsp"]


def test_an_unknown_target_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", str(TINY), "--target", "abacus"]) == 2
    said = f"there is no target 'abacus', choose from {', '.join(TARGETS)}"
    assert said in capsys.readouterr().err


def test_help_names_all_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "--help"]) == EXIT_DONE
    text = " ".join(capsys.readouterr().out.split())
    assert all(f" {name}" in text for name in TARGETS)


def test_a_graph_for_an_unknown_target() -> None:
    graph = replace(random_layers("pointwise", 1, seed=0), target="abacus")
    with pytest.raises(UserError, match="there is no target 'abacus'"):
        bind(graph, graph.nodes[0])


@pytest.mark.parametrize(
    ("pair", "bias", "joined"),
    [
        pytest.param((-128, 127), (0, 0), True, id="whatever the first one is"),
        pytest.param((0, -128), (0, 0), True, id="the least that fits"),
        pytest.param((-1, -128), (0, 0), False, id="less than that"),
        pytest.param((1, 1), (2**23, 0), True, id="a large sum of the first"),
        pytest.param((1, 1), (0, 2**23 - 128), True, id="the largest sum of the second"),
        pytest.param((1, 1), (0, 2**23 - 127), False, id="more than that"),
        pytest.param((1, 1), (0, 129 - 2**23), True, id="its least sum"),
        pytest.param((1, 1), (0, 128 - 2**23), False, id="less than its least sum"),
    ],
)
def test_channels_are_joined_that_fit(
    pair: tuple[int, int], bias: tuple[int, int], joined: bool
) -> None:
    """Into 16 bits the weights of two channels, into 24 the sums of the second one."""
    weights = np.array(pair, np.int8).reshape(2, 1, 1, 1)
    op = Conv2D(weights, np.array(bias, np.int32), Window(), FixedPoint.of(np.full(2, 0.01)))
    tensors = {n: Tensor(n, (1, 8, c), 0.1, 0) for n, c in (("in", 1), ("out", 2))}
    node = Node("one", op, ("in",), ("out",))
    graph = Graph("one", "one", tensors, (node,), (Port("in", "in", (1, 1, 8, 1), "int8"),), ())
    layer = bind(graph, node)
    head = Head.of(int(np.frombuffer(layer.binding.stream[:4], np.uint32)[0]))
    assert head.apart is not joined
    data = [np.array([-128, -1, 0, 1, 2, 64, 126, 127], np.int8).reshape(1, 8, 1)]
    np.testing.assert_array_equal(interpret(layer, data).output, layer.rows(data, 0, 1))


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("columns", [1, 8])
def test_only_blocks_with_channels_that_do_not_fit_are_apart(fixed: bool, columns: int) -> None:
    """Here two of 18 channels are: all others are computed as ever, those behind the last whole
    block, too."""
    rng = np.random.default_rng(columns)
    weights = rng.integers(-127, 128, (18, 1, 1, 12)).astype(np.int8)
    weights[8:10, 0, 0, 3] = -5, -128
    scale = np.full(18, 0.003)
    op = Conv2D(
        weights,
        rng.integers(-999, 999, 18).astype(np.int32),
        Window(),
        FixedPoint.of(scale) if fixed else FloatScale(scale.astype(np.float32)),
    )
    tensors = {n: Tensor(n, (1, columns, c), 0.1, 0) for n, c in (("in", 12), ("out", 18))}
    node = Node("one", op, ("in",), ("out",))
    ports = (Port("in", "in", (1, 1, columns, 12), "int8"),)
    layer = bind(Graph("one", "one", tensors, (node,), ports, ()), node)
    assert isinstance(layer, ProgramLayer)
    block = 2 if columns == 8 else 4
    words, at, found = np.frombuffer(layer.binding.stream, np.uint32), 0, []
    for length in layer.binding.lines:
        if length == 1:
            head = Head.of(int(words[at]))
            found.append((head.fast, head.exact, head.apart))
        at += length
    before, behind = 8 // block, -(-8 // block)
    if fixed:
        assert found == [(before, 1, True), (behind, 0, False)]
    else:
        assert found == [(0, before, False), (0, 1, True), (0, behind, False)]
    data = [rng.integers(-128, 128, (1, columns, 12)).astype(np.int8)]
    np.testing.assert_array_equal(interpret(layer, data).output, layer.rows(data, 0, 1))


@pytest.mark.parametrize(
    ("weights", "taps"),
    [
        ([-128, -128, 0, 0, 0, 0, 0, 0], 1),
        ([-128, 127, 127, 127, -127, -128, 1, 2], 2),
        ([-128, 127, 0, 0, 127, -127, 1, 0], 4),
        ([-128, 100, 0, 27, 0, 0, 0, 0], 8),
        ([-128, 100, 0, 27, 1, 0, 0, 0], 4),
        ([0, 0, 0, 1, 255 - 128, 127, 0, 1], 4),
        ([127, 127, 1, 0, 127, 127, 0, 0, 1, 0, 0, 0], 8),
        ([0, 0, 0, 0, 0, 0, 0, -128, -128, 0, 0, 0], 4),
    ],
)
def test_taps_that_are_added_up_together(weights: list[int], taps: int) -> None:
    """As many as there are sizes for of at most 255; of all channels the fewest."""
    easy, rows = [1] * len(weights), np.array([weights], np.int16)
    assert PAIRED_TAPS[paired_code(rows)] == taps
    assert PAIRED_TAPS[paired_code(np.array([easy, weights]))] == taps
    assert PAIRED_TAPS[paired_code(np.pad(rows, ((0, 0), (0, 8))))] == taps


def pair_sums(weights: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """What C makes of two pixels' taps (count, taps), in 32 bits: (count, 2)."""
    products = (weights * (first + (second << 16))).sum(axis=1)
    high = wrap_int32(wrap_int32(products) + (1 << 15)) >> 16
    return np.stack([wrap_int32(products - (high << 16)), high], axis=1)


def test_sums_of_pairs_of_pixels_are_exact_up_to_the_bound() -> None:
    """Two taps of all signs and sizes at the bound, times bytes at the ends and around zero; one
    more is too much."""
    ends = np.array([-128, -127, -1, 0, 1, 126, 127])
    taps = np.array([*itertools.product(ends, repeat=4)])
    first, second = taps[:, :2], taps[:, 2:]
    sizes = [(a, 255 - a) for a in range(127, 129)] + [(a, 254 - a) for a in range(127, 128)]
    for a, b in [*sizes, (0, 128), (128, 0), (1, 1)]:
        for signs in itertools.product((-1, 1), repeat=2):
            weights = np.array([a, b]) * signs
            wanted = np.stack([first @ weights, second @ weights], axis=1)
            np.testing.assert_array_equal(pair_sums(weights, first, second), wanted)
    weights = np.array([-128, -128])
    wanted = np.stack([first @ weights, second @ weights], axis=1)
    assert (pair_sums(weights, first, second) != wanted).any()


@pytest.mark.parametrize(("target", "board"), [("rv32", "qemu:rv32"), ("v6m", "qemu:m0")])
@pytest.mark.parametrize("columns", [2, 3, 4])
@pytest.mark.parametrize(("apart", "codes"), [(0, [0, 1, 2, 3]), (4, [0, 1, 2, 3, 2])])
def test_paired_layers_at_the_bound(
    apart: int, codes: list[int], columns: int, target: str, board: str
) -> None:
    """Blocks of every code one behind the other, on a core that multiplies pairs of pixels: weights
    whose sizes sum up to the bound, bytes at both ends; and a block of which two weights are in one
    sum of eight only if the first four taps are apart."""
    rng = np.random.default_rng(columns)
    width = apart + 24
    rows = np.zeros((len(PAIRED_TAPS) + 1, 4, width), np.int8)
    rows[-1, :, 7:9] = -128
    for taps, some in zip(PAIRED_TAPS, rows[:, :, apart:], strict=False):
        some[:, ::taps] = -128
        some[:, 1::taps] = -128 if taps == 1 else rng.choice([-127, 127], some[:, 1::taps].shape)
    weights = rows.reshape(-1, 1, 1, width)
    channels, shape = len(weights), (2, columns, width)
    requant = FixedPoint.of(np.full(channels, 0.001))
    op = Conv2D(weights, np.zeros(channels, np.int32), Window(), requant)
    tensors = {n: Tensor(n, (*shape[:2], c), 0.1, 0) for n, c in (("in", width), ("out", channels))}
    ports = [Port(n, n, (1, *tensors[n].shape), "int8") for n in tensors]
    node = Node("one", op, ("in",), ("out",))
    graph = Graph("one", "one", tensors, (node,), (ports[0],), (ports[1],), target=target)
    binding = bind(graph, node).binding
    heads = np.cumsum([0, *binding.lines[:-1]])[np.array(binding.lines) == 1]
    words = np.frombuffer(binding.stream, np.uint32)[heads]
    assert [Head.of(int(word)).code for word in words] == codes
    samples = [[rng.choice(np.array([-128, 127], np.int8), shape)] for _ in range(4)]
    samples += [[np.full(shape, end, np.int8)] for end in (-128, 127)]
    found = runners.get(board).run(disjoint(graph), samples)
    for sample, (output,) in zip(samples, found, strict=True):
        wanted = bind(graph, node).rows(sample, 0, 2)
        np.testing.assert_array_equal(output.reshape(wanted.shape), wanted)


@pytest.mark.parametrize(
    ("window", "weights", "count"),
    [
        pytest.param((3, 3), [0, 0, 0, 0, 0, 127, 100, 0, 127], 4, id="8 taps, but not 5"),
        pytest.param((3, 3), [0, 0, 0, 127, 127, 100, 0, 0, 0], 2, id="5 taps, but not 3"),
        pytest.param((5, 5), [0, 0, -128, -128, *[0] * 21], 1, id="3 taps, but not 2"),
        pytest.param((5, 5), [127] * 25, 2, id="2 taps"),
        pytest.param((16, 32), [127] * 512, 2, id="as many as the pairs' sums can hold"),
        pytest.param((24, 24), [-127] * 576, 2, id="more than these"),
    ],
)
def test_depthwise_vectors_at_the_bound(
    window: tuple[int, int], weights: list[int], count: int
) -> None:
    """Sums of 16 bits of the largest products, whatever number of taps a kernel adds up."""
    tall, wide = window
    channels, shape = 16, (tall + 1, wide + 1, 16)
    taps = np.repeat(np.array(weights, np.int8)[:, None], channels, axis=1)
    assert together(taps) == count
    requant = FixedPoint.of(np.full(channels, 0.9 / np.abs(taps.astype(int)).sum(0).max()))
    side = taps.reshape(tall, wide, channels)
    op = DepthwiseConv2D(side, np.zeros(channels, np.int32), Window(window), requant)
    shapes = {"in": shape, "out": (2, 2, channels)}
    tensors = {name: Tensor(name, one, 0.1, 0) for name, one in shapes.items()}
    ports = [Port(name, name, (1, *one), "int8") for name, one in shapes.items()]
    node = Node("one", op, ("in",), ("out",))
    graph = Graph("one", "one", tensors, (node,), (ports[0],), (ports[1],), target="helium")
    samples = [[np.full(shape, end, np.int8)] for end in (-128, 127)]
    found = runners.get("qemu:m55").run(disjoint(graph), samples)
    for sample, (output,) in zip(samples, found, strict=True):
        wanted = bind(graph, node).rows(sample, 0, 2)
        np.testing.assert_array_equal(output.reshape(wanted.shape), wanted)
