# SPDX-License-Identifier: Apache-2.0
"""The search for stages that a tile for each layer may help computes only what changed since its
last round."""

from __future__ import annotations

import pytest
from random_networks import AnyNetwork
from vmcu_tools.planner.stages.hopes import Hopes
from vmcu_tools.planner.stages.partition import UNLIMITED, Partitioner


@pytest.mark.parametrize("seed", range(12))
def test_each_round_is_that_of_a_search_from_the_start(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitioner = Partitioner(AnyNetwork(seed).made, False)
    rounds: list[int] = []
    update = Hopes._update

    def compared(hopes: Hopes) -> None:
        update(hopes)
        fresh = Hopes(partitioner, hopes.least)
        update(fresh)
        assert (fresh.best, fresh.came) == (hopes.best, hopes.came)
        rounds.append(hopes.least)

    monkeypatch.setattr(Hopes, "_update", compared)
    least = partitioner.least(partitioner.tiles, UNLIMITED)
    least = partitioner.least_by_tile_per_layer(least)
    assert rounds
    assert least == partitioner.least_peak(partitioner.tiles, UNLIMITED)
