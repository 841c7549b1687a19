# SPDX-License-Identifier: Apache-2.0
"""Emitted C read back: what a compiler makes of it, and nothing passed over."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from check_mutants import phased
from test_proof import PLANS, plan
from vmcu_bench.runners.compiled import MODEL_NAME
from vmcu_tools import paths
from vmcu_tools.emit.model import write_tables
from vmcu_tools.emit.proof import prove
from vmcu_tools.errors import PlanError
from vmcu_tools.machine.limits import LIMITS
from vmcu_tools.machine.tables import NUMBERS, Address, Objects, read

# Numbers as the emitter writes them, those at the ends of each type too.
ARRAYS = {
    "int8_t": "-128, 127,\n\t0, -1,",
    "uint8_t": "0, 255,",
    "int16_t": "-32768, 32767,",
    "uint16_t": "0, 65535, 0xffff,",
    "int32_t": "INT32_MIN, 2147483647, -5,",
    "uint32_t": "0U, 4294967295U,\n\t\t0xffffffff, 0x0000000a,",
    "float": "0x1.8p-3f, -0x1.fffffep+127f, 0x0p+0f, 1e-40f, 0.1f, 2.5f,",
}
STRUCTS = """\
#define LATER (1 << 4)
#define OTHER (1 << 5)
struct inner {
	int32_t low, high;
};
struct outer {
	const char *name;
	int32_t count, limit, named, flags;
	float scale, small;
	_Bool on, off;
	struct inner bounds;
	const int8_t *first, *third;
	const struct inner *table;
};
"""
HEADER = """\
#define M_LIMIT (4096)
#define M_NAMED M_LIMIT
"""
SOURCE = """\
#include "m.h"

#if !defined(NEVER)
#endif
/* An object, */
static const int8_t m_bytes[4] __attribute__((aligned(4))) = {
	1, /* and a comment */ 2, 3, 4,
};

static const struct inner m_table[] = {
	{.low = -1, .high = 1},
	{
		.high = 7,
	},
};

