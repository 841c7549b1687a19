# SPDX-License-Identifier: Apache-2.0
"""The tables of a container as C: the model as it would be compiled in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..emit.initialisers import float_literal, literals, rows_of
from ..emit.structs import STREAM
from ..machine.tables import Address
from ..ops.values import STRUCTS, CStruct, Member
from .head import require
from .layout import MODEL, TABLES
from .opened import Opened

PER_LINE = 8
NUMBERS = {1: "uint8_t", 2: "uint16_t"}
# Where C has no literal for the least of them.
LEAST = {-(2**31): "(-2147483647 - 1)", -(2**63): "(-9223372036854775807LL - 1)"}


def header(opened: Opened, name: str) -> str:
    """NAME.h with the figures that an image of a container needs of its model."""
    ports = opened.outline.graph.inputs
    shape = opened.outline.graph.tensors[ports[0].tensor].shape if ports else (0, 0, 0)
    return (
        "#include <vmcu/vmcu.h>\n\n"
        f"#define vmcu_pool_bytes_of_{name} {opened.outline.pool_bytes}\n"
        f"#define vmcu_row_bytes_of_{name} {shape[1] * shape[2]}\n"
        f"#define vmcu_layers_of_{name} {len(opened.outline.steps)}\n"
        f"#define vmcu_elsewhere_bytes_of_{name} 0\n\n"
        f"extern const struct vmcu_model {name}_model;\n"
    )


def source(opened: Opened, name: str) -> str:
    """NAME.c with all that a container has, as it was read back."""
    return "".join(
        (f'#include "{name}.h"\n\n#include <vmcu/kernels.h>\n\n', *_Printer(opened, name).all())
    )


class _Printer:
    def __init__(self, opened: Opened, name: str):
        self.objects, self.name = opened.objects, name
        self.own = f"{opened.name}_"
        types = {
            f"{self.own}{table.label}": table.element
            if isinstance(table.element, CStruct)
            else NUMBERS[table.element]
            for table in TABLES
        }
        types |= {label: STRUCTS.get(kind, kind) for label, kind in self.objects.types.items()}
        self.kinds: dict[str, CStruct | str] = {
            **types,
            f"{self.own}stream": STREAM,
            f"{self.own}model": MODEL,
        }
        self.printed: set[str] = set()

    def all(self) -> Iterator[str]:
        for label in self.objects.values:
            yield from self._object(label)

    def _called(self, label: str) -> str:
        return f"{self.name}_{label.removeprefix(self.own)}"

    def _object(self, label: str) -> Iterator[str]:
        """An object behind those that it points to."""
        if label in self.printed:
            return
        self.printed.add(label)
        value = self.objects.values[label]
        for other in _pointed(value):
            yield from self._object(other)
        if isinstance(value, np.ndarray) and not value.size:
            return
        kind = self.kinds[label]
        c_type = kind if isinstance(kind, str) else f"struct {kind.name}"
        shared = "static "
        if kind is MODEL:
            c_type, shared = "struct vmcu_model", ""
        many = "" if isinstance(value, dict) else "[]"
        # Kernels may fetch by words.
        aligned = " __attribute__((aligned(8)))" if isinstance(value, np.ndarray) else ""
        head = f"{shared}const {c_type} {self._called(label)}{many}{aligned}"
        yield f"{head} = {{\n{self._body(value, kind)}}};\n\n"

    def _body(self, value: np.ndarray | list[Any] | dict[str, Any], kind: CStruct | str) -> str:
        if isinstance(value, np.ndarray):
            return "".join(f"\t{line}\n" for line in rows_of(literals(value), PER_LINE))
        assert isinstance(kind, CStruct)
        if isinstance(value, dict):
            kept = value.get("stream") if kind is MODEL else None
            stream = f".stream = &{self._called(kept.name)}, " if kept else ""
            return self._members(value, kind) + stream
        return "".join(f"\t{{{self._members(entry, kind)}}},\n" for entry in value)

    def _members(self, value: Mapping[str, object], kind: CStruct) -> str:
        initialisers = [
            f".{label} = {self._scalar(value[label], member)}, "
            for label, member in kind.members.items()
            if label in value
        ]
        # C99 has no empty braces; the first member is a number, or a pointer.
        return "".join(initialisers) or f".{next(iter(kind.members))} = 0"

    def _scalar(self, value: object, member: Member) -> str:
        if isinstance(value, dict):
            return f"{{{self._members(value, STRUCTS[member.kind])}}}"
        if isinstance(value, Address):
            object_ = self.objects.values[value.name]
            place = "" if isinstance(object_, dict) else f"[{value.index}]"
            return f"&{self._called(value.name)}{place}"
        if isinstance(value, float):
            require(math.isfinite(value), f"'{member.kind}' holds {value}")
            return float_literal(value)
        if isinstance(value, int):
            return LEAST.get(value, f"{value}{'U' if value > 2**31 - 1 else ''}")
        text = str(value)
        if member.kind == "char":
            return f'"{text}"'
        if member.pointer and text.startswith(self.own):
            return self._called(text)
        return text


def _pointed(value: object) -> Iterator[str]:
    if isinstance(value, Address):
        yield value.name
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _pointed(part)
