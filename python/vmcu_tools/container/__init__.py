# SPDX-License-Identifier: Apache-2.0
"""Models in one file that firmware loads, see doc/container.md."""

from .build import as_c, build, kernels_source, of_tables
from .files import facts_of, sign
from .online import online_of
from .pack import pack
from .read import DamagedError, kernels_of, layers_of, unpack

__all__ = [
    "DamagedError",
    "as_c",
    "build",
    "facts_of",
    "kernels_of",
    "kernels_source",
    "layers_of",
    "of_tables",
    "online_of",
    "pack",
    "sign",
    "unpack",
]
