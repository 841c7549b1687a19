# SPDX-License-Identifier: Apache-2.0
"""Draws mutants of the product and runs the tests that may notice them.

    ./test mutants [FILE...] [--count N] [--seed N] [--tests FILE...]

FILE: files or folders of python and lib/vmcu; without any, those that differ from the
commit before or are not committed. The test files that import FILE judge a mutant; if it survives,
those that import its package (judges.py). A mutant is killed if a test fails, or does not end in
time. Survivors that accepted.txt lists with a reason do not count.
Ends with exit code 1 if one survives that is not listed.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import c_mutants
import python_mutants
from judges import Judges, Test
from mutant import Mutant
from tree import GENERATED, HERE, ROOT, Tree, in_each

ACCEPTED = HERE / "accepted.txt"
JOBS = 2
# A fixture takes seconds, all of them more; a mutant may be slower than what it was.
GRACE, FIXTURES, SLOWER = 30.0, 120.0, 2.0
KILLED, TIMEOUT, SURVIVED, UNREACHED = "killed", "timeout", "survived", "in no test"
SAME, NO_OBJECT = "the same code", "not compiled on this computer"


@dataclass(frozen=True)
class Result:
    """killer: the test that failed, "" if none did."""

    mutant: Mutant
    outcome: str
    killer: str = ""


def accepted() -> dict[str, str]:
    """Reasons, by Mutant.name."""
    reasons, reason = {}, ""
    for line in ACCEPTED.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            reasons[line.strip()] = reason
    return reasons


def changed() -> list[str]:
    commands = (
        ["git", "diff", "--name-only", "HEAD~1"],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    names = [
        name
        for command in commands
        for name in subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    ]
    return sorted(set(names))


def drawn(files: list[str], tree: Tree) -> list[Mutant]:
    wanted = [Path(file).as_posix().rstrip("/") for file in files]
    found = []
    for file in tree.product():
        if not any(file == name or file.startswith(f"{name}/") for name in wanted):
            continue
        draw = python_mutants.mutants if file.endswith(".py") else c_mutants.mutants
        found += draw(file, (tree.folder / file).read_bytes())
    return found


def within(tests: list[Test], budget: float) -> list[Test]:
    """As many as take so long, those that do not fit left out, and at least one."""
    chosen, total = [], 0.0
    for test in tests:
        if not chosen or total + test.seconds <= budget:
            chosen.append(test)
            total += test.seconds
    return chosen


def judge(mutant: Mutant, tree: Tree, judges: Judges, budget: float) -> Result:
    """The tests that import the file have half of the time, and those of its package the rest. A
    killer is run without the mutant, once: it may fail anyway."""
    objects = None if mutant.file.endswith(".py") else tree.compiled(mutant.file)
    if objects == []:
        # Ports are compiled with the headers of their platform.
        return Result(mutant, NO_OBJECT)
    result = Result(mutant, UNREACHED)
    for wide in (False, True):
        while tests := within(judges.of(mutant.file, wide), budget / 2):
            result = _judged(mutant, tree, tests, objects)
            if not result.killer or judges.passes(result.killer, tree):
                break
            print(f"left out, since it fails without a mutant: {result.killer}", flush=True)
        if result.outcome not in (SURVIVED, UNREACHED):
            break
    if result.killer:
        judges.killers[mutant.file][result.killer] += 1
    return result


def _judged(mutant: Mutant, tree: Tree, tests: list[Test], objects: list[bytes] | None) -> Result:
    path = tree.folder / mutant.file
    before = path.read_bytes()
    path.write_bytes(mutant.applied(before))
    try:
        if objects is not None and tree.compiled(mutant.file) in (None, objects):
            return Result(mutant, SAME)
        total, most = sum(test.seconds for test in tests), max(test.seconds for test in tests)
        limits = FIXTURES + SLOWER * total, GRACE + SLOWER * most
        code, killer = tree.run([test.name for test in tests], *limits)
    finally:
        path.write_bytes(before)
    if code is None:
        return Result(mutant, TIMEOUT)
    return Result(mutant, SURVIVED if code == 0 else KILLED, killer)


def judge_all(
    mutants: list[Mutant], trees: list[Tree], judges: Judges, budget: float
) -> list[Result]:
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    results: list[Result] = []

    def work(tree: Tree) -> None:
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            last = judge(mutant, tree, judges, budget)
            results.append(last)
            place, by = f"{mutant.file}:{mutant.line}", last.killer.rpartition("/")[2]
            print(f"{last.outcome:10} {place} {mutant.change}  {by}".rstrip(), flush=True)

    in_each(trees, work)
    return sorted(results, key=lambda result: (result.mutant.file, result.mutant.begin))


def report(results: list[Result], reasons: dict[str, str]) -> int:
    """Prints the table of doc/testing.md and the survivors; returns how many are not accepted."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    alive = []
    for result in results:
        outcome = result.outcome
        if outcome in (SURVIVED, UNREACHED):
            if result.mutant.name in reasons:
                outcome = "accepted"
            else:
                alive.append(result)
        table[result.mutant.file][outcome] += 1
    total = sum(table.values(), Counter())
    print("\n| file | mutants | killed | timeouts | survived | accepted | score |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, counts in (*sorted(table.items()), ("all", total)):
        dead = counts[KILLED] + counts[TIMEOUT]
        living = counts[SURVIVED] + counts[UNREACHED]
        count = dead + living + counts["accepted"]
        score = f"{100 * dead / (dead + living):.0f} %" if dead + living else ""
        cells = (name, count, counts[KILLED], counts[TIMEOUT], living, counts["accepted"], score)
        print(f"| {' | '.join(str(cell) for cell in cells)} |")
    for result in alive:
        print(f"{result.outcome}, line {result.mutant.line}:\n{result.mutant.name}")
    return len(alive)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./test mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--count", type=int, help="so many mutants, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="only these test files")
    parser.add_argument(
        "--budget", type=float, default=80, help="CPU seconds of tests a mutant, the fastest first"
    )
    parser.add_argument("--jobs", type=int, default=JOBS, help="mutants at a time")
    parser.add_argument("--json", type=Path, help="writes the results, too")
    parser.add_argument("--again", type=Path, metavar="JSON", help="only what survived there")
    args = parser.parse_args()
    build = ROOT / "build" / "mutants"
    trees = [Tree(build / f"tree{number}") for number in range(args.jobs)]
    mutants = drawn(args.files or changed(), trees[0])
    if not mutants:
        print(f"no mutants: none of these is a file of the product outside {GENERATED}")
        return 0
    if args.again:
        rows = json.loads(args.again.read_text())
        alive = {row["name"] for row in rows if row["outcome"] in (SURVIVED, UNREACHED)}
        mutants = [mutant for mutant in mutants if mutant.name in alive]
    if args.count is not None and args.count < len(mutants):
        mutants = random.Random(args.seed).sample(mutants, args.count)
    judges = Judges(trees[0], tuple(args.tests or ()))
    results = judge_all(mutants, trees, judges, args.budget)
    if args.json:
        rows = [{"name": result.mutant.name, **asdict(result)} for result in results]
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if report(results, accepted()) else 0


if __name__ == "__main__":
    sys.exit(main())
