# SPDX-License-Identifier: Apache-2.0
"""`vmcu check-plan`: overlaps in plans of other tools, against every byte at every step."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
from messages import assert_form
from vmcu_check import plans, readers
from vmcu_check.plans import LiveSpan, PlannedBuffer
from vmcu_lab.commands import check_plan
from vmcu_lab.placement import Buffer, Instance, files, place
from vmcu_lab.planners.tflm import greedy
from vmcu_tools.cli import main
from vmcu_tools.errors import UserError
from vmcu_tools.planner.places.lifetimes import Lifetime

HEAD = "id,lower,upper,size,offset\n"
KEY = "OfflineMemoryAllocation"
# Pairs of names, with the bytes that they share at each step.
Shared = dict[tuple[str, frozenset[str]], set[tuple[int, int]]]


def grid(buffers: list[PlannedBuffer] | tuple[PlannedBuffer, ...]) -> Shared:
    """Every byte at every step: the oracle."""
    cells: dict[tuple[str, int, int], set[str]] = {}
    for one in buffers:
        for span in one.spans:
            for step in range(span.first, span.until):
                for byte in range(span.low, span.high):
                    cells.setdefault((one.memory, step, byte), set()).add(one.name)
    shared: Shared = {}
    for (memory, step, byte), names in cells.items():
        for pair in combinations(sorted(names), 2):
            shared.setdefault((memory, frozenset(pair)), set()).add((step, byte))
    return shared


def swept(buffers: list[PlannedBuffer] | tuple[PlannedBuffer, ...]) -> Shared:
    """The same of the check."""
    shared: Shared = {}
    for one in plans.overlaps(buffers):
        cells = shared.setdefault((one.memory, frozenset(one.names)), set())
        here = {(s, b) for s in range(one.first, one.until) for b in range(one.low, one.high)}
        assert here and not here & cells
        cells |= here
    return shared


def rectangles(dice: random.Random) -> list[Buffer]:
    """Buffers with lifetimes, some with gaps, without offsets."""
    buffers = []
    for number in range(dice.randint(2, 14)):
        first = dice.randrange(12)
        until, size = first + dice.randint(1, 8), dice.randint(1, 24)
        buffers.append(Buffer(f"b{number}", first, until, size, dice.choice((1, 1, 4))))
    return buffers


def rows(problem: list[Buffer], offsets: dict[str, int]) -> str:
    """A CSV file in minimalloc's format."""
    lines = (f"{b.id},{b.lower},{b.upper},{b.size},{offsets[b.id]}" for b in problem)
    return HEAD + "\n".join(lines) + "\n"


def sound_table(dice: random.Random) -> str:
    problem = rectangles(dice)
    return rows(problem, place(Instance(tuple(problem)), seconds=0).offsets)


def sound_log(dice: random.Random) -> str:
    """As GreedyMemoryPlanner::PrintMemoryPlan prints it."""
    problem = rectangles(dice)
    sizes = [16 * (1 + b.size % 3) for b in problem]
    offsets = greedy(sizes, [Lifetime(b.lower, b.upper - 1) for b in problem])
    return "I (12) start\n" + "".join(
        f"{n} (id={n}): size={size}, offset={at}, first_used={b.lower} last_used={b.upper - 1}\n"
        for n, (b, size, at) in enumerate(zip(problem, sizes, offsets, strict=True))
    )


