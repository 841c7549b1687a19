# SPDX-License-Identifier: Apache-2.0
"""Habits of training scripts: planned with PyTorch's bits, or refused by plan()."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import vmcu.torch as vmcu_torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from vmcu_tools.errors import UserError  # noqa: E402

STEPS = 60


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def network(last: int = 5) -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, last))


def cross_entropy(model: Any, x: Any, y: Any) -> Any:
    return functional.cross_entropy(model(x), y)


def descent(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def batch() -> tuple[Any, Any]:
    return torch.randn(6, 8), torch.randint(5, (6,))


def eager(model: Any, loss: Any, optimizer: Any, *inputs: Any, clip_norm: Any = None) -> Any:
    """One step of PyTorch."""
    optimizer.zero_grad()
    value = loss(model, *inputs)
    value.backward()
    if clip_norm is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return value


def assert_equal_models(ours: Any, theirs: Any) -> None:
    pairs = zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True)
    assert [name for (name, one), other in pairs if not torch.equal(one, other)] == []


def compare(
    model: Any, loss: Any = cross_entropy, make: Any = descent, clip_norm: Any = None
) -> None:
    """Executes steps planned and in PyTorch, which must be equal."""
    other = copy.deepcopy(model)
    optimizers = [make(model), make(other)]
    plan = vmcu_torch.plan(model, batch(), loss, optimizers[0], clip_norm=clip_norm)
    for _ in range(STEPS):
        inputs = batch()
        planned = plan.run(*inputs)
        assert torch.equal(planned, eager(other, loss, optimizers[1], *inputs, clip_norm=clip_norm))
    assert_equal_models(model, other)


def refusal(
    loss: Any = cross_entropy, make: Callable[[Any], Any] = descent, model: Any = None
) -> str:
    model = model or network()
    optimizer = make(model)
    with pytest.raises(UserError) as caught:
        vmcu_torch.plan(model, batch(), loss, optimizer)
    return str(caught.value)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = network(16), nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        return self.head(checkpoint(self.body, x, use_reentrant=False))


def test_checkpoints_recompute_with_the_weights_of_the_step() -> None:
    compare(Checkpointed())


@pytest.mark.parametrize("limit", [0.05, 1.0, 100.0])
def test_clipping(limit: float) -> None:
    compare(network(), clip_norm=limit)


class Sum(nn.Module):
    """Two parameters have one tensor as their gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()
        self.left, self.right = nn.Parameter(torch.zeros(6, 5)), nn.Parameter(torch.ones(6, 5))

    def forward(self, x: Any) -> Any:
        return self.body(x) + self.left + self.right


def test_clipping_of_a_gradient_of_two_parameters() -> None:
    compare(Sum(), clip_norm=0.1)


def test_each_group_has_its_learning_rate() -> None:
    def make(model: Any) -> Any:
        groups = [{"params": layer.parameters()} for layer in (model[0], model[2])]
        groups[0]["lr"], groups[1]["lr"] = 0.5, 0.001
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9)

    model = network()
    other = copy.deepcopy(model)
    optimizers = [make(model), make(other)]
    factors = [lambda n: 1 / (n + 1), lambda n: n + 1]
    schedules = [torch.optim.lr_scheduler.LambdaLR(one, factors) for one in optimizers]
    plan = vmcu_torch.plan(model, batch(), cross_entropy, optimizers[0])
    for _ in range(5):
        inputs = batch()
        assert torch.equal(plan.run(*inputs), eager(other, cross_entropy, optimizers[1], *inputs))
        for schedule in schedules:
            schedule.step()
    assert_equal_models(model, other)


def generator_network() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def judge_network() -> Any:
    return nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2), nn.Linear(16, 1))


