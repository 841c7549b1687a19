# SPDX-License-Identifier: Apache-2.0
"""Targets: what they say when something is missing, and what their image watches over."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_graphs import Builder, disjoint, random_inputs, random_layers
from vmcu_bench import runners
from vmcu_bench.runners import archive, borders, image_values
from vmcu_bench.runners.base import RunnerError
from vmcu_bench.runners.compiled import IMAGE, CompiledRunner
from vmcu_bench.runners.samples import make_samples
from vmcu_tools import paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit, write
from vmcu_tools.errors import UserError
from vmcu_tools.ops.requantize import Requantize
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions

TINY = paths.root() / "tests" / "runtime" / "tiny.onnx"
IMAGES = ("host", "qemu:m0", "qemu:m3", "qemu:m4", "qemu:m7", "qemu:m33", "qemu:m55", "qemu:rv32")


def compiled(name: str) -> CompiledRunner:
    target = runners.get(name)
    assert isinstance(target, CompiledRunner)
    return target


def copy_plan() -> Plan:
    """One layer that copies 2 x 3 x 4 bytes."""
    builder = Builder(np.random.default_rng(0))
    out = builder.node(Requantize(None), [builder.input((2, 3, 4))], (2, 3, 4))
    return disjoint(builder.graph([out.name]))


def test_unknown_target_lists_the_known() -> None:
    with pytest.raises(UserError, match=r"'m0'(.|\n)*virtual, host, .*qemu:m3, qemu:m4,"):
        runners.get("m0")


@pytest.mark.parametrize(
    ("name", "package"),
    [("host", "gcc"), ("qemu:m4", "gcc-arm-none-eabi"), ("qemu:rv32", "gcc-riscv64-unknown-elf")],
)
def test_missing_compiler(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=f"apt-get install {package}"):
        runners.get(name).run(copy_plan(), [])


@pytest.mark.parametrize(
    ("name", "package"), [("qemu:m4", "qemu-system-arm"), ("qemu:rv32", "qemu-system-misc")]
)
def test_missing_emulator(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=f"apt-get install {package}"):
        compiled(name).command(Path("image.elf"))


@pytest.mark.parametrize("name", ["virtual", *IMAGES])
def test_samples_come_back_in_order(name: str) -> None:
    plan = copy_plan()
    samples = [random_inputs(plan.graph, seed) for seed in range(5)]
    results = runners.get(name).run(plan, samples)
    assert [len(outputs) for outputs in results] == [1] * 5
    for sample, outputs in zip(samples, results, strict=True):
        np.testing.assert_array_equal(outputs[0], sample[0])


@pytest.mark.parametrize("name", IMAGES)
def test_image_notices_a_write_outside_the_pool(name: str, tmp_path: Path) -> None:
    plan = copy_plan()
    files = emit(plan, "m").files
    files["m.c"] = files["m.c"].replace(".base = 24,", ".base = 25,")
    target = compiled(name)
    image = target.build(files, "m", tmp_path)
    with pytest.raises(RunnerError, match="outside the pool"):
        target.execute(image, plan, [random_inputs(plan.graph, 0)])


def test_v6m_code_faults_at_unaligned_addresses(tmp_path: Path) -> None:
    """As its cores do, though a Cortex-M3 executes it."""
    target = compiled("qemu:m0")
    load = '__asm__ volatile("ldr r0, [%0]" :: "l"(0x20000001) : "r0");'
    (tmp_path / "main.c").write_text(f"int main(void) {{ {load} return 0; }}")
    arguments = [str(tmp_path / "main.c"), *map(str, target.sources()), *target.link_flags()]
    target.gcc([*arguments, "-o", str(tmp_path / "image.elf")], tmp_path)
    with pytest.raises(RunnerError, match="fault"):
        target._start(tmp_path / "image.elf")


def test_sanitizer_notices_a_read_outside_the_pool(tmp_path: Path) -> None:
    plan = copy_plan()
    files = emit(plan, "m").files
    files["m.c"] = files["m.c"].replace(".base = 0,", ".base = 25,")
    files["m.c"] = files["m.c"].replace(".stride = 12,", ".stride = 20,", 1)
    target = compiled("host:sanitize")
    image = target.build(files, "m", tmp_path)
    with pytest.raises(RunnerError, match="AddressSanitizer"):
        target.execute(image, plan, [random_inputs(plan.graph, 0)])


def test_model_larger_than_the_board() -> None:
    builder = Builder(np.random.default_rng(0))
    x = builder.input((1000, 60, 60))
    out = builder.node(Requantize(None), [x], x.shape)
    with pytest.raises(UserError, match="does not fit into qemu:m3"):
        runners.get("qemu:m3").run(disjoint(builder.graph([out.name])), [])


@pytest.mark.parametrize(("target", "machine"), [("helium", "qemu:m4"), ("v6m", "host")])
def test_a_model_for_other_cores_is_refused(target: str, machine: str) -> None:
    plan = compile_model(TINY, CompileOptions(target=target))
    with pytest.raises(UserError, match=f"{machine} is no core of this model.*{target}"):
        runners.get(machine).run(plan, make_samples(plan.graph, 1, 0, 0))


def test_an_image_holds_only_the_kernels_it_needs(tmp_path: Path) -> None:
    plan = disjoint(random_layers("max_pool", 1, seed=0))
    image = compiled("qemu:m3").build(emit(plan, "m").files, "m", tmp_path).read_bytes()
    assert b"vmcu_max_pool" in image
    assert b"vmcu_conv2d" not in image


def test_missing_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(paths.ROOT_VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match="set VMCU_ROOT"):
        paths.runtime()


# By element type: the form that an image has it in, an array of a file, and its bytes there.
VALUES = {
    "int8": (2, np.array([-128, -1, 0, 127], np.int8), b"\x00\x7f\x80\xff"),
    "uint8": (2, np.array([0, 1, 128, 255], np.uint8), b"\x00\x01\x80\xff"),
    "float32": (
        1,
        np.array([1, -2, 0.5, 0], np.float32),
        b"\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f\x00\x00\x00\x00",
    ),
    "int32": (0, np.array([-2], np.int32), b"\xfe\xff\xff\xff"),
    "int64": (0, np.array([258], np.int64), b"\x02\x01\x00\x00"),
}


def of_types(dtypes: list[str]) -> Plan:
    """A layer for each type, one after the other: the file has its input and its output so."""
    builder = Builder(np.random.default_rng(0))
    ins = [builder.input((1, 1, 4)) for _ in dtypes]
    outs = [builder.node(Requantize(None), [x], (1, 1, 4)).name for x in ins]
    graph = builder.graph(outs)
    inputs, outputs = (
        tuple(
            replace(port, dtype=dtype, file_shape=VALUES[dtype][1].shape)
            for port, dtype in zip(ports, dtypes, strict=True)
        )
        for ports in (graph.inputs, graph.outputs)
    )
    return disjoint(replace(graph, inputs=inputs, outputs=outputs))


@pytest.mark.parametrize("dtypes", [[*VALUES], ["uint8"], ["int64", "float32"], ["int32"]])
def test_values_are_in_the_form_of_their_type(dtypes: list[str]) -> None:
    """To the byte, and back, for several samples."""
    one = of_types(dtypes)
    forms, sample, parts = zip(*(VALUES[dtype] for dtype in dtypes), strict=True)
    data = image_values.packed(one, [sample, sample])
    assert data == bytes([*forms, *forms]) + 2 * b"".join(parts)
    found = image_values.unpacked(2 * b"".join(parts), one, 2, "here")
    assert len(found) == 2
    for outputs in found:
        for values, wanted in zip(outputs, sample, strict=True):
            assert values.dtype == wanted.dtype
            np.testing.assert_array_equal(values, wanted)
    assert image_values.most_bytes(one) == max(map(len, parts))
    for wrong in (b"".join(parts), 2 * b"".join(parts) + b"\0"):
        with pytest.raises(RunnerError, match="here"):
            image_values.unpacked(wrong, one, 2, "here")


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_an_input_that_the_pool_has_in_parts_comes_as_its_bytes(dtype: str) -> None:
    """No image converts it: row by row, or fetched from outside of the pool."""
    whole = of_types([dtype])
    (name,) = (port.tensor for port in whole.graph.inputs)
    outside = replace(whole, graph=replace(whole.graph, elsewhere=frozenset((name,))))
    streamed = replace(whole, input_streamed=True)
    form, values, _ = VALUES[dtype]
    for one in (outside, streamed):
        data = image_values.packed(one, [[values]])
        wanted = borders.to_memory(values, whole.graph, whole.graph.inputs[0])
        assert data == bytes([0, form]) + wanted.tobytes()


@pytest.mark.parametrize(("name", "pattern"), [("host", "*"), ("qemu:m55", "[a-c]*")])
def test_sources_of_all_that_objects_define_are_known(name: str, pattern: str) -> None:
    """An image compiles only these."""
    target = compiled(name)
    every = archive._sources(paths.runtime(), False)
    sources = tuple(source for source in every if source.match(pattern))
    known = archive._index(sources)
    for source in sources:
        nm = [target.toolchain.tool("nm"), "-g", "--defined-only", archive._object(target, source)]
        for line in subprocess.run(nm, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        ):
            assert not line or source in known[line.split()[-1]], line


# These two cannot be combined.
@pytest.mark.parametrize("left_out", ["-DVMCU_STREAMS", "-DVMCU_EXTERNAL_WEIGHTS"])
@pytest.mark.parametrize("loads", [False, True])
def test_kernels_do_not_depend_on_what_runs_them(left_out: str, loads: bool) -> None:
    """The compiler reads the same with and without, apart from structs that no kernel uses."""
    target = compiled("host")
    target = target.loading() if loads else target
    more = archive._BESIDE_KERNELS - {left_out, "-DVMCU_EXTERNAL_WEIGHTS" if loads else ""}
    runtime, texts = paths.runtime(), []
    kernels = [
        one for one in archive._sources(runtime, False) if runtime / "kernels" in one.parents
    ]
    for one in (target, replace(target, flags=(*target.flags, *sorted(more)))):
        assert one.without(archive._BESIDE_KERNELS) == target
        command = [one.toolchain.compiler, *one.all_flags, *one.include_flags(), "-E", "-P"]
        done = subprocess.run([*command, *kernels], capture_output=True, text=True, check=True)
        structs = r"struct vmcu_(model|stream|chunk) \{.*?\n\};\n?"
        texts.append(re.sub(structs, "", done.stdout, flags=re.DOTALL))
    assert texts[0] == texts[1] and texts[0].count("struct vmcu_layer {") > 20


def test_an_image_has_what_the_whole_runtime_gives_it(tmp_path: Path) -> None:
    """To the byte, from fewer objects."""
    target = compiled("host")
    write(emit(compile_model(TINY), "tiny").all_files, tmp_path)
    files = [IMAGE / "main.c", *target.sources(), tmp_path / "tiny.c"]
    defines = ['-DIMAGE_HEADER="tiny.h"', "-DIMAGE_NAME=tiny", f"-I{tmp_path}", "-g0"]
    made, members = [], []
    for whole in (False, True):
        library = target.archive(None if whole else files)
        target.gcc([*defines, *map(str, files), str(library), "-o", "image"], tmp_path)
        made.append((tmp_path / "image").read_bytes())
        listed = subprocess.run(["ar", "t", library], capture_output=True, text=True, check=True)
        members.append(len(listed.stdout.split()))
    assert made[0] == made[1] and members[0] < members[1] / 3