def packed(builder: flatbuffers.Builder, value: Any) -> int:
    """Writes a text, a vector ("code", numbers), a list of tables or a table; returns where."""
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, tuple):
        code, numbers = value
        width = {"B": 1, "i": 4}[code]
        builder.StartVector(width, len(numbers), width)
        for number in reversed(numbers):
            (builder.PrependInt32 if code == "i" else builder.PrependByte)(number)
        return builder.EndVector()
    if isinstance(value, list):
        ends = [packed(builder, one) for one in value]
        builder.StartVector(4, len(ends), 4)
        for end in reversed(ends):
            builder.PrependUOffsetTRelative(end)
        return builder.EndVector()
    ends = {n: v if isinstance(v, int) else packed(builder, v) for n, v in value.items()}
    builder.StartObject(12)
    for number, end in ends.items():
        if isinstance(value[number], int):
            builder.PrependInt32Slot(number, end, -(1 << 31))
        else:
            builder.PrependUOffsetTRelativeSlot(number, end, 0)
    return builder.EndObject()


def flat(value: dict[int, Any], identifier: bytes) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(packed(builder, value), identifier)
    return bytes(builder.Output())


def tflite(
    tensors: list[int],
    operators: list[tuple[list[int], list[int]]],
    ends: tuple[list[int], list[int]],
    offsets: list[int] | None,
    npu: tuple[int, ...] = (),
) -> bytes:
    """A .tflite file of int8 tensors with these bytes; npu: the operators of the Ethos-U."""
    words = [] if offsets is None else [1, 0, len(offsets), *offsets]
    data = b"".join(word.to_bytes(4, "little", signed=True) for word in words)
    graph = {
        0: [{0: ("i", [size]), 1: 9, 2: 0, 3: f"t{n}"} for n, size in enumerate(tensors)],
        1: ("i", ends[0]),
        2: ("i", ends[1]),
        3: [
            {0: int(n in npu), 1: ("i", reads), 2: ("i", writes)}
            for n, (reads, writes) in enumerate(operators)
        ],
    }
    model = {0: 3, 1: [{}, {1: "ethos-u"}], 2: [graph], 4: [{}, {0: ("B", list(data))}]}
    return flat(model | ({6: [{0: KEY, 1: 1}]} if words else {}), b"TFL3")


def chain(dice: random.Random) -> tuple[list[int], list[tuple[list[int], list[int]]]]:
    """Tensors and operators, which read one or two earlier tensors each."""
    tensors, operators = [dice.randint(1, 30)], []
    for number in range(1, dice.randint(3, 12)):
        reads = [number - 1, dice.randrange(max(0, number - 4), number)]
        tensors.append(dice.randint(1, 30))
        operators.append((reads, [number]))
    return tensors, operators


def sound_tflite(dice: random.Random) -> bytes:
    """A file with the plan that a placement of its own lifetimes has."""
    tensors, operators = chain(dice)
    ends = ([0], [len(tensors) - 1])
    loose = readers.read(tflite(tensors, operators, ends, [0] * len(tensors)), ".tflite")
    assert loose is not None
    free = [
        Buffer(b.name, b.spans[0].first, b.spans[0].until, b.spans[0].high) for b in loose.buffers
    ]
    offsets = place(Instance(tuple(free)), seconds=0).offsets
    return tflite(tensors, operators, ends, [offsets[f"t{n}"] for n in range(len(tensors))])


SOUND: dict[str, Callable[[random.Random], str | bytes]] = {
    ".csv": sound_table,
    ".log": sound_log,
    ".tflite": sound_tflite,
}


def saved(folder: Path, suffix: str, content: str | bytes) -> Path:
    path = folder / f"plan{suffix}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rewritten(content: str | bytes, suffix: str, number: int, offset: int) -> str | bytes:
    """The file with another offset of one buffer."""
    if isinstance(content, bytes):
        plan = readers.read(content, suffix)
        assert plan is not None
        words = [1, 0, len(plan.buffers), *(b.spans[0].low for b in plan.buffers)]
        data = b"".join(word.to_bytes(4, "little") for word in words)
        start = content.index(data) + 4 * (3 + number)
        return content[:start] + offset.to_bytes(4, "little") + content[start + 4 :]
    lines = content.splitlines()
    at = number + 1
    pattern = r"offset=\d+" if suffix == ".log" else r"\d+$"
    lines[at] = re.sub(pattern, f"offset={offset}" if suffix == ".log" else str(offset), lines[at])
    return "\n".join(lines) + "\n"


