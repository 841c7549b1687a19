# SPDX-License-Identifier: Apache-2.0
"""Models in one file that firmware loads, see doc/container.md."""

from .build import as_c, build, kernels_source, of_emitted, of_tables, released
from .compiled import header, source
from .files import facts_of, sign
from .head import DamagedError
from .online import online_of
from .opened import Opened, open_container
from .pack import pack
from .read import kernels_of, layers_of, unpack
from .release import Release

__all__ = [
    "DamagedError",
    "Opened",
    "Release",
    "as_c",
    "build",
    "facts_of",
    "header",
    "kernels_of",
    "kernels_source",
    "layers_of",
    "of_emitted",
    "of_tables",
    "online_of",
    "open_container",
    "pack",
    "released",
    "sign",
    "source",
    "unpack",
]