def test_adversaries_train_each_other() -> None:
    """Each step reads the other network's weights and updates its running statistics."""
    bce = functional.binary_cross_entropy_with_logits

    def adam(model: Any) -> Any:
        return torch.optim.Adam(model.parameters(), 1e-2)

    def judge_loss(model: Any, real: Any, fake: Any) -> Any:
        return bce(model(real), torch.ones(8, 1)) + bce(model(fake), torch.zeros(8, 1))

    makers, judges = ([make()] for make in (generator_network, judge_network))
    makers.append(copy.deepcopy(makers[0]))
    judges.append(copy.deepcopy(judges[0]))
    losses = [lambda model, z, j=judge: bce(j(model(z)), torch.ones(8, 1)) for judge in judges]
    optimizers = [(adam(makers[n]), adam(judges[n])) for n in range(2)]
    noise, real = torch.randn(8, 8), torch.randn(8, 2)
    plans = (
        vmcu_torch.plan(judges[0], (real, real), judge_loss, optimizers[0][1]),
        vmcu_torch.plan(makers[0], noise, losses[0], optimizers[0][0]),
    )
    for _ in range(STEPS):
        real, noise, more = torch.randn(8, 2), torch.randn(8, 8), torch.randn(8, 8)
        ours = plans[0].run(real, makers[0](noise).detach()), plans[1].run(more)
        fake = makers[1](noise).detach()
        first = eager(judges[1], judge_loss, optimizers[1][1], real, fake)
        theirs = first, eager(makers[1], losses[1], optimizers[1][0], more)
        assert [torch.equal(a, b) for a, b in zip(ours, theirs, strict=True)] == [True, True]
    assert_equal_models(judges[0], judges[1])
    assert_equal_models(makers[0], makers[1])


def test_a_moving_average_is_read_before_each_step() -> None:
    worlds = []
    for planned in (True, False):
        torch.manual_seed(3)
        model, teacher = network(), network()

        def loss(model: Any, x: Any, y: Any, teacher: Any = teacher) -> Any:
            with torch.no_grad():
                wanted = teacher(x)
            return functional.mse_loss(model(x), wanted)

        optimizer = descent(model)
        plan = vmcu_torch.plan(model, batch(), loss, optimizer) if planned else None
        torch.manual_seed(4)
        for _ in range(STEPS):
            inputs = batch()
            plan.run(*inputs) if plan else eager(model, loss, optimizer, *inputs)
            with torch.no_grad():
                for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
                    slow.lerp_(fast, 0.1)
        worlds.append((model, teacher))
    for ours, theirs in zip(*worlds, strict=True):
        assert_equal_models(ours, theirs)


def test_planning_changes_no_tensor_and_no_random_number() -> None:
    other = nn.BatchNorm1d(5)
    models = [network(), other]
    before = copy.deepcopy(models)
    optimizer = torch.optim.Adam(models[0].parameters())
    state = torch.get_rng_state()
    x = torch.randn(6, 8)
    torch.set_rng_state(state)
    vmcu_torch.plan(
        models[0], x, lambda m, x: other(functional.dropout(m(x))).exp().mean(), optimizer
    )
    assert torch.equal(torch.get_rng_state(), state)
    for one, same in zip(models, before, strict=True):
        assert_equal_models(one, same)


