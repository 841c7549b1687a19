# SPDX-License-Identifier: Apache-2.0
"""What is said of files that are refused. refusals.txt has a line for each refusal of an importer
that a single change to a sound file of one operator brings about: file, change and reason.

`python tests/python/test_refusals.py` writes it anew, in some minutes; whoever changes a reason
changes its line.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import onnx
import pytest
import refusals_onnx
import refusals_tflite
from messages import assert_form
from vmcu_tools import frontends
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import common

LIST = Path(__file__).parent / "refusals.txt"
BETWEEN = " | "
# Not refusals: a library's words for what a rule tripped over.
TRIPPED = (
    *("importing it failed", "the file is damaged or truncated"),
    *("the constant value cannot be computed", "the operands do not fit"),
)
# What refuses on behalf of its caller.
HELPERS = ("require", "present", "operand")


def saved(kind: str, model: onnx.ModelProto | refusals_tflite.TfliteModel, folder: Path) -> Path:
    path = folder / f"m.{kind}"
    if isinstance(model, onnx.ModelProto):
        path.write_bytes(model.SerializeToString())
        return path
    return model.save(path, model.graph.inputs, model.graph.outputs)


def reasons(path: Path) -> list[str]:
    """What is said of a file; nothing if it is taken."""
    try:
        frontends.load(path)
    except UserError as error:
        for problem in error.problems:
            assert_form(problem)
        return [problem.reason for problem in error.problems]
    return []


def lines() -> list[str]:
    return LIST.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", lines(), ids=[f"line {n + 1}" for n in range(len(lines()))])
def test_a_refusal_says_why(line: str, tmp_path: Path) -> None:
    kind, case, change, reason = line.split(BETWEEN, 3)
    changes = {"onnx": refusals_onnx, "tflite": refusals_tflite}[kind].changes(case)
    model = next(other for what, other in changes if what == change)
    assert reason in reasons(saved(kind, model, tmp_path))


class Places:
    """The statements that refuse, by file and line, as they are met."""

    def __init__(self) -> None:
        self.met: dict[tuple[str, int], str] = {}
        self.fresh: list[tuple[tuple[str, int], str]] = []
        refuse, problem = common.UnsupportedError.__init__, common.GraphBuilder.problem

        def refused(error: common.UnsupportedError, reason: str, remedy: str = "") -> None:
            self.fresh.append((self.place(), reason))
            refuse(error, reason, remedy)

        def noted(builder: common.GraphBuilder, reason: str, *others: str) -> None:
            self.fresh.append((self.place(), reason))
            problem(builder, reason, *others)

        common.UnsupportedError.__init__ = refused
        common.GraphBuilder.problem = noted

    @staticmethod
    def place() -> tuple[str, int]:
        rooms = str(Path(frontends.__file__).parent)
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(rooms) and code.co_name not in HELPERS:
                return code.co_filename, frame.f_lineno
            frame = frame.f_back
        raise AssertionError("refused by nobody")

    def lines_of(self, kind: str, case: str, change: str, path: Path) -> Iterator[str]:
        """Of refusals that are met for the first time."""
        self.fresh = []
        said = reasons(path)
        for place, reason in self.fresh:
            known = place in self.met or reason not in said or reason.startswith(TRIPPED)
            if not known and "\n" not in reason:
                self.met[place] = reason
                yield BETWEEN.join((kind, case, change, reason))


def main() -> None:
    found, places = [], Places()
    with tempfile.TemporaryDirectory() as folder:
        for kind, module in (("onnx", refusals_onnx), ("tflite", refusals_tflite)):
            for case in module.SOUND:
                for change, model in module.changes(case):
                    path = saved(kind, model, Path(folder))
                    found += places.lines_of(kind, case, change, path)
    LIST.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")


if __name__ == "__main__":
    main()
