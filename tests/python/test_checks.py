# SPDX-License-Identifier: Apache-2.0
"""Each check of the proof earns its place: without it a damaged table passes that is rejected with
it."""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from check_mutants import edited, mutants
from drawn import seeds
from random_builder import Builder
from random_graphs import convolution
from table_mutants import Files
from test_proof import ONE_POOL, PLANS, plan
from test_streams import plan_of
from vmcu_bench.runners.compiled import MODEL_NAME
from vmcu_tools.emit import proof
from vmcu_tools.emit.model import write_tables
from vmcu_tools.emit.proof import prove
from vmcu_tools.errors import PlanError
from vmcu_tools.graph import Graph, Port, Tensor, Window
from vmcu_tools.kernels import pack
from vmcu_tools.kernels.language.ticks import Ticks, ticks
from vmcu_tools.machine import (
    decoded,
    kernel_params,
    kernels,
    limits,
    mcu,
    parts,
    rotation,
    streams,
)
from vmcu_tools.machine.kernels import Case
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops import binding
from vmcu_tools.ops import mac as mac_kernels
from vmcu_tools.ops.layer import ProgramLayer
from vmcu_tools.ops.once import once
from vmcu_tools.plan.plan import Placement, Plan
from vmcu_tools.plan.pools import MOST_OF_SEVERAL, Pool
from vmcu_tools.planner.registry import make_plan

PROMISED = Path(__file__).parent / "checks.txt"
# Not tables.py: what it refuses no compiler takes either. Of kernels.py see the tests below, of
# between.py test_again.py.
MODULES = (decoded, kernel_params, limits, mcu, parts, proof, rotation, streams)


@dataclass(frozen=True)
class Check:
    """A statement that rejects a table: where it is, and what it says."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line} {self.text[:90]}"


def _rejects(node: ast.stmt) -> bool:
    match node:
        case ast.Raise(exc=ast.Call(func=ast.Name(id="PlanError"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="expect"))):
            return True
    return False


def checks() -> dict[tuple[str, int], Check]:
    """By file and each of its lines, the check that stands there."""
    found = {}
    for module in MODULES:
        file = str(module.__file__)
        for node in ast.walk(ast.parse(Path(file).read_text())):
            # What expect() raises is its callers'.
            if isinstance(node, ast.stmt) and _rejects(node) and "reason}" not in ast.unparse(node):
                one = Check(file, node.lineno, ast.unparse(node))
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    found[file, line] = one
    return found


class _Without(ast.NodeTransformer):
    def __init__(self, line: int):
        self.line = line

    def generic_visit(self, node: ast.AST) -> ast.AST:
        node = super().generic_visit(node)
        if isinstance(node, ast.stmt) and node.lineno == self.line and _rejects(node):
            return ast.copy_location(ast.Pass(), node)
        return node


def _functions(code: types.CodeType) -> Iterator[types.CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield inner
            yield from _functions(inner)


@functools.cache
def codes_without(check: Check) -> dict[str, types.CodeType]:
    """The functions of a check's file by name, without the check."""
    tree = _Without(check.line).visit(ast.parse(Path(check.file).read_text()))
    return {code.co_qualname: code for code in _functions(compile(tree, check.file, "exec"))}


@contextlib.contextmanager
def without(check: Check) -> Iterator[None]:
    """The function that holds a check, without it."""
    module = next(m for m in MODULES if m.__file__ == check.file)
    codes = codes_without(check)
    names = vars(module)
    owners = [names, *(vars(o) for o in names.values() if isinstance(o, type))]
    functions = {f for owner in owners for f in owner.values() if isinstance(f, types.FunctionType)}
    before = {f: f.__code__ for f in functions if f.__code__.co_filename == check.file}
    try:
        for function, code in before.items():
            function.__code__ = codes[code.co_qualname]
        yield
    finally:
        for function, code in before.items():
            function.__code__ = code


def rejected_at(files: Files, one: Plan, known: dict[tuple[str, int], Check]) -> Check | None:
    """The check that rejects the files; None if they pass."""
    try:
        prove(files, MODEL_NAME, one)
    except PlanError as error:
        place, trace = None, error.__traceback__
        while trace is not None:
            place = known.get((trace.tb_frame.f_code.co_filename, trace.tb_lineno), place)
            trace = trace.tb_next
        return place
    return None


def alone(check: Check, files: Files, one: Plan) -> bool:
    """True if nothing but the check rejects the files."""
    with without(check):
        try:
            prove(files, MODEL_NAME, one)
        except PlanError:
            return False
        except Exception:
            # The check keeps the proof itself from going wrong.
            return True
    return True


