# SPDX-License-Identifier: Apache-2.0
"""Families of cores, a folder each. `portable` defines what every instruction means."""

from __future__ import annotations

from ..language.target import Target
from .dsp import DSP
from .portable import PORTABLE
from .v7m import V7M

# Of those that read one layout, the first whose guard holds is chosen.
TARGETS = {target.name: target for target in (DSP, V7M, PORTABLE)}
DEFAULT = DSP.name

__all__ = ["DEFAULT", "PORTABLE", "TARGETS", "Target"]
