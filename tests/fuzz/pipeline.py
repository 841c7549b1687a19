# SPDX-License-Identifier: Apache-2.0
"""Random networks all the way: file, graph, plan of any planner, C under sanitizers, real runtime.

    python tests/fuzz/pipeline.py [--seconds N] [--seed 0] [--first 0] [--count N] [--keep DIR]
        [--kinds KIND ...] [--ways N]

Every network is planned in several ways. The bytes of each plan, on the virtual MCU and as C with
the address and undefined behaviour sanitizers, must be those of the network's meaning in numpy;
networks that are files are held against the runtime they were written for as well. An operator of
its own and a network of quantize_static are compared with ONNX Runtime without its optimisations,
too, and may be off by what the promise says. A UserError is
an answer; anything else that is no such byte is a failure, of which the number and the file are
left in DIR. Network N of a seed is the same in every run: --first N --count 1 draws it alone.
"""

from __future__ import annotations

import argparse
import collections
import math
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import importers  # noqa: F401  finds vmcu_tools and the tests' builders
import numpy as np
from onnx_networks import OnnxNetwork
from onnx_static import static_network
from random_networks import AnyNetwork, EveryNetwork
from random_onnx_operators import operator_network
from raw_runtime import RawRuntime
from tflite_networks import TfliteNetwork
from vmcu_bench import oracle
from vmcu_bench.runners.samples import Sample, make_samples
from vmcu_bench.verify import verify
from vmcu_tools import frontends, passes
from vmcu_tools.errors import UserError
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.pools import Region
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import ALL_TILES, DEFAULT_PARAMS, SearchParams
from vmcu_tools.planner.registry import PLANNERS, make_plan
from vmcu_tools.planner.rotate import rotate

# What draws a file, by kind, and the format it has.
FILES: dict[str, tuple[str, Callable[[np.random.Generator], bytes]]] = {
    "onnx": ("onnx", lambda rng: OnnxNetwork(rng, LAYERS).file()),
    "tflite": ("tflite", lambda rng: TfliteNetwork(rng, LAYERS).file()),
    "operator": ("onnx", lambda rng: operator_network(rng).file()),
    "static": ("onnx", static_network),
}
# Those that are held against ONNX Runtime without its optimisations: whether one operator computes.
RAW = {"operator": True, "static": False}
GRAPHS = {"any": AnyNetwork, "every": EveryNetwork}
KINDS = (*FILES, *GRAPHS)
LAYERS = 14
# Of the processor, whatever else the machine does.
HANG_SECONDS = 120
# Beside those with a pattern.
RANDOM_SAMPLES = 2
WAYS = 3


class WrongError(Exception):
    """Bytes that differ."""


class HangError(Exception):
    """A network takes too long."""


@dataclass(frozen=True)
class Way:
    """How a network is planned; the fields are those of planner.Options, and whether the pool
    rotates, or is divided between two memories that are too small for it."""

    planner: str
    stream_input: bool = False
    any_tiles: bool = False
    extra_macs: float = 0.0
    rotated: bool = False
    divided: bool = False

    def plan(self, graph: Graph) -> Plan:
        options = CompileOptions(
            stream_input=self.stream_input,
            params=SearchParams(trade_off=False, tiles=ALL_TILES)
            if self.any_tiles
            else DEFAULT_PARAMS,
            extra_macs=self.extra_macs,
        )
        given = passes.optimize(graph)
        plan = make_plan(given, replace(options, planner=self.planner))
        if self.divided:
            size = plan.pool_bytes * 3 // 4 + 8
            regions = (Region("fast", size, 0.0), Region("slow", size, 1.0))
            return make_plan(given, replace(options, memory=regions, planner=self.planner))
        return rotate(plan) if self.rotated else plan


def some_ways(rng: np.random.Generator, inputs: int) -> list[Way]:
    """The default, and others: half of them its own planner with other options."""
    ways = [Way("vmcu")]
    while len(ways) < WAYS:
        rotated = bool(rng.random() < 0.3)
        if rng.random() < 0.4:
            ways.append(Way(list(PLANNERS)[int(rng.integers(len(PLANNERS)))], rotated=rotated))
            continue
        streamed = inputs == 1 and bool(rng.random() < 0.5)
        any_tiles = bool(rng.integers(4) > 1)
        extra = (0.0, 0.0, 50.0, 1000.0)[int(rng.integers(4))]
        divided = not rotated and bool(rng.random() < 0.4)
        ways.append(Way("vmcu", streamed, any_tiles, extra, rotated, divided))
    return ways