# Checks that no damage to these networks' tables shows alone, and why they stay.
STAY = {
    "needs row": "kernels without columns read rows at once; their rings are whole rows",
    "splits rows and reaches around": "a rule of plans, which are also proven before tables are",
    "is no number of pixels": "a rule of plans, which are also proven before tables are",
    "splits pixels": "without it the decoding of a call might not end",
    "outside of the pool for one inside": "a rule of graphs: of a node's tensors there is a check",
    "which is in the pool": "a rule of graphs, to which parameters are held",
    "does not have": "a rule of graphs, to which parameters are held",
    "a pixel of row": "a ring that reaches around has whole rows, see the rule above",
    "larger than an address": "a replay takes gigabytes; it has a test of its own",
    "takes another number of rows": "the last hop then has no row left, which is noticed too",
    "ends without its answer": "the last hop then has none, which is noticed too",
    "but turn differently": "rings have no byte too many, so that replays see it; it has a test",
}


def test_no_check_goes_unnoticed() -> None:
    """A check that is dropped or softened is missing here: checks.txt is what the proof promises,
    a line a check, and whoever changes one changes the line."""
    found = sorted({check.text for check in checks().values()})
    assert found == PROMISED.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def kernels_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has passed with a layer's constants is not run again on the same: damage is
    mostly elsewhere."""
    run, passed = kernels.check, {}

    def check(
        layer: ProgramLayer[Any], fields: Mapping[str, int], stream: bytes, proven: set[Case]
    ) -> None:
        case = kernels.case_of(layer, fields, kernels.some_columns(layer))
        how = layer.descending, layer.columns, layer.form, tuple(sorted(fields.items())), stream
        key = id(layer.node), tuple(layer.ins), layer.out, *how
        if case in proven or key not in passed:
            run(layer, fields, stream, proven)
            # The layer stays, so that no other node takes its node's number.
            passed[key] = layer
        proven.add(case)

    monkeypatch.setattr(kernels, "check", check)


def refusal(files: Files, one: Plan) -> str:
    """What the proof says of files; "" if they pass."""
    try:
        prove(files, MODEL_NAME, one)
    except PlanError as error:
        return str(error)
    return ""


@pytest.mark.usefixtures("kernels_run_once")
def test_members_that_tables_leave_out_are_zero() -> None:
    """As they are in C: one member of each name is zero, then left out."""
    one, source, seen = plan(1), f"{MODEL_NAME}.c", set()
    files = write_tables(one, MODEL_NAME).files
    text = files[source]
    for found in re.finditer(r"\.(\w+) = -?\d+(, ?|(?= \}))", text):
        struct = re.findall(r"struct (\w+) \w+(?:\[\])? = \{\n", text[: found.start()])[-1:]
        if (*struct, found[1]) in seen:
            continue
        seen.add((*struct, found[1]))
        zero, absent = (
            {**files, source: text[: found.start()] + put + text[found.end() :]}
            for put in (f".{found[1]} = 0{found[2]}", "")
        )
        assert refusal(zero, one) == refusal(absent, one), (*struct, found[1])
    assert len(seen) > 20


@pytest.mark.usefixtures("kernels_run_once")
def test_each_check_has_a_mutant_that_only_it_catches() -> None:
    """It proves a thousand damaged tables, which takes long."""
    known = checks()
    wanting = {one for one in known.values() if not any(text in one.text for text in STAY)}
    for files, one in mutants():
        check = rejected_at(files, one, known)
        if check in wanting and alone(check, files, one):
            wanting.remove(check)
        if not wanting:
            return
    assert not wanting, "\n".join(sorted(map(str, wanting)))


def test_rings_that_turn_differently_are_apart() -> None:
    """A ring moved to where it shares a byte with one that holds rows from hop to hop."""
    one = plan_of(2)
    (first, second, *_), place = one.kept, dict(one.placements)
    assert not list(streams.meeting([place[first]], one))
    place[second] = replace(place[second], base=place[first].base + place[first].ring - 1)
    found = list(streams.meeting([place[first]], replace(one, placements=place)))
    assert (first, second) in found


def test_pools_that_addresses_do_not_reach() -> None:
    one = plan(ONE_POOL)
    size, other = MOST_OF_SEVERAL + 8, one.regions[1].pool_bytes
    files = write_tables(one, MODEL_NAME).files
    text = re.sub(r"(\.pools = \{\n\t\t)\w+", rf"\g<1>{size}", files[f"{MODEL_NAME}.c"])
    text = re.sub(r"(\.pool_bytes = )\w+", rf"\g<1>{size + other}", text)
    with pytest.raises(PlanError, match="larger than an address can say"):
        prove({**files, f"{MODEL_NAME}.c": text}, MODEL_NAME, one)


@pytest.mark.parametrize("number", range(2))
def test_a_layer_has_columns_and_no_more_than_its_rows(number: int) -> None:
    one, found = plan(number), 0
    for columns in ("0", "4000"):
        for files in edited(r"(\.columns = )\d+", rf"\1 {columns}", one):
            with pytest.raises(PlanError, match="has other columns"):
                prove(files, MODEL_NAME, one)
            found += 1
    assert found == 2 * len(one.steps)


@pytest.mark.parametrize("height", [1, 2, 5, 9])
def test_rows_that_see_nothing_but_padding_are_proven(height: int) -> None:
    # With a step of two and a row of padding, windows pass by an image one row high, and every
    # window of others sees one row at most.
    b = Builder(np.random.default_rng(height))
    window = Window((2, 3), (4, 1), (2, 1), (1, 1, 1, 1))
    x = b.input((height, 11, 3))
    y = convolution(b, x, window, window.out_size(0, height), 11, 2)
    one = make_plan(b.graph([y.name]), prove=False)
    prove(write_tables(one, MODEL_NAME).files, MODEL_NAME, one)


@pytest.mark.parametrize("seed", seeds(60, 20))
def test_bytes_are_where_their_ring_has_them(seed: int) -> None:
    """A row's bytes as the virtual MCU finds them, and one by one."""
    dice = np.random.default_rng(seed)
    height, width, channels = (int(n) for n in dice.integers(1, 6, 3))
    tensor = Tensor("t", (height, width, channels), 1.0, 0)
    pixels = int(dice.integers(1, height * width + 1))
    ring = pixels * channels
    phase = int(dice.integers(0, pixels)) * channels
    pool, base = ring + int(dice.integers(0, 9)), 0
    base = int(dice.integers(0, pool - ring + 1))
    placement = Placement("t", base, ring, -1, 0, phase)
    port = Port("t", "t", (1, *tensor.shape), "int8")
    graph = Graph("g", "g", {"t": tensor}, (), (port,), (port,))
    mcu_of = VirtualMcu.__new__(VirtualMcu)
    mcu_of.plan = Plan("p", graph, (), {"t": placement}, pool)
    mcu_of.tensors, mcu_of.size = graph.tensors, pool
    for y in range(height):
        for start in range(width):
            where = mcu_of._where(tensor, y, start, width)
            first = (y * width + start) * channels
            circle = Pool(0, pool)
            wanted = [placement.at(first + n, circle) for n in range((width - start) * channels)]
            assert np.arange(pool)[where].tolist() == wanted


