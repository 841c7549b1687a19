# SPDX-License-Identifier: Apache-2.0
"""Cycles of a core that issues up to two instructions a cycle, in order: Cortex-M7.

Input: the instructions of a run, one behind the other. Output: the cycles until the next run may
begin. An instruction issues once its operands are there and its unit is free, at the earliest
beside the instruction before it. O(n).

Arm publishes no cycles of this core. Units, pairs and latencies are those by which LLVM schedules
for it (llvm/lib/Target/ARM/ARMScheduleM7.td), but for one load or store a cycle instead of two
loads: weights in flash and a tile in RAM have one port each. Not modelled: caches, wait states and
branches that are predicted wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .instructions import BRANCH, DIVISION, LOAD, STORE, Instruction, Spent, kind_of
from .timing import Timing

WORD_LOAD = re.compile(r"v?ldr(t|ex)?$")
PRODUCT = re.compile(r"([us]mull|[us]mlal\w*|mul|mla|mls|sm\w+)s?$")
LONG = re.compile(r"([us]mull|[us]mlal\w*|smlald\w*|smlsld\w*|umaal)$")
# They issue on a unit of their own, before the instruction that they pair with.
SIMD = re.compile(r"([us]xt\w*|pkh\w*|[usq]h?(add|sub)(8|16)|[us]sat\w*|[us]bfx|rev\w*|rbit|sel)$")
SATURATING = re.compile(r"([us]sat\w*|q\w+)$")
FIRST = re.compile(r"(clz|bfi|bfc)$")
STACK = ("push", "pop", "vpush", "vpop")
COMPARE = re.compile(r"(cmp|cmn|tst|teq)$")
INSERT = re.compile(r"(bfi|bfc|movt)$")
UNARY = re.compile(r"(mov[sw]?|mvns?|[us]xt\w*|rev\w*|rbit|clz|adr)$")
SHIFTED = re.compile(r",\s*(lsl|lsr|asr|ror)\s+#")
SHIFT = re.compile(r"(lsl|lsr|asr|ror)s?$")
SETS_FLAGS = re.compile(r"(add|sub|rsb|adc|sbc|and|orr|eor|bic|mov|mvn|lsl|lsr|asr|ror|mul)s$")
REGISTER = re.compile(r"\b(r\d+|sl|fp|ip|sp|lr|s\d+|d\d+)\b")
READS_FLAGS = re.compile(r"(adc|sbc|it(t|e)*)")
FLAGS = "flags"
FLOAT_LATENCY = {"vdiv": 16, "vsqrt": 16, "vmla": 6, "vmls": 6, "vfma": 6, "vfms": 6}


@dataclass(frozen=True)
class Pipes:
    """Instructions of a kind that may issue in one cycle."""

    issue: int = 2
    alu: int = 2
    shift: int = 1
    mac: int = 1
    simd: int = 1
    memory: int = 1
    branch: int = 1
    fpu: int = 1


@dataclass(frozen=True)
class Use:
    """The needs of an instruction. early: registers that are read a cycle before the others, as
    addresses are; late: an accumulator, read a cycle after them. updated: a base, there at once.
    latency: cycles until `writes` may be read. cycles: that nothing else issues in, if `alone`."""

    units: tuple[str, ...]
    reads: frozenset[str]
    early: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    writes: tuple[str, ...] = ()
    updated: str = ""
    latency: int = 1
    alone: bool = False
    first: bool = False
    cycles: int = 1


def use_of(instruction: Instruction) -> Use:
    """Returns an instruction's use of the core."""
    name, operands = instruction.mnemonic, instruction.operands
    named = REGISTER.findall(operands)
    if BRANCH.match(name):
        return Use(("branch",), frozenset([*named, FLAGS]))
    if instruction.words > 1 or "{" in operands:
        return _several(instruction, named)
    if name.startswith(("vldr", "vstr")) or LOAD.match(name) or STORE.match(name):
        return _memory(instruction, named)
    if name.startswith("v"):
        base = name.split(".")[0]
        reads = frozenset(named if base in FLOAT_LATENCY else named[1:])
        return Use(("fpu",), reads, writes=tuple(named[:1]), latency=FLOAT_LATENCY.get(base, 3))
    if name in ("udiv", "sdiv"):
        return Use(("alu",), frozenset(named[1:]), writes=(named[0],), alone=True, cycles=DIVISION)
    if PRODUCT.match(name):
        return _multiply(name, named)
    return _arithmetic(name, operands, named)