def planted(buffers: tuple[PlannedBuffer, ...], dice: random.Random) -> tuple[int, int, str] | None:
    """A buffer, an offset at which it shares bytes with a living one, and that one's name."""
    one, other = dice.sample(range(len(buffers)), 2)
    mine, its = buffers[one].spans[0], buffers[other].spans[0]
    if max(mine.first, its.first) >= min(mine.until, its.until):
        return None
    size, shared = (
        mine.high - mine.low,
        dice.randint(1, min(mine.high - mine.low, its.high - its.low)),
    )
    offsets = [at for at in (its.low - size + shared, its.high - shared) if at >= 0]
    return (one, dice.choice(offsets), buffers[other].name) if offsets else None


@pytest.mark.parametrize("suffix", SOUND)
def test_planted_overlaps_are_found(suffix: str, tmp_path: Path) -> None:
    """334 in files of each format, together 1,002; none in the files before."""
    dice, count = random.Random(suffix), 0
    while count < 334:
        content = SOUND[suffix](dice)
        sound = check_plan.read(saved(tmp_path, suffix, content))
        assert swept(sound.buffers) == {}
        for _ in range(8):
            fault = planted(sound.buffers, dice)
            if fault is None:
                continue
            number, offset, other = fault
            path = saved(tmp_path, suffix, rewritten(content, suffix, number, offset))
            wrong = check_plan.read(path).buffers
            expected = grid(wrong)
            assert (wrong[0].memory, frozenset((wrong[number].name, other))) in expected
            assert swept(wrong) == expected
            count += 1


def test_random_plans_against_every_byte() -> None:
    """Sound or not, in several memories, with several spans of a buffer."""
    dice, unsound = random.Random(1), 0
    for _ in range(300):
        buffers = []
        for number in range(dice.randint(1, 9)):
            spans = []
            for _ in range(dice.randint(1, 2)):
                first, low = dice.randrange(9), dice.randrange(40)
                first += 10 * len(spans)
                spans.append(
                    LiveSpan(first, first + dice.randint(0, 6), low, low + dice.randint(0, 12))
                )
            buffers.append(PlannedBuffer(f"b{number}", dice.choice("xy"), tuple(spans)))
        expected = grid(buffers)
        unsound += bool(expected)
        assert swept(buffers) == expected
        for memory, (peak, living) in plans.peaks(buffers).items():
            spans = [s for b in buffers if b.memory == memory for s in b.spans]
            assert peak == max(s.high for s in spans)
            steps = range(max(s.until for s in spans) + 1)
            assert living == max(
                sum(s.high - s.low for s in spans if s.first <= t < s.until) for t in steps
            )
    assert 100 < unsound < 290


def test_borders_that_touch_are_no_overlap(tmp_path: Path) -> None:
    """A CSV file's `upper` and `high` are outside, the log's `last_used` inside."""
    plan = check_plan.read(saved(tmp_path, ".csv", HEAD + "a,0,3,4,0\nb,3,5,4,0\nc,0,3,4,4\n"))
    assert swept(plan.buffers) == {}
    closed = "id,start,end,size,offset\na,0,3,4,0\nb,3,5,4,3\n"
    (overlap,) = plans.overlaps(check_plan.read(saved(tmp_path, ".csv", closed)).buffers)
    assert overlap == ("memory", ("a", "b"), 3, 4, 3, 4)
    line = "{} (id={}): size=16, offset={}, first_used={} last_used={}\n"
    log = line.format(0, 0, 0, 0, 2) + line.format(1, 1, 0, 3, 4) + line.format(2, 2, 16, 0, 4)
    assert swept(check_plan.read(saved(tmp_path, ".log", log)).buffers) == {}
    log += line.format(3, 3, 15, 2, 2)
    found = list(plans.overlaps(check_plan.read(saved(tmp_path, ".log", log)).buffers))
    assert [(o.names, o.first, o.until, o.low, o.high) for o in found] == [
        (("buffer 0", "buffer 3"), 2, 3, 15, 16),
        (("buffer 2", "buffer 3"), 2, 3, 16, 31),
    ]


