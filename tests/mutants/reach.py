# SPDX-License-Identifier: Apache-2.0
"""Which tests reach a line: collected once a test file, kept in build/mutants/reach."""

from __future__ import annotations

import difflib
import hashlib
import json
import queue
import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutant import Mutant
from tree import ALONE, Tree, in_each

# Lines around a changed one whose tests stand in for its own.
NEAR = 3


@dataclass(frozen=True)
class Test:
    name: str
    seconds: float


@dataclass
class Reach:
    """tests: by file and line of the sources that they ran on. killers: by file, how many of its
    mutants a test has killed. failed: tests that fail without any mutant, which can judge none;
    passed: those that were run again and do not. readers: tests that run no line themselves; they
    look at the files, or run them elsewhere."""

    folder: Path
    tests: dict[str, dict[int, set[Test]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    maps: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    killers: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failed: list[str] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)
    readers: set[Test] = field(default_factory=set)

    def add(self, path: Path, tree: Tree) -> None:
        """The record of one test file, its lines moved to where they are now in the tree. Files
        that no mutants are drawn from are passed over."""
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        texts = lines[0]["texts"]
        sets = {entry["set"]: entry for entry in lines if "set" in entry}
        for entry in lines:
            if "test" not in entry:
                continue
            if entry["failed"]:
                self.failed.append(entry["test"])
                continue
            test = Test(entry["test"], entry["seconds"])
            if not entry["sets"]:
                self.readers.add(test)
            for number in entry["sets"]:
                file = sets[number]["file"]
                if file not in texts:
                    continue
                moved = self._moves(file, texts[file], tree)
                for line in sets[number]["lines"]:
                    if line in moved:
                        self.tests[file][moved[line]].add(test)

    def _moves(self, file: str, digest: str, tree: Tree) -> dict[int, int]:
        """From lines then to lines now; changed ones are missing."""
        if (file, digest) not in self.maps:
            old = (self.folder / "texts" / digest).read_text().splitlines()
            path = tree.folder / file
            new = path.read_text().splitlines() if path.exists() else []
            blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
            self.maps[file, digest] = {
                a + n + 1: b + n + 1 for a, b, size in blocks for n in range(size)
            }
        return self.maps[file, digest]

    def passes(self, name: str, tree: Tree) -> bool:
        """Whether a test passes without a mutant; it is run the first time that one asks."""
        if name in self.passed:
            return True
        if name not in self.failed and tree.run([name], ALONE)[0] == 0:
            self.passed.add(name)
            return True
        self.failed.append(name)
        return False

    def of(self, mutant: Mutant) -> list[Test]:
        """First those that have killed mutants of the file, then the fastest of each test file, the
        next of each, and so on: files look at different things.

        Of a line that no test runs by itself, such as one of a module, a table or a macro: those of
        the lines around it, else of the file; as many as there is time for."""
        lines = self.tests[mutant.file]
        found = lines.get(mutant.line, set())
        own = bool(found)
        if not own:
            around = range(mutant.line - NEAR, mutant.line + NEAR + 1)
            found = set().union(*(lines.get(line, set()) for line in around))
        if not found:
            found = set().union(*lines.values())
        found = {test for test in found | self.readers if test.name not in self.failed}
        killers = self.killers[mutant.file]
        turns: Counter[str] = Counter()
        places = {}
        for test in sorted(found, key=lambda test: (test.seconds, test.name)):
            file = test.name.partition("::")[0]
            turn = turns[file] if own else 0
            places[test] = (-killers[test.name], turn, test.seconds, test.name)
            turns[file] += 1
        return sorted(found, key=places.__getitem__)


def collect(folder: Path, test_files: list[str], trees: Sequence[Tree]) -> Reach:
    """Runs the test files that have changed since they were recorded, or were not recorded, one in
    each tree at a time."""
    (folder / "texts").mkdir(parents=True, exist_ok=True)
    first = trees[0]
    header = {"texts": _texts(folder, first)}
    wanted: queue.SimpleQueue[str] = queue.SimpleQueue()
    names = first.tests_of(test_files)
    for file in test_files:
        here = {name for name in names if name.startswith(f"{file}::")}
        if not _is_recorded(_record(folder, file), _digest(first, file), here):
            wanted.put(file)

    def work(tree: Tree) -> None:
        while True:
            try:
                file = wanted.get_nowait()
            except queue.Empty:
                return
            print(f"which lines {file} reaches", flush=True)
            record = _record(folder, file)
            fresh = record.with_suffix(".new")
            fresh.write_text(json.dumps(header | {"digest": _digest(tree, file)}) + "\n")
            tree.record(file, fresh)
            fresh.replace(record)

    in_each(trees, work)
    reach = Reach(folder)
    for file in test_files:
        reach.add(_record(folder, file), first)
    return reach


def _record(folder: Path, file: str) -> Path:
    return folder / f"{Path(file).stem}.jsonl"


def _is_recorded(record: Path, digest: str, names: set[str]) -> bool:
    """True if a record is of the file as it is, and of all tests that it has now: their names may
    come from other files."""
    if not record.exists():
        return False
    header, *lines = map(json.loads, record.read_text().splitlines())
    return header["digest"] == digest and names == {e["test"] for e in lines if "test" in e}


def _digest(tree: Tree, file: str) -> str:
    return hashlib.sha256((tree.folder / file).read_bytes()).hexdigest()


def _texts(folder: Path, tree: Tree) -> dict[str, str]:
    """Digests of the product's files as they are, which are kept under them."""
    texts = {}
    for file in tree.product():
        path = tree.folder / file
        texts[file] = hashlib.sha256(path.read_bytes()).hexdigest()[:24]
        if not (folder / "texts" / texts[file]).exists():
            shutil.copyfile(path, folder / "texts" / texts[file])
    return texts
