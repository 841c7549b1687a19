# SPDX-License-Identifier: Apache-2.0
"""The weights that a model's training begins with, as a header of constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .initialisers import rows_of
from .text import comment, environment

PER_LINE = 20


def weights_header(name: str, weights: Sequence[np.ndarray], command: str) -> dict[str, str]:
    """The file `<name>_weights.h`: an array for each trained layer, int8. command: as emit() has
    it."""
    arrays = [
        {"size": one.size, "lines": rows_of([*map(str, one.ravel().tolist())], PER_LINE)}
        for one in weights
    ]
    values = {"name": name, "upper": name.upper(), "maker": comment(command), "arrays": arrays}
    return {f"{name}_weights.h": environment().get_template("weights.h.j2").render(values)}