@dataclass
class Network:
    """Number `number` of a seed. `kind`: of `kinds`."""

    seed: int
    number: int
    ways: int = WAYS
    kinds: Sequence[str] = KINDS

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, self.number])
        self.kind = self.kinds[int(self.rng.integers(len(self.kinds)))]
        self.path: Path | None = None

    def graph(self, folder: Path) -> Graph:
        """As a frontend reads it, if it is a file; that is written to `folder`."""
        if self.kind in GRAPHS:
            seed = int(self.rng.integers(1 << 31))
            return GRAPHS[self.kind](seed, int(self.rng.integers(1, LAYERS + 1))).made
        suffix, drawn = FILES[self.kind]
        self.path = folder / f"{self.seed}-{self.number}.{suffix}"
        self.path.write_bytes(drawn(self.rng))
        return frontends.load(self.path)

    def check(self, folder: Path) -> collections.Counter[str]:
        """What was done, counted. Raises WrongError, or whatever else goes wrong."""
        done: collections.Counter[str] = collections.Counter()
        try:
            graph = self.graph(folder)
        except UserError as error:
            done[f"{self.kind} refused: {_reason(error)}"] += 1
            return done
        samples = make_samples(graph, RANDOM_SAMPLES, 5, self.number)
        if self.path is not None:
            _hold_against_runtime(self.path, graph, samples, done)
        if self.path is not None and self.kind in RAW:
            faults = RawRuntime(self.path).faults(samples, RAW[self.kind])
            if faults:
                raise WrongError(f"unlike ONNX Runtime without optimisation: {faults}")
            done[f"{self.kind} held against ONNX Runtime without optimisation"] += 1
        drawn = some_ways(self.rng, len(graph.inputs))
        # Fewer than all: of each network others.
        turn = self.number % len(drawn)
        for way in [*drawn[turn:], *drawn[:turn]][: self.ways]:
            try:
                plan = way.plan(graph)
            except UserError as error:
                done[f"way refused: {_reason(error)}"] += 1
                continue
            for target in ("virtual", "host:sanitize"):
                _compare(plan, target, samples, way)
            done[f"plans of {way.planner}"] += 1
            done["plans"] += 1
            for name in ("streamed", "banded", "rotated", "divided"):
                done[name] += {
                    "streamed": way.stream_input,
                    "banded": plan.macs_extra > 0,
                    "rotated": way.rotated,
                    "divided": way.divided,
                }[name]
        return done


def _reason(error: UserError) -> str:
    text = str(error)
    assert text.strip()
    return text.splitlines()[0][:100]


def _hold_against_runtime(
    path: Path, graph: Graph, samples: list[Sample], done: collections.Counter[str]
) -> None:
    try:
        judge = oracle.open(str(path))
        expected = [judge.run(sample) for sample in samples]
    except UserError as error:
        done[f"{path.suffix[1:]} without runtime: {_reason(error)[-60:]}"] += 1
        return
    tally = verify.Tally()
    optimised = passes.optimize(graph)
    for number, (sample, values) in enumerate(zip(samples, expected, strict=True)):
        meaning = reference.run(optimised, sample)
        drawn = number < RANDOM_SAMPLES
        verify.judge_sample(optimised, judge, values, meaning, tally, drawn=drawn)
    wrong = [check for check in tally.checks.values() if not check.passed]
    if wrong:
        raise WrongError(f"unlike its runtime: {[astuple(check) for check in wrong]}")
    done[f"{path.suffix[1:]} held against its runtime"] += 1


def _compare(plan: Plan, target: str, samples: list[Sample], way: Way) -> None:
    tally = verify.Tally()
    for sample, got in zip(samples, verify.run_target(plan, target, samples), strict=True):
        tally.compare(plan.model, got, reference.run(plan.model, sample))
    wrong = [check for check in tally.checks.values() if not check.passed]
    if wrong:
        raise WrongError(f"{way} on {target}: {[astuple(check) for check in wrong]}")


def _alarm(number: int, frame: object) -> None:
    raise HangError(f"more than {HANG_SECONDS} s of this processor")


def run(args: argparse.Namespace) -> int:
    """Failures. Ctrl-C ends it, as its time does."""
    seconds = (60.0 if args.count is None else math.inf) if args.seconds is None else args.seconds
    end, number, failures = time.monotonic() + seconds, args.first, 0
    done: collections.Counter[str] = collections.Counter()
    args.keep.mkdir(parents=True, exist_ok=True)
    while time.monotonic() < end and (args.count is None or number < args.first + args.count):
        network = Network(args.seed, number, args.ways, args.kinds)
        signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
        try:
            done += network.check(args.keep)
        except KeyboardInterrupt:
            break
        except Exception:
            failures += 1
            log = args.keep / f"{args.seed}-{number}.log"
            log.write_text(traceback.format_exc())
            print(f"{log}: --seed {args.seed} --first {number} --count 1", file=sys.stderr)
            print(traceback.format_exc(), file=sys.stderr)
        else:
            if network.path is not None and args.count != 1:
                network.path.unlink(missing_ok=True)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        number += 1
    for what, count in sorted(done.items()):
        print(f"{count:8} {what}")
    print(
        f"pipeline: {number - args.first} networks, {done['plans']} plans as C under sanitizers, "
        f"{failures} failures"
    )
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, help="60 if --count is not given either")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first network")
    parser.add_argument("--count", type=int, help="networks, if --seconds leave time")
    parser.add_argument("--ways", type=int, default=WAYS, help=f"plans of each, up to {WAYS}")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="all by default")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    signal.signal(signal.SIGPROF, _alarm)
    return 1 if run(parser.parse_args()) else 0


if __name__ == "__main__":
    sys.exit(main())
