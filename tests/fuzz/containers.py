# SPDX-License-Identifier: Apache-2.0
"""Containers to damage, and the damage: tests/fuzz/containers holds small ones of all operators.

python tests/fuzz/containers.py [--mutants N] [--seed N] [--write]

Each mutant is a container with some bytes changed and its digest mended; what is accepted is run.
container.c is compiled with the address and undefined behaviour sanitizers, so that a byte touched
outside of the container, the arena and the pool ends the run. --write makes the containers anew.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORPUS = HERE / "containers"
# Of random networks with every operator; streamed where there is one input.
NETWORKS, FIRST = 8, 300
# Of these, those that devices may plan, too.
ONLINE = (0, 3, 5)
# Of random streams, of layers that go on and of others behind them.
STREAMS = 2
FLAGS = (
    *("-std=gnu11", "-DVMCU_ONLINE_PLANNER"),
    *("-DVMCU_CONTAINER_REPLAY", "-DVMCU_STREAMS"),
)


def corpus() -> list[Path]:
    return sorted(CORPUS.glob("*.vmcu"))


def made() -> Iterator[tuple[str, bytes]]:
    """The containers of the corpus by their names."""
    sys.path.insert(0, str(ROOT / "tests/python"))
    from builders.onnx_states import Recurrent
    from random_networks import EveryNetwork
    from random_streams import Mixed, Temporal, plan_of
    from vmcu_tools import container, frontends, passes
    from vmcu_tools.compiler import compile_model
    from vmcu_tools.planner.options import CompileOptions
    from vmcu_tools.planner.registry import make_plan

    rows, online = CompileOptions(stream_input=True), CompileOptions(online=True)
    digits = frontends.load(ROOT / "samples/digits/digits.onnx")
    graphs = [("hello", frontends.load(ROOT / "samples/hello/hello.onnx"), CompileOptions())]
    graphs += [("digits", digits, CompileOptions()), ("digits_rows", digits, rows)]
    for number in range(NETWORKS):
        graph = EveryNetwork(FIRST + number, 3 + number % 4).made
        streamed = number % 2 == 1 and len(graph.inputs) == 1
        graphs.append((f"network_{number}", graph, rows if streamed else CompileOptions()))
        if number in ONLINE:
            graphs.append((f"online_{number}", graph, online))
    for kind in (Temporal, Mixed):
        for seed in range(STREAMS):
            yield f"{kind.__name__.lower()}_{seed}", container.build(plan_of(kind, seed), "m")
    with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
        cell = Recurrent(4, 1).save(Path(folder) / "cell.onnx")
        yield (
            "computed",
            container.build(compile_model(cell, CompileOptions(state=["h0:hn0"])), "m"),
        )
    for name, graph, options in graphs:
        plan = make_plan(passes.optimize(graph), options)
        yield name, container.build(plan, name, online=options.online)


def harness(folder: Path) -> Path:
    """container.c with the runtime and all kernels, under the sanitizers."""
    from vmcu_bench import runners
    from vmcu_bench.runners.compiled import CompiledRunner

    image, target = folder / "container", runners.get("host:sanitize")
    assert isinstance(target, CompiledRunner)
    target = replace(target, flags=(*target.flags, *FLAGS)).loading()
    # all.c lists the kernels for the loader.
    sources = (HERE / "container.c", ROOT / "lib/vmcu/container/all.c", target.archive())
    target.gcc([*map(str, sources), "-o", str(image)], folder)
    return image


def damaged(image: Path, file: Path, mutants: int, seed: int) -> int:
    """How many mutants of a container are accepted. Raises CalledProcessError where one touches
    what it must not."""
    command = [str(image), str(file), str(mutants), str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=0, help="of all containers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="make the containers anew")
    args = parser.parse_args()
    if args.write:
        CORPUS.mkdir(exist_ok=True)
        for name, image in made():
            (CORPUS / f"{name}.vmcu").write_bytes(image)
    files = corpus()
    with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
        image, taken, total = harness(Path(folder)), 0, 0
        for number, file in enumerate(files):
            share = args.mutants * (number + 1) // len(files) - args.mutants * number // len(files)
            taken += damaged(image, file, share, args.seed + number)
            total += share
    print(f"{total:,} mutants of {len(files)} containers, {taken:,} accepted and run: nothing")


if __name__ == "__main__":
    main()
