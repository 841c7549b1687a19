# SPDX-License-Identifier: Apache-2.0
"""Random training steps: equal to PyTorch's to the last bit, or refused by plan()."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import vmcu.torch as vmcu_torch  # noqa: E402
from builders.torch_random import World, world  # noqa: E402
from vmcu_tools.errors import UserError  # noqa: E402

STEPS = 60


def started(seed: int) -> World:
    """A step, after one in PyTorch if its script begins so."""
    made = world(seed)
    if made.has_started:
        eager_step(made)
    return made


def eager_step(made: World) -> torch.Tensor:
    made.optimizer.zero_grad()
    loss = made.loss(made.model, *made.inputs())
    loss.backward()
    if made.clip_norm:
        torch.nn.utils.clip_grad_norm_(made.model.parameters(), made.clip_norm)
    made.optimizer.step()
    return loss.detach()


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.allclose(one, other, 0, 0, equal_nan=True))


def outcome(seed: int) -> str:
    """Executes the steps both ways. AssertionError if they differ."""
    try:
        theirs = started(seed)
        expected = []
        for number in range(STEPS):
            torch.manual_seed(number)
            expected.append(eager_step(theirs))
            for call in theirs.after:
                call()
    except (RuntimeError, TypeError):
        return "invalid"  # PyTorch cannot execute it.
    ours = started(seed)
    name = f"{seed}: {ours.name}"
    state = ours.generator.get_state()
    try:
        plan = vmcu_torch.plan(
            ours.model, ours.inputs(), ours.loss, ours.optimizer, clip_norm=ours.clip_norm
        )
    except UserError:
        return "refused"
    ours.generator.set_state(state)
    for number in range(STEPS):
        torch.manual_seed(number)
        inputs = ours.inputs()
        try:
            loss = plan.run(*inputs)
        except UserError as error:
            assert "has changed since the plan" in str(error) and ours.is_changed, name
            return "changed"
        assert same(loss, expected[number]), f"{name}: step {number}"
        for call in ours.after:
            call()
    pairs = zip(ours.model.state_dict().values(), theirs.model.state_dict().values(), strict=True)
    assert all(same(one, other) for one, other in pairs), name
    return "equal"


def outcomes(seeds: range) -> Counter[str]:
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Counter(map(outcome, seeds))


def test_some_random_steps() -> None:
    assert outcomes(range(6, 16))["equal"] >= 4


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 300, 30))
def test_random_steps(start: int) -> None:
    found = outcomes(range(start, start + 30))
    print(found)
    assert found["equal"] >= 9
