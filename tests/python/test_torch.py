# SPDX-License-Identifier: Apache-2.0
"""vmcu.torch executes training steps in one buffer with PyTorch's own results, bit for bit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import vmcu.torch as vmcu_torch  # noqa: E402
from builders.torch_networks import NETWORKS, cross_entropy  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from vmcu.torch.graph import ALIGNMENT_BYTES, step_graph  # noqa: E402
from vmcu.torch.trace import trace  # noqa: E402
from vmcu_tools.errors import UserError  # noqa: E402

Optimizer = Callable[[nn.Module], Any]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Sums of several threads are in any order."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


def descent(model: nn.Module) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def small() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 16), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Linear(16, 10)
    )


def batch(count: int = 4) -> tuple[Any, Any]:
    return torch.randn(count, 8), torch.randint(10, (count,))


class Pair:
    """The same step planned and in PyTorch."""

    def __init__(self, model: nn.Module, optimizer: Optimizer, inputs: Any, loss: Any) -> None:
        self.models = model, copy.deepcopy(model)
        self.optimizers = [optimizer(one) for one in self.models]
        self.loss, self.inputs = loss, inputs
        self.plan = vmcu_torch.plan(model, inputs, loss, self.optimizers[0])

    def step(self, seed: int = 0, *inputs: Any) -> None:
        """One step of both, which must be equal."""
        gradients: dict[str, Any] = {}
        torch.manual_seed(seed)
        planned = self.plan.run(
            *inputs, on_gradient=lambda name, value: gradients.update({name: value.clone()})
        )
        torch.manual_seed(seed)
        self.optimizers[1].zero_grad()
        eager = self.loss(self.models[1], *(inputs or self.inputs))
        eager.backward()
        self.optimizers[1].step()
        assert torch.equal(planned, eager)
        expected = {n: p.grad for n, p in self.models[1].named_parameters() if p.grad is not None}
        assert gradients.keys() == expected.keys()
        assert [n for n in expected if not torch.equal(expected[n], gradients[n])] == []
        ours, theirs = (one.state_dict() for one in self.models)
        assert [n for n in theirs if not torch.equal(ours[n], theirs[n])] == []


@pytest.mark.parametrize("name", NETWORKS)
def test_ten_steps_are_those_of_pytorch(name: str) -> None:
    network = NETWORKS[name]
    pair = Pair(network.build(), network.optimizer, network.inputs(), cross_entropy)
    for seed in range(10):
        pair.step(seed)
    figures = pair.plan.figures
    assert figures.bound == figures.peak == figures.height <= figures.alive < figures.reserved


@pytest.mark.parametrize("name", NETWORKS)
def test_the_buffer_is_used_to_its_end(name: str) -> None:
    network = NETWORKS[name]
    highest = 0
    for pattern in (0xA5, 0x5A):
        model = network.build()
        plan = vmcu_torch.plan(model, network.inputs(), cross_entropy, network.optimizer(model))
        plan.buffer.fill_(pattern)
        plan.run()
        highest = max(highest, int((plan.buffer != pattern).nonzero().max()) + 1)
    assert -(-highest // ALIGNMENT_BYTES) * ALIGNMENT_BYTES == plan.figures.height
    assert plan.buffer.numel() == plan.figures.height


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, amsgrad=True, weight_decay=0.01),
        lambda p: torch.optim.AdamW(p, foreach=True),
        lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True),
        lambda p: torch.optim.Adagrad(p, initial_accumulator_value=0.1),
    ],
)
def test_optimizers(make: Callable[[Any], Any]) -> None:
    pair = Pair(small(), lambda model: make(model.parameters()), batch(), cross_entropy)
    for seed in range(3):
        pair.step(seed)


def test_an_optimizer_that_has_made_a_step() -> None:
    def optimizer(model: nn.Module) -> Any:
        made = torch.optim.NAdam(model.parameters())
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        made.step()
        return made

    pair = Pair(small(), optimizer, batch(), cross_entropy)
    for seed in range(3):
        pair.step(seed)


@pytest.mark.filterwarnings("error")
def test_learning_rates_may_change() -> None:
    pair = Pair(small(), descent, batch(), cross_entropy)
    schedules = [torch.optim.lr_scheduler.StepLR(one, 1, 0.5) for one in pair.optimizers]
    for seed in range(3):
        pair.step(seed, *batch())
        for schedule in schedules:
            schedule.step()


def test_a_parameter_in_the_buffer_has_a_storage_of_its_own() -> None:
    model = small()
    vmcu_torch.plan(model, batch(), cross_entropy, descent(model)).run()
    weight = model[0].weight
    assert weight.untyped_storage().nbytes() == 16 * 8 * 4
    assert weight.storage_offset() == 0


def test_plans_of_two_batch_sizes_share_a_model() -> None:
    pair = Pair(small(), lambda m: torch.optim.Adam(m.parameters()), batch(), cross_entropy)
    plans = [pair.plan]
    pair.step(0)
    plans.append(vmcu_torch.plan(pair.models[0], batch(3), cross_entropy, pair.optimizers[0]))
    for seed, (plan, count) in enumerate(((plans[1], 3), (plans[0], 4), (plans[1], 3))):
        pair.plan = plan
        pair.step(seed, *batch(count))


class Awkward(nn.Module):
    """Reads a buffer before and after it changes, has constants, frozen and unused parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.unused, self.frozen = (nn.Linear(8, 10) for _ in range(3))
        self.cos = nn.Parameter(torch.ones(10))
        self.frozen.requires_grad_(False)
        self.register_buffer("seen", torch.zeros(10))
        self.scale = torch.linspace(0, 1, 10)

    def forward(self, x: Any) -> Any:
        y = self.body(x).as_strided((x.shape[0], 10), (10, 1), 0)
        before = y * self.seen.cos() * self.cos
        self.seen.add_(y.detach().mean(0))
        parts = torch.stack((before, y + self.seen, self.frozen(x))).unbind(0)
        return sum(parts) * self.scale + torch.tensor([0.5] * 10)


