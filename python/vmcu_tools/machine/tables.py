# SPDX-License-Identifier: Apache-2.0
"""The C of a model, read back as a compiler would read the emitted tables.

Only as much C as the tables are written in: const objects at file scope with initialisers of
numbers, names, strings, addresses of elements, and #define of the header. Whatever else is found
is an error, so that nothing is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import PlanError

# The element types of arrays of numbers.
NUMBERS = {
    "int8_t": np.int8,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "uint16_t": np.uint16,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
    "float": np.float32,
}
_DEFINITION = re.compile(
    r"^(?:static )?const (?:struct )?(?P<type>\w+) (?P<name>\w+)(?P<array>\[\d*\])?"
    r"(?: __attribute__\(\(aligned\(\d+\)\)\))? = \{\n(?P<body>.*?)^\};\n",
    re.DOTALL | re.MULTILINE,
)
_MACRO = re.compile(r"^#define (\w+) (\S.*)$", re.MULTILINE)
_BESIDES = re.compile(
    r"#(include|if|endif|error|define VMCU_EXTERNAL)\b|VMCU_MODEL_REGISTER\("
    r"|static uint8_t \w+_weights\["
)
# A comment within a string is none. Without a group around the string the search jumps from one
# first character to the next.
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/', re.DOTALL)
# To C, 010 is 8.
_DECIMAL = r"-?(?:0|[1-9]\d*)"
_DECIMALS = re.compile(rf"(?:\s*{_DECIMAL},)*\s*(?:{_DECIMAL}\s*)?", re.ASCII)
_HEXES = re.compile(r"(?:\s*0x[0-9a-f]{8},)*\s*(?:0x[0-9a-f]{8}\s*)?")
_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<float>-?0x[0-9a-f.]+p[-+]?\d+f|-?\d[\d.]*(?:e[-+]?\d+)?f)\b"
    rf"|(?P<int>{_DECIMAL})U?\b|(?P<name>[A-Za-z_]\w*)|(?P<mark>[{{}}=,.&|()\[\]]))"
)


def expect(condition: bool, reason: str) -> None:
    """Raises PlanError unless `condition` holds."""
    if not condition:
        raise PlanError(f"the emitted tables are wrong: {reason}")


@dataclass(frozen=True)
class Address:
    """Element `index` of an object."""

    name: str
    index: int = 0


Value = int | float | str | Address | list[Any] | dict[str, Any]


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects of a file by name: arrays of numbers as numpy arrays, structs as dictionaries
    of their named members, arrays of structs as lists. types: by name, the type in C; macros:
    the header's definitions."""

    values: dict[str, np.ndarray | list[Any] | dict[str, Any]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    macros: dict[str, str] = field(default_factory=dict)


def read(files: Mapping[str, str], name: str) -> Objects:
    """The objects of model `name`'s emitted files. Raises PlanError for any other text."""
    text = _without_comments(files[f"{name}.c"])
    macros = dict(_MACRO.findall(_without_comments(files[f"{name}.h"])))
    objects, at = Objects(macros=macros), 0
    left = ""
    for match in _DEFINITION.finditer(text):
        left, at = left + text[at : match.start()], match.end()
        kind, array = match["type"], match["array"]
        if kind in NUMBERS and array:
            value: np.ndarray | list[Any] | dict[str, Any] = _numbers(match["body"], kind, array)
        else:
            value = _Reader(match["body"], macros).initialiser(bool(array))
        objects.values[match["name"]] = value
        objects.types[match["name"]] = kind
    for line in (left + text[at:]).splitlines():
        if line.strip() and not _BESIDES.match(line):
            raise PlanError(f"the tables hold what cannot be read back: {line.strip()[:60]!r}")
    return objects


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else "", text)


