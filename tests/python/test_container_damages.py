# SPDX-License-Identifier: Apache-2.0
"""The containers of tests/container, good and damaged, on this computer as on a board."""

from __future__ import annotations

import ctypes
import errno
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import online_device as device
import pytest
from builders.any_core import Core
from random_graphs import random_inputs
from vmcu_tools import paths
from vmcu_tools.machine import reference

if TYPE_CHECKING:
    from make_containers import Built

TESTS = paths.root() / "tests"
ARENA = 1 << 15
# Layers of each kind.
MANY = 40


@pytest.fixture(scope="module", autouse=True)
def folders() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(TESTS / "container"), str(TESTS / "runtime"), *sys.path])
        yield


@pytest.fixture(scope="module")
def built(core: Core) -> dict[str, Built]:
    import make_containers

    every = (*make_containers.built(core.target), make_containers.scratch(core.target))
    return {one.name: one for one in every}


def test_good_ones_are_loaded(core_loader: ctypes.CDLL, built: dict[str, Built]) -> None:
    """And planned here, where they say how; one network has branches that segments are not for."""
    results: Counter[int] = Counter()
    for name, one in built.items():
        assert device.load(core_loader, one.image, device.BUILT, ARENA, True).result == 0, name
        for planner in (device.GREEDY, device.SEGMENTS):
            result = device.load(core_loader, one.image, planner, ARENA, True).result
            assert result in ((0, 1) if one.online else (-errno.ENOTSUP,)), name
            results[result] += 1
    assert results[0] > results[1] > 0


def test_many_good_ones_are_loaded_and_run(core: Core, core_loader: ctypes.CDLL) -> None:
    """Of every kernel as many layers as a draw has, in every form, replayed too: what a check takes
    for wrong at the edge of what is right shows here."""
    from make_containers import NOT_IN_CONTAINERS, packed, plans

    for name, plan in plans(MANY, core.target):
        if name not in NOT_IN_CONTAINERS:
            image = packed(name, plan).image
            found = device.load(core_loader, image, device.BUILT, 1 << 21, True)
            assert found.result == 0, (name, found.refusal)
            inputs = random_inputs(plan.graph, MANY)
            values = reference.run(plan.graph, inputs)
            wanted = b"".join(values[port.tensor].tobytes() for port in plan.graph.outputs)
            assert device.outputs(core_loader, found, inputs) == wanted, name


def test_what_is_wrong_is_said(
    core: Core, core_loader: ctypes.CDLL, built: dict[str, Built]
) -> None:
    from damages import damages

    images = {name: one.image for name, one in built.items()}
    plans = {name: one.plan for name, one in built.items()}
    kinds: Counter[str] = Counter()
    for damage in damages(images, plans):
        image, wanted = damage.image, (-getattr(errno, damage.error), damage.what)
        made = device.load(core_loader, image, damage.planner, ARENA, damage.replay)
        assert (made.result, made.refusal[0]) == wanted, f"{damage.label} of {damage.of}"
        assert damage.index in (None, made.refusal[1]), f"{damage.label} of {damage.of}"
        kinds[damage.what] += 1
        kinds["counts"] += damage.label.startswith("counts")
    assert kinds["parameters of layer"] > 200 and kinds["replay of layer"] > 20
    # With vectors no stage here has scratch in the pool.
    assert kinds["counts"] or core.packing.vector
