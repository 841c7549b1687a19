# SPDX-License-Identifier: Apache-2.0
"""What a user asks the compiler for, and which of it excludes each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ..errors import Problem, UserError
from ..plan.chunks import WeightStore
from ..plan.pools import Region
from .params import DEFAULT_PARAMS, SearchParams

DEFAULT_PLANNER = "vmcu"


@dataclass(frozen=True)
class CompileOptions:
    """The options of `vmcu build` for a plan, by their names there, and what else a plan is for.

    planner: one of registry.PLANNERS. ram: bytes that the pool may have, None for the smallest
    pool. plan_seconds: time after which the best plan so far is returned, None: the planner ends by
    itself. stream_input: the caller pushes the only
    input row by row. external_input: the input is outside the pool. tile_cost: the part of a
    model's cycles, by estimate, that tiles may add; None: in proportion to the RAM that they save
    (costs.trade_off). extra_macs: the part of a model's multiply-accumulates that may be computed
    twice; with `ram`, more where necessary. rotate: the pool's origin advances with each inference.
    target: the core family for which weights are laid out, by its name in kernels/targets; None:
    the default. memory: memories with a pool each, the fast ones first; a single one is the same as
    `ram`. hop: rows by which the only input's window moves between two inferences, 0: none. time:
    the axis of the file's images that is time for `hop`, "h" or "w". state: inputs that are outputs
    of the call before, each "input:output"; None: those whose names say so, see passes/fed_back.py;
    ("none",): as ().
    online: whole layers, which a device can place anew. external_weights: the memory from which the
    constants of stages are read into RAM, None: they are in flash.

    container: the plan is for a container. choices: the plan lists what else the search has found.
    params: of the search.
    """

    planner: str = DEFAULT_PLANNER
    ram: int | None = None
    plan_seconds: float | None = None
    stream_input: bool = False
    external_input: bool = False
    tile_cost: float | None = None
    extra_macs: float = 0.0
    rotate: bool = False
    target: str | None = None
    memory: tuple[Region, ...] = ()
    hop: int = 0
    time: str | None = None
    state: Sequence[str] | None = ()
    online: bool = False
    external_weights: WeightStore | None = None
    container: bool = False
    choices: bool = False
    params: SearchParams = DEFAULT_PARAMS

    @property
    def merges_recomputation(self) -> bool:
        """Whether a layer can be part of those that recompute it (stages/recomputation.py):
        containers and rotating pools do not support it."""
        return not (self.rotate or self.container)

    def given(self) -> set[str]:
        """The fields that do not have their default."""
        return {f.name for f in fields(self) if getattr(self, f.name) != f.default}


@dataclass(frozen=True)
class Exclusion:
    """An option, and the reason by option that it cannot be combined with. Names are those of
    CompileOptions or of a command's own options."""

    option: str
    reasons: Mapping[str, str]


_ONE_POOL = "devices plan whole tensors in one pool"
_READS = "weights are read for one inference after the other, by tables in C"
_NO_PLAN = "it plans for each limit in turn and writes nothing"
EXCLUSIONS = (
    Exclusion(
        "hop",
        {
            "stream_input": "the model already reads rows",
            "external_input": "its rows arrive one by one",
            "rotate": "the state must stay at one address",
            "memory": "the state must be in one pool",
            "tile_cost": "a hop always uses the smallest pool",
            "extra_macs": "a hop computes no row twice",
            "pareto": "a stream has one plan",
            "online": "devices do not plan streams",
        },
    ),
    Exclusion(
        "memory",
        {
            "ram": "each memory has its own limit",
            "rotate": "only one pool can rotate",
            "external_input": "the input is in one of the memories",
            "plan_seconds": "it has a search of its own",
        },
    ),
    Exclusion(
        "external_weights",
        dict.fromkeys(("stream_input", "hop", "online", "pareto"), _READS),
    ),
    Exclusion("external_input", {"stream_input": "pushed rows are in the pool"}),
    Exclusion(
        "online",
        dict.fromkeys(("stream_input", "external_input", "memory", "rotate", "pareto"), _ONE_POOL)
        | {"plan_seconds": _ONE_POOL},
    ),
    Exclusion(
        "pareto",
        dict.fromkeys(("ram", "memory", "rotate", "plan_seconds", "output"), _NO_PLAN),
    ),
)


def spelled(option: str) -> str:
    """An option as it is written on the command line."""
    return "-o" if option == "output" else f"--{option.replace('_', '-')}"


def check_exclusions(given: Collection[str], file: Path | str, stateful: str = "") -> None:
    """Raises UserError for the first two options that exclude each other. stateful: the hint where
    the file, and no option, requires `hop`."""
    for exclusion in EXCLUSIONS:
        if exclusion.option not in given:
            continue
        for other, reason in exclusion.reasons.items():
            if other not in given:
                continue
            of_file = stateful and exclusion.option == "hop"
            subject = "a model that keeps state" if of_file else spelled(exclusion.option)
            text = f"{subject} cannot be combined with {spelled(other)}: {reason}"
            remedy = stateful if of_file else "leave out one of the two"
            raise UserError(Problem(text, remedy, str(file)))
