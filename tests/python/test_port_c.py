# SPDX-License-Identifier: Apache-2.0
"""Runs C of the Zephyr port on this computer, with Zephyr's functions in the tests."""

from __future__ import annotations

import errno
import importlib.util
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import cbor2
import online_device as device
import pytest
from test_recurring import built
from test_variables import listening
from vmcu_tools import paths
from vmcu_tools.cli import main
from vmcu_tools.container import facts_of

TINY = paths.runtime().parents[1] / "tests/runtime/tiny.onnx"
PORT = paths.runtime() / "port/zephyr"
TESTS = Path(__file__).parents[1] / "c/port"
INCLUDES = tuple(f"-I{folder}" for folder in (TESTS / "include", PORT / "include"))
PARTS = {
    "slots": ("updates/slots.c", "updates/minimum.c"),
    "slots_many": ("updates/slots.c", "updates/minimum.c"),
    "slots_weights": ("updates/slots.c", "updates/minimum.c"),
    "async": ("async.c",),
    "trace": ("trace.c",),
}
DEFINES = {"slots_weights": ("-DVMCU_EXTERNAL_WEIGHTS",)}


@pytest.mark.parametrize("name", PARTS)
def test_port(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    files = (TESTS / f"{name}.c", *(PORT / part for part in PARTS[name]))
    target = device.host((*INCLUDES, *DEFINES.get(name, ())), False)
    target.gcc(["-Wconversion", "-Wshadow", *map(str, files), "-o", str(program)], tmp_path)
    subprocess.run([program], check=True)


def test_counters_as_cbor(tmp_path: Path) -> None:
    """cbor2 reads what zcbor has written on the device."""
    found = importlib.util.find_spec("zcbor")
    assert found is not None and found.submodule_search_locations
    zcbor = Path(found.submodule_search_locations[0])
    program = tmp_path / "counters"
    files = [TESTS / "counters.c", PORT / "counters.c", PORT / "counters_cbor.c"]
    files += [zcbor / "src" / f"zcbor_{name}.c" for name in ("common", "encode")]
    defines = [f"-DCONFIG_VMCU_COUNTERS{name}" for name in ("", "_MODELS=2", "_ANSWERS=4")]
    flags = [*defines, "-DVMCU_COUNTERS", f"-isystem{zcbor / 'include'}"]
    target = device.host(INCLUDES, False)
    target.gcc([*flags, *map(str, files), "-o", str(program)], tmp_path)
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    first, second = (cbor2.loads(bytes.fromhex(line)) for line in done.stdout.split())
    idle = {"version": 0, "runs": 0, "errors": 0, "cancelled": 0}
    times = {"least_us": 0, "mean_us": 0, "most_us": 0, "answers": [0, 0, 0, 0]}
    ran = {"runs": 3, "least_us": 100, "mean_us": 200, "most_us": 300, "answers": [0, 2, 0, 1]}
    kws = {"model": "kws", **idle, **times, **ran}
    assert first == [kws, {"model": "vww", **idle, **times, "errors": 1, "cancelled": 1}]
    once = {"runs": 1, "least_us": 1, "mean_us": 1, "most_us": 1, "answers": [1, 0, 0, 0]}
    assert second == [kws, {"model": "vww_2", **idle, **times, **once}]


@pytest.fixture(scope="module")
def self_test(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that loads an update and runs its vector."""
    folder = tmp_path_factory.mktemp("self_test")
    target = device.sanitized()
    files = (TESTS / "self_test.c", PORT / "updates/self_test.c", device.KERNELS, target.archive())
    target.gcc([*INCLUDES, *map(str, files), "-o", str(folder / "self_test")], folder)
    return folder / "self_test"


def said(program: Path, image: bytes, folder: Path) -> list[str]:
    """What the program prints of an update."""
    path = folder / "it.update"
    path.write_bytes(image)
    done = subprocess.run([program, path], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def vectored(file: Path, model: Path, *more: str) -> bytes:
    """The update of a container, with its vector."""
    assert main(["container", "update", str(file), "--model", str(model), *more]) == 0
    return file.with_suffix(".update").read_bytes()


def check_vector(program: Path, update: bytes, file: Path, folder: Path) -> None:
    """The vector has four results. It passes each time it runs; not with another input, digest or
    number of rows."""
    found = facts_of(file)
    assert found.hops is not None
    _, width, channels = found.inputs[0].shape
    start = -(-found.size // 16) * 16
    (count,) = struct.unpack_from("<I", update, start + 4)
    assert count == (found.hops.first + 3 * found.hops.rows) * width * channels
    assert said(program, update, folder) == ["0", "0"]
    for at in (range(start + 16, start + 17), range(start + 48, len(update))):
        changed = bytearray(update)
        for byte in at:
            changed[byte] ^= 0xFF
        assert said(program, bytes(changed), folder) == [str(-errno.EILSEQ)] * 2, at
    # A row less is a step less, or a part of one.
    row = errno.EILSEQ if found.hops.rows == 1 else errno.EBADMSG
    for less, err in ((1, errno.EBADMSG), (width * channels, row), (count, errno.EBADMSG)):
        changed = bytearray(update)
        struct.pack_into("<I", changed, start + 4, count - less)
        assert said(program, bytes(changed), folder) == [str(-err)] * 2
    assert said(program, update[:-1], folder) == [str(-errno.EBADMSG)] * 2


def hopping(folder: Path) -> tuple[Path, tuple[str, ...], tuple[str, ...]]:
    return TINY, ("--hop", "1"), ()


def hopping_far(folder: Path) -> tuple[Path, tuple[str, ...], tuple[str, ...]]:
    return TINY, ("--hop", "2"), ()


def along_columns(folder: Path) -> tuple[Path, tuple[str, ...], tuple[str, ...]]:
    return TINY, ("--hop", "1", "--time", "w"), ("--time", "w")


def with_variables(folder: Path) -> tuple[Path, tuple[str, ...], tuple[str, ...]]:
    pytest.importorskip("tflite_micro")
    return listening("strided", folder), (), ()


def recurrent(folder: Path) -> tuple[Path, tuple[str, ...], tuple[str, ...]]:
    path, plan = built(folder, 1, 2)
    states = tuple(
        word
        for ahead, behind in plan.model.state.pairs
        for word in ("--state", f"{ahead}:{behind}")
    )
    return path, states, states


STREAMS = (hopping, hopping_far, along_columns, with_variables, recurrent)


@pytest.mark.parametrize("make", STREAMS, ids=lambda make: make.__name__)
def test_updates_of_models_with_state(
    make: Callable[[Path], tuple[Path, tuple[str, ...], tuple[str, ...]]],
    self_test: Path,
    tmp_path: Path,
) -> None:
    model, options, more = make(tmp_path)
    words = ["build", str(model), "--name", "m", "--format", "container", "-o", str(tmp_path)]
    assert main([*words, *options, "--quiet"]) == 0
    file = tmp_path / "m.vmcu"
    update = vectored(file, model, *more)
    assert vectored(file, model, *more) == update != vectored(file, model, *more, "--seed", "1")
    check_vector(self_test, update, file, tmp_path)
