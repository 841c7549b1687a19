# SPDX-License-Identifier: Apache-2.0
"""Models in one file that firmware loads, see doc/container.md."""

from .build import build
from .pack import pack
from .read import Damaged, unpack

__all__ = ["Damaged", "build", "pack", "unpack"]
