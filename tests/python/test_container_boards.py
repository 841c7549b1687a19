# SPDX-License-Identifier: Apache-2.0
"""Containers on emulated boards with kernels of their own: models with state, and damaged ones, of
which those that the loader accepts end, and change nothing outside their pool."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_graphs import LAYERS, disjoint, random_layers
from random_streams import Mixed, drawn
from vmcu_bench import runners
from vmcu_bench.runners.compiled import CompiledRunner
from vmcu_bench.verify.stream import meaning, stream_of
from vmcu_tools import container
from vmcu_tools.container import layout, seal
from vmcu_tools.kernels.targets import TARGETS
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

IMAGE = Path(__file__).with_name("damaged_image.c")
MUTANTS, SECONDS, HOPS = 60, 120.0, 20
# Bytes behind the model's that have its tables.
TABLES = 900


def images(target: str) -> Iterator[bytes]:
    """Containers of layers that read weights as a target's kernels do."""
    suffix = TARGETS[target].packing.suffix
    for kind in LAYERS:
        plan = disjoint(replace(random_layers(kind, 4, seed=5), target=target))
        image = container.build(plan, "m")
        if any(name.endswith(suffix) for name in container.kernels_of(image)):
            yield image


def mutants(image: bytes, count: int, rng: np.random.Generator) -> Iterator[bytes]:
    """The container, then others with one to three numbers changed and a digest that is right."""
    yield image
    for _ in range(count):
        other = bytearray(image)
        for _ in range(rng.integers(1, 4)):
            room = len(image) - layout.MODEL_AT - 4
            at = layout.MODEL_AT + int(
                rng.integers(min(TABLES, room) if rng.random() < 0.5 else room)
            )
            if rng.random() < 0.5:
                other[at] = int(rng.choice([0, 0xFF, other[at] ^ 1 << int(rng.integers(8))]))
            else:
                (word,) = struct.unpack_from("<I", other, at)
                struct.pack_into("<I", other, at, (word + int(rng.integers(-4, 5))) % (1 << 32))
        yield seal.sealed(bytes(other))


BOARDS = ("qemu:m55", "helium"), ("qemu:rv32", "rv32"), ("qemu:m0", "v6m")


# Kernels that keep state are the same C on all cores.
@pytest.mark.parametrize(
    ("name", "target"),
    [BOARDS[0], *(pytest.param(*board, marks=pytest.mark.slow) for board in BOARDS[1:])],
)
def test_models_with_state(name: str, target: str, tmp_path: Path) -> None:
    graph, hop = drawn(Mixed, 1)
    plan = make_plan(replace(graph, target=target), CompileOptions(hop=hop))
    path = tmp_path / "m.vmcu"
    path.write_bytes(container.build(plan, "m"))
    board = runners.get(f"{name}+container")
    assert isinstance(board, CompiledRunner)
    rows = stream_of(plan.model, hop, HOPS, 1)
    found = board.run_container_stream(container.open_container(path), rows)
    wanted = np.stack(list(meaning(plan, rows)))
    np.testing.assert_array_equal(found, wanted.reshape(found.shape))


# qemu:rv32 has the packing of qemu:m0.
@pytest.mark.parametrize(
    ("name", "target"), [BOARDS[0], BOARDS[2], pytest.param(*BOARDS[1], marks=pytest.mark.slow)]
)
def test_damaged_containers_stay_within_the_pool(name: str, target: str, tmp_path: Path) -> None:
    board = runners.get(f"{name}+container")
    assert isinstance(board, CompiledRunner)
    # A loader that accepts too much makes kernels that never end.
    board = replace(board, seconds=SECONDS)
    whole = list(images(target))
    # Of all kernels the image links those that a mutant can name.
    names = sorted({name for one in whole for name in container.kernels_of(one)})
    source, image = tmp_path / "kernels.c", tmp_path / "damaged.elf"
    source.write_text(container.kernels_source(names))
    parts = (IMAGE, *board.sources(), source)
    files = map(str, (*parts, board.archive(parts)))
    board.gcc([*files, *board.link_flags(), "-o", str(image)], tmp_path)
    rng = np.random.default_rng(1)
    tried = [list(mutants(one, MUTANTS, rng)) for one in whole]
    data = b"".join(struct.pack("<I", len(one)) + one for group in tried for one in group)
    (tmp_path / "inputs.bin").write_bytes(data)
    board._start(image)
    taken = np.fromfile(tmp_path / "outputs.bin", np.uint32).reshape(len(tried), -1)
    # All that are not damaged, and some that are.
    assert len(tried) > 3 and taken[:, 0].all() and 50 < taken[:, 1:].sum() < taken[:, 1:].size
