# SPDX-License-Identifier: Apache-2.0
"""Containers: the bytes of the compiled-in form, on the host and on boards; nothing damaged is
used; what is read back is proven."""

from __future__ import annotations

import ctypes
import errno
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import online_device as device
import pytest
from builders.any_core import PACKED, Core
from builders.containers import model_member, of_model
from builders.damages import OF_DIGITS
from builders.tflite_models import TfliteModel
from drawn import seeds
from layer_checks import Checks
from random_networks import AnyNetwork, EveryNetwork
from vmcu_bench import runners
from vmcu_bench.cycles.model import bench
from vmcu_bench.runners.compiled import CompiledRunner
from vmcu_bench.runners.samples import make_samples
from vmcu_tools import cli, container, frontends, passes, paths
from vmcu_tools.container import layout, read, seal
from vmcu_tools.emit import structs
from vmcu_tools.graph import Graph
from vmcu_tools.kernels.language.packing import NIBBLES
from vmcu_tools.kernels.targets import DEFAULT, SUFFIXES, TARGETS
from vmcu_tools.machine import reference
from vmcu_tools.ops.kernel_type import KERNEL_TYPES
from vmcu_tools.ops.values import CStruct
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

ROOT = paths.runtime().parents[1]
HELLO, DIGITS = ROOT / "samples/hello/hello.onnx", ROOT / "samples/digits/digits.onnx"
# Of builds with VMCU_STREAMS.
OF_STREAMS = [symbol for symbol, kind in KERNEL_TYPES.items() if kind.streams]


def planned(path: Path, streamed: bool = False, target: str = DEFAULT) -> Plan:
    graph = replace(passes.optimize(frontends.load(path)), target=target)
    return make_plan(graph, CompileOptions(stream_input=streamed))


@pytest.fixture(scope="module")
def harness(core: Core, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return device.damager(tmp_path_factory.mktemp("harness"), *core.flags)


@pytest.fixture(scope="module")
def digits() -> bytes:
    return container.build(planned(DIGITS), "digits")


def loaded(loader: ctypes.CDLL, image: bytes, arena: int = 1 << 20) -> tuple[int, device.Refusal]:
    """What vmcu_model_load_saying() returns and why."""
    refusal, model = device.Refusal(), ctypes.create_string_buffer(256)
    _room, start = device.aligned(len(image))
    ctypes.memmove(start, image, len(image))
    _memory, pool = device.aligned(arena)
    load, pointer, size = loader.vmcu_model_load_saying, ctypes.c_void_p, ctypes.c_size_t
    load.argtypes = (pointer, pointer, size, pointer, size, pointer)
    return load(model, start, len(image), pool, arena, ctypes.addressof(refusal)), refusal


def expect_reference(graph: Graph, streamed: bool, target: CompiledRunner, number: int) -> Plan:
    plan = make_plan(passes.optimize(graph), CompileOptions(stream_input=streamed))
    samples = make_samples(graph, 1, 3, number)
    for sample, outputs in zip(samples, target.run(plan, samples), strict=True):
        values = reference.run(plan.graph, sample)
        for port, output in zip(plan.graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(output, values[port.tensor])
    return plan


# The first three have all kernels of a packing, the others have some.
CORE_NETWORKS = (4, 7, 13, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 5, 10, 12)))


@pytest.mark.parametrize("core", PACKED, indirect=True)
@pytest.mark.parametrize("number", CORE_NETWORKS)
def test_random_networks_with_the_kernels_of_a_core(core: Core, number: int) -> None:
    """Of packings that this computer does not read, in portable C under the sanitizers."""
    graph = replace(EveryNetwork(2000 + number, 3 + number % 7).made, target=core.target)
    target, streamed = device.sanitized(*core.flags), len(graph.inputs) == 1
    plan = expect_reference(graph, streamed, target, number)
    kernels = container.kernels_of(container.build(plan, "m"))
    assert any(name.endswith(core.packing.suffix) for name in kernels)


# These have each kernel that any of them has.
NETWORKS = (1, 3, 5, 12, 13, 18, 19, 20, 23)
REST = (pytest.param(n, marks=pytest.mark.slow) for n in range(24) if n not in NETWORKS)


@pytest.mark.parametrize("number", [*NETWORKS, *REST])
def test_random_networks_give_the_bytes_of_their_meaning(number: int) -> None:
    graph = (AnyNetwork, EveryNetwork)[number % 2](1000 + number, 1 + number % 7).made
    streamed = number % 3 == 0 and len(graph.inputs) == 1
    expect_reference(graph, streamed, device.sanitized(), number)


