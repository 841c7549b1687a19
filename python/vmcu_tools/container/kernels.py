# SPDX-License-Identifier: Apache-2.0
"""The kernels that containers can name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..errors import Problem, UserError
from ..ops.kernel_type import KERNEL_TYPES


def check_linkable(kernels: Iterable[str], path: Path) -> None:
    """Raises UserError for a container with a kernel that this version does not have."""
    unknown = sorted(set(kernels) - KERNEL_TYPES.keys())
    if unknown:
        reason = f"it needs the kernel {unknown[0]!r}, which this version of vmcu does not have"
        hint = "use the version of vmcu that built the container"
        raise UserError(Problem(reason, hint, str(path)))
