# SPDX-License-Identifier: Apache-2.0
"""An option, declared once: for Python as a field of a dataclass, for the command line as text."""

from __future__ import annotations

import argparse
import functools
import numbers
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import FrozenInstanceError, dataclass, fields
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from ..errors import Problem, UserError

# Titles of groups of options in --help.
PLAN, STREAMING = "plan", "streaming"
Given = TypeVar("Given", contravariant=True)
Kept = TypeVar("Kept", covariant=True)


@dataclass(eq=False)
class Keyword(Generic[Given, Kept]):
    """A dataclass field that reads the value that it is given: `Keyword[Given, Kept]`.

    help, metavar, title: as `--help` prints them. read: converts a text or a number; None: the
    value stays. choices: valid values; empty: all that `read` accepts.
    """

    default: Any
    help: str
    read: Callable[[str], Any] | None = None
    metavar: str | None = None
    title: str = PLAN
    choices: Collection[str] = ()
    name: str = ""
    owner: type = object

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name

    @overload
    def __get__(self, options: None, owner: type) -> Kept: ...
    @overload
    def __get__(self, options: object, owner: type) -> Kept: ...
    def __get__(self, options: object | None, owner: type) -> Kept:
        kept: Kept = self.default if options is None else options.__dict__[self.name]
        return kept

    def __set__(self, options: object, value: Given) -> None:
        """Raises TypeError for another type, UserError for an invalid value."""
        if self.name in options.__dict__:
            raise FrozenInstanceError(f"cannot assign to field '{self.name}'")
        given = _given_types(self.owner)[self.name]
        if not _is(value, given):
            kind = re.sub(r"(\w+\.)+", "", getattr(given, "__name__", str(given)))
            raise TypeError(f"{self.name} is {value!r}, not of type {kind}")
        options.__dict__[self.name] = self._kept(value)

    def _kept(self, value: Any) -> Any:
        if value is None or value == self.default:
            return self.default
        if self.choices and value not in self.choices:
            reason = f"{self.name}: there is no '{value}'"
            raise UserError(Problem(reason, f"choose one of: {', '.join(self.choices)}"))
        if self.read is None or not isinstance(value, (str, numbers.Real, Mapping)):
            return tuple(value) if isinstance(value, list) else value
        try:
            return self.read(text_of(value))
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise UserError(Problem(f"{self.name}: {error}")) from None


def options_of(kind: type) -> dict[str, Keyword[Any, Any]]:
    """The options of a dataclass by name."""
    return {field.name: vars(kind)[field.name] for field in fields(kind)}


def text_of(value: object) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={one}" for name, one in value.items())
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:.15g}" if isinstance(value, float) else str(value)


@functools.cache
def _given_types(owner: type) -> dict[str, Any]:
    """The types that the options of a dataclass accept."""
    hints = get_type_hints(owner)
    return {name: get_args(hint)[0] for name, hint in hints.items() if get_origin(hint) is Keyword}


def _is(value: object, kind: Any) -> bool:
    """Whether a value is of a type. A bool is no number, a text no sequence."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return any(_is(value, part) for part in parts)
    if isinstance(value, bool) or kind is bool:
        return kind is bool and isinstance(value, bool)
    if not isinstance(value, {int: numbers.Integral, float: numbers.Real}.get(kind, origin)):
        return False
    if isinstance(value, Mapping):
        return all(_is(k, parts[0]) and _is(v, parts[1]) for k, v in value.items())
    return not parts or (not isinstance(value, str) and all(_is(one, parts[0]) for one in value))