const struct outer m_model = {
	.name = "a \\"b\\" {c}, /*d*/ \\\\",
	.count = -12,
	.limit = M_LIMIT,
	.named = M_NAMED,
	.flags = LATER | OTHER,
	.scale = 0.1f,
	.small = 1.5e-05f,
	.on = true,
	.off = false,
	.bounds = {
		.low = 3,
	},
	.first = m_bytes,
	.third = &m_bytes[2],
	.table = &m_table,
};
"""


def objects(source: str, header: str = "") -> Objects:
    return read({"m.c": source, "m.h": header}, "m")


def printed(text: str, statements: str, folder: Path, define: str = "VMCU_POOL_ROTATE") -> bytes:
    """What a program that holds the text writes."""
    heads = "".join(f"#include <{head}.h>\n" for head in ("stdbool", "stdint", "stdio"))
    (folder / "m.c").write_text(f"{heads}{text}\nint main(void)\n{{\n{statements}\n}}\n")
    include = f"-I{paths.runtime() / 'include'}"
    command = ["gcc", "-std=c99", "-w", f"-D{define}", include, "m.c", "-o", "m"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run(["./m"], cwd=folder, capture_output=True, check=True).stdout


@pytest.mark.parametrize("kind", NUMBERS)
def test_arrays_have_the_bytes_that_a_compiler_makes(kind: str, tmp_path: Path) -> None:
    text = f"static const {kind} m_x[] = {{\n\t{ARRAYS[kind]}\n}};\n"
    found = objects(text)
    assert found.types["m_x"] == kind
    values = found.values["m_x"]
    assert isinstance(values, np.ndarray)
    assert values.tobytes() == printed(text, "fwrite(m_x, 1, sizeof(m_x), stdout);", tmp_path)
    counted = text.replace("[]", f"[{values.size}]")
    np.testing.assert_array_equal(objects(counted).values["m_x"], values)


def test_structs_have_the_values_that_a_compiler_makes(tmp_path: Path) -> None:
    found = objects(SOURCE, HEADER)
    assert list(found.values) == ["m_bytes", "m_table", "m_model"]
    assert found.types == {"m_bytes": "int8_t", "m_table": "inner", "m_model": "outer"}
    assert found.values["m_table"] == [{"low": -1, "high": 1}, {"high": 7}]
    model = found.values["m_model"]
    assert isinstance(model, dict)
    assert model["first"] == "m_bytes" and model["flags"] == "LATER | OTHER"
    assert model["third"] == Address("m_bytes", 2) and model["table"] == Address("m_table")
    assert model["bounds"] == {"low": 3}
    numbers = ("count", "limit", "named", "scale", "small", "on", "off")
    shown = "".join(f'\tprintf("%.17g ", (double)m_model.{name});\n' for name in numbers)
    text = STRUCTS + HEADER + SOURCE.replace('#include "m.h"', "")
    said = printed(text, f'\tprintf("%s\\n", m_model.name);\n{shown}', tmp_path).decode()
    name, values = said.split("\n")
    assert model["name"].replace("\\", "") == name.replace("\\", "")
    wanted = [model.get(number, 0) for number in numbers]
    assert [np.float32(value) for value in values.split()] == [np.float32(v) for v in wanted]


# Members and structs that are there in some builds alone; the others are in builds for pools that
# rotate.
SOMETIMES = {"pool_count": "VMCU_SEVERAL_POOLS", "vmcu_stream": "VMCU_STREAMS"}
USUALLY = "VMCU_POOL_ROTATE"


@pytest.mark.parametrize("define", [USUALLY, *SOMETIMES.values()])
def test_limits_are_those_of_the_members(define: str, tmp_path: Path) -> None:
    """What a member wraps around to, one below 0, is the most that it holds."""
    limits = {
        (kind, member): most
        for kind, members in LIMITS.items()
        for member, most in members.items()
        if SOMETIMES.get(kind, SOMETIMES.get(member, USUALLY)) == define
    }
    shown = "".join(
        f'\t{{ static struct {kind} x; x.{member}--; printf("%ju ", (uintmax_t)x.{member}); }}\n'
        for kind, member in limits
    )
    said = printed("#include <vmcu/workers.h>", shown, tmp_path, define).decode()
    assert [int(word) for word in said.split()] == list(limits.values())


@pytest.mark.parametrize("number", range(PLANS))
def test_a_member_that_is_left_out_is_zero(number: int) -> None:
    """As C has it: the tables lead to the same plan and the same calls."""
    one = plan(number)
    files = write_tables(one, MODEL_NAME).files
    source = f"{MODEL_NAME}.c"
    text = re.sub(r"(?:\n\t+|(?<=\{))\.\w+ = 0,(?: (?=\.)|(?=\n))", "", files[source])
    assert text.count("=") < files[source].count("=")
    known = prove(files, MODEL_NAME, one)
    found = prove({**files, source: text}, MODEL_NAME, one)
    assert found.plan.placements == known.plan.placements and found.rows == known.rows
    assert found.plan.progress == known.plan.progress
    for ours, theirs in zip(known.calls, found.calls, strict=True):
        assert [call for *_, call in ours] == [call for *_, call in theirs]


def test_a_layer_is_called_as_often_as_it_has_calls() -> None:
    """A schedule that goes on beyond the last row of its stage."""
    refused = 0
    for one in map(plan, range(PLANS)):
        files = write_tables(one, MODEL_NAME).files
        source = f"{MODEL_NAME}.c"
        text, found = re.subn(r"(\.times = )(\d+)(?=\},\n\};)", r"\g<1>9\2", files[source])
        if found:
            with pytest.raises(PlanError, match=r"is called too often|takes rows|than there are"):
                prove({**files, source: text}, MODEL_NAME, one)
            refused += 1
    assert refused > 5


def test_an_output_begins_where_its_ring_does() -> None:
    refused = 0
    for one in map(plan, range(PLANS)):
        heights = [one.graph.tensors[port.tensor].shape[0] for port in one.graph.outputs]
        if min(heights) == 1:
            # A whole row further is where it was.
            continue
        for files in phased(one):
            with pytest.raises(PlanError, match="is not one piece of the pool"):
                prove(files, MODEL_NAME, one)
            refused += 1
    assert refused > 2


def test_typed_numbers_keep_their_macro() -> None:
    found = objects("const struct s m_x = {\n\t.a = INT8_C(5),\n\t.b = 1,\n};\n")
    assert found.values["m_x"] == {"a": "INT8_C(5)", "b": 1}


STRUCT = "const struct s m_x = {{\n\t{}\n}};\n"
REFUSED = {
    "a number too large": ("const uint8_t m_x[] = {\n\t256,\n};\n", "does not fit"),
    "a number too small": ("const int8_t m_x[] = {\n\t0, -129,\n};\n", "does not fit"),
    "a number that C reads as another": ("const int8_t m_x[] = {\n\t010,\n};\n", "else: .*010"),
    "a member that C reads as another": (STRUCT.format(".a = 010,"), "cannot be read back"),
    "an element too few": ("const int8_t m_x[3] = {\n\t1, 2,\n};\n", "an array of 3 elements"),
    "an element too many": ("const int8_t m_x[1] = {\n\t1, 2,\n};\n", "an array of 1 elements"),
    "a function": ("int f(void)\n{\n}\n", "cannot be read back"),
    "code behind an object": (STRUCT.format(".a = 1,") + "int x;\n", "cannot be read back"),
    "a sign that no table has": (STRUCT.format(".a = 1 ^ 2,"), "cannot be read back"),
    "a member twice": (STRUCT.format(".a = 1,\n\t.a = 2,"), "sets 'a' twice"),
    "no value": (STRUCT.format(".a = ,"), "in place of a value"),
    "no equals sign": (STRUCT.format(".a 1,"), "in place of '='"),
    "a brace that stays open": (STRUCT.format(".a = {.b = 1,"), "ends too early"),
    "two values": (STRUCT.format(".a = 1 2,"), "goes on behind its end"),
    "a value without a member": (STRUCT.format("1,"), "goes on behind its end"),
    "an index that stays open": (STRUCT.format(".a = &b[1,"), r"in place of '\]'"),
    "a macro that stays open": (STRUCT.format(".a = INT8_C(1,"), r"in place of '\)'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_whatever_else_there_is_is_refused(case: str) -> None:
    text, message = REFUSED[case]
    with pytest.raises(PlanError, match=message):
        objects(text)


@pytest.mark.parametrize("index", ["-4", "x", "1.5f"])
def test_an_address_has_an_index_that_c_counts_from_the_start(index: str) -> None:
    one = next(
        one for one in map(plan, range(PLANS)) if any(len(steps) > 1 for steps in one.stages)
    )
    files = write_tables(one, MODEL_NAME).files
    source = f"{MODEL_NAME}.c"
    text = files[source].replace(
        ".schedule = &model_schedule[0]", f".schedule = &model_schedule[{index}]"
    )
    assert text != files[source]
    with pytest.raises(PlanError, match="has no element"):
        prove({**files, source: text}, MODEL_NAME, one)
