# SPDX-License-Identifier: Apache-2.0
"""Short names of layers and tensors, each still another one's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...plan.plan import Plan

# What converters join the names of fused layers with, and what parts of a path.
JOINED, PARTS = ";", "/"
# Names are folded until they are no longer than that, and cut where that does not help.
LONG, LONGEST = 24, 34
# What converters call layers whatever they do, so that these go first.
USUAL = ("BatchNorm", "FusedBatchNormV3", "BiasAdd", "Relu", "Relu6", "bn", "MatMul", "Conv2D")


def short_names(names: Iterable[str]) -> Mapping[str, str]:
    """A short name for each: of several that were fused the first, without the parts of its path
    that tell it from no other, and without its middle where it is still too long."""
    full = list(dict.fromkeys(names))
    paths = [_path(name.split(JOINED)[0]) for name in full]
    if len(set(paths)) < len(paths):
        paths = [_path(name) for name in full]
    if len(set(paths)) < len(paths):
        return {name: name for name in full}
    for part in _worth(paths):
        if max(len(PARTS.join(path)) for path in paths) <= LONG:
            break
        fewer = [tuple(one for one in path if one != part) for path in paths]
        if all(fewer) and len(set(fewer)) == len(fewer):
            paths = fewer
    cut = [_cut(PARTS.join(path)) for path in paths]
    if len(set(cut)) < len(cut):
        seen: Counter[str] = Counter()
        for number, name in enumerate(cut):
            seen[name] += 1
            cut[number] = name if seen[name] == 1 else f"{name}~{seen[name]}"
    return dict(zip(full, cut, strict=True))


def names_of(plan: Plan) -> Mapping[str, str]:
    """Short names of a plan's tensors and nodes."""
    return short_names([*plan.placements, *(step.node.name for step in plan.steps)])


def _path(name: str) -> tuple[str, ...]:
    return tuple(part for part in name.split(PARTS) if part) or (name,)


def _worth(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Parts that several names have, usual ones first, then those that take the most room."""
    counts = Counter(part for path in paths for part in set(path))
    several = [part for part, count in counts.items() if count > 1]
    return sorted(
        several, key=lambda part: (part not in USUAL, -counts[part] * (len(part) + 1), part)
    )


def _cut(name: str) -> str:
    if len(name) <= LONGEST:
        return name
    half = (LONGEST - 1) // 2
    return f"{name[:half]}…{name[-half:]}"
