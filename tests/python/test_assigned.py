# SPDX-License-Identifier: Apache-2.0
"""Variables of .tflite files that are assigned what layers compute: as TensorFlow Lite Micro keeps
them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from builders.tflite_states import StatefulModel
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from test_streams import check_states, vmcu
from vmcu_bench import runners
from vmcu_bench.runners.stream import streamed
from vmcu_bench.verify import stream
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.passes import optimize
from vmcu_tools.plan.plan import Plan

SIZE = 6
# A sigmoid's and a tangent's quantisation, which TensorFlow Lite prescribes.
GATE, TURN = (1 / 256, -128), (1 / 128, 0)


class Network(StatefulModel):
    """Layers over vectors of SIZE."""

    def vector(self, quantisation: tuple[float, int] = TURN) -> int:
        return self.activation((1, SIZE), *quantisation)

    def curve(self, op: str, x: int) -> int:
        return self.op(op, [x], self.vector(GATE if op == "LOGISTIC" else TURN))

    def of(self, op: str, kind: str, a: int, b: int, scale: float, zero: int = 3) -> int:
        options = {"fusedActivationFunction": 0}
        return self.op(op, [a, b], self.vector((scale, zero)), kind, **options)

    def total(self, a: int, b: int, scale: float = 0.03) -> int:
        return self.of("ADD", "Add", a, b, scale)

    def product(self, a: int, b: int, scale: float = 1 / 128, zero: int = 0) -> int:
        return self.of("MUL", "Mul", a, b, scale, zero)

    def state(self, name: str, quantisation: tuple[float, int] = TURN, **more: int) -> int:
        return self.remembered(self.vector(quantisation), name, (1, SIZE), **more)


def simple(m: Network, x: int, name: str) -> int:
    """h = tanh(Wx + Uh)."""
    h = m.state(name)
    new = m.curve("TANH", m.total(m.dense(x, SIZE), m.dense(h, SIZE)))
    m.assigned(name, new)
    return new


def gated(m: Network, x: int, name: str) -> int:
    """c = f c + i g, h = o tanh(c): both are states."""
    h, c = m.state(f"{name}/h"), m.state(f"{name}/c", (1 / 64, 0))

    def gate(op: str) -> int:
        return m.curve(op, m.total(m.dense(x, SIZE), m.dense(h, SIZE)))

    i, f, g, o = gate("LOGISTIC"), gate("LOGISTIC"), gate("TANH"), gate("LOGISTIC")
    cell = m.total(m.product(f, c, 1 / 64), m.product(i, g), 1 / 64)
    # Read with the scale that it has been assigned with.
    m.graph.tensors[cell].quantization = m.graph.tensors[c].quantization
    out = m.product(o, m.curve("TANH", cell))
    m.assigned(f"{name}/c", cell)
    m.assigned(f"{name}/h", out)
    return out


def scaled(m: Network, x: int, name: str) -> int:
    """Bytes are kept, whatever scale they are read with; it begins with others than zeros."""
    h = m.state(name, (0.02, -7), begin=41)
    new = m.curve("TANH", m.total(m.dense(x, SIZE), h))
    m.assigned(name, new)
    return m.dense(new, SIZE)


def reread(m: Network, x: int, name: str) -> int:
    """Read twice before it is assigned, and once behind that, by handles of their own."""
    h = m.state(name)
    more = m.again(name, h)
    new = m.curve("TANH", m.total(m.total(x, h), m.dense(more, SIZE)))
    m.assigned(name, new)
    return m.total(m.again(name, new), h)


def shifted(m: Network, x: int, name: str) -> int:
    """The inputs of the last two calls: one state is what another was, and none is computed."""
    first = m.remembered(x, f"{name}/1", (1, SIZE))
    second = m.remembered(x, f"{name}/2", (1, SIZE))
    out = m.total(m.dense(first, SIZE), m.dense(second, SIZE))
    m.assigned(f"{name}/2", first)
    m.assigned(f"{name}/1", x)
    return m.total(out, m.dense(x, SIZE))


def twice(m: Network, x: int, name: str) -> int:
    """Two states are assigned the same, in two shapes, and begin with other bytes."""
    one = m.remembered(m.vector(), f"{name}/1", (1, 2, 1, SIZE // 2), begin=-100)
    two = m.state(f"{name}/2", begin=100)
    before = m.total(m.dense(m.convolved(one, SIZE, 2), SIZE), two)
    new = m.curve("TANH", m.total(before, m.dense(x, SIZE)))
    m.assigned(f"{name}/1", m.reshaped(new, (1, 2, 1, SIZE // 2)))
    m.assigned(f"{name}/2", new)
    return new


def shaped(m: Network, x: int, name: str) -> int:
    """Read as two rows, and assigned what is a vector to all layers."""
    h = m.remembered(m.vector(), name, (1, 2, 1, SIZE // 2))
    before = m.dense(m.convolved(h, SIZE, 2), SIZE)
    new = m.curve("TANH", m.total(before, m.dense(x, SIZE)))
    m.assigned(name, m.reshaped(new, (1, 2, 1, SIZE // 2)))
    return m.total(new, x)


CELLS: dict[str, Callable[[Network, int, str], int]] = {
    "simple": simple,
    "gated": gated,
    "scaled": scaled,
    "reread": reread,
    "shifted": shifted,
    "twice": twice,
    "shaped": shaped,
}


def built(folder: Path, kinds: tuple[str, ...], seed: int = 1) -> tuple[Path, Plan]:
    m = Network(seed)
    x = y = m.vector((0.03, 2))
    for number, kind in enumerate(kinds):
        y = CELLS[kind](m, y, f"{kind}{number}")
    path = m.save(folder / "cells.tflite", [x], [m.dense(y, 4)])
    return path, compile_model(path)


@pytest.mark.parametrize("kind", CELLS)
def test_a_thousand_calls(kind: str, tmp_path: Path) -> None:
    """None of them makes another byte than TensorFlow Lite Micro, and answers differ."""
    _, plan = built(tmp_path, (kind,))
    outcome = stream.verify(plan, "host:sanitize", 1000, 1)
    assert outcome.hops == 1000 and outcome.keeps and outcome.passed
    assert len(outcome.judged) == 1 and not outcome.judged[0].differing
    rows = stream.stream_of(plan.model, 1, 50, 9)
    found = streamed(runners.get("virtual"), plan, rows)
    np.testing.assert_array_equal(found, np.stack(list(stream.meaning(plan, rows))))
    assert len(np.unique(found, axis=0)) > 15


# Without shrinking: each example is compiled and run.
@settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=3), st.integers(0, 99))
def test_cells_behind_each_other(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], seed: int
) -> None:
    _, plan = built(tmp_path_factory.mktemp("drawn"), tuple(kinds), seed)
    assert stream.verify(plan, "host", 200, seed).passed


@pytest.mark.parametrize("target", ["qemu:m4", "qemu:m3+container"])
def test_boards(target: str, tmp_path: Path) -> None:
    _, plan = built(tmp_path, ("gated", "scaled"))
    assert stream.verify(plan, target, 300, 1).passed


@pytest.mark.parametrize("loaded", [False, True])
def test_states_in_c(loaded: bool, tmp_path: Path) -> None:
    _, plan = built(tmp_path, ("scaled", "gated"))
    check_states(plan, tmp_path, loaded)


def test_an_answer_depends_on_calls_long_ago(tmp_path: Path) -> None:
    _, plan = built(tmp_path, ("simple",))
    rows = np.repeat(stream.stream_of(plan.model, 1, 1, 2), 12, axis=0)
    found = streamed(runners.get("virtual"), plan, rows)
    assert (found[0] != found[1]).any() and (found[1] != found[2]).any()


def test_rows_beside_what_is_computed(tmp_path: Path) -> None:
    """A file that keeps rows as well has them computed like the rest."""
    m = Network(3)
    x = m.activation((1, 1, 1, SIZE), 0.03, 2)
    joined = m.latest(x, 3)
    y = simple(m, m.dense(m.convolved(joined, SIZE, 4), SIZE), "cell")
    plan = compile_model(m.save(tmp_path / "both.tflite", [x], [m.dense(y, 4)]))
    assert [one.initial for one in plan.model.state.recurrent] == [2, 0]
    assert stream.verify(plan, "host", 300, 1).passed


def test_what_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = built(tmp_path, ("gated",))
    code, said, _ = vmcu(capsys, "build", path, "-o", tmp_path)
    assert code == 0 and "2 states, which each call recomputes" in said
    assert "is fed back as" not in said
    code, said, _ = vmcu(capsys, "verify", path, "-n", 100)
    assert code == 0 and "0 of 100 hops differ from the file's own runtime call by call" in said
    np.save(tmp_path / "x.npy", np.zeros((20, SIZE), np.int8))
    code, said, _ = vmcu(capsys, "run", path, "--input", tmp_path / "x.npy")
    assert code == 0 and "[20, 1, 4]" in said
    assert vmcu(capsys, "inspect", path)[0] == 0
    code, _, said = vmcu(capsys, "compare", path)
    assert code == 1 and "the model keeps state, which planner" in said
    code, _, said = vmcu(capsys, "build", path, "--hop", 2)
    assert code == 1 and "needs 1 rows a call, not 2" in said
    code, said, _ = vmcu(capsys, "bench", path)
    assert code == 0 and "instructions" in said


class Several(Network):
    """Variables begin with several values."""

    def _beginning(self, name: bytes, like: int, values: np.ndarray) -> None:
        super()._beginning(name, like, np.arange(values.size, dtype=np.int8).reshape(values.shape))


def faulty(kind: str, folder: Path) -> Path:
    m = Several(1) if kind == "several" else Network(1)
    x = m.vector()
    h = m.state("h")
    new = m.curve("TANH", m.total(x, h))
    if kind == "wide":
        m.assigned("h", m.dense(new, SIZE + 1))
    else:
        m.assigned("h", new)
    if kind == "other scale":
        new = m.total(new, m.again("h", x if kind != "other scale" else m.vector((0.5, 1))))
    if kind == "unknown":
        m.once.operators.clear()
    return m.save(folder / "faulty.tflite", [x], [m.dense(new, 4)])


FAULTS = {
    "several": "variable 'h' begins with several values",
    "wide": r"variable 'h' is int8 \[1, 6\], and is assigned int8 \[1, 7\]",
    "other scale": "variable 'h' is read in another shape or scale than it was given",
    "unknown": "variable 'h' does not begin with a constant of int8",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_variables_of_another_use(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=FAULTS[kind]) as caught:
        compile_model(faulty(kind, tmp_path))
    assert caught.value.problems[0].remedy


def test_two_inputs_are_one_row(tmp_path: Path) -> None:
    m = Network(1)
    x, y = m.vector(), m.vector()
    out = m.total(simple(m, x, "h"), y)
    path = m.save(tmp_path / "two.tflite", [x, y], [out])
    fields = compile_model(path).model.state.row_fields
    assert [one.first for one in fields] == [0, fields[0].tensor.bytes]
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "100", "--on", target]) == 0


def test_no_input_is_too_few(tmp_path: Path) -> None:
    m = Network(1)
    h = m.state("h")
    new = m.curve("TANH", m.dense(h, SIZE))
    m.assigned("h", new)
    with pytest.raises(UserError, match="the model has no input besides its states"):
        compile_model(m.save(tmp_path / "none.tflite", [], [new]))


def test_no_output_is_too_few(tmp_path: Path) -> None:
    m = Network(1)
    x, h = m.vector(), m.state("h")
    m.assigned("h", m.curve("TANH", m.total(m.dense(x, SIZE), h)))
    path = m.save(tmp_path / "none.tflite", [x], [])
    with pytest.raises(UserError, match="the model has no output"):
        compile_model(path)
    graph = optimize(load(path))
    assert not graph.outputs and not graph.nodes