def _numbers(body: str, kind: str, array: str) -> np.ndarray:
    dtype = np.dtype(NUMBERS[kind])
    if kind == "float":
        words = body.replace(",", " ").split()
        wide = np.array([_real(word) for word in words], np.float64)
    else:
        wide = _integers(body.replace("INT32_MIN", "-2147483648").replace("U", ""))
        limits: Any = np.iinfo(dtype)
        if wide.size and (wide.min() < limits.min or wide.max() > limits.max):
            raise PlanError(f"an array of {kind} holds a number that does not fit")
    if array != "[]" and int(array[1:-1]) != wide.size:
        raise PlanError(f"an array of {array[1:-1]} elements has {wide.size}")
    return wide.astype(dtype)


def _integers(text: str) -> np.ndarray:
    """Those of one form many at once: large models have some hundred thousand."""
    if _HEXES.fullmatch(text):
        digits = bytes.fromhex(text.replace("0x", "").replace(",", " "))
        return np.frombuffer(digits, ">u4").astype(np.int64)
    if _DECIMALS.fullmatch(text):
        # It would read a number behind the last comma.
        return np.fromstring(text.rstrip(", \t\n"), np.int64, sep=",")
    try:
        return np.array([int(word, 0) for word in text.replace(",", " ").split()], np.int64)
    except ValueError as error:
        raise PlanError(f"an array of integers holds something else: {error}") from error


def _real(word: str) -> float:
    word = word.removesuffix("f")
    return float.fromhex(word) if "0x" in word else float(word)


class _Reader:
    """Reads one initialiser, without its outer braces."""

    def __init__(self, body: str, macros: Mapping[str, str]):
        self.macros = macros
        self.tokens: list[tuple[str, str]] = []
        at = 0
        body = body.rstrip()
        while at < len(body):
            match = _TOKEN.match(body, at)
            if match is None:
                raise PlanError(f"the tables hold what cannot be read back: {body[at : at + 40]!r}")
            kind = match.lastgroup or ""
            self.tokens.append((kind, match[kind]))
            at = match.end()
        self.at = 0

    def initialiser(self, array: bool) -> list[Any] | dict[str, Any]:
        value = self._list() if array else self._members()
        if self.at != len(self.tokens):
            raise PlanError("an initialiser goes on behind its end")
        return value

    def _peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _next(self, expected: str = "") -> tuple[str, str]:
        if self.at == len(self.tokens):
            raise PlanError("an initialiser ends too early")
        token = self.tokens[self.at]
        if expected and token[1] != expected:
            raise PlanError(f"an initialiser has {token[1]!r} in place of {expected!r}")
        self.at += 1
        return token

    def _list(self) -> list[Any]:
        values = []
        while self._peek() not in ("", "}"):
            values.append(self._value())
            if self._peek() == ",":
                self._next()
        return values

    def _members(self) -> dict[str, Any]:
        members: dict[str, Value] = {}
        while self._peek() == ".":
            self._next()
            _, name = self._next()
            self._next("=")
            if name in members:
                raise PlanError(f"an initialiser sets '{name}' twice")
            members[name] = self._value()
            if self._peek() == ",":
                self._next()
        return members

    def _value(self) -> Value:
        kind, text = self._next()
        if text == "{":
            inner = self._members() if self._peek() == "." else self._list()
            self._next("}")
            return inner
        if text == "&":
            _, name = self._next()
            index = 0
            if self._peek() == "[":
                self._next()
                kind, number = self._next()
                # Python counts a negative index from the end, C from the start.
                expect(kind == "int" and int(number) >= 0, f"'{name}' has no element {number}")
                index = int(number)
                self._next("]")
            return Address(name, index)
        if kind == "string":
            return text[1:-1]
        if kind == "int":
            return int(text)
        if kind == "float":
            return _real(text)
        if kind != "name":
            raise PlanError(f"an initialiser has {text!r} in place of a value")
        if text in self.macros:
            return _Reader(self.macros[text].strip("()"), self.macros)._value()
        if text in ("true", "false"):
            return int(text == "true")
        if self._peek() == "(":
            # A macro that gives a number its type.
            self._next()
            _, number = self._next()
            self._next(")")
            return f"{text}({number})"
        while self._peek() == "|":
            self._next()
            text += f" | {self._next()[1]}"
        return text
