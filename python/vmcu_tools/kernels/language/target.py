# SPDX-License-Identifier: Apache-2.0
"""The facts about a family of cores for planners and layouts of weights."""

from __future__ import annotations

from dataclasses import dataclass

from .packing import WORDS, Packing


@dataclass(frozen=True)
class Costs:
    """The weights of planners, in cycles unless it says otherwise, as `vmcu bench` has them.

    mac: a multiply-accumulate; mac_direct: its additional cost where its input is widened again and
    again; mac_depthwise: one of a depthwise convolution. call: of a kernel beyond one for each row;
    call_window, call_strip: likewise of a convolution that gathers windows and of a depthwise one,
    which takes call_strip_channel for each channel besides. layer: to join a stage. block, strip:
    the cost of each block and each strip of a depthwise row, in blocks' pixels.
    """

    mac: float
    mac_direct: float
    mac_depthwise: float
    call: float
    call_window: float
    call_strip: float
    call_strip_channel: float
    layer: float
    block: float = 4
    strip: float = 6


@dataclass(frozen=True, eq=False)
class Target:
    """A family of cores. guard: the preprocessor condition under which a core is one of them. int4:
    the same cores for layers with weights of 4 bits, "_int4" behind its name; without it, these
    have weights of 8."""

    name: str
    title: str
    guard: str
    packing: Packing
    costs: Costs
    int4: Target | None = None

    @property
    def label(self) -> str:
        """Its cores, and the option for them, in messages."""
        return f"{self.title} (--target {self.name})"

    @property
    def needs(self) -> str:
        """The condition that a core must meet to run tables laid out for this target; nothing
        where portable C reads them."""
        return "" if self.packing == WORDS else self.guard

    @property
    def is_portable(self) -> bool:
        """True if every core is one of them."""
        return self.guard == "1"
