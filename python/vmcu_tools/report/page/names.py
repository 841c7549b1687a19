# SPDX-License-Identifier: Apache-2.0
"""Short names of layers and tensors, each still another one's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from ...plan.plan import Plan

# Separators of converters between the names of fused layers, and between parts of a path.
JOINED, PARTS = ";", "/"
# Names are folded where they are longer than that, and cut where that does not help.
LONG, LONGEST = 24, 34
# Scopes in front of a layer's name that every layer has, and the operators behind it.
SCOPE = re.compile(r"(functional|model|sequential|StatefulPartitionedCall)(_?\d+)?")
OPERATOR = re.compile(r"[A-Z][A-Za-z0-9]*(_\d+)?|depthwise\d*")


def short_names(names: Iterable[str]) -> Mapping[str, str]:
    """A short name for each: the layer that was fused first, without scopes and operators. Names
    that are equal then keep more of their path, and long ones lose their middle."""
    forms = {name: _forms(name) for name in names}
    while True:
        counts = Counter(left[0] for left in forms.values())
        equal = [left for left in forms.values() if counts[left[0]] > 1 and len(left) > 1]
        if not equal:
            break
        for left in equal:
            del left[0]
    cut = {name: _cut(text) for name, text in _folded({n: f[0] for n, f in forms.items()}).items()}
    seen: Counter[str] = Counter()
    for name, short in cut.items():
        seen[short] += 1
        if seen[short] > 1:
            cut[name] = f"{short}~{seen[short]}"
    return cut


def names_of(plan: Plan) -> Mapping[str, str]:
    """Short names of a plan's tensors and nodes."""
    return short_names([*plan.placements, *(step.node.name for step in plan.steps)])


def _forms(name: str) -> list[str]:
    """Lists the short forms of a name, the shortest first: the layer, with more and more of the
    operators behind it, then with its scopes, then the whole name."""
    path = [part for part in name.split(JOINED)[0].split(PARTS) if part]
    first, last = 0, len(path)
    while first + 1 < last and SCOPE.fullmatch(path[first]):
        first += 1
    while last - 1 > first and OPERATOR.fullmatch(path[last - 1]) and _has_letter(path[last - 2]):
        last -= 1
    forms = [PARTS.join(path[first:end]) for end in range(last, len(path) + 1)]
    return [*filter(None, forms), *[PARTS.join(path)] * bool(path), name]


def _folded(names: Mapping[str, str]) -> Mapping[str, str]:
    """The names, of which long ones lose the parts that tell none from another, those that take
    the most room first."""
    counts = Counter(part for text in names.values() for part in set(text.split(PARTS)))
    several = [part for part, count in counts.items() if count > 1]
    for part in sorted(several, key=lambda part: (-counts[part] * (len(part) + 1), part)):
        fewer = {
            name: PARTS.join(one for one in text.split(PARTS) if len(text) <= LONG or one != part)
            for name, text in names.items()
        }
        is_empty = any(new != names[name] and not _has_letter(new) for name, new in fewer.items())
        if not is_empty and len(set(fewer.values())) == len(fewer):
            names = fewer
    return names


def _has_letter(text: str) -> bool:
    return any(letter.isalpha() for letter in text)


def _cut(name: str) -> str:
    if len(name) <= LONGEST:
        return name
    half = (LONGEST - 1) // 2
    return f"{name[:half]}…{name[-half:]}"
