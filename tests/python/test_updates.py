# SPDX-License-Identifier: Apache-2.0
"""Containers in the place of model files, updates, keys, and the containers that are damaged."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.networks import SHARED
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from vmcu_bench import runners
from vmcu_bench.oracle import open as open_oracle
from vmcu_bench.runners.samples import Sample, make_samples
from vmcu_bench.verify.container import verify
from vmcu_tools import cli, container, frontends, passes, paths
from vmcu_tools.container import layout, seal
from vmcu_tools.container import update as updates
from vmcu_tools.container.opened import open_container
from vmcu_tools.errors import UserError
from vmcu_tools.graph import Graph
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

ROOT = paths.runtime().parents[1]
HELLO, DIGITS = ROOT / "samples/hello/hello.onnx", ROOT / "samples/digits/digits.onnx"
CONTAINERS = runpy.run_path(str(ROOT / "tests/fuzz/containers.py"))
LOADING = runpy.run_path(str(ROOT / "benchmarks/models/containers.py"))
# The table's models that are quick to plan and to count.
QUICK = ("mlperf-tiny-ad", "mlperf-tiny-sww")


def made(model: Path, folder: Path, **options: bool) -> Path:
    plan = make_plan(passes.optimize(frontends.load(model)), CompileOptions(**options))
    path = folder / f"{model.stem}.vmcu"
    path.write_bytes(container.build(plan, model.stem))
    return path


def vmcu(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main([str(word) for word in words])
    return code, *capsys.readouterr()


def drawn(seed: int) -> Callable[[Graph], Sample]:
    return lambda graph: make_samples(graph, 1, 0, seed)[0]


def test_run_gives_what_the_model_file_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, given = made(DIGITS, tmp_path), tmp_path / "x.npy"
    for values in (
        np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8) / 4,
        np.arange(64, dtype=np.int8).reshape(8, 8, 1),
    ):
        np.save(given, values)
        found = []
        for model, more in ((DIGITS, ()), (file, ()), (file, ("--on", "qemu:m4"))):
            out = tmp_path / "y.npy"
            words = ("run", model, "--input", given, "--output", out, *more)
            assert vmcu(capsys, *words)[0] == 0
            found.append(np.load(out).ravel())
        port = frontends.load(DIGITS)
        tensor = port.tensors[port.outputs[0].tensor]
        wanted = np.rint(found[0] / np.float32(tensor.scale)) + tensor.zero_point
        np.testing.assert_array_equal(found[1], wanted)
        np.testing.assert_array_equal(found[2], wanted)


@pytest.mark.parametrize("streamed", [False, True])
def test_verify_compares_with_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], streamed: bool
) -> None:
    file = made(DIGITS, tmp_path, stream_input=streamed)
    code, said, _ = vmcu(capsys, "verify", file, "--on", "qemu:m4", "-n", 2)
    assert code == 0 and "m4+container: PASSED" in said
    assert "matches the reference (40 bytes)" in said


def test_verify_notices_another_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_container(made(DIGITS, tmp_path))
    target = runners.get("host+container")
    genuine = type(target).run_container

    def other(self, *args):
        results = genuine(self, *args)
        if self.container:
            results[1][0] = results[1][0] + np.int8(1)
        return results

    monkeypatch.setattr(type(target), "run_container", other)
    (result,) = verify(opened, target, 2, 0, 0)
    assert (result.bytes, result.differing) == (20, 10)


def test_bench_counts_what_a_model_file_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, figures = made(DIGITS, tmp_path), tmp_path / "figures.json"
    counts = []
    for words in ((file,), (DIGITS, "--on", "qemu:m4+container")):
        assert vmcu(capsys, "bench", *words, "--json", figures)[0] == 0
        counts.append(json.loads(figures.read_text())["instructions"])
    assert counts[0] == counts[1]


def test_what_a_container_cannot_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = made(HELLO, tmp_path)
    for words, said in (
        (("verify", file, "--rotate"), "--rotate does not apply to a container"),
        (("verify", file, "--on", "virtual"), "'virtual' does not run C"),
        (
            ("bench", file, "--board", "nucleo_f411re", "--measure"),
            "--measure does not support containers",
        ),
    ):
        code, _, errors = vmcu(capsys, *words)
        assert code == 1 and said in errors and "hint" in errors
    file.write_bytes(file.read_bytes()[:-1])
    code, _, errors = vmcu(capsys, "verify", file)
    assert code == 1 and str(file) in errors


def test_a_kernel_that_is_no_name_does_not_become_c(tmp_path: Path) -> None:
    file = made(HELLO, tmp_path)
    image = file.read_bytes()
    at = image.index(b"vmcu_dense\0")
    file.write_bytes(seal.sealed(image[:at] + b"vmcu_;ense" + image[at + 10 :]))
    with pytest.raises(UserError, match="does not have"):
        open_container(file)


def test_an_update_holds_what_onnx_runtime_gives(tmp_path: Path) -> None:
    """The digest, by the page's words, of ONNX Runtime's outputs for the vector's input."""
    file = made(HELLO, tmp_path)
    image, whole = file.read_bytes(), updates.update(file, HELLO, drawn(5))
    assert whole.startswith(image)
    test = whole[-(-len(image) // 16) * 16 :]
    magic, count = struct.unpack_from("<4sI", test)
    assert (magic, count, len(test)) == (b"VMST", 3, 48 + 3)
    values = np.frombuffer(test[48:], np.int8).reshape(1, 1, 3)
    graph = frontends.load(HELLO)
    found = open_oracle(graph.origin).run([values])[graph.outputs[0].tensor]
    digest = hashlib.sha256(bytes(32) + found.astype(np.int8).tobytes()).digest()
    assert test[16:48] == digest
    assert updates.update(file, HELLO, drawn(5)) == whole != updates.update(file, HELLO, drawn(6))


def test_an_update_of_a_sequence_has_the_rows_of_its_plan(tmp_path: Path) -> None:
    """A sequence along W has one row, and so has the digest, whatever the file's axis is."""
    m = OnnxModel(3)
    x = m.stated(0.1, 4)
    names, scale = m.weights((8, 2, 3), 0, 0.1, 6)
    y = m.node("Conv", [m.qdq("x", x), *names], pads=[1, 1])
    y = m.qdq(y, m.stated(scale, -3))
    ports = {"x": (TensorProto.FLOAT, (1, 2, 96))}, {y: (TensorProto.FLOAT, None)}
    model = tmp_path / "sequence.onnx"
    onnx.save(m.proto(*ports), model)
    file = made(model, tmp_path)
    own = open_container(file).outline.graph
    whole = updates.update(file, model, drawn(5))
    graph = frontends.load(model)
    (values,) = drawn(5)(graph)
    found = open_oracle(graph.origin).run([values])[graph.outputs[0].tensor].astype(np.int8)
    rows = found.reshape(own.tensors[own.outputs[0].tensor].shape)
    assert len(rows) == 1 < len(found)
    test = whole[-(-len(file.read_bytes()) // 16) * 16 :]
    assert test[16:48] == hashlib.sha256(bytes(32) + rows[0].tobytes()).digest()


def test_an_update_is_of_its_own_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = made(DIGITS, tmp_path)
    code, _, said = vmcu(capsys, "container", "update", file, "--model", HELLO)
    assert code == 1 and "the inputs are 8 x 8 x 1" in said
    code, said, _ = vmcu(capsys, "container", "update", file, "--model", DIGITS)
    assert code == 0 and (tmp_path / "digits.update").exists()


def test_p256(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cryptography", reason="signatures need cryptography")
    key, file = ROOT / "tests/slots/key.pem", made(HELLO, tmp_path)
    assert vmcu(capsys, "container", "sign", file, "--key", key)[0] == 0
    image = file.read_bytes()
    assert seal.is_signed_by(image, key)
    assert image[layout.FILE.members["signature"].start] == 2
    assert "ECDSA P-256" in vmcu(capsys, "container", "show", file)[1]
    for at in (layout.SIGNATURE.start, layout.SIGNATURE.stop - 1, layout.DIGEST.start):
        other = bytearray(image)
        other[at] ^= 1
        assert not seal.is_signed_by(bytes(other), key)
    code, said, _ = vmcu(capsys, "container", "key", key)
    assert code == 0 and len(re.findall(r"0x[0-9a-f]{2}", said)) == 64


def test_the_committed_containers_are_loaded(tmp_path: Path) -> None:
    """Where this fails, the format has changed: tests/fuzz/containers.py --write."""
    files = CONTAINERS["corpus"]()
    assert len(files) > 8 and sum(file.stat().st_size for file in files) < 60_000
    for file in files:
        (result,) = verify(open_container(file), runners.get("host+container"), 1, 0, 0)[:1]
        assert result.differing == 0, file


def test_damaged_committed_containers_touch_nothing_outside(tmp_path: Path) -> None:
    image = CONTAINERS["harness"](tmp_path)
    taken = [CONTAINERS["damaged"](image, file, 60, 9) for file in CONTAINERS["corpus"]()]
    assert sum(taken) > 40


def test_the_table_of_costs_is_that_of_all_models() -> None:
    page = (ROOT / "doc/container.md").read_text(encoding="utf-8")
    name = LOADING["NAME"]
    table = page.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
    models = LOADING["models"]()
    if not models:
        pytest.skip(f"{SHARED} is not there; VMCU_MODELS names the folder of the real networks")
    assert re.findall(r"^\| ([\w-]+) \| \d", table, re.M) == [path.stem for path in models]


@pytest.mark.parametrize("name", QUICK)
def test_the_table_of_costs_is_right(name: str) -> None:
    path = SHARED / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"{path} is not there; VMCU_MODELS names the folder of the real networks")
    assert LOADING["row"](path) in (ROOT / "doc/container.md").read_text().splitlines()
