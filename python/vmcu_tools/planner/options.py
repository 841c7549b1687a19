# SPDX-License-Identifier: Apache-2.0
"""Options of a plan, and the rules for those that exclude each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ..errors import Problem, UserError
from ..plan.chunks import WeightStore
from ..plan.pools import Region
from ..values import (
    byte_count,
    hop,
    memories,
    percentage,
    target_name,
    weight_store,
    worker_count,
)
from .keyword import STREAMING, Keyword, text_of
from .params import DEFAULT_PARAMS, EFFORTS, NORMAL, SearchParams

DEFAULT_PLANNER = "vmcu"
# Bytes, or text as on the command line: "64K".
Size = int | str


@dataclass(kw_only=True, unsafe_hash=True)
class PlanOptions:
    """The options of a plan: keywords in Python, `--options` on the command line.

    Each names the type that it accepts, then the type that it has. The emitted files name those
    that do not have their default, in this order.
    """

    hop: Keyword[int, int] = Keyword(
        0,
        "feed N new rows a call (vmcu_push_row) along the input's H axis, and keep the rows of "
        "each layer that the next window needs",
        hop,
        "N",
        STREAMING,
    )
    state: Keyword[Sequence[str] | None, Sequence[str] | None] = Keyword(
        None,
        "feed OUT back as IN on the next call (initially zero); repeatable (default: pairs with "
        "matching names, such as state_in and state_out; none: no pairs)",
        metavar="IN:OUT",
        title=STREAMING,
    )
    time: Keyword[str | None, str | None] = Keyword(
        None,
        "time axis of the input for --hop; with w, a pushed row is a column of the image (default: "
        "h, or w if H is too short for N)",
        title=STREAMING,
        choices=("h", "w"),
    )
    target: Keyword[str | None, str | None] = Keyword(
        None,
        "core that the plan is made for: dsp (Cortex-M4 and up), v7m (Cortex-M3) or portable, for "
        "every core; helium (Cortex-M55, M85), rv32 (RV32IM) or v6m (Cortex-M0+), for such cores "
        "only (default: that of --on, else dsp); does not choose a machine",
        target_name,
        "NAME",
    )
    ram: Keyword[Size | None, int | None] = Keyword(
        None,
        "find the fastest plan in SIZE bytes, for example 64K, with the buffer of "
        "--external-weights; fail if there is none (default: the smallest pool, unless a sixth "
        "more saves a tenth of the time)",
        byte_count,
        "SIZE",
    )
    effort: Keyword[str, str] = Keyword(
        NORMAL,
        "how long to search for a plan: quick, normal or long; long also tries tiles of one column "
        "(default normal)",
        choices=tuple(EFFORTS),
    )
    stream_input: Keyword[bool, bool] = Keyword(
        False,
        "feed the input row by row (vmcu_push_row); the pool never contains all of it",
        title=STREAMING,
    )
    external_input: Keyword[bool, bool] = Keyword(
        False,
        "read the input from flash, external RAM or a camera buffer (vmcu_set_input), not from the "
        "pool",
    )
    rotate: Keyword[bool, bool] = Keyword(
        False,
        "advance the origin of the pool after each inference to spread writes over all bytes; "
        "needs a few more bytes",
    )
    workers: Keyword[int, int] = Keyword(
        1,
        "share the layers between N cores, 1 or 2, that work in the same pool (vmcu_team_run); "
        "needs up to a tenth more RAM",
        worker_count,
        "N",
    )
    extra_macs: Keyword[float, float] = Keyword(
        0.0,
        "allow recomputation to save RAM (default 0; with --ram: as many as necessary)",
        percentage,
        "PERCENT",
    )
    memory: Keyword[Mapping[str, Size] | tuple[Region, ...] | str | None, tuple[Region, ...]] = (
        Keyword(
            (),
            "use several memories, the fast ones first, for example "
            "dtcm=64K,sram=320K,psram=8M:10; CYCLES: wait states of an access (default 0, 1, "
            "2, ...)",
            memories,
            "NAME=SIZE[:CYCLES],...",
        )
    )
    external_weights: Keyword[WeightStore | str | None, WeightStore | None] = Keyword(
        None,
        "write weights into NAME.weights.bin, which the runtime reads stage by stage into a buffer "
        "in RAM, for example from SPI flash with 8MB/s,latency=100us,ram=20K; ram: bytes of the "
        "buffer (default: as many as reading one stage ahead needs)",
        weight_store,
        "RATE[,latency=TIME][,ram=SIZE]",
    )

    def given(self) -> set[str]:
        """The fields that do not have their default."""
        return {f.name for f in fields(self) if getattr(self, f.name) != f.default}

    def words(self) -> Iterator[str]:
        """The options as words of a command line, without those that have their default."""
        for field in fields(PlanOptions):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            for one in value if field.name == "state" else [value]:
                yield spelled(field.name)
                yield from [] if one is True else [text_of(one)]


@dataclass(kw_only=True, unsafe_hash=True)
class CompileOptions(PlanOptions):
    """The options of a plan, and what else it is for.

    planner: one of registry.PLANNERS. online: whole layers, which a device can place again.
    container: the plan is for a container. choices: the plan lists what else the search has found.
    params: of the search, before `effort` changes its limits.
    """

    planner: str = DEFAULT_PLANNER
    online: bool = False
    container: bool = False
    choices: bool = False
    params: SearchParams = DEFAULT_PARAMS

    @property
    def merges_recomputation(self) -> bool:
        """Whether a layer can be part of those that recompute it (stages/recomputation.py):
        containers and rotating pools do not support it."""
        return not (self.rotate or self.container)


@dataclass(frozen=True)
class Exclusion:
    """An option, and the reason by option that it cannot be combined with. Names are those of
    CompileOptions or of a command's own options."""

    option: str
    reasons: Mapping[str, str]


_ONE_POOL = "devices plan whole tensors in one pool"
_NO_PLAN = "it plans for each limit in turn and writes nothing"
EXCLUSIONS = (
    Exclusion(
        "hop",
        {
            "stream_input": "the model already reads rows",
            "external_input": "its rows arrive one by one",
            "rotate": "the state must stay at one address",
            "memory": "the state must be in one pool",
            "workers": "its rows arrive one by one",
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
        },
    ),
    Exclusion(
        "external_weights",
        {"online": "devices plan whole models", "pareto": _NO_PLAN},
    ),
    Exclusion("external_input", {"stream_input": "pushed rows are in the pool"}),
    Exclusion(
        "online",
        dict.fromkeys(("stream_input", "external_input", "memory", "rotate", "pareto"), _ONE_POOL),
    ),
    Exclusion(
        "workers",
        {
            "stream_input": "rows arrive one by one",
            "rotate": "the second worker's scratch does not move",
            "memory": "workers share one pool",
            "external_weights": "a worker would need the weights of two stages",
            "pareto": _NO_PLAN,
        },
    ),
    Exclusion(
        "pareto",
        dict.fromkeys(("ram", "memory", "rotate", "output"), _NO_PLAN),
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