@pytest.mark.parametrize(
    ("target", "kernels"),
    [
        # tests/container runs on an emulated Cortex-M3, too.
        pytest.param("qemu:m3", "dsp", marks=pytest.mark.slow),
        *(("qemu:m4", "dsp"), ("qemu:m55", "helium"), ("qemu:m55", "dsp")),
        *(("qemu:rv32", "rv32"), ("qemu:m0", "v6m")),
    ],
)
def test_boards_give_the_bytes_of_the_compiled_form(target: str, kernels: str) -> None:
    for streamed in (False, True):
        plan = planned(DIGITS, streamed, kernels)
        samples = make_samples(plan.graph, 3, 5, 0)
        compiled = runners.get("host").run(planned(DIGITS, streamed), samples)
        results = runners.get(f"{target}+container").run(plan, samples)
        for wanted, outputs in zip(compiled, results, strict=True):
            for one, other in zip(wanted, outputs, strict=True):
                np.testing.assert_array_equal(one, other)


def test_loading_costs_hardly_an_instruction_of_an_inference() -> None:
    plan = planned(DIGITS)
    compiled = bench(plan, "digits", "qemu:m4").instructions
    from_file = bench(plan, "digits", "qemu:m4+container").instructions
    assert compiled < from_file <= 1.005 * compiled


def test_what_is_read_back_is_what_was_packed() -> None:
    plan = planned(DIGITS)
    image = container.build(plan, "digits")
    assert container.build(plan, "digits") == image
    facts = read.facts(image)
    assert (facts.name, facts.pool_bytes, facts.size) == ("digits", plan.pool_bytes, len(image))
    assert [side.name for side in facts.inputs] == [port.name for port in plan.graph.inputs]
    shapes = [plan.graph.tensors[port.tensor].shape for port in plan.graph.outputs]
    assert [side.shape for side in facts.outputs] == shapes


def test_a_container_with_another_weight_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(HELLO)

    def packed(*args: object) -> bytes:
        image = bytearray(genuine(*args))
        names = container.unpack(bytes(image))[0].values
        blocks = [int(n[-8:], 16) for n in names if re.fullmatch(r"hello_[0-9a-f]{8}", n)]
        # Behind the head and four biases.
        image[min(blocks) + 20] ^= 1
        return seal.sealed(bytes(image))

    genuine = container.build.__globals__["pack"]
    monkeypatch.setitem(container.build.__globals__, "pack", packed)
    with pytest.raises(Exception, match=r"stream|constants|proof|differ|tables are wrong"):
        container.build(plan, "hello")


def test_the_kernels_of_headers_are_linked(loader: ctypes.CDLL) -> None:
    headers = "".join(file.read_text() for file in (paths.runtime() / "include").rglob("*.h"))
    declared = set(re.findall(r"^void (vmcu_\w+)\(const struct vmcu_call \*call\);", headers, re.M))
    # A container's model has its input in the pool, computes nothing again and is for every core;
    # a build without VMCU_STREAMS has no state.
    others = tuple(suffix for suffix in SUFFIXES if suffix != NIBBLES.suffix)
    declared = {name for name in declared if not name.endswith(others)}
    assert set(Checks(loader).found) == declared - {"vmcu_fetch", "vmcu_recomputed", *OF_STREAMS}


