# SPDX-License-Identifier: Apache-2.0
"""The kernel language: expressions, passes, and programs against the numpy meaning of layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drawn import layer_and_data, some
from edge_graphs import EDGES, edge_layer
from hypothesis import given
from hypothesis import strategies as st
from pool_log import interpret, touched_by
from random_graphs import LAYERS, random_inputs, random_layers
from vmcu_kernelgen.passes import lower
from vmcu_tools.kernels.language.builder import Builder
from vmcu_tools.kernels.language.evaluate import Head, Machine, run
from vmcu_tools.kernels.language.expr import (
    Binary,
    Expr,
    Int,
    Name,
    affine,
    c_text,
    evaluate,
    substitute,
)
from vmcu_tools.kernels.language.instruction import instruction
from vmcu_tools.kernels.language.ir import Loop, Program, Stmt, Stream, map_bodies
from vmcu_tools.kernels.language.packing import NIBBLES, WORDS
from vmcu_tools.kernels.pack import Kind, with_heads
from vmcu_tools.kernels.programs import programs
from vmcu_tools.kernels.targets.portable.pooling import POOLS
from vmcu_tools.ops import ProgramLayer, bind

X, Y, N = Name("i"), Name("j"), Name("p->n")
VALUES = {"i": 5, "j": 3, "p->n": 7}


def expressions(operators: str) -> st.SearchStrategy[Expr]:
    """Built operator by operator without simplification; divisors are not zero."""
    leaves = st.sampled_from([X, Y, N]) | st.integers(0, 9).map(Int)
    divisors = st.integers(1, 9).map(Int)

    def larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        plain = st.builds(
            Binary, st.sampled_from([o for o in operators if o in "+-*"]), inner, inner
        )
        quotients = [o for o in operators if o in "/%"]
        if not quotients:
            return plain
        return plain | st.builds(Binary, st.sampled_from(quotients), inner, divisors)

    return st.recursive(leaves, larger, max_leaves=8)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (X + 0, "i"),
        (0 + X, "i"),
        (X * 1, "i"),
        (X * 0, "0"),
        (Int(6) // 4, "1"),
        ((X + 2) + 3, "i + 5"),
        ((X - 2) + 5, "i + 3"),
        ((X + 2) * 3, "(i + 2) * 3"),
        (X - (Y - N), "i - (j - p->n)"),
        (X + (Y - N), "i + j - p->n"),
        (X * (Y // 2), "i * (j / 2)"),
        (X * (Y % 2), "i * (j % 2)"),
        (X * (Y * N), "i * j * p->n"),
        (X // (Y * 2), "i / (j * 2)"),
    ],
)
def test_simplified_text(built: Expr, text: str) -> None:
    assert c_text(built) == text


@some(1)
@given(expressions("+-*"))
def test_text_means_the_expression(expression: Expr) -> None:
    assert eval(c_text(expression).replace("p->n", "n"), {"i": 5, "j": 3, "n": 7}) == evaluate(
        expression, VALUES
    )


@given(expressions("+-*/%"))
def test_simplification_keeps_the_value(expression: Expr) -> None:
    assert evaluate(substitute(expression, {}), VALUES) == evaluate(expression, VALUES)
    assert evaluate(substitute(expression, {"i": Y + 2}), VALUES) == evaluate(expression, VALUES)


@given(expressions("+-*/%"))
def test_affine_or_not(expression: Expr) -> None:
    """Coefficients that hold everywhere, or a refusal."""
    try:
        (a, b), constant = affine(expression, ("i", "j"), {"p->n": 7})
    except ValueError:
        return
    for i in range(12):
        for j in range(12):
            assert evaluate(expression, {"i": i, "j": j, "p->n": 7}) == a * i + b * j + constant


@pytest.mark.parametrize("term", [X * Y, X * X, X // 2, X // 64, X % 3, N // (X + 1)])
def test_not_affine(term: Expr) -> None:
    with pytest.raises(ValueError, match=r"is not affine in i, j"):
        affine(term, ("i", "j"), {"p->n": 7})


@pytest.mark.parametrize(
    ("term", "line"),
    [
        (X * N + Y - 2, ([7, 1], -2)),
        ((X * 4 + Y * 2) // 2, ([2, 1], 0)),
        ((X * 4) % 2, ([0, 0], 0)),
        (N // 2 * X, ([3, 0], 0)),
        (X * Y * 0 + N, ([0, 0], 7)),
    ],
)
def test_affine(term: Expr, line: tuple[list[int], int]) -> None:
    assert affine(term, ("i", "j"), {"p->n": 7}) == line


# Programs of instructions that note what they see, to tell whether the passes change anything.
NOTES: dict = {}
STREAM = Stream()


@instruction(NOTES, "Broadcast", "", "")
def note(m: Machine, *seen: int) -> None:
    """Notes its operands."""
    m.log.append(("n", 0, np.array([seen])))


@instruction(NOTES, "FlashLoad", "", "")
def fetch(m: Machine, stream: Stream) -> None:
    """Notes the next word of the stream."""
    m.log.append(("f", 0, m.take(np.uint8, 1)))


def draw_body(k: Builder, data: st.DataObject, depth: int, scope: tuple[Expr, ...]) -> None:
    for number in range(data.draw(st.integers(1, 3))):
        kinds = ["note", "fetch", "rewind"]
        kind = data.draw(st.sampled_from(kinds if depth == 3 else [*kinds, "loop", "tiles"]))
        if kind == "note":
            k.do(note, number, *scope)
        elif kind == "fetch":
            k.do(fetch, STREAM)
        elif kind == "rewind":
            k.rewind(STREAM)
        elif kind == "loop":
            draw_loop(k, data, depth, scope)
        else:
            draw_tiles(k, data, depth, scope)


def draw_loop(k: Builder, data: st.DataObject, depth: int, scope: tuple[Expr, ...]) -> None:
    stop = data.draw(st.integers(0, 6) | st.sampled_from([N, N + 1, *scope]))
    step, unroll = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    with k.spatial(f"v{depth}", stop, step, unroll) as var:
        draw_body(k, data, depth + 1, (*scope, var))


def draw_tiles(k: Builder, data: st.DataObject, depth: int, scope: tuple[Expr, ...]) -> None:
    extent = data.draw(st.integers(0, 6) | st.sampled_from([N, *scope]))
    widths = data.draw(st.sampled_from([(1,), (2, 1), (4, 1), (3, 2, 1)]))

    @k.tiles(f"v{depth}", extent, widths)
    def tile(var: Expr, width: int) -> None:
        k.do(note, width)
        draw_body(k, data, depth + 1, (*scope, var))


def outcome(program: Program, size: int) -> list:
    machine = Machine({"p->n": size}, [], np.zeros((1, 1, 1), np.int8), bytes(range(256)) * 200)
    run(program, machine, 0)
    return [(kind, where.tolist()) for kind, _, where in machine.log]


@some(3.0)
@given(data=st.data())
def test_passes_keep_the_meaning(data: st.DataObject) -> None:
    k = Builder("vmcu_test", "vmcu_test_params", "")
    draw_body(k, data, 0, ())
    program = k.program()
    for size in (0, 1, 2, 5):
        assert outcome(lower(program), size) == outcome(program, size)


@pytest.mark.parametrize("kind", LAYERS)
@some()
@given(data=st.data())
def test_program_is_the_layer(kind: str, data: st.DataObject) -> None:
    """Interpreted on the stream that is emitted, and lowered as it becomes C."""
    layer, inputs = layer_and_data(kind, data)
    if isinstance(layer, ProgramLayer):
        expect_layer(layer, inputs)


def test_random_layers_reach_every_program() -> None:
    """The tests of kernels run over LAYERS: a program that none of them binds goes untested."""
    reached = set()
    for kind in LAYERS:
        graph = random_layers(kind, 200, seed=0)
        layers = [bind(graph, node) for node in graph.nodes]
        reached |= {x.binding.program.symbol for x in layers if isinstance(x, ProgramLayer)}
    assert reached == {one.symbol for small in (WORDS, NIBBLES) for one in programs(small).values()}


@pytest.mark.parametrize("name", EDGES)
def test_program_is_the_layer_at_the_edges(name: str) -> None:
    graph = edge_layer(name)
    for node in graph.nodes:
        layer = bind(graph, node)
        if isinstance(layer, ProgramLayer):
            inputs = random_inputs(graph, 1)
            ports = [port.tensor for port in graph.inputs]
            expect_layer(layer, [inputs[ports.index(name)] for name in node.inputs])


def expect_layer(layer: ProgramLayer, inputs: list[np.ndarray]) -> None:
    machine = interpret(layer, inputs)
    np.testing.assert_array_equal(machine.output, layer.rows(inputs, 0, layer.height))
    lowered = interpret(layer, inputs, lower(layer.binding.program))
    np.testing.assert_array_equal(lowered.output, machine.output)
    np.testing.assert_array_equal(touched_by(lowered).table(), touched_by(machine).table())
    called = replace(layer.binding.program, body=in_calls(layer.binding.program.body))
    np.testing.assert_array_equal(interpret(layer, inputs, called).output, machine.output)


def in_calls(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """With the one instruction that C has in place of a loop, if it has a meaning of its own: that
    of a whole kernel is the loop."""
    made = []
    for stmt in body:
        by = stmt.by if isinstance(stmt, Loop) else None
        known = by is not None and by.instruction not in POOLS.values()
        made.append(by if known else map_bodies(stmt, in_calls))
    return tuple(made)


@some()
@given(st.lists(st.tuples(st.sampled_from(Kind), st.integers(1, 6)), min_size=1, max_size=9))
def test_heads_of_segments(runs: list[tuple[Kind, int]]) -> None:
    """The heads name every block once and in order, however long a run is."""
    codes = [code % 4 for code, (_, n) in enumerate(runs) for _ in range(n)]
    kinds = [kind for kind, n in runs for _ in range(n)]
    bodies = [(k, code, k.name[:4].encode()) for k, code in zip(kinds, codes, strict=True)]
    most = Head.MOST_FAST if bodies[-1][0] is Kind.FAST else Head.MOST_EXACT
    bodies += [bodies[-1]] * (most - 1)
    stream = np.frombuffer(with_heads(bodies, 3), np.uint32)
    at, read, more = 0, [], True
    while more:
        head = Head.of(int(stream[at]))
        assert head.left == (0 if head.more else 3)
        others = Kind.APART if head.apart else Kind.EXACT
        read += [(Kind.FAST, head.code)] * head.fast + [(others, head.code)] * head.exact
        words = {int(np.frombuffer(b, np.uint32)[0]) for b in (b"FAST", b"EXAC", b"APAR")}
        assert set(stream[at + 1 : at + 1 + head.fast + head.exact].tolist()) <= words
        at, more = at + 1 + head.fast + head.exact, head.more
    assert at == len(stream)
    assert read == [(kind, code) for kind, code, _ in bodies]
