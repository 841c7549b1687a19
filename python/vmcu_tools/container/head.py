# SPDX-License-Identifier: Apache-2.0
"""The head of a container: its version, its size and its signature."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ..errors import Problem, UserError
from . import layout
from .seal import digest

AGAIN = "build it again, or transfer it again"


class DamagedError(UserError):
    """A container that cannot be used."""

    def __init__(self, reason: str, remedy: str = AGAIN):
        super().__init__(Problem(reason, remedy))


def require(holds: bool, reason: str) -> None:
    """Raises DamagedError unless something holds."""
    if not holds:
        raise DamagedError(reason)


@dataclass(frozen=True)
class Head:
    """The file's first bytes."""

    major: int
    minor: int
    size: int
    signature: int


def head_of(image: bytes) -> Head:
    """Raises DamagedError for no container, one of another version and one that has changed."""
    require(
        len(image) >= layout.MODEL_AT + layout.MODEL.size, f"{len(image)} bytes are no container"
    )
    require(image[: len(layout.MAGIC)] == layout.MAGIC, "the header is not that of a container")
    fields = {
        label: struct.unpack_from(layout.FORMATS[member.kind], image, member.start)[0]
        for label, member in layout.FILE.members.items()
    }
    head = Head(fields["major"], fields["minor"], fields["size"], fields["signature"])
    if head.major not in (layout.MAJOR, layout.MAJOR_STREAMS, layout.MAJOR_WEIGHTS):
        raise DamagedError(
            f"format version {head.major}, but this vmcu reads version {layout.MAJOR_WEIGHTS}",
            "build the model with the release that the firmware is from",
        )
    require(
        head.size == len(image), f"the header states {head.size} bytes, the file has {len(image)}"
    )
    require(image[layout.DIGEST] == digest(image), "the digest does not match the bytes")
    return head
