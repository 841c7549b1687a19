# SPDX-License-Identifier: Apache-2.0
"""What one family of cores has of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .assembly import Function
from .instruction import Instruction
from .packing import WORDS, Packing


@dataclass(frozen=True)
class Costs:
    """What planners weigh, in cycles unless it says otherwise, as `vmcu bench` has them.

    mac: a multiply-accumulate; mac_direct: what one costs more where its input is widened again and
    again; mac_depthwise: one of a depthwise convolution. call: of a kernel beyond one for each row;
    call_window, call_strip: likewise of a convolution that gathers windows and of a depthwise one,
    which takes call_strip_channel for each channel besides. layer: to join a stage.
    block, strip: what each block and each strip of a depthwise row adds, in blocks' pixels.
    """

    mac: float
    mac_direct: float
    mac_depthwise: float
    call: float
    call_window: float
    call_strip: float
    call_strip_channel: float
    layer: float
    block: float
    strip: float


@dataclass(frozen=True, eq=False)
class Target:
    """A family of cores. Whatever it does not have of its own is portable C.

    guard: the preprocessor condition under which a core is one of them. own: the C body of those
    instructions that it has a better one for. helpers: C that bodies use, by name; one that the
    portable target has as well takes the place of that. assembly: functions by the file that has
    them. dual: the condition for cores of the family that issue two instructions in a cycle, which
    get assembly in another order (language/order.py). later: helpers that use portable ones, and
    replace none of them. int4: the same cores for layers with weights of 4 bits, "_int4" behind its
    name; without it, these have weights of 8.
    """

    name: str
    title: str
    guard: str
    packing: Packing
    costs: Costs
    own: Mapping[Instruction, str]
    helpers: Mapping[str, str]
    assembly: Mapping[str, Sequence[Function]] = field(default_factory=dict)
    dual: str = ""
    later: Mapping[str, str] = field(default_factory=dict)
    int4: Target | None = None

    @property
    def label(self) -> str:
        """Its cores, and the option for them, in messages."""
        return f"{self.title} (--target {self.name})"

    @property
    def needs(self) -> str:
        """The condition that a core must meet to run what is laid out for this target; nothing
        where portable C reads it."""
        return "" if self.packing == WORDS else self.guard

    @property
    def is_portable(self) -> bool:
        """True if every core is one of them."""
        return self.guard == "1"

    @property
    def folder(self) -> str:
        """Of kernels/targets."""
        return self.name.removesuffix("_int4")

    def body(self, made: Instruction) -> str:
        """The C of an instruction."""
        return self.own.get(made) or portable_body(made, self.packing)


def portable_body(made: Instruction, packing: Packing) -> str:
    """The C of an instruction that any core runs."""
    return made.portable if isinstance(made.portable, str) else made.portable(packing)
