# SPDX-License-Identifier: Apache-2.0
"""Models that keep their rows, from containers: the bytes of whole windows, the same state, and
nothing damaged is used."""

from __future__ import annotations

import ctypes
import errno
import json
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders.containers import changed, member_of, model_member, of_model, of_table
from builders.onnx_caches import Step
from online_device import load_result as load
from online_device import sanitized
from random_builder import Builder
from random_graphs import convolution
from random_streams import Mixed, Temporal, drawn, plan_of
from test_recurring import built
from test_streams import check_states, vmcu
from test_variables import listening
from test_windows_anew import several, small
from vmcu_bench import runners
from vmcu_bench.runners.stream import streamed
from vmcu_bench.verify.container import answers, verify_stream
from vmcu_bench.verify.stream import meaning, stream_of
from vmcu_tools import container, paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.container import Opened, layout
from vmcu_tools.container.hops import Hops
from vmcu_tools.container.opened import open_container
from vmcu_tools.container.read import facts
from vmcu_tools.emit import structs
from vmcu_tools.emit.model import write_tables
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.graph import Window
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.turns import first_rows
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

NETWORKS = 3
KINDS = (Temporal, Mixed)
# Of the files of tests/fuzz/containers.
KEPT = ("computed", "mixed", "temporal")


def image_of(plan: Plan) -> bytes:
    """Before its proof."""
    return container.of_tables(write_tables(plan, "m").files, "m")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(NETWORKS))
def test_hops_are_those_of_whole_windows(
    rows_loader: ctypes.CDLL, kind: type[Temporal], seed: int
) -> None:
    (graph, hop), plan = drawn(kind, seed), plan_of(kind, seed)
    rows = stream_of(graph, hop, 200, seed)
    found = streamed(sanitized(), plan, rows)
    np.testing.assert_array_equal(found, np.stack(list(meaning(plan, rows))))
    image = container.build(plan, "m")
    assert container.build(plan, "m") == image
    assert load(rows_loader, image) == load(rows_loader, image, True) == (0, "")


@pytest.mark.parametrize("cells", [1, 2])
def test_states_that_layers_compute(rows_loader: ctypes.CDLL, cells: int, tmp_path: Path) -> None:
    """A replay takes them, and refuses one that lies where other layers write."""
    _, plan = built(tmp_path, 1, cells)
    image = container.build(plan, "m")
    assert load(rows_loader, image) == load(rows_loader, image, True) == (0, "")
    stages = len(plan.stages)
    for states in (0, stages - 2, stages, stages + 1):
        damaged = member_of(image, layout.STREAM_AT, structs.STREAM, "states", states)
        assert load(rows_loader, damaged)[0] == (-errno.EBADMSG if states >= stages else 0)
    state, *_ = plan.graph.stored_states.values()
    there = plan.placements[state]
    moved = {**plan.placements, state: replace(there, base=0)}
    found = load(rows_loader, image_of(replace(plan, placements=moved)), True)
    assert found[0] == -errno.EBADMSG


def test_rows_made_of_the_row_before(rows_loader: ctypes.CDLL, tmp_path: Path) -> None:
    """A replay takes them, and refuses such as another layer writes over."""
    pytest.importorskip("tflite_micro")
    from test_lstm_rows import classifier

    plan = classifier(tmp_path, 6)
    assert load(rows_loader, image_of(plan)) == load(rows_loader, image_of(plan), True) == (0, "")
    outputs = [step.node.outputs[0] for step in plan.steps if step.node.is_recurrent]
    assert len(outputs) == 2
    others = [name for name in plan.placements if name not in outputs]
    for name in outputs:
        base = plan.placements[name].base
        for other in others:
            moved = {**plan.placements, other: replace(plan.placements[other], base=base)}
            harmed = image_of(replace(plan, placements=moved))
            assert load(rows_loader, harmed, True)[0] == -errno.EBADMSG, (name, other)


