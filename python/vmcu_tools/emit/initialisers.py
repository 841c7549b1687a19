# SPDX-License-Identifier: Apache-2.0
"""C text of constants: arrays, struct initialisers, and the pool that emits equal arrays once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..ops.values import STRUCTS, Array, Struct, StructArray, Value
from ..plan.weights import Key, key_of

# The macro of an address in the weights buffer.
EXTERNAL = "VMCU_EXTERNAL"

# C type and values per line; the widest value of each type, and a word in hexadecimal one step
# further in, then stays within 100 columns.
LAYOUT = {
    "int8": ("int8_t", 15),
    "int16": ("int16_t", 11),
    "uint16": ("uint16_t", 11),
    "int32": ("int32_t", 7),
    "uint32": ("uint32_t", 7),
    "float32": ("float", 4),
}


def float_literal(value: float) -> str:
    """A float32 to the bit, in C99's hexadecimal notation."""
    sign, rest = ("-", value.hex()[1:]) if value < 0 else ("", value.hex())
    mantissa, exponent = rest.split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{sign}{mantissa}p{exponent}f"


def literals(values: np.ndarray) -> list[str]:
    """Each value as a C constant of its type; float32 to the bit."""
    flat = values.ravel().tolist()
    if values.dtype == np.float32:
        return [float_literal(v) for v in flat]
    if values.dtype == np.uint32:
        return [f"{v}U" for v in flat]
    # 2147483648 is no int, so its negative is no int32_t literal.
    return ["INT32_MIN" if v == -(2**31) else str(v) for v in flat]


def rows_of(texts: Sequence[str], count: int) -> list[str]:
    """Lines of `count` constants, as initialisers have them."""
    return [", ".join(texts[i : i + count]) + "," for i in range(0, len(texts), count)]


def array_lines(array: Array) -> list[str]:
    """The lines between an array's braces, without the indentation that all have. The rest of a
    line that is too long is indented."""
    per_line = LAYOUT[array.values.dtype.name][1]
    if not array.lines:
        return rows_of(literals(array.values), per_line)
    # Many at once: large models have some hundred thousand words.
    digits = array.values.astype(">u4").tobytes().hex(" ", 4)
    words = [f"0x{word}" for word in digits.split()]
    lines: list[str] = []
    at = 0
    for count in itertools.chain(array.lines, itertools.repeat(array.lines[-1])):
        if at >= len(words):
            return lines
        first, *others = rows_of(words[at : at + count], per_line)
        lines += [first, *(f"\t{line}" for line in others)]
        at += count
    return lines


def nonzero(struct: Struct) -> list[tuple[str, Value]]:
    """The members of a struct that an initialiser has to name."""
    return [
        (name, value)
        for name, value in struct.fields.items()
        if (nonzero(value) if isinstance(value, Struct) else value not in (0, "NULL"))
    ]


@dataclass(frozen=True)
class Definition:
    """One const object at file scope: `head` up to the equals sign, then the lines in braces.
    `about`: lines of a comment above it."""

    head: str
    lines: tuple[str, ...]
    about: tuple[str, ...] = ()


@dataclass
class Constants:
    """All const objects of a model, in the order in which they are first needed. `about`: the
    comment above the next of them. `external`: offsets in the weights buffer by array, where
    arrays are read from a file."""

    prefix: str
    about: tuple[str, ...] = ()
    definitions: list[Definition] = field(default_factory=list)
    weights_bytes: int = 0
    tables_bytes: int = 0
    external: Mapping[Key, int] | None = None
    _names: dict[Key, str] = field(default_factory=dict)

    def array(self, label: str, array: Array) -> str:
        """The address of an array with these values, defined now unless an equal one exists or it
        is external."""
        key = key_of(array)
        if self.external is not None:
            return f"{EXTERNAL}({self.external[key]})"
        if key not in self._names:
            name = f"{self.prefix}_{label}_{array.role}"
            c_type = LAYOUT[array.values.dtype.name][0]
            # Kernels may fetch weights by words.
            aligned = " __attribute__((aligned(4)))" if array.values.dtype == np.int8 else ""
            head = f"static const {c_type} {name}[{array.values.size}]{aligned}"
            self._define(head, array_lines(array))
            self.weights_bytes += array.values.nbytes
            self._names[key] = name
        return self._names[key]

    def _define(self, head: str, lines: Sequence[str]) -> None:
        self.definitions.append(Definition(head, tuple(lines), self.about))
        self.about = ()

    def struct(self, label: str, struct: Struct) -> str:
        """Defines a struct and returns its name."""
        lines = self._fields(label, struct)
        name = f"{self.prefix}_{label}"
        self._define(f"static const struct {struct.type} {name}", lines)
        self.tables_bytes += STRUCTS[struct.type].size
        return name

    def _struct_array(self, label: str, array: StructArray) -> str:
        name = f"{self.prefix}_{label}_{array.role}"
        c_type = array.items[0].type
        lines: list[str] = []
        for item in array.items:
            lines += ["{", *(f"\t{line}" for line in self._fields(label, item)), "},"]
        self._define(f"static const struct {c_type} {name}[]", lines)
        self.tables_bytes += STRUCTS[c_type].size * len(array.items)
        return name

    def _fields(self, label: str, struct: Struct) -> tuple[str, ...]:
        """A line for each member, without those that C makes zero; C99 has no empty braces."""
        lines: list[str] = []
        for name, value in nonzero(struct) or [*struct.fields.items()][:1]:
            if isinstance(value, Struct):
                inner = (f"\t{line}" for line in self._fields(label, value))
                lines += [f".{name} = {{", *inner, "},"]
            else:
                lines.append(f".{name} = {self._scalar(label, value)},")
        return tuple(lines)

    def _scalar(self, label: str, value: Value) -> str:
        if isinstance(value, Array):
            return self.array(label, value)
        if isinstance(value, StructArray):
            return self._struct_array(label, value)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)
