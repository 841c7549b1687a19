# SPDX-License-Identifier: Apache-2.0
"""Damaged tables and plans, of each kind that a check of the proof is for: see test_checks.py."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from builders.onnx_states import Recurrent
from table_mutants import Files, damage
from test_proof import ONE_POOL, PLANS, plan
from test_variables import listening
from test_windows_anew import small
from vmcu_bench.runners.compiled import MODEL_NAME
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit.model import write_tables
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.pools import POOL_NUMBER
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

# Fewer do not show what each check is for.
MUTANTS = max(150, int(os.environ.get("VMCU_CASES", "150")))
# The places in each plan that a pattern of DIRECTED changes.
PLACES = 3
_TABLES: dict[int, tuple[Plan, Files]] = {}


def tables(one: Plan) -> Files:
    """Returns the tables of a plan, which stays, so that no other plan gets its number."""
    if id(one) not in _TABLES:
        _TABLES[id(one)] = one, write_tables(one, MODEL_NAME).files
    return _TABLES[id(one)][1]


def edited(pattern: str, to: str, one: Plan) -> Iterator[Files]:
    """The tables of a plan with one thing changed, once for each place where it is found."""
    files = tables(one)
    source = f"{MODEL_NAME}.c"
    text = files[source]
    for match in re.finditer(pattern, text, re.DOTALL):
        yield {**files, source: text[: match.start()] + match.expand(to) + text[match.end() :]}


# What random damage hardly ever hits: a pattern, and what stands there instead.
DIRECTED = (
    (r"(struct vmcu_model )\w+ =", r"\1another ="),
    (r"(_parts\[\] = \{\n)", r"\1\t5,\n"),
    (r"(\.params = &)\w+", r"\1nothing"),
    (r"static const struct vmcu_\w+_params (\w+ =)", r"static const struct vmcu_other_params \1"),
    (r"(_layers\[\].*?\.width = \d+,\n)(\t\})", r"\1\t\t.splits = 128,\n\2"),
    (r"(\.scratch = )\d+", r"\1model_tensors"),
    (r"\.(progress|scratch) = \d+", r".\1 = 99996"),
    (r"(\.input_count = )\d+(?=,\n\t\t\.(?:descending|output))", r"\1 255"),
    (r"(\.part_count = )\d+", r"\1 999"),
    (r'(\.name = )"model"', r'\1"another"'),
    (r"(\.output = )\d+", r"\1 0"),
    (r"(\.first = )\d+", r"\1 1"),
    (r"(\.count = )\d+", r"\1 0"),
    (r"(\{\.first = \d+, \.count = )1", r"\1 2"),
    (r"(\.(?:in|out)puts = )model_(?:in|out)puts", r"\1model_tensors"),
    (r"(\.(?:tensors|layers|stages) = )model_\w+", r"\1model_inputs"),
    (r"(\.taken = )\d+", r"\1 9999"),
    (r"(\.scale = )\w+", r"\1 0.5f"),
    (r"(\.zero_point = )[^,]+", r"\1 77"),
    (r"(\.rows = )\d+", r"\1 99"),
    (r"(\.height = )\d+", r"\1 77"),
    (r"(\.tensor = )\d+", r"\1 0"),
    (r"(\.tensor = )\d+", r"\1 99"),
    (r"(_layer_inputs\[\] = \{\n\t)\d+", r"\1 1"),
    (r"(_schedule\[\] = \{\n\t)\d+", r"\1 60"),
    (r"(\.(?:streamed|elsewhere) = )\w+", r"\1 5"),
    (r"(\.tensor_count = )\d+", r"\1 1"),
    (r"(0x\w+, 0x\w+, )0x\w+(?=, 0x)", r"\1 0x123"),
    (r"(\.inputs = &)\w+", r"\1model_layers"),
    (r"(\.base = )\d+", r"\1 99996"),
    (r"(\.columns = )\d+", r"\1 1"),
    (r"(\.kernel = )\w+", r"\1vmcu_reshape"),
    (r"\t\t\.splits = \d+,\n", ""),
    (r"(const struct \w+ )(\w+)( = \{\n\t\.stream = )\w+", r"\1\2\3\2"),
    (r"(\.length = )\d+(, \.times = 1\},\n\};)", r"\1 60000\2"),
    (r"(\.times = )\d+(\},\n\};)", r"\1 9999\2"),
    (r"(_schedule\[\] = \{\n\t)\d+", r"\1 255"),
    (r"(\.(?:output_count|streamed) = \w+,\n)(?=\};)", r"\1\t.step = 4,\n"),
    (r"(\.input_count = \d+,\n)(?=\t\t\.output)", r"\1\t\t.descending = 1,\n"),
    (r"(\.input_count = \d+,\n)(?=\t\t\.output)", r"\1\t\t.descending = 2,\n"),
    (r"(\.flags = VMCU_IO_CHANNELS_FIRST) \| \w+", r"\1"),
    (r"\t\.elsewhere = true,\n", ""),
    (r"(\.step = )\d+", r"\1 2"),
    (r"(\.pool_bytes = )\w+", r"\1 65536"),
    (r"(\.params = &\w+)", r"\1[1]"),
    (r"(\.(?:stream|table) = )(\w+)", r"\1&\2[1]"),
)


def phased(one: Plan) -> Iterator[Files]:
    """Outputs whose first row is not where their ring begins."""
    for port in one.graph.outputs:
        tensor, place = one.graph.tensors[port.tensor], list(one.placements).index(port.tensor)
        head = rf"(/\* {place} [^\n]*\*/\n\t\{{\n\t\t\.base = \d+,\n"
        ring = rf"\t\t\.ring = {tensor.bytes},\n)"
        yield from edited(head + ring, rf"\1\t\t.phase = {tensor.row_bytes},\n", one)


def split(one: Plan) -> Iterator[Files]:
    """Tensors whose first row begins in front of the pool's end and reaches beyond it."""
    for name, place in one.placements.items():
        tensor = one.graph.tensors[name]
        channels = tensor.shape[2]
        base = one.pool_of(place.base).stop - tensor.row_bytes // 2 // channels * channels
        yield from edited(rf"(\.base = ){place.base},", rf"\g<1>{base},", one)