@pytest.mark.parametrize("mask", ["each", "valid"])
def test_masked_caches(rows_loader: ctypes.CDLL, mask: str, tmp_path: Path) -> None:
    """A replay takes rows of bytes and masks, and refuses such as another layer writes over."""
    path = Step(mask=mask, ids=True, packed=True).save(tmp_path / "step.onnx")
    plan = compile_model(path, CompileOptions(state=None))
    rows = stream_of(plan.model, 1, 60, 1)
    found = streamed(sanitized(), plan, rows)
    np.testing.assert_array_equal(found, np.stack(list(meaning(plan, rows))))
    assert load(rows_loader, image_of(plan)) == load(rows_loader, image_of(plan), True) == (0, "")
    attends = next(step.node for step in plan.steps if step.node.kind == "Attention")
    picked = next(step.node.inputs[0] for step in plan.steps if step.node.kind == "Pick")
    for name in (attends.inputs[3], picked):
        moved = replace(plan.placements[name], base=plan.placements[attends.inputs[1]].base)
        harmed = image_of(replace(plan, placements={**plan.placements, name: moved}))
        assert load(rows_loader, harmed, True)[0] == -errno.EBADMSG, name


@pytest.mark.parametrize("kind", KINDS)
def test_boards(kind: type[Temporal]) -> None:
    (graph, hop), plan = drawn(kind, 1), plan_of(kind, 1)
    rows = stream_of(graph, hop, 400, 2)
    found = streamed(runners.get("qemu:m4+container"), plan, rows)
    np.testing.assert_array_equal(found, np.stack(list(meaning(plan, rows))))


def test_states_of_a_loaded_model(tmp_path: Path) -> None:
    """Two streams over it take turns, among other things."""
    check_states(make_plan(small(), CompileOptions(hop=1)), tmp_path, loaded=True)


def test_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a file that keeps its state; commands take its container as they take any."""
    path = listening("strided", tmp_path)
    code, said, _ = vmcu(capsys, "build", path, "--format", "container", "-o", tmp_path)
    assert code == 0 and f"wrote {tmp_path / 'strided.vmcu'}" in said
    code, said, _ = vmcu(capsys, "verify", path, "-n", 300, "--on", "host+container")
    assert code == 0 and "0 of 300 hops differ" in said


@pytest.mark.parametrize("kind", KINDS)
def test_a_container_says_what_it_keeps(kind: type[Temporal]) -> None:
    """Read from its tables alone: what the plan has."""
    for seed in range(NETWORKS):
        (_, hop), plan = drawn(kind, seed), plan_of(kind, seed)
        found = facts(image_of(plan)).hops
        assert found == Hops(first_rows(plan), hop, plan.state[1], len(plan.stages) == 1)
    assert facts(image_of(make_plan(small()))).hops is None


class Wrong:
    """A target whose answers differ from the right ones in so many bytes of each output."""

    def __init__(self, sizes: list[int], wrong: list[int]):
        self.sizes, self.wrong = sizes, wrong

    def run_container_stream(self, opened: Opened, rows: np.ndarray) -> np.ndarray:
        found = answers(opened, self, rows).copy()
        at = 0
        for size, wrong in zip(self.sizes, self.wrong, strict=True):
            found[-1, at : at + wrong] ^= 1
            at += size
        return found


@pytest.mark.parametrize("wrong", [[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 2, 3]])
def test_each_output_is_compared_for_itself(wrong: list[int], tmp_path: Path) -> None:
    graph = several()
    path = tmp_path / "m.vmcu"
    path.write_bytes(image_of(make_plan(graph, CompileOptions(hop=2))))
    sizes = [graph.tensors[port.tensor].bytes for port in graph.outputs]
    compared = verify_stream(open_container(path), Wrong(sizes, wrong), 5, 1)
    assert [one.differing for one in compared] == wrong
    assert [one.bytes for one in compared] == [5 * size for size in sizes]


@pytest.fixture(scope="module")
def hopping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small container that has layers behind those that go on."""
    path = tmp_path_factory.mktemp("hopping") / "m.vmcu"
    path.write_bytes(container.build(make_plan(small(), CompileOptions(hop=1)), "m"))
    return path