def test_writes_in_place_constants_and_parameters_without_gradient() -> None:
    pair = Pair(Awkward(), descent, batch(), cross_entropy)
    for seed in range(3):
        pair.step(seed)
    nodes = {node["name"]: node for node in pair.plan.graph.nodes}
    writer = next(n for n in nodes.values() if "model.seen" in n["inputs"] and not n["outputs"])
    assert "cos" in writer["after"]


class Patches(nn.Module):
    """Normalises channels, as ConvNeXt does: convolutions get permuted images."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(16), nn.LayerNorm(16)])
        self.start, self.down = nn.Conv2d(3, 16, 2, 2), nn.Conv2d(16, 16, 2, 2)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = self.norms[0](self.start(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = self.norms[1](self.down(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.head(x.mean((2, 3)))


def test_permuted_images_and_their_gradients_have_the_layout_of_pytorch() -> None:
    inputs = torch.randn(4, 3, 16, 16), torch.randint(10, (4,))
    pair = Pair(Patches(), lambda m: torch.optim.AdamW(m.parameters()), inputs, cross_entropy)
    for seed in range(5):
        pair.step(seed)
    strides = {name: value.stride() for name, value in pair.models[0].named_parameters()}
    found: dict[str, Any] = {}
    pair.plan.run(on_gradient=lambda name, value: found.update({name: value.stride()}))
    assert found == strides
    calls = [n for n in pair.plan.step.graph.nodes if "layer_norm_backward" in str(n.target)]
    assert all(one.meta["val"].is_contiguous() for n in calls for one in n.args[:2])


class Twins(nn.Module):
    """Two branches that share running statistics, and draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(8), nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        left, right = self.norm(x), self.norm(x * x)
        return self.head(nn.functional.dropout(right) + nn.functional.dropout(left))


def test_running_statistics_and_random_numbers_keep_their_order() -> None:
    pair = Pair(Twins(), descent, batch(), cross_entropy)
    for seed in range(3):
        pair.step(seed)
    nodes = {node["name"]: node for node in pair.plan.graph.nodes}
    assert "native_batch_norm" in nodes["native_batch_norm_1"]["after"]
    assert "bernoulli_" in nodes["bernoulli__1"]["after"]


def test_a_model_without_data_has_the_same_graph() -> None:
    inputs, model = batch(), small()
    with FakeTensorMode():
        fake, given = small(), batch()
    steps = [trace(m, x, cross_entropy, descent(m)) for m, x in ((model, inputs), (fake, given))]
    assert step_graph(steps[0]).data == step_graph(steps[1]).data


def gradient_of(model: nn.Module, x: Any, y: Any) -> Any:
    return model(x)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        call()
    return str(caught.value)


def branch(model: nn.Module, x: Any, y: Any) -> Any:
    out = model(x).sum()
    return out if out > 0 else -out


def test_refusals_of_plans() -> None:
    model, other = small(), small()
    inputs = batch()

    def refused(loss: Any = cross_entropy, optimizer: Any = None, of: Any = model) -> str:
        made = optimizer or descent(of)
        return refusal(lambda: vmcu_torch.plan(of, inputs, loss, made))

    assert "does not return a scalar" in refused(gradient_of)
    assert "depends on values of tensors" in refused(branch)
    assert "not a parameter of the model" in refused(optimizer=descent(other))
    nadam = torch.optim.NAdam(model.parameters())
    assert "differs from PyTorch's in the first 3 steps" in refused(optimizer=nadam)
    assert not any(nadam.state.values())  # Not zeros, with which a step in PyTorch would go on.
    damped = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5)
    assert "execute one step in PyTorch" in refused(optimizer=damped)
    rate = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
    assert "the learning rate is a tensor" in refused(optimizer=rate)
    shared = small()
    shared[0].bias.data = shared[0].weight.data[0, :1].expand(16)
    assert "share memory" in refused(of=shared)
    meta = small().to("meta")
    assert "'model.0.weight' is on the device meta" in refused(of=meta)


def test_refusals_of_runs() -> None:
    model = small()
    optimizer = descent(model)
    plan = vmcu_torch.plan(model, batch(), cross_entropy, optimizer)
    assert "give (4, 8) of torch.float32, (4,)" in refusal(lambda: plan.run(*batch(3)))
    optimizer.param_groups[0]["momentum"] = 0.5
    assert "'optimizer.0.momentum' has changed since the plan" in refusal(plan.run)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x)[0][:, -1])


def test_layers_of_onednn_have_no_fake_results() -> None:
    inputs = torch.randn(4, 5, 8), torch.randint(10, (4,))
    model = Recurrent()
    optimizer = descent(model)
    message = refusal(lambda: vmcu_torch.plan(model, inputs, cross_entropy, optimizer))
    assert "mkldnn_rnn_layer" in message
    with torch.backends.mkldnn.flags(enabled=False):
        pair = Pair(Recurrent(), descent, inputs, cross_entropy)
        for seed in range(3):
            pair.step(seed)


def test_a_report_has_all_figures() -> None:
    model = small()
    plan = vmcu_torch.plan(model, batch(), cross_entropy, descent(model))
    figures = plan.figures
    for size in (figures.alive, figures.reserved, figures.peak, figures.height, figures.bound):
        assert f"{size:,} bytes" in plan.report()
