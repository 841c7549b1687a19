# SPDX-License-Identifier: Apache-2.0
"""Plans from the quick to the small, until time is over or somebody interrupts.

The planners run in a process of their own, one after the other, each plan proven before it is
handed over; the process is ended when time is over, whatever it is at. Without a limit nothing of
this runs: then a planner ends by itself, at the same plan on every machine.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import IO

from .. import progress
from ..child import end, start
from ..errors import Problem, UserError
from ..graph import Graph
from ..machine.mcu import VirtualMcu
from ..plan.plan import Plan
from . import single
from .options import CompileOptions
from .places import smallest_pool
from .stages import fusion

INTERRUPTED = "The search for a plan was interrupted: this is the best plan found."
OVER = "The search for a plan ended after {:g} seconds: this is the best plan found."
# Writing a plan down, which proves it again as it is written, takes up to so many times what its
# first proof took, and the rest of the command so many seconds.
PROOF_TIMES, REST_SECONDS = 5.0, 0.5

Planning = Callable[[Graph, CompileOptions], Plan]


@dataclass(frozen=True)
class Offer:
    """A plan and what its proof took, in seconds; or why there is none."""

    plan: Plan | None
    seconds: float = 0.0
    error: tuple[Problem, ...] = ()


Arrived = queue.SimpleQueue[Offer | None]


def quick(graph: Graph, options: CompileOptions) -> Iterator[Plan]:
    """Plans that take little time, none where the input is elsewhere."""
    if options.external_input:
        return
    if options.stream_input:
        yield fusion.in_rows(graph, options)
        return
    yield replace(single.plan(graph), planner="vmcu")
    yield smallest_pool.plan(graph)


def offers(graph: Graph, options: CompileOptions, best: Planning) -> Iterator[Offer]:
    """All plans in turn, those of the `best` planner last."""
    try:
        for plan in quick(graph, options):
            yield proven(plan)
        yield proven(best(graph, options))
    except UserError as error:
        yield Offer(None, 0.0, error.problems)


def proven(plan: Plan) -> Offer:
    """A plan that has been replayed; PlanError if it is wrong."""
    start = time.monotonic()
    VirtualMcu(plan).prove()
    return Offer(plan, time.monotonic() - start)


def serve() -> None:
    """What the process of the planners does: a pickle comes in, one for each offer goes out."""
    graph, options, best = pickle.load(sys.stdin.buffer)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        # What a solver prints is no offer.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        for offer in offers(graph, options, best):
            pickle.dump(offer, answers)
            answers.flush()


@contextlib.contextmanager
def served(graph: Graph, options: CompileOptions, best: Planning) -> Iterator[Arrived]:
    """The queue that offers come into; on leaving, nobody makes any more."""
    process = start(__name__)
    assert process.stdin and process.stdout
    arrived: Arrived = queue.SimpleQueue()
    reader = threading.Thread(target=receive, args=(process.stdout, arrived), daemon=True)
    try:
        pickle.dump((graph, options, best), process.stdin)
        process.stdin.close()
        reader.start()
        yield arrived
    finally:
        end(process)
        if reader.ident is not None:
            reader.join()
        process.stdout.close()


def receive(answers: IO[bytes], arrived: Arrived) -> None:
    """Puts the offers of a process into a queue, and None behind the last."""
    with contextlib.suppress(EOFError, pickle.UnpicklingError):
        while True:
            arrived.put(pickle.load(answers))
    arrived.put(None)


def plan_within(graph: Graph, options: CompileOptions, best: Planning, deadline: float) -> Plan:
    """The best plan found before `deadline`, of time.monotonic(), less what writing it down takes;
    it says so in a note if the search was not over.

    Raises UserError if there is none, or none within options.ram.
    """
    found: Plan | None = None
    error: tuple[Problem, ...] = ()
    left = deadline - time.monotonic()
    reserve, over = REST_SECONDS, OVER.format(options.plan_seconds or 0)
    with progress.clock("planning", left) as watch, served(graph, options, best) as arrived:
        while True:
            try:
                offer = received(arrived, deadline - reserve)
            except EOFError:
                over = ""
                break
            except KeyboardInterrupt:
                over = INTERRUPTED
                break
            if offer is None:
                break
            error = offer.error
            if offer.plan is not None and (found is None or preferred(offer.plan, found, options)):
                found = offer.plan
                reserve = REST_SECONDS + PROOF_TIMES * offer.seconds
                watch(found.pool_bytes - found.gap, found.pool_bytes)
    if found is None or (error and options.ram is not None and found.pool_bytes > options.ram):
        raise UserError(*(error or (nothing(graph, options, over == INTERRUPTED),)))
    return replace(found, notes=(*found.notes, over)) if over else found


def received(arrived: Arrived, deadline: float) -> Offer | None:
    """The next offer, None if time is over; EOFError after the last."""
    try:
        found = arrived.get(timeout=max(deadline - time.monotonic(), 0.0))
    except queue.Empty:
        return None
    if found is None:
        raise EOFError
    return found


def preferred(plan: Plan, other: Plan, options: CompileOptions) -> bool:
    """Whether a later plan is to be taken: it needs fewer bytes, or fits as the other does."""
    if options.ram is not None and plan.pool_bytes <= options.ram:
        return True
    return plan.pool_bytes <= other.pool_bytes


def nothing(graph: Graph, options: CompileOptions, interrupted: bool) -> Problem:
    """Why there is no plan at all."""
    if interrupted:
        return Problem("interrupted before there was a plan", "let it go on", graph.origin)
    return Problem(
        f"no plan was found within {options.plan_seconds:g} seconds",
        "allow more with --plan-seconds",
        graph.origin,
    )
