# SPDX-License-Identifier: Apache-2.0
"""Models in one file that firmware loads, see doc/container.md."""

from .pack import pack
from .read import Damaged, unpack

__all__ = ["Damaged", "pack", "unpack"]
