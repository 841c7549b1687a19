# SPDX-License-Identifier: Apache-2.0
"""Products and versions of containers: part of what is signed; what a device refuses by them."""

from __future__ import annotations

import ctypes
import errno
from pathlib import Path

import online_device as device
import pytest
from builders.containers import changed, of_model
from online_device import load_result as load
from test_windows_anew import small
from vmcu_tools import container, frontends, passes, paths
from vmcu_tools.cli import main
from vmcu_tools.container import layout, read, seal
from vmcu_tools.container.release import Release
from vmcu_tools.errors import UserError
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

HELLO = paths.root() / "samples" / "hello" / "hello.onnx"
RELEASE = Release(7, 0x01020304)


@pytest.fixture(scope="module")
def images() -> dict[str, bytes]:
    """Containers without a release, by what is behind their model."""
    plan = make_plan(passes.optimize(frontends.load(HELLO)))
    return {
        "plain": container.build(plan, "m"),
        "online": container.build(plan, "m", online=True),
        "stream": container.build(make_plan(small(), CompileOptions(hop=1)), "m"),
    }


def stated(rows_loader: ctypes.CDLL, image: bytes) -> tuple[int, int, int]:
    """What vmcu_container_release() returns and writes."""
    _room, start = device.aligned(len(image))
    ctypes.memmove(start, image, len(image))
    found = ctypes.c_uint32(99), ctypes.c_uint32(99)
    function = rows_loader.vmcu_container_release
    pointer = ctypes.c_void_p
    function.argtypes = (pointer, ctypes.c_size_t, pointer, pointer)
    result = function(start, len(image), *(ctypes.addressof(one) for one in found))
    return result, found[0].value, found[1].value


@pytest.mark.parametrize("kind", ["plain", "online", "stream"])
def test_a_release_is_added_to_what_is_there(
    kind: str, images: dict[str, bytes], rows_loader: ctypes.CDLL
) -> None:
    before = images[kind]
    after = container.released(before, RELEASE)
    old, new = read.facts(before), read.facts(after)
    assert old.release is None and new.release == RELEASE
    assert new.version == {"plain": "1.2", "online": "1.2", "stream": "2.1"}[kind]
    # Nothing else is added or lost.
    parts = *read.unpack(after), read.requantisers_of(after), read.distances_of(after)
    assert container.pack(*parts) == before
    assert container.released(after, RELEASE) == after
    assert load(rows_loader, before)[0] == load(rows_loader, after)[0] == 0
    assert stated(rows_loader, before) == (0, 0, 0)
    assert stated(rows_loader, after) == (0, RELEASE.product, RELEASE.version)


@pytest.mark.parametrize("kind", ["plain", "stream"])
@pytest.mark.parametrize(
    ("product", "minimum", "refused"),
    [
        (0, 0, None),
        (7, RELEASE.version, None),
        (7, RELEASE.version + 1, (-errno.EACCES, "version of the model")),
        (0, 2**32 - 1, (-errno.EACCES, "version of the model")),
        (8, 0, (-errno.ENODEV, "product")),
        (8, 2**32 - 1, (-errno.ENODEV, "product")),
    ],
)
def test_devices_refuse_others_and_the_past(
    kind: str,
    product: int,
    minimum: int,
    refused: tuple[int, str] | None,
    images: dict[str, bytes],
    rows_loader: ctypes.CDLL,
) -> None:
    image = container.released(images[kind], RELEASE)
    assert load(rows_loader, image, product=product, minimum=minimum) == (refused or (0, ""))


def test_what_states_nothing_is_old_and_of_no_product(
    images: dict[str, bytes], rows_loader: ctypes.CDLL
) -> None:
    assert load(rows_loader, images["plain"], product=7) == (-errno.ENODEV, "product")
    assert load(rows_loader, images["plain"], minimum=1) == (
        -errno.EACCES,
        "version of the model",
    )


def test_a_release_is_part_of_the_digest(
    images: dict[str, bytes], rows_loader: ctypes.CDLL
) -> None:
    image = container.released(images["plain"], RELEASE)
    for at in range(layout.RELEASE_AT, layout.RELEASE_END):
        other = image[:at] + bytes([image[at] ^ 1]) + image[at + 1 :]
        assert load(rows_loader, other) == (-errno.EBADMSG, "digest")


@pytest.mark.parametrize(("kind", "minor"), [("plain", 2), ("stream", 1)])
def test_a_release_that_is_not_there_is_refused(
    kind: str, minor: int, images: dict[str, bytes], rows_loader: ctypes.CDLL
) -> None:
    """By its version the file has one, but it ends in front of it."""
    short = changed(images[kind], layout.FILE.members["minor"].start, "<H", minor)
    size = layout.RELEASE_END - 1
    short = changed(short[:size], layout.FILE.members["size"].start, "<I", size)
    assert load(rows_loader, short) == (-errno.EBADMSG, "release")
    assert stated(rows_loader, short)[0] == -errno.EBADMSG
    # Its name lies behind the release, and is looked for first.
    with pytest.raises(UserError, match="outside of the file"):
        read.facts(short)
    named = of_model(short, "name", layout.MODEL_AT + layout.MODEL.members["circle"].start)
    with pytest.raises(UserError, match="the product and version are outside of the file"):
        read._Reader(named).release  # noqa: B018


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cryptography")
    words = ["build", str(HELLO), "--format", "container", "--name", "m", "-o", str(tmp_path)]
    path, key = tmp_path / "m.vmcu", paths.root() / "tests" / "slots" / "key.pem"
    assert main([*words, "--product", "7", "--model-version", "2"]) == 0
    assert read.facts(path.read_bytes()).release == Release(7, 2)
    sign = ["container", "sign", str(path), "--key", str(key)]
    capsys.readouterr()
    assert main(sign) == 0 and "product 7, version 2" in capsys.readouterr().out
    assert main([*sign, "--model-version", "3"]) == 0
    assert "product 7, version 3" in capsys.readouterr().out
    assert seal.is_signed_by(path.read_bytes(), key)
    for verb in (["show"], ["verify", "--key", str(key)]):
        assert main(["container", *verb, str(path)]) == 0
        assert "product 7, version 3" in capsys.readouterr().out
    assert main(words) == 0 and read.facts(path.read_bytes()).release is None
    capsys.readouterr()
    assert main(["container", "verify", str(path)]) == 0
    assert "no product, no version" in capsys.readouterr().out
    assert main(["build", str(HELLO), "--product", "7"]) == 1
    assert "add --format container" in capsys.readouterr().err
    assert main([*sign, "--product", str(2**32)]) == 2
    assert "is more than 4294967295" in capsys.readouterr().err
