# SPDX-License-Identifier: Apache-2.0
"""Writes containers.c: containers of every kernel, of layers that run together and of a streamed
input, with random inputs and the outputs of the layers' numpy meaning; then containers with one
thing wrong, as what differs from these; streams.c: those of models that keep their rows. CMake
runs it with python/, tests/python and tests/runtime in PYTHONPATH; the same sources give the same
bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from damages import BUILT, GREEDY, SEGMENTS, Damage, damages
from make_vectors import array, declared, kernels_of, plans
from random_graphs import random_inputs
from random_networks import AnyNetwork, EveryNetwork
from random_streams import Mixed, Temporal, plan_of
from vmcu_bench.verify.stream import meaning, stream_of
from vmcu_tools import container, frontends, passes, paths
from vmcu_tools.container import layout
from vmcu_tools.emit.model import write_tables
from vmcu_tools.graph import Graph
from vmcu_tools.kernels.targets import DEFAULT
from vmcu_tools.machine import reference
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

DIGITS = paths.root() / "samples" / "digits" / "digits.onnx"
SEED = 11
# Of models that keep their rows: as many as a board of 256 KB has room for.
HOPS = 50
# Of random networks, those with stages of several layers and, but for the last, a streamed input.
NETWORKS = ((AnyNetwork, 3), (AnyNetwork, 10), (EveryNetwork, 22), (EveryNetwork, 10))
LAYERS = 8
# Layers of a kind, for what a board of 256 KB has room for.
MOST = 2
# By the names of their plans: one reads an input that is not in the pool, one has kernels among its
# parameters.
NOT_IN_CONTAINERS = {"elsewhere": "vmcu_fetch", "recomputed": "vmcu_recomputed"}


@dataclass(frozen=True)
class Built:
    """A container and the plan that is in it."""

    name: str
    plan: Plan
    image: bytes
    online: bool = False


def built(target: str = DEFAULT) -> Iterator[Built]:
    missing = declared(target).difference(NOT_IN_CONTAINERS.values())
    for name, plan in plans(MOST, target):
        if name not in NOT_IN_CONTAINERS and (
            not name.startswith("edge") or kernels_of(plan) & missing
        ):
            yield packed(name, plan)
            missing -= kernels_of(plan)
    if missing:
        raise ValueError(f"no container here has the kernel {', '.join(sorted(missing))}")
    for kind, seed in NETWORKS:
        graph = optimized(kind(seed, LAYERS).made, target)
        options = CompileOptions(stream_input=len(graph.inputs) == 1 and seed != NETWORKS[-1][1])
        yield packed(f"{kind.__name__}_{seed}", make_plan(graph, options))
    digits = optimized(frontends.load(DIGITS), target)
    yield packed("digits", make_plan(digits))
    yield packed("online", make_plan(digits, CompileOptions(online=True)), True)
    yield packed("branches", make_plan(branches(target), CompileOptions(online=True)), True)


def optimized(graph: Graph, target: str) -> Graph:
    return replace(passes.optimize(graph), target=target)


def scratch(target: str = DEFAULT) -> Built:
    """One more, for which a board's flash has no room: a stage with a layer whose scratch is in the
    pool."""
    return packed("scratch", make_plan(replace(AnyNetwork(17).made, target=target)))


def branches(target: str) -> Graph:
    """In segments, not to be planned in the bytes of its worst layer: the greedy plan is taken."""
    return optimized(AnyNetwork(7066, 4).made, target)


def packed(name: str, plan: Plan, online: bool = False) -> Built:
    distances = container.online_of(plan) if online else None
    files = write_tables(plan, name).files
    return Built(name, plan, container.of_tables(files, name, distances), online)


def differences(image: bytes, other: bytes) -> bytes:
    """Runs of bytes that differ, but for the digest: two bytes of where, one of how many, then
    these; 0, 0, 0 at last."""
    assert len(image) == len(other)
    other = other[: layout.DIGEST.start] + image[layout.DIGEST] + other[layout.DIGEST.stop :]
    found = bytearray()
    at = 0
    while at < len(image):
        end = at
        while end < len(image) and image[end] != other[end] and end - at < 255:
            end += 1
        if end > at:
            found += at.to_bytes(2, "little") + bytes((end - at,)) + other[at:end]
        at = max(end, at + 1)
    return bytes(found) + bytes(3)


def initialiser(data: bytes) -> str:
    return "".join(
        "\t" + ", ".join(map(str, data[at : at + 20])) + ",\n" for at in range(0, len(data), 20)
    )


def text(one: Built) -> tuple[str, str]:
    """Arrays of a container, and its entry."""
    inputs = random_inputs(one.plan.graph, SEED)
    values = reference.run(one.plan.graph, inputs)
    outputs = [values[port.tensor] for port in one.plan.graph.outputs]
    bytes_of = f"static const uint8_t {one.name}_file[] __aligned(VMCU_CONTAINER_ALIGN) = {{\n"
    arrays = (
        f"{bytes_of}{initialiser(one.image)}}};\n"
        f"{array(f'{one.name}_in', inputs)}{array(f'{one.name}_out', outputs)}"
    )
    members = f"{one.name}_file, sizeof({one.name}_file), {one.name}_in, {one.name}_out"
    return arrays, f'\t{{"{one.name}", {members}, {int(one.online)}}},\n'


def entry(number: int, damage: Damage, names: list[str]) -> str:
    index = -1 if damage.index is None else damage.index
    how = {BUILT: "BUILT", GREEDY: "GREEDY", SEGMENTS: "SEGMENTS"}[damage.planner]
    return (
        f"\t{{{names.index(damage.of)}, VMCU_PLAN_{how}, {int(damage.replay)}, -{damage.error}, "
        f'"{damage.what}", {index}, damage_{number}}}, /* {damage.label} */\n'
    )


def streams() -> Iterator[tuple[str, Plan]]:
    """Models that keep their rows: all of whose layers go on, and some of whose do not."""
    yield "temporal", plan_of(Temporal, 3)
    yield "mixed", plan_of(Mixed, 1)


def streams_text() -> str:
    """Their containers, with rows and the answers that whole windows mean."""
    arrays, entries = [], []
    for name, plan in streams():
        rows = stream_of(plan.model, plan.graph.state.step_rows, HOPS, SEED)
        answers = list(meaning(plan, rows))
        bytes_of = f"static const uint8_t {name}_file[] __aligned(VMCU_CONTAINER_ALIGN) = {{\n"
        arrays.append(f"{bytes_of}{initialiser(container.build(plan, name))}}};\n")
        arrays += [array(f"{name}_rows", [rows]), array(f"{name}_answers", answers)]
        window, hop = (
            plan.model.tensors[plan.model.inputs[0].tensor].shape[0],
            plan.graph.state.step_rows,
        )
        files = f"{name}_file, sizeof({name}_file), {name}_rows, {name}_answers"
        entries.append(f'\t{{"{name}", {files}, {len(rows)}, {window}, {hop}}},\n')
    return (
        '/* Written by make_containers.py. */\n\n#include "containers.h"\n\n'
        f"{''.join(arrays)}\nconst struct kept kept[] = {{\n{''.join(entries)}}};\n\n"
        "const unsigned int kept_count = sizeof(kept) / sizeof(kept[0]);\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    folder = parser.parse_args().output
    made = list(built())
    images = {one.name: one.image for one in made}
    names = list(images)
    wrong = list(damages(images, {one.name: one.plan for one in made}))
    texts = [text(one) for one in made]
    pool = max(one.plan.pool_bytes for one in made)
    runs = "".join(
        f"static const uint8_t damage_{n}[] = {{\n"
        f"{initialiser(differences(images[damage.of], damage.image))}}};\n"
        for n, damage in enumerate(wrong)
    )
    entries = "".join(entry(n, damage, names) for n, damage in enumerate(wrong))
    (folder / "containers.c").write_text(
        '/* Written by make_containers.py. */\n\n#include <errno.h>\n\n#include "containers.h"\n\n'
        f"{''.join(arrays for arrays, _ in texts)}\n"
        f"const struct built built[] = {{\n{''.join(row for _, row in texts)}}};\n\n"
        "const unsigned int built_count = sizeof(built) / sizeof(built[0]);\n\n"
        f"{runs}\nconst struct damage damages[] = {{\n{entries}}};\n\n"
        "const unsigned int damage_count = sizeof(damages) / sizeof(damages[0]);\n",
        encoding="utf-8",
    )
    (folder / "streams.c").write_text(streams_text(), encoding="utf-8")
    largest = max(len(image) for image in images.values())
    (folder / "container_sizes.h").write_text(
        f"/* Written by make_containers.py. */\n\n#define CONTAINER_BYTES {largest}U\n"
        f"#define POOL_BYTES {pool}U\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