def test_an_input_is_shown_as_one_row(hopping: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = vmcu(capsys, "container", "show", hopping)[1]
    (port,) = small().inputs
    _, width, channels = small().tensors[port.tensor].shape
    assert f"input {port.name}: 1 x {width} x {channels}, scale" in said


def test_commands(hopping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = vmcu(capsys, "container", "show", hopping)
    assert code == 0 and "version 2.0" in said
    assert "after 12 rows, then one every 1; state: " in said
    code, said, _ = vmcu(capsys, "verify", hopping, "-n", 200, "--on", "qemu:m4")
    assert code == 0 and "matches the reference (400 bytes)" in said
    rows = stream_of(small(), 1, 20, 4)
    np.save(tmp_path / "x.npy", rows[None])
    words = ("run", hopping, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert vmcu(capsys, *words)[0] == 0
    plan = make_plan(small(), CompileOptions(hop=1))
    wanted = np.stack(list(meaning(plan, rows)))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy").reshape(wanted.shape), wanted)
    code, _, _ = vmcu(capsys, "bench", hopping, "--json", tmp_path / "b.json")
    found = json.loads((tmp_path / "b.json").read_text())
    assert code == 0 and (found["window"], found["hop"]) == (12, 1) and found["instructions"] > 0
    for option in (("--hop", 1), ("--state", "a:b")):
        code, _, said = vmcu(capsys, "verify", hopping, *option)
        assert code == 1 and "does not apply to a container" in said


def test_a_build_without_streams_refuses_it(loader: ctypes.CDLL, hopping: Path) -> None:
    assert load(loader, hopping.read_bytes()) == (-errno.ENOTSUP, "version")


def test_every_bit(rows_loader: ctypes.CDLL, hopping: Path) -> None:
    """All that the digest is of, and the digest."""
    image = hopping.read_bytes()
    signed = range(layout.SIGNATURE.start, layout.SIGNATURE.stop)
    # Of the file's first bytes nobody reads which kind a signature has that is not asked for.
    for at in (at for at in range(len(image)) if at not in signed):
        for bit in range(8):
            damaged = bytearray(image)
            damaged[at] ^= 1 << bit
            assert load(rows_loader, bytes(damaged))[0] < 0, (at, bit)


def test_every_length(rows_loader: ctypes.CDLL, hopping: Path) -> None:
    """Cut short, and cut with a size and a digest that say so: what it needs is not there, but for
    the name of a struct, which is for people, at its end."""
    image = hopping.read_bytes()
    for length in range(layout.MODEL_AT + layout.MODEL.size, len(image)):
        cut = changed(image[:length], layout.FILE.members["size"].start, "<I", length)
        assert load(rows_loader, image[:length])[0] < 0
        assert load(rows_loader, cut)[0] < 0 or length > len(image) - 4 * layout.ALIGN, length
        if length < len(image) - layout.ALIGN - 2:
            with pytest.raises(UserError):
                container.unpack(cut)


WRONG = (
    ("calls", 0xFFFFFFF0, "stream"),
    ("again", 0, "stream"),
    ("state", 1 << 31, "state"),
    ("state_bytes", 1 << 16, "state"),
    ("state_bytes", 1, "state"),
    ("rows", 0, "stream"),
    ("rows", 1 << 15, "stream"),
)


@pytest.mark.parametrize(("member", "value", "what"), WRONG)
def test_what_is_kept_is_looked_at(
    rows_loader: ctypes.CDLL, hopping: Path, member: str, value: int, what: str
) -> None:
    image = member_of(hopping.read_bytes(), layout.STREAM_AT, structs.STREAM, member, value)
    assert load(rows_loader, image) == (-errno.EBADMSG, what)


def test_the_schedule_is_looked_at(rows_loader: ctypes.CDLL, hopping: Path) -> None:
    image = hopping.read_bytes()
    wrong = [
        of_table(image, "parts", 0, "times", 2),
        of_table(image, "parts", 1, "length", 0),
        of_table(image, "parts", 1, "length", 0xFFFF),
        of_table(image, "stages", 0, "part_count", 1),
        of_table(image, "stages", 0, "taken", 0),
        changed(image, model_member(image, "schedule"), "B", 77),
    ]
    for damaged in wrong:
        assert load(rows_loader, damaged) == (-errno.EBADMSG, "schedule of stage")
    assert load(rows_loader, of_model(image, "streamed", 0)) == (-errno.EBADMSG, "stream")


def test_nothing_writes_over_counts(rows_loader: ctypes.CDLL) -> None:
    """They outlive a hop: a layer behind the stage must not write there, be it by one byte."""
    plan = make_plan(small(), CompileOptions(hop=1))
    name, last = plan.graph.outputs[0].tensor, plan.progress[0] + 2 * len(plan.stages[0])
    for base, taken in ((last, 0), (last - 1, -errno.EBADMSG), (plan.progress[0], -errno.EBADMSG)):
        one = replace(plan.placements[name], base=base)
        harmed = replace(plan, placements={**plan.placements, name: one})
        assert load(rows_loader, image_of(harmed)) == (taken, "stream" if taken else "")


def test_no_stage_counts_over_counts(rows_loader: ctypes.CDLL) -> None:
    """A stage of several layers behind counts its calls beside them."""
    plan = plan_of(Mixed, 0)
    image, first = image_of(plan), plan.progress[0]
    number = next(n for n, stage in enumerate(plan.stages) if n and len(stage) > 1)
    assert len(plan.stages[0]) == 1
    for at, wanted in ((first, (-errno.EBADMSG, "stream")), (0, (0, ""))):
        assert load(rows_loader, of_table(image, "stages", number, "progress", at)) == wanted


def test_a_replay_finds_what_the_proof_finds(rows_loader: ctypes.CDLL) -> None:
    """Rings with a row less than they need."""
    found = total = 0
    for kind in KINDS:
        for seed in range(NETWORKS):
            plan = plan_of(kind, seed)
            for name in plan.kept[:2]:
                tensor, there = plan.graph.tensors[name], plan.placements[name]
                if there.ring <= tensor.row_bytes:
                    continue
                less = replace(there, ring=there.ring - tensor.row_bytes)
                harmed = replace(plan, placements={**plan.placements, name: less})
                image = image_of(harmed)
                with pytest.raises(PlanError):
                    container.build(harmed, "m")
                found += load(rows_loader, image, True)[0] == -errno.EBADMSG
                total += 1
    assert found == total > 5


def test_a_replay_counts_until_all_rings_have_turned(rows_loader: ctypes.CDLL) -> None:
    """Here that takes more calls of a layer than one byte counts; a hop less is too few."""
    tall, across = 22, 19
    b = Builder(np.random.default_rng(1))
    x = b.input((tall + across - 1, 1, 1))
    y = convolution(b, x, Window((across, 1)), tall, 1, 1)
    z = convolution(b, y, Window((tall, 1)), 1, 1, 2)
    image = image_of(make_plan(b.graph([z.name]), CompileOptions(hop=1)))
    start = layout.STREAM_AT + structs.STREAM.members["calls"].start
    (calls,) = struct.unpack_from("<H", image, *struct.unpack_from("<I", image, start))
    assert calls > 255
    # The first hop makes `tall` of them, each other one makes one.
    for hops, found in ((0, (0, "")), (-1, (-errno.EBADMSG, "replay of layer"))):
        damaged = of_table(image, "parts", 1, "times", calls - tall + hops)
        assert load(rows_loader, damaged, True) == found


def test_damaged_containers_touch_nothing_outside(
    hopping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutants whose digest is mended, run hop by hop under the sanitizers."""
    monkeypatch.setattr(sys, "path", [str(paths.root() / "tests" / "fuzz"), *sys.path])
    import containers

    harness = containers.harness(tmp_path)
    files = [hopping, *(file for file in containers.corpus() if file.name.startswith(KEPT))]
    for seed, file in enumerate(files):
        assert containers.damaged(harness, file, 150, seed) > 25
