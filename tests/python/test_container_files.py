# SPDX-License-Identifier: Apache-2.0
"""Containers as Python reads them: what is there, and nothing of what is damaged but a reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from builders.containers import changed, model_member, of_model, of_table
from vmcu_tools import container, frontends, passes, paths
from vmcu_tools.container import head, layout, read, seal
from vmcu_tools.emit import structs
from vmcu_tools.errors import UserError
from vmcu_tools.planner.registry import make_plan

DIGITS = paths.runtime().parents[1] / "samples/digits/digits.onnx"
RANDOM = 3000


@pytest.fixture(scope="module")
def image() -> bytes:
    return container.build(make_plan(passes.optimize(frontends.load(DIGITS))), "digits")


def _other_name(image: bytes) -> bytes:
    at = model_member(image, "name")
    return changed(image, at, "<B", 0xFF)


def _addition(image: bytes) -> int:
    """Its number. All other layers of digits but one have parameters of another kind."""
    layers = read.unpack(image)[0].values["digits_layers"]
    return next(n for n, layer in enumerate(layers) if layer["kernel"] == "vmcu_add")


def _params(image: bytes, layer: int) -> int:
    at = model_member(image, "layers") + structs.LAYER.size * layer
    at += structs.LAYER.members["params"].start
    return int.from_bytes(image[at : at + 4], "little")


def _shared_params(image: bytes) -> bytes:
    number = _addition(image)
    return of_table(image, "layers", number + 1, "params", _params(image, number))


def _inputs(image: bytes) -> int:
    return model_member(image, "layer_inputs")


# What is changed in the container of digits, and what is then said.
DAMAGES: tuple[tuple[Callable[[bytes], bytes], str], ...] = (
    (lambda i: b"", "0 bytes are no container"),
    (lambda i: i[: layout.MODEL_AT + layout.MODEL.size - 1], "bytes are no container"),
    (lambda i: b"vMCU" + i[4:], "the header is not that of a container"),
    (lambda i: changed(i, layout.FILE.members["major"].start, "<H", 4), "format version 4"),
    (lambda i: i + b"\0", "the header states"),
    (lambda i: i[:-1] + b"\1", "the digest does not match"),
    *(
        (
            lambda i, at=at, what=what: of_model(i, what, at(i)),
            f"the table of {what} is outside of the file",
        )
        for what in ("tensors", "layers", "stages", "parts", "schedule", "kernels", "blocks")
        for at in (lambda _: layout.MODEL_AT + layout.MODEL.size - 4, lambda i: len(i))
    ),
    (lambda i: of_model(i, "name", layout.MODEL_AT - 4), "a name is outside of the file"),
    (lambda i: of_model(i, "name", len(i)), "a name is outside of the file"),
    (_other_name, "a name is not UTF-8"),
    (lambda i: of_table(i, "blocks", 0, "size", 0), "constants overlap"),
    (lambda i: of_table(i, "blocks", 0, "size", 1 << 20), "constants overlap"),
    (lambda i: of_table(i, "blocks", 1, "start", _block(i, 0)), "constants overlap"),
    (lambda i: of_table(i, "blocks", 0, "size", _block(i, 1) - _block(i, 0) + 1), "overlap"),
    (lambda i: of_table(i, "layers", 0, "kernel", _kernels(i)), "there is no kernel"),
    (lambda i: of_table(i, "layers", 1, "params", _params(i, 1) + 4), "points to no constants"),
    (lambda i: of_table(i, "layers", 1, "inputs", _inputs(i) + 1), "between two layer_inputs"),
    (_shared_params, "are two things"),
    (lambda i: of_table(i, "layers", _addition(i), "kernel", 2), "end within a struct"),
    (lambda i: of_table(i, "outputs", 0, "flags", 16), "has flags 0x10"),
    (lambda i: of_table(i, "outputs", 0, "tensor", model_member(i, "tensor_count")), "not there"),
)


def _block(image: bytes, number: int) -> int:
    at = model_member(image, "blocks") + layout.BLOCK.size * number
    return int.from_bytes(image[at : at + 4], "little")


def _kernels(image: bytes) -> int:
    return model_member(image, "kernel_count")


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_what_is_wrong_is_said(image: bytes, number: int) -> None:
    damage, what = DAMAGES[number]
    with pytest.raises(head.DamagedError, match=what) as found:
        read.facts(damage(image))
    assert found.value.problems[0].remedy


def test_whatever_a_word_is_there_is_an_answer_or_a_reason(image: bytes) -> None:
    """Words of the tables, which are in front of the constants, become other ones."""
    rng = np.random.default_rng(0)
    end = _block(image, 0)
    words = (0, 1, len(image), len(image) - 1, len(image) + 1, 1 << 31, (1 << 32) - 1)
    refused = 0
    for _ in range(RANDOM):
        at = 4 * int(rng.integers(layout.MODEL_AT // 4, end // 4))
        value = int(rng.choice(words) if rng.random() < 0.5 else rng.integers(0, 2 * len(image)))
        try:
            read.facts(changed(image, at, "<I", value))
        except head.DamagedError:
            refused += 1
    assert RANDOM // 10 < refused < RANDOM


def test_what_lies_at_the_very_end_is_read(image: bytes) -> None:
    """A table of which nothing follows, not even a byte."""
    start, size = model_member(image, "kernels"), layout.KERNEL.size * _kernels(image)
    moved = image + image[start : start + size]
    moved = changed(moved, layout.FILE.members["size"].start, "<I", len(moved))
    moved = of_model(moved, "kernels", len(image))
    assert read.kernels_of(moved) == read.kernels_of(image)
    with pytest.raises(head.DamagedError, match="the table of kernels is outside of the file"):
        read.kernels_of(of_model(moved, "kernels", len(image) + 1))


def test_what_people_are_told_is_what_the_network_has(image: bytes) -> None:
    graph = passes.optimize(frontends.load(DIGITS))
    facts = read.facts(image)
    for sides, ports in ((facts.inputs, graph.inputs), (facts.outputs, graph.outputs)):
        for side, port in zip(sides, ports, strict=True):
            tensor = graph.tensors[port.tensor]
            assert (side.name, side.shape) == (port.name, tensor.shape)
            assert side.zero_point == tensor.zero_point
            assert side.scale == pytest.approx(tensor.scale, rel=1e-6)
    assert (facts.version, facts.signed, facts.streamed) == ("1.0", "", False)
    assert (facts.tensors, facts.layers) == (len(graph.tensors), len(graph.nodes))
    assert facts.digest == seal.digest(image).hex() == image[layout.DIGEST].hex()


def test_keys_are_of_the_kind_that_is_asked_for(tmp_path: Path, image: bytes) -> None:
    pytest.importorskip("cryptography", reason="signatures need cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    def files(name: str, key) -> tuple[Path, Path]:
        pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
        both = (
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, none),
            key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo),
        )
        paths = tmp_path / f"{name}.pem", tmp_path / f"{name}.pub"
        for path, data in zip(paths, both, strict=True):
            path.write_bytes(data)
        return paths

    private, public = files("own", Ed25519PrivateKey.generate())
    other, other_public = files("rsa", rsa.generate_private_key(65537, 2048))
    signed = seal.signed(image, private)
    assert seal.is_signed_by(signed, public) and seal.is_signed_by(signed, private)
    assert not seal.is_signed_by(signed, files("next", Ed25519PrivateKey.generate())[1])
    for key in (other, public):
        with pytest.raises(UserError, match="has no private"):
            seal.signed(image, key)
    for key, kind in ((other, "private"), (other_public, "public")):
        with pytest.raises(UserError, match=f"has no {kind}"):
            seal.is_signed_by(signed, key)
