# SPDX-License-Identifier: Apache-2.0
"""The kernels that containers can name."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

from .. import paths
from ..errors import Problem, UserError


@functools.cache
def linkable() -> frozenset[str]:
    """The functions of all kernels that the loader can check, from lib/vmcu/container/all.c."""
    text = (paths.runtime() / "container" / "all.c").read_text()
    return frozenset(f"vmcu_{name}" for name in re.findall(r"\bentry\([\s\\]*(\w+)\)", text))


def check_linkable(kernels: Iterable[str], path: Path) -> None:
    """Raises UserError for a container with a kernel that this version does not have."""
    unknown = sorted(set(kernels) - linkable())
    if unknown:
        reason = f"it needs the kernel {unknown[0]!r}, which this version of vmcu does not have"
        hint = "use the version of vmcu that built the container"
        raise UserError(Problem(reason, hint, str(path)))