def test_gaps_need_no_bytes(tmp_path: Path) -> None:
    text = "id,lower,upper,size,gaps,offset\na,0,9,8,2-6 6-7@0:4,0\nb,2,6,8,,0\nc,6,7,4,,4\n"
    path = saved(tmp_path, ".csv", text)
    plan = check_plan.read(path)
    assert swept(plan.buffers) == {} and main(["check-plan", str(path)]) == 0
    use = check_plan.compared(plan.buffers)["memory"]
    assert use == {"plan": 8, "vmcu": 8, "living": 8, "wasted": 0}


def test_an_npu_may_share_bytes_of_inputs_and_outputs() -> None:
    """Its scratch tensors contain them; the operators of the processor may not."""
    tensors, operators = [8, 99, 99, 8, 8, 8], [([0, 0, 1, 2, 3], [4]), ([4, 3], [5])]
    layout = (tensors, operators, ([3], [5]))
    plan = readers.read(tflite(*layout, [-1, 0, 0, 0, 8, 16], npu=(0,)), ".tflite")
    assert plan is not None and swept(plan.buffers) == {} and plan.is_partial
    assert [note.split("'")[1] for note in plan.notes[:2]] == ["t1", "t2"]
    # Still alive behind the operator.
    wrong = readers.read(tflite(*layout, [-1, 0, 0, 0, 4, 16], npu=(0,)), ".tflite")
    assert wrong is not None
    (overlap,) = plans.overlaps(wrong.buffers)
    steps = [wrong.steps[step] for step in range(overlap.first, overlap.until)]
    assert steps == ["operator 0 end", "operator 1"] and overlap[4:] == (4, 8)
    last = ([8, 9, 9, 8, 8], operators[:1], ([3], [4]))
    for npu in ((0,), ()):
        shared = readers.read(tflite(*last, [-1, 64, 80, 0, 4], npu=npu), ".tflite")
        assert shared is not None and bool(swept(shared.buffers)) is not bool(npu)