def moved(one: Plan) -> Iterator[Files]:
    """What stages keep in the pool, each where something else is, or next to it."""
    text = tables(one)[f"{MODEL_NAME}.c"]
    places = {int(place) for place in re.findall(r"\.(?:progress|scratch) = (\d+)", text)}
    near = {place + step for place in places for step in (-4, 0, 1, 2, 4, 8)}
    for place in sorted(near | {one.pool_bytes - 4}):
        if place >= 0:
            yield from edited(r"\.(progress|scratch) = \d+", rf".\1 = {place}", one)


def pooled(one: Plan) -> Iterator[Files]:
    """Pools of other sizes, more or fewer of them; scratch and progress across a pool's end."""
    sizes = [region.pool_bytes for region in one.regions]
    for old, new in ((2, 1), (2, 3), (2, 0)):
        yield from edited(rf"(\.pool_count = ){old}", rf"\1 {new}", one)
    yield from edited(r"(\.pools = \{\n\t\t)\w+", rf"\1 {sum(sizes)}", one)
    yield from edited(r"(\.pool_count = \d+,\n)", r"\1\t.circle = 8,\n", one)
    for placement in one.placements.values():
        circle = one.pool_of(placement.base)
        if circle.start:
            # The same byte as the plan counts it, which is none of the first pool's.
            there = 1 << POOL_NUMBER | placement.base - circle.start
            yield from edited(rf"(\.base = ){there},", rf"\g<1>{placement.base},", one)


def with_pool(files: Files, size: int) -> Files:
    """The tables with a pool of so many bytes, of which the header tells callers."""
    header = f"{MODEL_NAME}.h"
    return {**files, header: re.sub(r"(_POOL_BYTES )\d+", rf"\g<1>{size}", files[header], count=1)}


def across(one: Plan) -> Iterator[Files]:
    """Tables with two more pools, which hold nothing but what a stage keeps: it begins in one and
    ends in the other."""
    sizes = [*(region.pool_bytes for region in one.regions), 64, 64]
    place = (len(one.regions) << POOL_NUMBER) + 64 - 4
    source = f"{MODEL_NAME}.c"
    for files in edited(r"\.(progress|scratch) = \d+", rf".\1 = {place}", one):
        text = re.sub(
            r"\.pools = \{.*?\}", f".pools = {{{str(sizes)[1:-1]}}}", files[source], flags=re.S
        )
        text = re.sub(r"(\.pool_count = )\d", rf"\g<1>{len(sizes)}", text)
        yield with_pool({**files, source: text}, sum(sizes))


def overtaken(one: Plan) -> Iterator[Files]:
    """Tables whose last part takes from the streamed input once more, when all is done."""
    source = f"{MODEL_NAME}.c"
    files = tables(one)
    if one.input_streamed:
        text = re.sub(r"(_schedule\[\] = \{\n[^}]*?),\n\};", r"\1, 255,\n};", files[source])
        longer = re.sub(
            r"(\.length = )(\d+)(, \.times = 1\},\n\};)",
            lambda match: f"{match[1]}{int(match[2]) + 1}{match[3]}",
            text,
        )
        yield {**files, source: longer}


def numbers(lines: str) -> list[int]:
    """Those of a table of counts."""
    return [int(word) for word in lines.replace(",", " ").split()]


