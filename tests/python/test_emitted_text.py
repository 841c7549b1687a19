# SPDX-License-Identifier: Apache-2.0
"""What emitted tables take in flash, to the byte; text from model files inside of them; schedules;
and what tables cannot hold."""

from __future__ import annotations

import itertools
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_graphs import Builder, disjoint, random_layers
from random_networks import wide
from test_emit import ARM, one_of_each
from test_proof import PLANS, plan
from test_tables import printed
from vmcu_tools import paths
from vmcu_tools.emit import application, emit, proof, schedule, text, write
from vmcu_tools.emit.initialisers import array_lines, float_literal
from vmcu_tools.emit.model import _check, write_tables
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.machine import tables
from vmcu_tools.ops.concat import Concat
from vmcu_tools.ops.values import Array, Struct, StructArray
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.schedule import STREAMED, stage_at
from vmcu_tools.planner.places import smallest_pool
from vmcu_tools.planner.places.layout import Cut, Layout

# Arrays of numbers that say how to run a model; all others are weights.
OF_TABLES = ("m_schedule", "m_layer_inputs")


def object_sizes(files: dict[str, str], folder: Path, one: Plan) -> dict[str, int]:
    """Bytes of each object on a 32-bit core, as its compiler has them."""
    write(files, folder)
    include = [f"-I{paths.runtime() / 'include'}", f"-I{folder}"]
    flags = ["-DVMCU_POOL_ROTATE"] if one.rotation else []
    flags += ["-DVMCU_SEVERAL_POOLS"] if one.regions else []
    command = [*ARM, "-O0", *flags, *include, "-c", "m.c", "-o", "m.o"]
    subprocess.run(command, cwd=folder, check=True)
    said = subprocess.run(
        ["arm-none-eabi-nm", "-S", "m.o"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    found = re.findall(r"^\w+ (\w+) [rRdD] (m_\w+)$", said, re.MULTILINE)
    # A model's name in C has the options of the build.
    return {re.sub(r"_with(out)?_.*", "", name): int(size, 16) for size, name in found}


@pytest.mark.parametrize("number", range(PLANS))
def test_figures_are_the_sizes_of_the_objects(number: int, tmp_path: Path) -> None:
    one = plan(number)
    emitted = emit(one, "m")
    sizes = object_sizes(emitted.files, tmp_path, one)
    found = tables.read(emitted.files, "m")
    assert sizes.keys() == found.values.keys()
    weights = {
        name
        for name, value in found.values.items()
        if isinstance(value, np.ndarray) and name not in OF_TABLES
    }
    assert emitted.weights_bytes == sum(sizes[name] for name in weights)
    names = ["m", *(port.name for port in (*one.graph.inputs, *one.graph.outputs))]
    strings = sum(len(name.encode()) + 1 for name in names)
    others = sum(size for name, size in sizes.items() if name not in weights)
    assert emitted.tables_bytes == others + strings


def test_a_schedule_is_the_calls_of_its_stage() -> None:
    compared = 0
    for one in map(plan, range(PLANS)):
        stages = (stage_at(one, place) for place in range(len(one.stages)))
        for stage in filter(None, stages):
            entries, parts = schedule.written(stage)
            calls = [
                entry
                for part in parts
                for _ in range(part.times)
                for entry in entries[part.start : part.start + part.length]
            ]
            wanted = [255 if call.layer == STREAMED else call.layer for call in stage.calls()]
            assert calls == wanted
            # What repeats is there once.
            pieces = [(part.start, part.length) for part in parts]
            assert all(one != other for one, other in itertools.pairwise(pieces))
            assert len(entries) == sum(length for _, length in set(pieces))
            compared += len(entries) < len(wanted)
    assert compared > 5


def test_two_stages_have_schedules_of_their_own() -> None:
    """What is emitted is proven, each stage by its own calls."""
    graph = wide(1)
    cuts = (Cut(0, 2, 64), Cut(2, 4, 32), Cut(4, 5), Cut(5, 6), Cut(6, 7))
    emitted = emit(smallest_pool.place("vmcu", Layout(graph, cuts)), "m")
    first, second = tables.read(emitted.files, "m").values["m_stages"][:2]
    assert 0 == first["parts"].index < second["parts"].index == first["part_count"]
    assert 0 == first["schedule"].index < second["schedule"].index


def test_an_application_is_not_written_over_another(tmp_path: Path) -> None:
    (tmp_path / "mine.c").write_text("int mine;\n")
    with pytest.raises(UserError, match="exists and is not empty"):
        application.create({"a.c": b"int a;\n"}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.c"]


TEXTS = ["", "plain", 'a*/ "b" \\ ??/ \n é', "\x00\x01\x7f~ ", "\\7", "?" * 3, "/*", "日本"]


@pytest.mark.parametrize("name", TEXTS)
def test_a_string_is_the_bytes_of_a_name(name: str, tmp_path: Path) -> None:
    code = f'static const char m[] = "{text.string(name)}7";'
    assert printed(code, "fwrite(m, 1, sizeof(m), stdout);", tmp_path) == name.encode() + b"7\0"
    plain = "".join(chr(byte) for byte in range(32, 127) if chr(byte) not in '"\\?')
    assert text.string(plain) == plain


@pytest.mark.parametrize("name", TEXTS)
def test_a_comment_ends_where_it_should(name: str, tmp_path: Path) -> None:
    code = f'static const char m[] = /* {text.comment(name)} */ "m"; // {text.comment(name)}'
    assert printed(code, "fwrite(m, 1, sizeof(m), stdout);", tmp_path) == b"m\0"
    plain = "".join(chr(byte) for byte in range(32, 127) if chr(byte) not in "\\?")
    assert text.comment(plain) == plain


def test_ports_have_the_names_and_scales_of_the_graph(tmp_path: Path) -> None:
    graph = random_layers("add", 1, seed=3)
    names = ["a/*b", "c*/d"]
    inputs = tuple(replace(p, name=n) for p, n in zip(graph.inputs, names, strict=True))
    files = emit(disjoint(replace(graph, inputs=inputs)), "m").files
    entries = tables.read(files, "m").values["m_inputs"]
    assert [entry["name"] for entry in entries] == names
    for entry, port in zip(entries, inputs, strict=True):
        assert np.float32(entry["scale"]) == np.float32(graph.tensors[port.tensor].scale)


def wide_sum(inputs: int) -> Plan:
    """A node with that many inputs, all of them one tensor."""
    b = Builder(np.random.default_rng(0))
    x = b.input((1, 1, 1))
    y = b.node(Concat(2, (None,) * inputs), [x] * inputs, (1, 1, inputs))
    return disjoint(b.graph([y.name]))


def many_outputs(count: int) -> Plan:
    made = wide_sum(2)
    outputs = made.graph.outputs * count
    return replace(made, graph=replace(made.graph, outputs=outputs))


def many_layers(count: int) -> Plan:
    made = wide_sum(2)
    return replace(made, stages=made.stages * count)


def long_tensor(height: int) -> Plan:
    b = Builder(np.random.default_rng(0))
    return disjoint(b.graph([b.input((height, 1, 1)).name]))


LIMITS = {
    "an axis": (long_tensor, 65535, "the most along one axis is 65535"),
    "inputs of a layer": (wide_sum, 255, "256 inputs, the most is 255"),
    "outputs": (many_outputs, 255, "more than 255 inputs or outputs"),
    "layers": (many_layers, 65535, "more than 65535 tensors or layers"),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_tables_hold_so_much_and_no_more(limit: str) -> None:
    """Checked first, so that what is too large is not written before it is refused."""
    build, most, message = LIMITS[limit]
    _check(build(most))
    with pytest.raises(UserError, match=message):
        write_tables(build(most + 1), "m")


def test_plans_that_the_executor_cannot_follow() -> None:
    made = disjoint(one_of_each())
    name = made.graph.outputs[0].tensor
    larger = replace(made.placements[name], ring=made.pool_bytes + 1)
    with pytest.raises(PlanError, match=f"ring of tensor '{name}' goes around the pool more"):
        emit(replace(made, placements={**made.placements, name: larger}), "m")
    pair = replace(made, stages=(made.steps[:2], *((step,) for step in made.steps[2:])))
    with pytest.raises(PlanError, match="stage 0 descends, or has no place for its progress"):
        emit(pair, "m")
    scratchy = next(
        one for one in map(plan, range(PLANS)) if any(s.scratch_bytes for s in one.steps)
    )
    stages = tuple(
        tuple(replace(step, scratch_bytes=0) for step in stage) for stage in scratchy.stages
    )
    with pytest.raises(PlanError, match="has no room for its scratch"):
        emit(replace(scratchy, stages=stages), "m")


SHORT = {0.0: "0x0p+0f", 1.0: "0x1p+0f", -0.75: "-0x1.8p-1f", 2.0**-126: "0x1p-126f"}


@pytest.mark.parametrize("value", SHORT)
def test_a_float_has_no_digits_that_say_nothing(value: float) -> None:
    assert float_literal(value) == SHORT[value]


def test_arrays_of_bytes_begin_at_words() -> None:
    """Kernels may fetch them by words."""
    found = set()
    for one in (disjoint(one_of_each()), *map(plan, range(PLANS))):
        source = emit(one, "m").files["m.c"]
        for kind, rest in re.findall(r"^static const (\w+) m_\d\w+\[\d+\](.*) = {$", source, re.M):
            assert rest == (" __attribute__((aligned(4)))" if kind == "int8_t" else "")
            found.add(kind)
    assert found >= {"int8_t", "uint32_t", "int32_t"}


@pytest.mark.parametrize("lines", [(3,), (2, 3), (5, 1), (1, 4, 2), (20,), (9, 2)])
@pytest.mark.parametrize("count", [1, 7, 30])
def test_a_stream_has_the_lines_that_it_asks_for(lines: tuple[int, ...], count: int) -> None:
    """Each of its lines begins at the margin; what is too long for one goes on further in."""
    values = np.arange(count, dtype=np.uint32) + 0xFFFFFFF0 - count
    wanted = [lines[min(n, len(lines) - 1)] for n in range(count)]
    ends = np.cumsum(wanted)
    found, begun = [], []
    for line in array_lines(Array("m", values, lines)):
        if not line.startswith("\t"):
            begun.append(len(found))
        words = re.findall(r"0x[0-9a-f]{8}(?=,)", line)
        assert 0 < len(words) <= 7 and line.strip() == ", ".join(words) + ","
        found += [int(word, 16) for word in words]
    assert found == values.tolist()
    assert begun == [0, *(end for end in ends.tolist() if end < count)]


PAIR = Struct("vmcu_factor", {"multiplier": 3, "shift": 0})
ITEMS = StructArray("m", (PAIR, PAIR))
ARRAY = Array("m", np.array([[1, 2]], np.int16))
ALIKE = [
    (3, 3, True),
    (3, 4, False),
    (True, 1, True),
    (False, 1, False),
    ("NULL", 0, True),
    ("NULL", 1, False),
    ("vmcu_x", "vmcu_x", True),
    ("vmcu_x", 0, False),
    (PAIR, {"multiplier": 3}, True),
    (PAIR, {"multiplier": 3, "shift": 1}, False),
    (PAIR, {"multiplier": 3, "other": 1}, False),
    (PAIR, 0, False),
    (PAIR, 3, False),
    (Struct("vmcu_factor", {"shift": 0}), 0, True),
    (ITEMS, [{"multiplier": 3}, {"multiplier": 3}], True),
    (ITEMS, [{"multiplier": 3}], False),
    (ITEMS, [{"multiplier": 3}, {"multiplier": 3}, {}], False),
    (ITEMS, [{"multiplier": 3}, {}], False),
    (ITEMS, {"multiplier": 3}, False),
    (ARRAY, np.array([1, 2], np.int16), True),
    (ARRAY, np.array([1, 3], np.int16), False),
    (ARRAY, np.array([1, 2], np.int32), False),
    (ARRAY, [1, 2], False),
]


@pytest.mark.parametrize(("wanted", "found", "alike"), ALIKE)
def test_what_is_read_back_is_what_was_to_be_written(
    wanted: object, found: object, alike: bool
) -> None:
    assert proof._same(wanted, found) is alike