@pytest.mark.parametrize("name", ["then", "nested", "several", "no step"])
def test_lifetimes_are_those_of_the_interpreter(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The greedy planner's rule on the lifetimes gives the head that the recorder prints."""
    pytest.importorskip("tflite_micro", reason="needs tflite-micro")
    from builders import tflite_branches
    from test_plan_tflite import recorded_head
    from vmcu_lab.offline import OfflinePlan, written

    m, inputs, outputs = tflite_branches.build(tflite_branches.CASES[name])
    path = m.save(tmp_path / "m.tflite", inputs, outputs)
    head = recorded_head(path, capfd)
    graphs = m.model.subgraphs
    order = tuple(range(len(graphs[0].operators)))
    count = sum(len(graph.tensors) for graph in graphs)
    plan = readers.read(written(path, OfflinePlan(order, (0,) * count, 0, 0)), ".tflite")
    assert plan is not None
    lives = [(b.spans[0], b.spans[-1].until - 1) for b in plan.buffers if b.spans]
    sizes = [-(-(span.high - span.low) // 16) * 16 for span, _ in lives]
    offsets = greedy(sizes, [Lifetime(span.first, last) for span, last in lives])
    assert max(o + s for o, s in zip(offsets, sizes, strict=True)) == head


Value = tuple[int, int] | list[int] | None


def program(
    values: list[Value], calls: list[tuple[str, list[int]]], ends: tuple[list[int], list[int]]
) -> bytes:
    """A .pte file. Values: (bytes, offset) of a tensor, a list of tensors, or a number. Calls: an
    operator, "delegate", "move" or "jump", with its arguments."""
    union = []
    for value in values:
        if isinstance(value, tuple):
            place = {0: 1, 1: value[1]}
            union.append({0: 5, 1: {0: 1, 2: ("i", [value[0]]), 6: place}})
        else:
            union.append({0: 10, 1: {0: ("i", value)}} if value else {0: 2, 1: {}})
    names = sorted({name for name, _ in calls})
    kinds = {"delegate": 2, "move": 3, "jump": 4}
    instructions = []
    for name, args in calls:
        call: dict[int, Any] = dict(enumerate(args))
        if kinds.get(name, 1) < 3:
            call = {0: names.index(name), 1: ("i", args)}
        instructions.append({0: kinds.get(name, 1), 1: call})
    plan = {
        0: "forward",
        2: union,
        3: ("i", ends[0]),
        4: ("i", ends[1]),
        5: [{2: instructions}],
        6: [{0: name, 1: ""} for name in names],
    }
    return flat({0: 1, 1: [plan]}, b"ET12")


ADD, COPY = "aten::add", "executorch_prim::et_copy_index"
# Values, calls, inputs and outputs, and the pairs of values that share bytes.
PROGRAMS: dict[str, tuple[list[Value], list[tuple[str, list[int]]], Any, list[set[int]]]] = {
    "dead input": ([(8, 0), (8, 8), (8, 0)], [(ADD, [0, 1, 1]), (ADD, [1, 2, 2])], ([0], [2]), []),
    "living input": (
        [(8, 0), (8, 8), (8, 7)],
        [(ADD, [0, 1, 1]), (ADD, [0, 1, 2, 2])],
        ([0], [2]),
        [{0, 2}, {1, 2}],
    ),
    "view of a living value": (
        [(8, 0), (8, 8), (8, 0), (8, 16)],
        [(ADD, [0, 1, 1]), (ADD, [2, 1, 3, 3]), (ADD, [0, 3, 3])],
        ([0], [3]),
        [],
    ),
    "view keeps its base alive": (
        [(8, 0), (8, 8), (8, 0), (8, 4)],
        [(ADD, [0, 1, 1]), (ADD, [1, 3, 3]), (ADD, [2, 3, 3])],
        ([0], [3]),
        [{0, 3}, {1, 3}],
    ),
    "state before its first use": (
        [(8, 0), (8, 8), (8, 12)],
        [(ADD, [0, 1, 1]), ("aten::add_", [2, 0, 2])],
        ([0], [0]),
        [{1, 2}],
    ),
    "list of outputs": (
        [(8, 0), (4, 8), (4, 8), [1, 2], [1, 2]],
        [("aten::split", [0, 3, 4])],
        ([0], [1, 2]),
        [{1, 2}],
    ),
    "outputs stay": (
        [(8, 0), (8, 8), (8, 8)],
        [(ADD, [0, 1, 1]), (ADD, [0, 2, 2])],
        ([0], [1, 2]),
        [{1, 2}],
    ),
    "delegate": ([(8, 0), (8, 4)], [("delegate", [0, 1])], ([0], [1]), [{0, 1}]),
    "delegate of a view": (
        [(8, 0), (8, 0), (8, 8)],
        [("delegate", [1, 2]), (ADD, [0, 2, 2])],
        ([0], [2]),
        [],
    ),
    "delegate in the bytes of a dead value": (
        [(8, 0), (8, 8), (8, 0), (4, 0)],
        [(ADD, [0, 1, 1]), (ADD, [1, 3, 3]), ("delegate", [1, 2])],
        ([0], [2]),
        [],
    ),
    "branches share": (
        [(1, 32), (8, 0), (8, 0), (8, 8)],
        [("jump", [0, 3]), (ADD, [0, 1, 1]), ("move", [1, 3]), (ADD, [0, 2, 2]), ("move", [2, 3])],
        ([0], [3]),
        [],
    ),
    "loop reads an earlier value again": (
        [(8, 0), (8, 8), (8, 0), (1, 32)],
        [(ADD, [0, 1, 1]), (ADD, [1, 2, 2]), ("jump", [3, 0])],
        ([0, 3], [2]),
        [{0, 2}],
    ),
    "loop fills its result": (
        [(8, 0), (8, 8), (4, 8), (4, 20), None, (1, 32)],
        [(ADD, [0, 2, 2]), (ADD, [2, 3, 3]), (COPY, [1, 3, 4]), ("jump", [5, 0])],
        ([0, 5], [1]),
        [{1, 2}],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lifetimes_of_programs(name: str) -> None:
    values, calls, ends, expected = PROGRAMS[name]
    plan = readers.read(program(values, calls, ends), ".pte")
    assert plan is not None
    shared = swept(plan.buffers)
    assert shared == grid(plan.buffers)
    pairs = [{int(re.findall(r"value (\d+)", n)[0]) for n in names} for _, names in shared]
    assert sorted(map(sorted, pairs)) == sorted(map(sorted, expected))


def damaged(content: bytes, dice: random.Random) -> Iterator[bytes]:
    for _ in range(150):
        wrong = bytearray(content)
        for _ in range(dice.randint(1, 6)):
            wrong[dice.randrange(len(wrong))] = dice.choice((0, 1, 255, dice.randrange(256)))
        yield bytes(wrong)
        yield content[: dice.randrange(len(content))]
        yield content[:8] + dice.randbytes(dice.randrange(400))


@pytest.mark.parametrize("suffix", [".tflite", ".pte", ".csv", ".log"])
def test_damaged_files_end_in_a_message(suffix: str, tmp_path: Path) -> None:
    dice, refused = random.Random(suffix), 0
    values, calls, ends, _ = PROGRAMS["loop fills its result"]
    content = program(values, calls, ends) if suffix == ".pte" else SOUND[suffix](dice)
    for wrong in damaged(content.encode() if isinstance(content, str) else content, dice):
        try:
            plan = check_plan.read(saved(tmp_path, suffix, wrong))
            list(plans.overlaps(plan.buffers))
        except UserError as error:
            refused += 1
            for problem in error.problems:
                assert_form(problem)
    assert refused > 150


@pytest.mark.parametrize(
    ("suffix", "content", "words"),
    [
        (".csv", "id,lower,upper,size\na,0,1,4\n", "no memory plan: buffer 'a' has no offset"),
        (".csv", HEAD, "no memory plan: no buffer"),
        (".csv", HEAD + "a,0,x,4,0\n", "upper 'x' is not an integer"),
        (".tflite", b"nothing at all", "not a .tflite file"),
        (".pte", b"", "not a .pte file"),
        (".tflite", tflite([4], [], ([0], [0]), None), f"the file has no metadata '{KEY}'"),
        (".tflite", tflite([4], [], ([0], [0]), [-1]), f"no memory plan: '{KEY}' has no offset"),
        (".tflite", tflite([4], [], ([0], [0]), [-7]), "damaged or truncated"),
        (".tflite", tflite([4], [], ([0], [0]), [0, 8]), "has 2 tensors, the file has 1"),
        (".tflite", tflite([-1], [], ([0], [0]), [0]), "tensor 't0' has no fixed size"),
        (".tflite", tflite([4], [], ([0], [0]), [0])[:60], "damaged or truncated"),
        (".pte", program([None], [], ([], [])), "no memory plan: no tensor has an offset"),
        (".log", "3 (id=3): size=1, offset=0, first_used=0 last_used=0\n" * 2, "buffer 3 is in"),
        (".bin", b"\xff\xfe\x00", "not a text file"),
    ],
)
def test_files_without_a_plan_say_so(
    suffix: str,
    content: str | bytes,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = saved(tmp_path, suffix, content)
    assert main(["check-plan", str(path)]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {path}: ") and words in printed and "hint: " in printed


def test_the_command_names_what_overlaps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    path = saved(tmp_path, ".csv", HEAD + "a,0,3,40,0\nb,1,5,40,38\nc,3,5,2,0\n")
    assert main(["check-plan", str(path), "--json", str(out)]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "overlap: 'a' and 'b' share bytes 38 to 39 of memory at time 1 to time 2" in printed
    figures = json.loads(out.read_text())
    assert figures["overlaps"] == [
        {"memory": "memory", "names": ["a", "b"], "first": 1, "until": 3, "low": 38, "high": 40}
    ]
    sound = saved(tmp_path, ".csv", HEAD + "a,0,3,40,0\nb,1,5,40,64\nc,3,5,2,0\n")
    assert main(["check-plan", str(sound), "--json", str(out)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "memory: 104 bytes, vmcu 80, most living bytes 80: 24 bytes wasted" in printed
    heights = {"plan": 104, "vmcu": 80, "living": 80, "wasted": 24}
    assert json.loads(out.read_text())["memories"] == {"memory": heights}


def test_many_overlaps_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "".join(f"b{n},0,2,4,0\n" for n in range(150))
    assert main(["check-plan", str(saved(tmp_path, ".csv", HEAD + lines))]) == 1
    printed = capsys.readouterr().out
    assert printed.count("overlap: ") == 20 and "10,000 or more overlaps" in printed


def test_steps_have_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values, calls, ends, _ = PROGRAMS["living input"]
    assert main(["check-plan", str(saved(tmp_path, ".pte", program(values, calls, ends)))]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "overlap: 'forward: value 0 (inputs)' and 'forward: value 2 (aten::add)' share bytes 7 of "
        "forward memory 1 at 'forward instruction 1 aten::add'" in printed
    )


def test_offline_plans_of_vmcu_place(tmp_path: Path) -> None:
    """What `vmcu place` writes has no overlap, and vmcu's own plan is not lower."""
    pytest.importorskip("tflite_micro", reason="needs tflite-micro")
    from builders.tflite_models import TfliteModel

    for seed in range(10):
        dice, m = random.Random(seed), TfliteModel(seed)
        made = [m.activation((1, 6, 6, 2))]
        for _ in range(dice.randint(3, 9)):
            one, other = dice.choice(made[-3:]), dice.choice(made)
            made.append(m.op("ADD", [one, other], m.like(one, (1, 6, 6, 2)), "Add"))
        path, out = m.save(tmp_path / "m.tflite", made[:1], made[-1:]), tmp_path / "o.tflite"
        assert main(["place", str(path), "--output", str(out)]) == 0
        plan = check_plan.read(out)
        use = check_plan.compared(plan.buffers)["arena"]
        assert swept(plan.buffers) == {} and use["plan"] == use["vmcu"]


def test_places_of_large_problems() -> None:
    """Thousands of buffers in seconds; `files` writes them as minimalloc does."""
    dice = random.Random(0)
    buffers = [
        Buffer(str(n), at := dice.randrange(20_000), at + dice.randint(1, 99), dice.randint(1, 999))
        for n in range(4_000)
    ]
    problem = Instance(tuple(buffers))
    placed = place(problem, seconds=0)
    lines = rows(buffers, placed.offsets)
    fixed = files.parse(lines, Path("x.csv"))
    planned = [
        PlannedBuffer(
            b.id, "", (LiveSpan(b.lower, b.upper, b.offset or 0, (b.offset or 0) + b.size),)
        )
        for b in fixed.buffers
    ]
    assert list(plans.overlaps(planned)) == []
    span = planned[7].spans[0]
    fault = replace(planned[7], name="moved")
    (overlap, *_) = plans.overlaps([*planned, fault])
    assert overlap[2:] == span