def unbounded(one: Plan) -> Iterator[Files]:
    """Tables of a stage that never ends, with other counts, parts and hops."""
    yield from edited(r"\t\.stream = &\w+,\n", "", one)
    yield from edited(r"\t\.states = \d+,\n", "", one)
    yield from edited(r"(\.stream = &)model_stream", r"\1model_other", one)
    yield from edited(r"(\.calls = )\w+", r"\1model_layers", one)
    yield from edited(r"(_calls\[\] = \{\n\t)\d+, ", r"\1", one)
    yield from edited(r"(\.rows = )\d+(,\n\};\n\nstatic const struct vmcu_io)", r"\1 1\2", one)
    yield from edited(
        r"(\.rows = )(\d+)(,\n\};\n\nstatic const struct vmcu_io)", r"\1 \g<2>00\3", one
    )
    yield from edited(r"(\.part_count = )2", r"\1 1", one)
    source = f"{MODEL_NAME}.c"
    # The executor has one hop over and over, and never comes to a third part.
    files = tables(one)
    text = files[source]
    longer = re.sub(
        r"(\t\{\.start = \d+, \.length = \d+, \.times = )(\d+)(\},\n)(?=\};)",
        lambda last: f"{last[1]}{int(last[2]) - 1}{last[3]}{last[1]}1{last[3]}",
        text,
    )
    yield {**files, source: re.sub(r"(\.part_count = )2", r"\g<1>3", longer)}
    found, starts = (
        re.search(rf"(_{label}\[\] = \{{\n)(.*?)(\n\}};)", text, re.DOTALL)
        for label in ("calls", "again")
    )
    assert found is not None and starts is not None
    counts, firsts = (numbers(table[2]) for table in (found, starts))
    # All layers begin anew at their first call, which some of a file with variables must not.
    fewer = [count - first for count, first in zip(counts, firsts, strict=True)]
    early = text.replace(found[0], f"{found[1]}\t{str(fewer)[1:-1]},{found[3]}")
    none = str([0] * len(firsts))[1:-1]
    yield {**files, source: early.replace(starts[0], f"{starts[1]}\t{none},{starts[3]}")}
    for number, count in enumerate(counts):
        for other in (count + 1, 100 * count, count // 2):
            changed = [*counts[:number], other, *counts[number + 1 :]]
            lines = f"{found[1]}\t{str(changed)[1:-1]},{found[3]}"
            yield {**files, source: text.replace(found[0], lines)}


def looked_back(one: Plan) -> Iterator[Files]:
    """Tables of a stage that never ends with layers behind it: less of it is saved, or more than
    there is, or the number of a hop is not where those layers look."""
    yield from edited(r"(\.state_bytes = )\d+", r"\1 8", one)
    yield from edited(r"(\.state_bytes = )\d+", r"\1 999999", one)
    place, (start, size) = one.placements["hops"], one.state
    end = one.pool_bytes
    assert start + size == end
    for files in edited(rf"(\.base = ){place.base}(,\n\t\t\.ring = )2", rf"\g<1>{end}\g<2>4", one):
        source = f"{MODEL_NAME}.c"
        text = re.sub(r"(\.state_bytes = )\d+", rf"\g<1>{size + 4}", files[source])
        yield with_pool({**files, source: text}, end + 4)


def aimed(one: Plan) -> Iterator[tuple[Files, Plan]]:
    """What random damage hardly ever hits, everywhere in a plan's tables."""
    ways = [itertools.islice(edited(*way, one), PLACES) for way in DIRECTED]
    ways += [pooled(one), across(one)] if one.regions else []
    if one.rotation is not None:
        ways.append(edited(r"(\.step = )\d+", rf"\1 {one.rotation.step + one.pool_bytes}", one))
        ways.append(iter([with_pool(tables(one), one.ram_bytes - 4)]))
    for files in itertools.chain(*ways, phased(one), split(one), moved(one), overtaken(one)):
        yield files, one


def mutants() -> Iterator[tuple[Files, Plan]]:
    """Damaged tables and the plan that they were: first those of a few plans, which show nearly
    all, last those of all others, for whoever still looks for something."""
    anew = make_plan(small(), CompileOptions(hop=1))
    for files in itertools.chain(unbounded(anew), looked_back(anew)):
        yield files, anew
    with tempfile.TemporaryDirectory() as folder:
        variables = compile_model(listening("strided", Path(folder)))
        path = Recurrent(3, 1).save(Path(folder) / "cell.onnx")
        computed = compile_model(path, CompileOptions(state=["h0:hn0"]))
    for files in unbounded(variables):
        yield files, variables
    for files in unbounded(computed):
        yield files, computed
    few = (*range(ONE_POOL, ONE_POOL + 3), *range(5), 9)
    for number in few:
        yield from aimed(plan(number))
    rng = np.random.default_rng(int(os.environ.get("VMCU_SEED", "1")))
    for number in range(MUTANTS):
        one = plan(number % ONE_POOL)
        yield damage(rng, tables(one)), one
    for number in range(PLANS):
        if number not in few:
            yield from aimed(plan(number))