def test_every_truncation_and_every_flipped_bit_is_refused(loader: ctypes.CDLL) -> None:
    image = container.build(planned(HELLO), "hello")
    assert loaded(loader, image)[0] == 0
    for size in range(len(image)):
        assert loaded(loader, image[:size])[0] < 0, size
    signature = range(layout.SIGNATURE.start, layout.SIGNATURE.stop)
    for bit in range(8 * len(image)):
        damaged = bytearray(image)
        damaged[bit // 8] ^= 1 << bit % 8
        error, _ = loaded(loader, bytes(damaged))
        # Where nobody asks for a signature, it is not looked at.
        assert error < 0 or bit // 8 in signature, bit


def test_a_container_may_be_followed_by_anything(loader: ctypes.CDLL) -> None:
    image = container.build(planned(HELLO), "hello")
    assert loaded(loader, image + b"\xff" * 500)[0] == 0


@pytest.mark.parametrize("number", range(len(OF_DIGITS)))
def test_what_is_wrong_is_said(loader: ctypes.CDLL, digits: bytes, number: int) -> None:
    damage, what, error = OF_DIGITS[number]
    found, refusal = loaded(loader, damage(digits))
    assert (found, refusal.what.decode()) == (-getattr(errno, error), what)


def test_a_name_may_be_empty_and_must_end(loader: ctypes.CDLL, digits: bytes) -> None:
    last = len(digits) - 1
    assert loaded(loader, of_model(digits, "name", last))[0] == 0
    error, refusal = loaded(loader, of_model(digits[:last] + b"x", "name", last))
    assert (error, refusal.what) == (-errno.EBADMSG, b"name")


@pytest.mark.parametrize("target", ["helium", "rv32", "v6m"])
def test_a_kernel_that_this_core_lacks_is_named(loader: ctypes.CDLL, target: str) -> None:
    image = container.build(planned(DIGITS, target=target), "digits")
    error, refusal = loaded(loader, image)
    assert error == -errno.ENOTSUP and refusal.what == b"kernel"
    suffix = TARGETS[target].packing.suffix
    own = [name for name in container.kernels_of(image) if name.endswith(suffix)]
    assert len(own) > 1 and refusal.name == own[0].encode()


def test_the_longest_name_is_not_cut() -> None:
    size = device.Refusal.name.size
    assert max(map(len, KERNEL_TYPES)) < size
    header = (paths.runtime() / "include/vmcu/container.h").read_text()
    assert f"char name[{size}];" in header


def test_a_kernel_that_is_not_linked_is_named(loader: ctypes.CDLL, digits: bytes) -> None:
    at = digits.index(b"vmcu_depthwise_3_1\0")
    changed = seal.sealed(digits[:at] + b"vmcu_depthwise_9_1" + digits[at + 18 :])
    error, refusal = loaded(loader, changed)
    assert (error, refusal.name) == (-errno.ENOTSUP, b"vmcu_depthwise_9_1")


def test_an_arena_that_is_too_small_is_told_what_is_needed(
    loader: ctypes.CDLL, digits: bytes
) -> None:
    error, refusal = loaded(loader, digits, arena=64)
    assert (error, refusal.what) == (-errno.ENOMEM, b"arena")
    needed = -(-refusal.index // 8) * 8
    while loaded(loader, digits, arena=needed)[0] == -errno.ENOMEM:
        needed += 8
    assert needed <= refusal.index + 4096
    assert loaded(loader, digits, arena=needed)[0] == 0
    assert loaded(loader, digits, arena=needed - 8)[0] == -errno.ENOMEM


class Report(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in ("head", "free", "tail", "needed"))


def test_an_arena_is_what_is_in_it(loader: ctypes.CDLL, digits: bytes) -> None:
    made = device.load(loader, digits, device.BUILT, size := 1 << 14)
    report = Report()
    loader.vmcu_arena_report.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
    assert loader.vmcu_arena_report(made.model, size, ctypes.addressof(report)) == 0
    needed = made.pool_bytes + made.tail
    assert (report.head, report.tail, report.needed) == (made.pool_bytes, made.tail, needed)
    assert report.free == size - needed
    assert loader.vmcu_arena_report(made.model, made.tail + 8, ctypes.addressof(report)) == 0
    assert report.free == 0
    assert (
        loader.vmcu_arena_report(made.model, made.tail, ctypes.addressof(report)) == -errno.EINVAL
    )
    assert loader.vmcu_arena_report(made.model, size, None) == -errno.EINVAL
    head = loader.vmcu_arena_head
    head.argtypes, head.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_size_t
    assert head(made.model, size + 7) == size - made.tail and head(None, size) == 0
    assert head(made.model, made.tail - 8) == 0
    assert head(ctypes.addressof(device.Model()), size) == 0


def test_what_is_taken_of_an_arena_is_aligned(loader: ctypes.CDLL) -> None:
    _, start = device.aligned(256)
    take = loader.vmcu_arena_take
    take.argtypes, take.restype = (ctypes.c_void_p,) * 2 + (ctypes.c_size_t,), ctypes.c_void_p
    left = ctypes.c_size_t(250)
    for size, at in ((1, 240), (16, 224), (17, 192), (193, None), (192, 0), (1, None)):
        found = take(start, ctypes.addressof(left), size)
        assert found == (None if at is None else start + at)
        assert at is None or left.value == at
    assert take(None, ctypes.addressof(left), 0) is None and take(start, None, 0) is None
    left.value = 15
    assert take(start + 1, ctypes.addressof(left), 15) is None and left.value == 15


@pytest.mark.parametrize("streamed", [False, True])
def test_damaged_containers_touch_nothing_outside(
    core: Core, harness: Path, tmp_path: Path, streamed: bool
) -> None:
    """Mutants whose digest is mended, under the address sanitizer."""
    for seed, path in enumerate((DIGITS, HELLO)):
        image = container.build(planned(path, streamed, core.target), "m")
        assert device.damaged(harness, image, tmp_path, 500, seed) > 30


@pytest.mark.parametrize("number", seeds(7, 3))
def test_damaged_containers_of_all_operators_touch_nothing_outside(
    core: Core, harness: Path, tmp_path: Path, number: int
) -> None:
    graph = replace(EveryNetwork(70 + number, 2 + number).made, target=core.target)
    plan = make_plan(passes.optimize(graph))
    device.damaged(harness, container.build(plan, "m"), tmp_path, 150, number)


def test_what_a_model_has_not_is_no_table(tmp_path: Path, loader: ctypes.CDLL) -> None:
    """Its only kernel takes no parameters."""
    m = TfliteModel()
    x = m.activation((1, 4, 6, 2))
    y = m.op("RESHAPE", [x], m.like(x, (1, 6, 4, 2)), "Reshape")
    graph = passes.optimize(frontends.load(m.save(tmp_path / "m.tflite", [x], [y])))
    image = container.build(make_plan(graph), "m")
    for table in ("parts", "schedule", "blocks"):
        assert model_member(image, table) == 0
        assert f"m_{table}" not in container.unpack(image)[0].values
    assert loaded(loader, image)[0] == 0


def test_ram_beside_the_pool(tmp_path: Path) -> None:
    """64 bytes for a model, 4 for each kernel, on a core of 32 bits."""
    source = tmp_path / "size.c"
    source.write_text(
        '#include <vmcu/container.h>\n_Static_assert(sizeof(struct vmcu_model) <= 64, "");\n'
    )
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-DVMCU_CONTAINERS", "-c"]
    include = f"-I{paths.runtime() / 'include'}"
    done = subprocess.run([*command, include, str(source), "-o", str(tmp_path / "o")], check=False)
    assert done.returncode == 0


@pytest.fixture
def key(tmp_path: Path) -> Path:
    pytest.importorskip("cryptography", reason="signatures need cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = tmp_path / "key.pem"
    raw = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(Ed25519PrivateKey.generate().private_bytes(*raw, serialization.NoEncryption()))
    return path


def test_commands(
    tmp_path: Path, key: Path, loader: ctypes.CDLL, capsys: pytest.CaptureFixture[str]
) -> None:
    def vmcu(*words: object) -> tuple[int, str, str]:
        code = cli.main([str(word) for word in words])
        return code, *capsys.readouterr()

    code, said, _ = vmcu("build", HELLO, "--format", "container", "-o", tmp_path)
    file = tmp_path / "hello.vmcu"
    assert code == 0 and f"wrote {file}" in said and not (tmp_path / "hello.c").exists()
    code, said, _ = vmcu("container", "show", file)
    assert code == 0 and "not signed" in said and "kernels: vmcu_" in said
    assert vmcu("container", "verify", file)[0] == 0
    code, _, said = vmcu("container", "verify", file, "--key", key)
    assert code == 1 and "the container is not signed" in said and "vmcu container sign" in said
    assert vmcu("container", "sign", file, "--key", key)[0] == 0
    assert vmcu("container", "verify", file, "--key", key)[0] == 0
    assert loaded(loader, file.read_bytes())[0] == 0
    code, said, _ = vmcu("container", "kernels", file, file)
    assert code == 0 and said.count("_kernel;") == said.count("\t&vmcu_") > 0
    file.write_bytes(file.read_bytes()[:-1])
    code, _, said = vmcu("container", "verify", file)
    assert code == 1 and str(file) in said and "hint" in said
    code, _, said = vmcu("container", "show", tmp_path / "none")
    assert code == 1 and "no such file" in said


def test_a_signature_is_of_the_digest(tmp_path: Path, key: Path) -> None:
    image = seal.signed(container.build(planned(HELLO), "hello"), key)
    assert seal.is_signed_by(image, key)
    other = bytearray(image)
    other[layout.SIGNATURE.start] ^= 1
    assert not seal.is_signed_by(bytes(other), key)
    text = tmp_path / "text.pem"
    text.write_text("no key")
    with pytest.raises(Exception, match="has no private key of Ed25519 or P-256"):
        seal.signed(image, text)


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        *((layout.FILE, 0), (layout.MODEL, layout.MODEL_AT), (layout.RELEASE, layout.RELEASE_AT)),
        *((structs.STREAM, layout.STREAM_AT), (layout.ONLINE, layout.ONLINE_AT)),
        *((layout.STEP, 0), (layout.DISTANCE, 0), (layout.WEIGHTS, layout.WEIGHTS_AT)),
    ],
)
def test_the_page_has_every_member(kind: CStruct, start: int) -> None:
    lines = (ROOT / "doc/container.md").read_text().splitlines()
    for name, member in kind.members.items():
        assert f"| {start + member.start} | {member.size} | `{name}` |" in lines
