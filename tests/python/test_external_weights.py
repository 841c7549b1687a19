# SPDX-License-Identifier: Apache-2.0
"""Weights that are read from a file ahead of their stages: the same bytes, errors, the proof."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import online_device as device
import pytest
import vmcu
from builders.networks import network_file, random_inputs
from drawn import seeds
from random_networks import EveryNetwork, wide
from vmcu_bench import runners
from vmcu_tools import container, passes, paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.container import layout
from vmcu_tools.emit import emit, write
from vmcu_tools.emit.proof import prove
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.passes.split_channels import split_channels
from vmcu_tools.plan.chunks import Chunk, ExternalWeights, WeightStore
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.weights import chunk_bytes, digest_of, file_of, layouts_of
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import DEFAULT_PARAMS
from vmcu_tools.planner.read_ahead import with_reads
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.report.weights import MOST_NAMED, compute_s, sentences, waits_s, weights_report

ROOT = paths.root()
TINY = ROOT / "tests" / "runtime" / "tiny.onnx"
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"
STORE = WeightStore(8e6, 1e-4)
SPI = WeightStore(8e6)
FIRST = 300
STREAMS, POOLS, TURNS = ("-DVMCU_STREAMS",), ("-DVMCU_SEVERAL_POOLS",), ("-DVMCU_POOL_ROTATE",)
LOADS = ("-DVMCU_CONTAINER_REPLAY", *STREAMS)
# Cores of 32 bits have a container's tables in place, but for weights that are elsewhere.
NARROW = ("-m32", *LOADS)
SOURCE = Path(__file__).with_name("external_weights.c")


def compiled(model: Path, store: WeightStore = STORE) -> Plan:
    return compile_model(model, CompileOptions(external_weights=store))


def random_plan(graph: Graph, store: WeightStore = STORE) -> Plan:
    """Of layers one by one, which have more chunks."""
    params = replace(DEFAULT_PARAMS, longest_stage=1)
    return with_reads(make_plan(graph, CompileOptions(params=params), prove=False), store)


def expect_in_c(plan: Plan, target: str = "host:sanitize") -> None:
    """The reader of the image fills what it may overwrite with garbage at once, and reads late."""
    sample = random_inputs(plan.graph, 3)
    wanted = reference.run(plan.graph, sample)
    for outputs in runners.get(target).run(plan, [sample] * 2):
        for port, got in zip(plan.graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(got, wanted[port.tensor])


@pytest.mark.parametrize("model", [TINY, DIGITS], ids=lambda path: path.stem)
def test_models_in_c(model: Path) -> None:
    plan = compiled(model)
    assert plan.weights is not None
    emitted = emit(plan, "net")
    (data,) = emitted.weights.values()
    assert len(data) == plan.weights.file_bytes and emitted.weights_bytes == 0
    expect_in_c(plan)


@pytest.mark.parametrize("target", ["host:sanitize+container", "qemu:m3+container"])
def test_containers_in_c(target: str) -> None:
    """Cores of 32 bits have tables in place, but for these."""
    expect_in_c(compiled(DIGITS), target)
    expect_in_c(random_plan(wide(1)), target)


def test_a_container_is_run_with_its_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["build", str(TINY), "--external-weights", "8MB/s", "--format", "container"]
    assert main([*words, "-o", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.vmcu", "tiny.weights.bin"]
    path = tmp_path / "tiny.vmcu"
    size = (tmp_path / "tiny.weights.bin").stat().st_size
    assert main(["container", "show", str(path)]) == 0
    assert f"weights file: {size:,} bytes" in capsys.readouterr().out
    before = path.read_bytes()
    path.write_bytes(container.released(before, container.Release(7, 2)))
    assert container.facts_of(path).release == container.Release(7, 2)
    assert container.released(path.read_bytes(), container.Release(0, 0)) == before
    assert main(["verify", str(path)]) == 1
    assert "the weights of this container are in a file of their own" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mlperf-tiny-kws", "ds-cnn"])
def test_networks_in_c(name: str) -> None:
    expect_in_c(compiled(network_file(name)))


@pytest.mark.parametrize("seed", seeds(4, 2))
def test_random_networks_in_c(seed: int) -> None:
    graph = wide(seed)
    plan = random_plan(graph)
    assert plan.weights is not None
    expect_in_c(plan)
    more = random_plan(graph, replace(STORE, ram=2 * plan.weights.buffer_bytes))
    assert more.weights is not None
    ahead = sum(chunk.stage - chunk.start for chunk in more.weights.chunks)
    assert ahead > sum(chunk.stage - chunk.start for chunk in plan.weights.chunks)
    expect_in_c(more)


@pytest.mark.parametrize("ram", [4096, 3072])
def test_split_layers_in_c(ram: int) -> None:
    plan = compiled(DIGITS, replace(STORE, ram=ram))
    assert plan.weights is not None and plan.weights.buffer_bytes <= ram
    assert any(note.startswith("Split layers by output channels") for note in plan.notes)
    # One half of the buffer suffices for each, so that each read can start a stage ahead.
    assert all(chunk.start < chunk.stage for chunk in plan.weights.chunks[1:])
    expect_in_c(plan)


def test_split_tflite_in_c() -> None:
    plan = compiled(network_file("mlperf-tiny-kws"), replace(STORE, ram=5000))
    assert plan.weights is not None and plan.weights.buffer_bytes <= 5000
    assert any(note.startswith("Split layers by output channels") for note in plan.notes)
    expect_in_c(plan)


@pytest.mark.parametrize("seed", range(3))
def test_splitting_keeps_every_byte(seed: int) -> None:
    graph = wide(seed)
    split = split_channels(graph, 1500, chunk_bytes)
    kinds = [node.kind for node in split.nodes]
    assert "Concat" in kinds
    # One block of channels of the last convolution is too large, so that it stays whole.
    for node in split.nodes:
        assert chunk_bytes(split, node) <= 1500 or node in graph.nodes
    sample = random_inputs(graph, seed)
    wanted, found = reference.run(graph, sample), reference.run(split, sample)
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)


def test_as_few_parts_as_fit() -> None:
    graph = wide(0)
    size = chunk_bytes(graph, graph.nodes[0])
    assert split_channels(graph, 10**6, chunk_bytes) is graph
    halves = split_channels(graph, size - 1, chunk_bytes)
    assert [node.name for node in halves.nodes[:3]] == [
        *(f"{graph.nodes[0].name}.{number}" for number in range(2)),
        graph.nodes[0].name,
    ]


def wide_plan() -> Plan:
    return random_plan(wide(1), replace(STORE, ram=1 << 20))


def built(model: str, ram: int | None = None, **asked: Any) -> Plan:
    store = replace(STORE, ram=ram)
    return compile_model(ROOT / model, CompileOptions(external_weights=store, **asked))


KINDS = {
    "input": (partial(built, "tests/runtime/tiny.onnx"), (), 2),
    "late": (wide_plan, (), 4),
    "rows": (partial(built, "samples/digits/digits.onnx", stream_input=True, ram=1 << 20), (), 2),
    "hops": (partial(built, "tests/runtime/tiny.onnx", hop=3), STREAMS, 2),
    "state": (partial(built, "samples/storyteller/storyteller.onnx"), STREAMS, 1),
    "pools": (partial(built, "samples/digits/digits.onnx", memory="a=2K,b=9K"), POOLS, 2),
    "turning": (partial(built, "samples/digits/digits.onnx", rotate=True), TURNS, 2),
    "loaded": (partial(built, "tests/runtime/tiny.onnx", container=True), LOADS, 2),
    "loaded, 32 bits": (partial(built, "tests/runtime/tiny.onnx", container=True), NARROW, 2),
    "loaded rows": (
        partial(built, "samples/digits/digits.onnx", 1 << 20, stream_input=True, container=True),
        LOADS,
        2,
    ),
    "loaded hops": (partial(built, "tests/runtime/tiny.onnx", hop=3, container=True), LOADS, 2),
}


def compiles_for_32_bits() -> bool:
    command = ["gcc", "-m32", "-xc", "-fsyntax-only", "-include", "stdio.h", "/dev/null"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_faults(kind: str, tmp_path: Path) -> None:
    """Every read fails in every way, and bits are flipped; the next inference is right again, also
    if reads are late."""
    make, defines, queued = KINDS[kind]
    if defines == NARROW and not compiles_for_32_bits():
        pytest.skip("not installed: gcc-multilib")
    plan = make()
    assert plan.weights is not None
    write(emit(plan, "net").all_files, tmp_path)
    loads = set(LOADS) <= set(defines)
    # The sanitizers' libraries of 32 bits are a package more.
    on = "host" if defines == NARROW else "host:sanitize"
    target = device.host(("-DVMCU_EXTERNAL_WEIGHTS", *defines), loads, on)
    program = tmp_path / "program"
    if loads:
        (tmp_path / "net.vmcu").write_bytes(container.build(plan, "net"))
    sources = (SOURCE, device.KERNELS if loads else tmp_path / "net.c")
    files = (*sources, target.archive(None if loads else sources))
    flips = 10_000 if kind == "input" else 100
    options = ('-DMODEL_HEADER="net.h"', f"-DFLIPS={flips}", f"-I{tmp_path}", "-pthread")
    target.gcc([*options, *map(str, files), "-o", str(program)], tmp_path)
    command = [program, tmp_path / "net.vmcu", tmp_path / "net.weights.bin"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    said = re.fullmatch(rb"(\d+) chunks, (\d+) reads, (\d+) queued\n", done.stdout)
    assert said is not None and int(said[1]) == len(plan.weights.chunks)
    # The weights of a stream of one stage are read once.
    hops = 3 if plan.graph.state.step_rows and int(said[1]) > 1 else 1
    assert (int(said[2]), int(said[3])) == (hops * int(said[1]), queued)


def of_every_operator(number: int) -> Plan:
    graph = passes.optimize(EveryNetwork(FIRST + number, 2).made)
    plan = make_plan(graph, CompileOptions(params=replace(DEFAULT_PARAMS, longest_stage=1)))
    return with_reads(plan, STORE)


@pytest.fixture(scope="module")
def damager(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damager")
    return device.damager(folder, "-DVMCU_EXTERNAL_WEIGHTS")


DAMAGED = {
    "layers": (KINDS["loaded"][0], 60),
    "rows": (KINDS["loaded rows"][0], 20),
    "hops": (KINDS["loaded hops"][0], 60),
    **{f"operators {n}": (partial(of_every_operator, n), 1) for n in (1, 2, 4)},
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_containers_touch_nothing_outside(kind: str, damager: Path, tmp_path: Path) -> None:
    """Container and weights, with their digests mended."""
    make, least = DAMAGED[kind]
    plan = make()
    (tmp_path / "m.vmcu").write_bytes(container.build(plan, "m"))
    (tmp_path / "m.bin").write_bytes(file_of(layouts_of(plan)))
    seeded = ["500", "3", str(tmp_path / "m.bin"), str(layout.WEIGHTS_AT)]
    command = [damager, tmp_path / "m.vmcu", *seeded]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[0]) >= least


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (r"\.to = 0,", ".to = 4,", "buffer|overwrites"),
        (r"\.start = 2,", ".start = 1,", "overwrites what stage 1 needs"),
        (r"\.stage = 3,", ".stage = 2,", "order of stages|overwrites|parameters"),
        (r"\.offset = \d\d+,", ".offset = 4,", "at byte 4 of the file"),
        (r"VMCU_EXTERNAL\(0\)", "VMCU_EXTERNAL(4)", "other parameters|buffer"),
        (r"chunk_count = \d+", "chunk_count = 1", "1 chunks"),
    ],
)
def test_the_proof_refuses_wrong_tables(old: str, new: str, reason: str) -> None:
    plan = random_plan(wide(1), replace(STORE, ram=None))
    emitted = emit(plan, "net")
    data = b"".join(emitted.weights.values())
    text, count = re.subn(old, new, emitted.files["net.c"], count=1)
    assert count == 1
    with pytest.raises(PlanError, match=reason):
        prove({**emitted.files, "net.c": text}, "net", plan, data)


def test_the_proof_refuses_another_file() -> None:
    plan = random_plan(wide(1))
    emitted = emit(plan, "net")
    data = b"".join(emitted.weights.values())
    other = bytes([data[0] ^ 1]) + data[1:]
    with pytest.raises(PlanError, match="another digest"):
        prove(emitted.files, "net", plan, other)
    layouts = layouts_of(plan)
    size = layouts[0].size
    old, new = (f".digest = {digest_of(file[:size])}U" for file in (data, other))
    assert old in emitted.files["net.c"]
    text = emitted.files["net.c"].replace(old, new)
    with pytest.raises(PlanError, match="other parameters"):
        prove({**emitted.files, "net.c": text}, "net", plan, other)
    with pytest.raises(PlanError, match="the weights file has"):
        prove(emitted.files, "net", plan, data[:-4])


def test_digests() -> None:
    """Of published test vectors; and a change within one word changes them."""
    vectors = {b"": 0, b"test": 0xBA6BD213, b"\xff" * 4: 0x76293B50}
    assert {data: digest_of(data) for data in vectors} == vectors
    data = bytes(range(64))
    changed = [
        data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    ]
    assert digest_of(data) not in set(map(digest_of, changed))


def test_waits() -> None:
    """By hand: reads of 1, 2 and 3 s one after the other, the last one when stage 0 is over."""
    chunks = (Chunk(0, 0, 1, 0, 0), Chunk(1, 1, 2, 1, 0), Chunk(2, 3, 3, 0, 1))
    weights = ExternalWeights(WeightStore(1.0), chunks, 3)
    assert waits_s(weights, [1.0, 5.0, 1.0]) == [1.0, 1.0, 0.0]
    assert waits_s(weights, [4.0, 1.0, 1.0]) == [1.0, 0.0, 2.0]
    late = ExternalWeights(WeightStore(1.0, 0.5), (chunks[0], Chunk(1, 1, 2, 0, 1)), 3)
    assert waits_s(late, [4.0, 1.0, 1.0]) == [1.5, 2.5, 0.0]


def test_rows_of_the_report() -> None:
    plan = random_plan(wide(1), replace(STORE, bytes_per_s=1e3))
    report = weights_report(plan, 1e-6)
    assert plan.weights is not None and report is not None
    seconds, waits = compute_s(plan, 1e-6), waits_s(plan.weights, compute_s(plan, 1e-6))
    for row, chunk in zip(report.reads, plan.weights.chunks, strict=True):
        assert (row.stage, row.bytes, row.ahead) == (
            chunk.stage,
            chunk.size,
            chunk.stage - chunk.start,
        )
        assert row.compute_ms == round(1000 * seconds[chunk.stage], 6)
        assert row.wait_ms == round(1000 * waits[chunk.stage], 6)
    late = sum(1 for row in report.reads if row.wait_ms)
    assert late > MOST_NAMED == 3
    said = sentences(report)[1]
    assert said.count(" ms, ") == MOST_NAMED and f"; {late - 3} more stages wait." in said
    starts = [chunk.start for chunk in plan.weights.chunks]
    assert any(start for start in starts) and any(row.ahead for row in report.reads)


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    words = ["build", str(DIGITS), "--external-weights", "8MB/s,latency=100us"]
    assert main([*words, "--json", str(file)]) == 0
    assert "Add --board to estimate how much of it is hidden." in capsys.readouterr().out
    assert json.loads(file.read_text())["weights"]["hidden"] is None
    assert main([*words, "--board", "nrf52840dk", "--json", str(file)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    found = json.loads(file.read_text())["weights"]
    reads = found["reads"]
    assert found["file_bytes"] == sum(read["bytes"] for read in reads) == 10724
    # Only the first read has nothing before it.
    waits = [read["wait_ms"] for read in reads]
    assert waits[0] == reads[0]["read_ms"] and not any(waits[1:])
    assert found["hidden"] == pytest.approx(1 - waits[0] / found["read_ms"], abs=1e-6)
    assert f"hides {100 * found['hidden']:.1f} % of it" in said
    assert re.search(r"Digests take [\d.]+ ms\.", said)
    assert found["digest_ms"] == pytest.approx(1e3 * 3 * 10724 / 64e6, rel=1e-3)
    assert "the first of an inference" in said
    slow = [*words[:3], "8MB/s,latency=100us,ram=9K", "--board", "nrf52840dk"]
    assert main(slow) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"8,0\d\d the buffer for weights", said)


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"its constants have [\d,]+ bytes, the weights buffer 64"):
        compiled(DIGITS, replace(STORE, ram=64))
    for spec in ("8", "8MB/s,x=1", "0MB/s", "8MB/s,latency=1"):
        assert main(["build", str(TINY), "--external-weights", spec]) == 2
        assert "is no memory for weights" in capsys.readouterr().err
    words = [str(TINY), "--external-weights", "8MB/s"]
    assert main(["build", *words, "--format", "container", "--online", "-o", str(tmp_path)]) == 1
    assert "devices plan whole models" in capsys.readouterr().err
    assert main(["verify", *words, "--on", "zephyr:qemu_cortex_m3"]) == 1
    assert "no Zephyr application that reads external weights" in capsys.readouterr().err


def test_files_are_written(tmp_path: Path) -> None:
    spec = "8MB/s,latency=100us,ram=20K"
    assert main(["build", str(DIGITS), "--external-weights", spec, "-o", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "digits.c",
        "digits.h",
        "digits.weights.bin",
    ]
    assert "--external-weights 8MB/s,latency=100us,ram=20480" in (tmp_path / "digits.c").read_text()


def test_the_buffer_counts_in_ram(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = ["--external-weights", "8MB/s,ram=9K"]
    plan = compiled(DIGITS, WeightStore(8e6, ram=9 * 1024))
    assert plan.weights is not None
    both = plan.ram_bytes + plan.weights.buffer_bytes
    before, now = tmp_path / "before.json", tmp_path / "now.json"
    assert main(["build", str(DIGITS), "--json", str(before)]) == 0
    words = ["check", str(DIGITS), *spec, "--json", str(now)]
    assert main([*words, "--max-ram", str(both)]) == 0
    assert f"RAM, bytes: {both:,} of {both:,} allowed" in capsys.readouterr().out
    assert main([*words, "--max-ram", str(both - 1)]) == 1
    assert "1 too many" in capsys.readouterr().out
    assert main(["compare", str(before), str(now)]) == 0
    assert f" {both:,} " in capsys.readouterr().out
    assert main(["build", str(DIGITS), *spec, "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert f"<dt>file, weights</dt><dd>{plan.weights.file_bytes:,}</dd>" in page
    own = vmcu.load(DIGITS).plan(external_weights="8MB/s,ram=9K")
    assert f"{both:,} bytes of RAM" in repr(own) and f"{both:,} bytes of RAM" in repr(own.report())
    assert main(["check", str(DIGITS), *spec, "--baseline", str(now)]) == 0
    assert "weights file, bytes" in capsys.readouterr().out


def test_a_limit_is_for_pool_and_buffer() -> None:
    small = WeightStore(8e6, ram=9 * 1024)
    plan = compile_model(DIGITS, CompileOptions(external_weights=small))
    most = plan.ram_bytes + plan.buffer_bytes
    # Of the last, the fastest plan alone takes so much that the buffer does not fit beside it.
    for store, ram in ((small, most), (small, most - 1), (small, most - 700), (SPI, 11000)):
        found = compile_model(DIGITS, CompileOptions(external_weights=store, ram=ram))
        assert 0 < found.buffer_bytes < found.ram_bytes + found.buffer_bytes <= ram
    with pytest.raises(UserError, match=r"the pool has [\d,]+ bytes, the weights buffer [\d,]+; 8"):
        compile_model(DIGITS, CompileOptions(external_weights=small, ram=8192))
