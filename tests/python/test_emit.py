# SPDX-License-Identifier: Apache-2.0
"""What the emitted C holds, apart from running it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_graphs import LAYERS, Builder, disjoint, plan_at, random_layers
from vmcu_tools import paths
from vmcu_tools import runners as targets
from vmcu_tools.emit import emit, write
from vmcu_tools.emit.initialisers import array_lines, float_literal
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.graph import Graph
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.values import STRUCTS
from vmcu_tools.quant import FixedPoint

ARM = ["arm-none-eabi-gcc", "-std=c99", "-mcpu=cortex-m3", "-mthumb", "-Wall", "-Wextra", "-Werror"]


def one_of_each(seed: int = 0) -> Graph:
    builder = Builder(np.random.default_rng(seed))
    return builder.graph([layer(builder).name for layer in LAYERS.values()])


def compile_for_arm(source: Path) -> Path:
    target = source.with_suffix(".o")
    include = [f"-I{paths.runtime() / 'include'}", f"-I{source.parent}"]
    subprocess.run([*ARM, *include, "-c", str(source), "-o", str(target)], check=True)
    return target


def test_same_plan_same_text() -> None:
    assert emit(disjoint(one_of_each()), "kws") == emit(disjoint(one_of_each()), "kws")


def test_text_holds_no_path() -> None:
    graph = replace(one_of_each(), origin="/somewhere/models/kws.tflite")
    files = emit(disjoint(graph), "kws").files
    assert "vmcu build kws.tflite --name kws --planner" in files["kws.c"]
    assert "somewhere" not in "".join(files.values())


def test_lines_and_indentation() -> None:
    for text in emit(disjoint(one_of_each()), "kws").files.values():
        for line in text.splitlines():
            assert len(line.expandtabs(8)) <= 100
            assert line == line.rstrip()
        assert "\n\n\n" not in text
        assert text.endswith("\n") and not text.endswith("\n\n")


def test_equal_arrays_are_emitted_once() -> None:
    builder = Builder(np.random.default_rng(0))
    weights, bias = builder.weights(5, 7), builder.bias(5)
    # One input and one output quantisation: zero points are part of what is emitted.
    source, outputs = builder.input((1, 1, 7)), []
    for _ in range(3):
        op = FullyConnected(weights.copy(), bias.copy(), FixedPoint.of(np.full(5, 0.01)))
        out = builder.node(op, [source], (1, 1, 5))
        builder.tensors[out.name] = replace(out, zero_point=0)
        outputs.append(out.name)
    emitted = emit(disjoint(builder.graph(outputs)), "m")
    # Two blocks of four channels: biases, eight taps each, constants; heads of the two runs.
    words = 2 * (4 + 8 + 12) + 1
    assert emitted.files["m.c"].count(f"static const uint32_t m_00_mac_stream[{words}]") == 1
    assert emitted.files["m.c"].count(".stream = m_00_mac_stream") == 3
    assert emitted.weights_bytes == 4 * words


def test_sizes_are_those_of_the_object(tmp_path: Path) -> None:
    emitted = emit(disjoint(one_of_each()), "kws")
    write(emitted.files, tmp_path)
    listing = subprocess.run(
        ["arm-none-eabi-size", "-A", compile_for_arm(tmp_path / "kws.c")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    actual = sum(int(size) for size in re.findall(r"^\.rodata\S*\s+(\d+)", listing, re.MULTILINE))
    claimed = emitted.weights_bytes + emitted.tables_bytes
    # The compiler pads objects to words and may merge strings.
    assert actual == pytest.approx(claimed, abs=4 * emitted.files["kws.c"].count("static const"))


def test_struct_sizes(tmp_path: Path) -> None:
    source = tmp_path / "sizes.c"
    facts = []
    for name, struct in STRUCTS.items():
        facts.append(f"sizeof(struct {name}) == {struct.size}")
        for member, place in struct.members.items():
            facts.append(f"offsetof(struct {name}, {member}) == {place.start}")
            facts.append(f"sizeof(((struct {name} *)0)->{member}) == {place.size}")
    checks = "".join(f"extern char fact{n}[{fact} ? 1 : -1];\n" for n, fact in enumerate(facts))
    source.write_text(f"#include <vmcu/kernels.h>\n{checks}")
    compile_for_arm(source)


def test_structs_are_those_of_the_headers() -> None:
    headers = paths.runtime() / "include" / "vmcu"
    text = (headers / "kernels.h").read_text() + (headers / "operators.h").read_text()
    found = set(re.findall(r"^struct (\w+) {$", text, re.MULTILINE))
    assert found <= set(STRUCTS)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for name in found:
        body = re.search(rf"^struct {name} {{\n(.*?)^}};$", text, re.MULTILINE | re.DOTALL)[1]
        assert re.findall(r"(\w+);", body) == list(STRUCTS[name].members), name


def test_pool_bytes_is_an_integer_constant(tmp_path: Path) -> None:
    plan = disjoint(one_of_each())
    write(emit(plan, "kws").files, tmp_path)
    source = tmp_path / "user.c"
    source.write_text(
        '#include "kws.h"\n'
        f"extern char check[VMCU_MODEL_POOL_BYTES(kws) == {plan.pool_bytes} ? 1 : -1];\n"
    )
    compile_for_arm(source)


def test_a_pool_that_is_too_small_stops_the_build(tmp_path: Path) -> None:
    plan = disjoint(one_of_each())
    write(emit(plan, "kws").files, tmp_path)
    source = tmp_path / "user.c"

    def compiled(size: int) -> subprocess.CompletedProcess[str]:
        source.write_text(f'#include "kws.h"\n#define HERE {size}\nVMCU_MODEL_FITS(kws, HERE);\n')
        include = [f"-I{paths.runtime() / 'include'}", f"-I{tmp_path}"]
        command = ["gcc", "-std=c99", "-pedantic-errors", *include, "-fsyntax-only", str(source)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert compiled(plan.pool_bytes).returncode == 0
    done = compiled(plan.pool_bytes - 1)
    assert done.returncode != 0
    needs = f"model kws needs a pool of {plan.pool_bytes} bytes, there are {plan.pool_bytes - 1}"
    assert needs in done.stderr


def test_names_from_a_file_cannot_leave_their_place() -> None:
    graph = random_layers("max_pool", 1, seed=0)
    name = 'a*/ "b" \\ ??/ \n é'
    node = replace(graph.nodes[0], name=name)
    port = replace(graph.outputs[0], name=name)
    graph = replace(graph, nodes=(node,), outputs=(port,))
    assert targets.get("host").run(disjoint(graph), []) == []


@pytest.mark.parametrize("name", ["", "1st", "a-b", "é"])
def test_refuses_names(name: str) -> None:
    with pytest.raises(UserError, match="C objects"):
        emit(disjoint(one_of_each()), name)


def test_refuses_what_tables_cannot_hold() -> None:
    builder = Builder(np.random.default_rng(0))
    x = builder.input((1, 70000, 1))
    with pytest.raises(UserError, match="65535"):
        emit(disjoint(builder.graph([x.name])), "m")


def test_refuses_an_output_in_two_pieces() -> None:
    graph = random_layers("max_pool", 1, seed=0)
    plan = disjoint(graph)
    bases = {name: placement.base for name, placement in plan.placements.items()}
    with pytest.raises(PlanError, match="one piece"):
        emit(plan_at(graph, bases, plan.pool_bytes - 1), "m")


def test_refuses_stages_it_cannot_run() -> None:
    plan = disjoint(one_of_each())
    with pytest.raises(PlanError, match="stage"):
        emit(replace(plan, stages=(plan.steps,)), "m")


def test_float_literals_are_exact() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 0x7F800000, 1000).astype(np.uint32).view(np.float32)
    for value in [0.0, 1.0, -0.75, *values.tolist()]:
        text = float_literal(value)
        assert text.endswith("f") and float.fromhex(text[:-1]) == value


def test_the_least_int32_is_no_literal() -> None:
    assert array_lines(np.array([-(2**31), 1], np.int32)) == ["INT32_MIN, 1,"]


def test_write_leaves_only_whole_files(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    files = {"a.c": "int a;\n", "a.h": "/* a */\n"}
    assert write(files, folder) == [folder / "a.c", folder / "a.h"]
    assert {path.name: path.read_text() for path in folder.iterdir()} == files


def test_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.h").mkdir()
    (tmp_path / "a.h" / "occupied").touch()
    with pytest.raises(UserError, match="cannot write"):
        write({"a.h": "/* a */\n", "a.c": "int a;\n"}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h"]