class Averaging(nn.Module):
    """Assigns a buffer instead of updating it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.mean = 0.9 * self.mean + 0.1 * x.mean()
        return self.body(x) + self.mean


def test_buffers_that_are_assigned() -> None:
    compare(Averaging())


def test_inputs_that_the_step_writes() -> None:
    model = network()
    plan = vmcu_torch.plan(
        model, batch(), lambda m, x, y: cross_entropy(m, x.add_(1), y), descent(model)
    )
    x, y = batch()
    before = x.clone()
    plan.run(x, y)
    assert torch.equal(x, before + 1)


def test_tensors_from_outside_that_cannot_be_read_before_each_step() -> None:
    model, other, scale = network(), network(), torch.tensor(0.5)
    weights, alias = list(model.parameters()), other[0].weight.detach()
    computed = other(torch.randn(6, 8)).mean()

    def with_term(term: Callable[[Any], Any]) -> str:
        return refusal(lambda m, x, y: cross_entropy(m, x, y) + term(m), model=model)

    assert "share memory" in with_term(lambda m: sum(w.square().sum() for w in weights))
    assert "shares memory with another one" in with_term(lambda m: (m[0].weight * alias).sum())
    assert "was computed outside with gradients" in with_term(lambda m: computed)
    for read in (float, bool, torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy):
        message = with_term(lambda m, read=read: read(scale) * m[0].bias.sum())
        assert "of a tensor that is no state and no input" in message


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.last = network(), torch.zeros(())

    def forward(self, x: Any) -> Any:
        y = self.body(x) + self.last
        self.last = y.detach().mean()
        return y


def test_steps_that_change_python_values() -> None:
    calls = []

    def counted(model: Any, x: Any, y: Any) -> Any:
        calls.append(1)
        return cross_entropy(model, x, y) * len(calls)

    def lucky(model: Any, x: Any, y: Any) -> Any:
        return cross_entropy(model, x, y) * (1 if random.random() < 0.99 else 2)

    def seeded(model: Any, x: Any, y: Any) -> Any:
        torch.manual_seed(0)
        return cross_entropy(model, x + torch.randn(6, 8), y)

    assert "the loss is not finite" in refusal(lambda m, x, y: cross_entropy(m, x, y) / 0)
    assert "the step changes 'loss.calls'" in refusal(counted)
    assert "the step changes 'random_numbers.0'" in refusal(lucky)
    assert "differs from PyTorch's" in refusal(seeded)
    model = Remembering()
    assert "the step changes 'model.last'" in refusal(model=model)
    assert torch.equal(model.last, torch.zeros(()))


class Counting(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        group = self.param_groups[0]
        group["count"] = group.get("count", 0) + 1
        return super().step(closure) if group["count"] % 10 else None


def test_optimizers_that_a_plan_would_not_follow() -> None:
    def hooked(model: Any) -> Any:
        made = descent(model)
        made.register_step_pre_hook(lambda *_: nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        return made

    def patched(model: Any) -> Any:
        made = descent(model)
        made.step = lambda: None
        return made

    assert "plan(..., clip_norm=) clips gradients" in refusal(make=hooked)
    assert "a hook or another step()" in refusal(make=patched)
    counts = refusal(make=lambda model: Counting(model.parameters(), lr=0.1))
    assert "counts in 'optimizer.param_groups.0.count'" in counts
    optim = torch.optim
    for make in (
        lambda p: optim.LBFGS(p),
        lambda p: optim.RAdam(p),
        lambda p: optim.Adam(p, fused=True),
        lambda p: optim.Rprop(p),
    ):
        refusal(make=lambda model, make=make: make(model.parameters()))
    model = network()
    model[0].weight.register_hook(lambda gradient: gradient * 2)
    assert "the parameter '0.weight' has a hook" in refusal(model=model)


def test_layers_that_a_plan_would_not_follow() -> None:
    def cast(model: Any, x: Any, y: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return cross_entropy(model, x, y)

    norm = nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5))
    assert "native_batch_norm (aten.native_batch_norm.default): " in refusal(cast, model=norm)
    assert "depends on values" in refusal(lambda m, x, y: m(x)[y > 2].mean())
    assert "vmcu.torch cannot plan" in refusal(model=torch.compile(network(), backend="eager"))
    model = nn.Sequential(nn.Embedding(9, 5, sparse=True), nn.Flatten(), nn.Linear(40, 5))
    assert "sparse" in refusal(
        lambda m, x, y: cross_entropy(m, y.repeat(8).view(6, 8), y), model=model
    )


def test_changes_between_steps() -> None:
    weight = 0.5

    def loss(model: Any, x: Any, y: Any) -> Any:
        return weight * cross_entropy(model, x, y)

    model = nn.Sequential(network(), nn.Dropout(0.0))
    optimizer = torch.optim.Adam(model.parameters())
    plan = vmcu_torch.plan(model, batch(), loss, optimizer)

    def message() -> str:
        with pytest.raises(UserError) as caught:
            plan.run()
        return str(caught.value)

    plan.run()
    weight = 0.6
    assert "'loss.weight' has changed" in message()
    weight = 0.5
    model[1].p = 0.1
    assert "'model.1.p' has changed" in message()
    model[1].p = 0.0
    model.eval()
    assert "'model.training' has changed" in message()
    model.train()
    model[0][0].bias.requires_grad_(False)
    assert "'model.0.0.bias.requires_grad' has changed" in message()
    model[0][0].bias.requires_grad_(True)
    model.double()
    assert "'model.0.0.weight' has another shape or type" in message()
    model.float()
    plan.run()
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert "has changed since the plan" in message()
    with pytest.raises(UserError, match="give"):
        plan.run(torch.randn(8, 6).t(), batch()[1])
