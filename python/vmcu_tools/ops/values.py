# SPDX-License-Identifier: Apache-2.0
"""C structs as they are declared and the parts of their initialisers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..quant import FixedPoint


@dataclass(frozen=True, eq=False)
class Array:
    """Constants that C refers to by name; `role` becomes part of that name. `lines`: for words of
    a stream, how many make a line each, the last for all that follow."""

    role: str
    values: np.ndarray
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Struct:
    """An initialiser. `type` may be empty for a member whose type the outer struct fixes."""

    type: str
    fields: dict[str, Value]


@dataclass(frozen=True, eq=False)
class StructArray:
    """An array of structs that C refers to by name."""

    role: str
    items: tuple[Struct, ...]


Value = int | bool | str | Array | Struct | StructArray


@dataclass(frozen=True, eq=False)
class Kernel:
    """The entry point of a layer, and its parameters if it takes any."""

    symbol: str
    params: Struct | None


# Bytes of the scalars of a 32-bit core, which are aligned to their size.
POINTER = 4
SCALARS = {"bool": 1, "float": 4, "vmcu_kernel_t": POINTER, "vmcu_long_t": 8} | {
    f"{sign}int{8 * size}_t": size for sign in ("", "u") for size in (1, 2, 4, 8)
}
STRUCTS: dict[str, CStruct] = {}
# Values of C's enumerators.
ENUMERATORS: dict[str, int] = {}


def enumeration(names: Iterable[str]) -> None:
    """Declares the enumerators of a C enum, in their order, from 0 on."""
    ENUMERATORS.update((name, value) for value, name in enumerate(names))


@dataclass(frozen=True)
class Member:
    """A member of a C struct: its offset, its size and its alignment, in bytes. kind: its type,
    or, of a `pointer`, the type that it points to, without `const` and `struct`."""

    start: int
    size: int
    align: int
    kind: str
    pointer: bool


class CStruct:
    """A struct of lib/vmcu/include: its name and its members, as C declares them.

    `members` has the offset of each on a 32-bit core, `size` the bytes of the whole. Structs within
    it come before it. Called with values by member, it gives an initialiser. Parameters of a kernel
    that one op alone has are declared here: `in_header` is the C text of all of it for operators.h.
    """

    def __init__(self, name: str, declarations: str, before: str = "", declares: str = ""):
        """declares: the kernel that takes it, before: the C ahead of it, both with their
        comments; declarations have their own then. Raises KeyError for a type that is none, or
        not yet one."""
        self.name, self.align = name, 1
        self.members: dict[str, Member] = {}
        body = f"struct {name} {{{declarations}}};\n"
        parts = (before.lstrip("\n"), body, declares)
        self.in_header = "".join(parts) if declares else ""
        enumeration(re.findall(r"^\t(VMCU_\w+),", before, re.MULTILINE))
        end = 0
        bare = re.sub(r"/\*.*?\*/", "", declarations, flags=re.DOTALL)
        for declaration in bare.rstrip("; \n").split(";"):
            match = re.match(r"\s*((?:const )?(?:struct )?\w+) (.*)", declaration)
            assert match is not None, f"'{declaration}' declares nothing"
            kind, names = match.groups()
            for member in names.split(","):
                pointer = "*" in member
                size, align = self._layout(kind, pointer)
                self.align = max(self.align, align)
                start = -(-end // align) * align
                bare_kind = kind.removeprefix("const ").removeprefix("struct ")
                self.members[member.strip(" *")] = Member(start, size, align, bare_kind, pointer)
                end = start + size
        self.size = -(-end // self.align) * self.align
        STRUCTS[name] = self

    @staticmethod
    def _layout(kind: str, pointer: bool) -> tuple[int, int]:
        if pointer:
            return POINTER, POINTER
        if kind.startswith("struct "):
            inner = STRUCTS[kind.removeprefix("struct ")]
            return inner.size, inner.align
        return SCALARS[kind], SCALARS[kind]

    def __call__(self, **fields: Value) -> Struct:
        """Members that are not given are zero. Raises KeyError for one that is not there."""
        if not fields.keys() <= self.members.keys():
            raise KeyError(f"{self.name} has no {fields.keys() - self.members.keys()}")
        return Struct(self.name, fields)


FACTOR = CStruct("vmcu_factor", "int32_t multiplier, shift;")


def factor_of(requant: FixedPoint) -> tuple[int, int]:
    """The one multiplier and shift of a tensor's requantiser."""
    return int(np.ravel(requant.multiplier)[0]), int(np.ravel(requant.shift)[0])


def factor(requant: FixedPoint) -> Struct:
    """A tensor's requantiser as a struct vmcu_factor within another struct."""
    return Struct("", dict(zip(FACTOR.members, factor_of(requant), strict=True)))
