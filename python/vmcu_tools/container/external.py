# SPDX-License-Identifier: Apache-2.0
"""The constants of a container that are in a file of their own: the chunks of plan/chunks.py."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ..machine.tables import Objects
from ..machine.weights import ADDRESS
from .layout import DIGEST, EXTERNAL, WEIGHTS, WEIGHTS_AT

DIGEST_AT = WEIGHTS_AT + WEIGHTS.size


def digest_of(objects: Objects, name: str, file: bytes) -> bytes:
    """The digest of a weights file: SHA-256 of each chunk behind the digest of those before it, so
    that a device which reads one after the other can compare it. Of none: zeros."""
    digest = bytes(DIGEST.stop - DIGEST.start)
    for at, size in _spans(objects, name):
        digest = hashlib.sha256(digest + file[at : at + size]).digest()
    return digest


def packed(image: bytearray, digest: bytes) -> None:
    """Writes a digest into a container that has room for it."""
    image[DIGEST_AT : DIGEST_AT + len(digest)] = digest


def digest_in(image: bytes) -> bytes:
    """The digest that a container states."""
    return image[DIGEST_AT : DIGEST_AT + DIGEST.stop - DIGEST.start]


def offset_of(text: str) -> int | None:
    """A pointer of a container for an address in the buffer; None for other text."""
    match = ADDRESS.fullmatch(text)
    return EXTERNAL | int(match[1]) if match else None


def address_of(pointer: int) -> str:
    """The address in the buffer that a pointer of a container stands for."""
    return f"VMCU_EXTERNAL({pointer & ~EXTERNAL})"


def _spans(objects: Objects, name: str) -> Iterator[tuple[int, int]]:
    chunks = objects.values[f"{name}_chunks"]
    assert isinstance(chunks, list)
    for entry in chunks:
        yield entry.get("offset", 0), entry.get("bytes", 0)
