# SPDX-License-Identifier: Apache-2.0
"""The product and the version of a container: devices refuse other products and old versions."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .layout import RELEASE_AT, RELEASE_END

_FORM = "<II"


@dataclass(frozen=True)
class Release:
    """product: the devices that a container is for, 0 for any; version: a later one has a greater
    number. Both of 32 bits."""

    product: int
    version: int


def packed(image: bytearray, release: Release) -> None:
    """Writes a release into a container that has room for it."""
    struct.pack_into(_FORM, image, RELEASE_AT, release.product, release.version)


def unpacked(image: bytes) -> Release:
    """The release of a container that has one; struct.error if it is not within it."""
    return Release(*struct.unpack(_FORM, image[RELEASE_AT:RELEASE_END]))