def _several(instruction: Instruction, named: Sequence[str]) -> Use:
    """LDM, STM, LDRD, STRD and the like, which issue alone, a register a cycle."""
    words = instruction.words
    held, base = tuple(named[:words]), named[words:]
    if "{" in instruction.operands:
        held = instruction.registers
        base = REGISTER.findall(instruction.operands.split("{")[0]) or ["sp"]
    moves = base[0] if "!" in instruction.operands or instruction.mnemonic in STACK else ""
    early, stores = frozenset(base), bool(kind_of(instruction).stores)
    return Use(
        ("memory",),
        frozenset(held if stores else ()),
        early,
        writes=() if stores else held,
        updated=moves,
        alone=True,
        cycles=words,
    )


def _memory(instruction: Instruction, named: Sequence[str]) -> Use:
    """A load or a store of one register."""
    name, held = instruction.mnemonic, tuple(named[:1])
    base = named[1] if len(named) > 1 else ""
    inside = instruction.address.split("]")
    moves = base if len(inside) > 1 and inside[1].strip(" ,") else ""
    early = frozenset(named[1:])
    if name.startswith(("str", "vstr")):
        return Use(("memory",), frozenset(), early, frozenset(held), updated=moves)
    latency = 1 if WORD_LOAD.match(name) else 2
    return Use(("memory",), frozenset(), early, writes=held, updated=moves, latency=latency)


def _multiply(name: str, named: Sequence[str]) -> Use:
    """MUL R0, R1 is R0 = R0 * R1."""
    if LONG.match(name):
        late = frozenset(named[:2] if "mull" not in name else ())
        return Use(("mac",), frozenset(named[2:]), late=late, writes=tuple(named[:2]), latency=2)
    reads, flags = frozenset(named[len(named) > 2 : 3]), (FLAGS,) * name.endswith("s")
    late, writes = frozenset(named[3:]), (named[0], *flags)
    return Use(("mac",), reads, late=late, writes=writes, latency=2)


def _arithmetic(name: str, operands: str, named: Sequence[str]) -> Use:
    reads, writes = frozenset(named[1:]), tuple(named[:1])
    if COMPARE.match(name):
        reads, writes = frozenset(named), (FLAGS,)
    elif SETS_FLAGS.match(name):
        writes = (*writes, FLAGS)
    if INSERT.match(name) or (operands.count(",") == 1 and not UNARY.match(name)):
        # ADDS R0, #1 is R0 = R0 + 1.
        reads |= frozenset(named[:1])
    if READS_FLAGS.match(name):
        reads |= {FLAGS}
    if SIMD.match(name):
        late = 2 if SATURATING.match(name) else 1
        return Use(("alu", "simd"), reads, writes=writes, latency=late, first=True)
    if SHIFTED.search(operands):
        return Use(("alu", "shift"), reads, frozenset(named[-1:]), writes=writes)
    units = ("alu", "shift") if SHIFT.match(name) else ("alu",)
    return Use(units, reads, writes=writes, first=bool(FIRST.match(name)))


@dataclass
class Pipeline:
    """The state of the core within a run. ready: the cycle from which on a register may be read;
    taken: the units used in the present cycle."""

    pipes: Pipes
    now: int = 0
    ready: dict[str, int] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Pipeline:
        """The same state, to go on from twice."""
        return Pipeline(self.pipes, self.now, dict(self.ready), dict(self.taken))

    @property
    def cycles(self) -> int:
        """That have begun."""
        return self.now + bool(self.taken)

    def issue(self, use: Use) -> int:
        """Issues an instruction; returns the cycles that it adds, none beside the one before."""
        before = self.cycles
        operands = [(use.reads, 0), (use.early, 1), (use.late, -1)]
        needed = max(
            (
                self.ready[name] + shift
                for names, shift in operands
                for name in names
                if name in self.ready
            ),
            default=0,
        )
        if needed > self.now or not self._fits(use):
            self._advance(max(needed, self.cycles))
        for unit in ("issue", *use.units):
            self.taken[unit] = self.taken.get(unit, 0) + 1
        for name in use.writes:
            self.ready[name] = self.now + use.latency
        if use.updated:
            self.ready[use.updated] = self.now
        if use.alone:
            self._advance(self.now + use.cycles)
        return self.cycles - before

    def _fits(self, use: Use) -> bool:
        if not self.taken:
            return True
        if use.alone or use.first:
            return False
        return all(
            self.taken.get(unit, 0) < getattr(self.pipes, unit) for unit in ("issue", *use.units)
        )

    def _advance(self, cycle: int) -> None:
        self.now, self.taken = cycle, {}


@dataclass(frozen=True, kw_only=True)
class DualIssue(Timing):
    """The rules of such a core. refill: of a branch that was predicted."""

    pipes: Pipes = Pipes()
    refill: float = 1

    def block(self, run: Sequence[Instruction]) -> Spent:
        """Times instructions one behind the other; a cycle counts for the first that issues in it,
        and a wait for the one that waits."""
        pipeline, spent = Pipeline(self.pipes), Spent()
        for instruction in run:
            spent += kind_of(instruction).times(pipeline.issue(use_of(instruction)))
        return spent
