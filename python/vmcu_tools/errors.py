# SPDX-License-Identifier: Apache-2.0
"""Errors that the user can correct, and their messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

# How alike a word and a suggestion are at least, of difflib.
LIKENESS = 0.6
# Files that a command made on its way, by path, and those of the user that they were made of.
_MADE: dict[str, str] = {}


def stands_for(made: str, given: str) -> None:
    """Reports the faults of the file `made`, from now on, under the name `given`, which the user
    knows."""
    _MADE[made] = given


def message(text: str, hint: str = "") -> str:
    """Writes a fault and its remedy in the form of all messages. A hint behind the output of
    another program begins a line."""
    if not hint:
        return text
    between = "\n" if "\n" in text else " " if text.endswith((".", "!", "?")) else ". "
    return f"{text}{between}hint: {hint}"


@dataclass(frozen=True)
class Problem:
    """A problem of a model or a call that the user must change.

    Only `reason` is required. `remedy` is the hint, in the imperative. str() returns
    FILE: NODE (OP): REASON. hint: REMEDY.
    """

    reason: str
    remedy: str = ""
    file: str = ""
    node: str = ""
    op: str = ""

    def __str__(self) -> str:
        # A damaged file can have bytes for a name.
        node = f"{self.node} ({self.op})" if self.node and self.op else f"{self.node or self.op}"
        return message(
            ": ".join(part for part in (self.file, node, self.reason) if part), self.remedy
        )


class UserError(Exception):
    """One or more problems of the model or the call. A command prints them and exits 1."""

    def __init__(self, *problems: Problem):
        self.problems = tuple(_told(problem) for problem in problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[UserError], tuple[Problem, ...]]:
        """Pools of processes hand it on as a pickle."""
        return type(self), self.problems


def pip_line(package: str, extra: str) -> str:
    """The commands that install an optional package; the first one works in every folder."""
    return f"pip install {package}, or in a checkout pip install '.[{extra}]'"


def missing_package(package: str, purpose: str, extra: str, file: str = "") -> UserError:
    """The error for an absent optional package; extra: the extra of pyproject.toml that has it."""
    reason = f"the Python package '{package}' is needed to {purpose} and is not installed"
    return UserError(Problem(reason, pip_line(package, extra), file))


def _told(problem: Problem) -> Problem:
    reason, file = problem.reason, problem.file
    for made, given in _MADE.items():
        reason, file = reason.replace(made, given), given if file == made else file
    return replace(problem, reason=reason, file=file)


class PlanError(Exception):
    """The proof rejects a plan. This is a defect of a planner, not of the user's model."""


def alike(word: str, known: Iterable[str]) -> str:
    """Those of `known` that `word` may stand for: 'a', 'b' or 'c'. Empty where none does."""
    matches = [f"'{one}'" for one in difflib.get_close_matches(word, sorted(known), 3, LIKENESS)]
    return " or ".join(filter(None, [", ".join(matches[:-1]), *matches[-1:]]))


def suggestion(word: str, known: Iterable[str], listed: str) -> str:
    """The end of a message on an unknown word: near known words, else `listed`, the command that
    lists them."""
    near = alike(word, known)
    return f". hint: did you mean {near}?" if near else f". hint: `{listed}` lists them"
