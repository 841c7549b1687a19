# SPDX-License-Identifier: Apache-2.0
"""The kernels that containers can name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..errors import Problem, UserError
from ..kernels.targets import TARGETS, Target, condition, packings, readers
from ..ops.kernel_type import KERNEL_TYPES


def check_linkable(kernels: Iterable[str], path: Path) -> None:
    """Raises UserError for a container with a kernel that this version does not have."""
    unknown = sorted(set(kernels) - KERNEL_TYPES.keys())
    if unknown:
        reason = f"it needs the kernel {unknown[0]!r}, which this version of vmcu does not have"
        hint = "use the version of vmcu that built the container"
        raise UserError(Problem(reason, hint, str(path)))


def targets_of(kernels: Iterable[str]) -> list[Target]:
    """The targets whose cores have all of some kernels, of which unknown ones do not count."""
    wanted = {KERNEL_TYPES[name].packing for name in kernels if name in KERNEL_TYPES}
    wanted = {packing for packing in wanted if condition(packing)}
    return [
        target
        for target in TARGETS.values()
        if wanted <= {target.packing, target.int4.packing if target.int4 else target.packing}
    ]


def refusal(kernels: Iterable[str]) -> str:
    """C that does not compile for cores without some kernels."""
    wanted = {KERNEL_TYPES[name].packing for name in kernels}
    lines = []
    for packing in packings():
        if packing in wanted and condition(packing):
            cores = " or ".join(target.title for target in readers(packing))
            lines.append(f"#if !({condition(packing)})")
            lines.append(f'#error "these kernels run on {cores} only"\n#endif\n')
    return "\n".join([*lines, ""])
