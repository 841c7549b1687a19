# SPDX-License-Identifier: Apache-2.0
"""Containers with one member changed and their digest mended."""

from __future__ import annotations

import struct

from vmcu_tools.container import layout, seal
from vmcu_tools.ops.values import CStruct


def changed(image: bytes, at: int, form: str, value: int) -> bytes:
    """A number of `form`, as struct has it, at an offset."""
    found = bytearray(image)
    struct.pack_into(form, found, at, value)
    return seal.sealed(bytes(found))


def of_model(image: bytes, member: str, value: int) -> bytes:
    kind = layout.MODEL.members[member]
    form = layout.FORMATS.get("uint32_t" if kind.pointer else kind.kind, "<I")
    return changed(image, layout.MODEL_AT + kind.start, form, value)


def of_table(image: bytes, table: str, number: int, member: str, value: int) -> bytes:
    """A member of entry `number` of a table."""
    element = next(found.element for found in layout.TABLES if found.label == table)
    start = model_member(image, table)
    found = element.members[member]
    pointer = found.pointer or found.kind not in layout.FORMATS
    form = "<I" if pointer else layout.FORMATS[found.kind]
    return changed(image, start + element.size * number + found.start, form, value)


def of_planner(image: bytes, table: str, number: int, member: str, value: int) -> bytes:
    """A member of entry `number` of the tables for planners: `steps` or `distances`."""
    kind = {"steps": layout.STEP, "distances": layout.DISTANCE}[table]
    (start,) = struct.unpack_from(
        "<I", image, layout.ONLINE_AT + layout.ONLINE.members[table].start
    )
    return member_of(image, start + kind.size * number, kind, member, value)


def member_of(image: bytes, at: int, kind: CStruct, member: str, value: int) -> bytes:
    """A member of a struct at an offset."""
    found = kind.members[member]
    form = "<I" if found.pointer else layout.FORMATS[found.kind]
    return changed(image, at + found.start, form, value)


def model_member(image: bytes, member: str) -> int:
    """A number or an offset."""
    kind = layout.MODEL.members[member]
    form = layout.FORMATS.get("uint32_t" if kind.pointer else kind.kind, "<I")
    return struct.unpack_from(form, image, layout.MODEL_AT + kind.start)[0]
