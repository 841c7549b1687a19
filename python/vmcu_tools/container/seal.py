# SPDX-License-Identifier: Apache-2.0
"""The digest of a container."""

from __future__ import annotations

import hashlib

from .layout import DIGEST, SIGNATURE


def digest(image: bytes) -> bytes:
    """SHA-256 of all bytes of a container but the digest and the signature."""
    return hashlib.sha256(image[: DIGEST.start] + image[SIGNATURE.stop :]).digest()


def sealed(image: bytes) -> bytes:
    """The container with its digest; its signature is taken away."""
    zeros = bytes(SIGNATURE.stop - SIGNATURE.start)
    return image[: DIGEST.start] + digest(image) + zeros + image[SIGNATURE.stop :]