def refused(reason: str) -> bool:
    """Whether a proof of all plans says so, that of what is emitted unharmed by the change."""
    found = False
    for number in range(PLANS):
        one = plan(number)
        fresh = replace(one, graph=replace(one.graph))
        try:
            prove(write_tables(fresh, MODEL_NAME).files, MODEL_NAME, fresh)
        except PlanError as error:
            assert reason in str(error)
            found = True
    return found


@pytest.fixture
def unpacked() -> Iterator[None]:
    """No stream of constants is known yet, and those that are made now are not kept."""
    once.cache_clear()
    yield
    once.cache_clear()


@pytest.mark.usefixtures("unpacked")
def test_constants_that_mean_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the packing, which the tables and what they are compared with share."""
    right = pack.MacWeights.folded_bias.func
    wrong = functools.cached_property(lambda self: right(self) + 40)
    wrong.__set_name__(pack.MacWeights, "folded_bias")
    monkeypatch.setattr(pack.MacWeights, "folded_bias", wrong)
    assert refused("are not what its node means")


@pytest.mark.usefixtures("unpacked")
def test_constants_that_end_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    right = pack.with_heads
    monkeypatch.setattr(mac_kernels, "blocks", lambda *args: pack.blocks(*args)[:-4])
    assert pack.with_heads is right
    assert refused("the kernel cannot run")


def test_another_order_of_access(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of what planner and replay are told."""

    def late(*args: Any) -> Ticks:
        found = ticks(*args)
        return Ticks(found.count, {i: r - (r > 0) for i, r in found.reads.items()}, found.writes)

    monkeypatch.setattr(binding, "_ticks", lambda p, n, s: late(p, dict(n), dict(s)))
    assert refused("in another order than planned")
