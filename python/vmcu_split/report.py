# SPDX-License-Identifier: Apache-2.0
"""The figures of a split."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from vmcu_tools.report.cycles import printed
from vmcu_tools.report.terminal import say
from vmcu_tools.report.text import table

from .nodes import Part, Split


@dataclass(frozen=True)
class InputRows:
    """Rows of an input that a node's application writes."""

    name: str
    first_row: int
    rows: int


@dataclass(frozen=True)
class NodeReport:
    """A node. link_bytes: what it sends in an inference, frames and acknowledgements; layers: by
    model, in the order in which they run."""

    ram_bytes: int
    link_bytes: int
    cycles: int
    layers: tuple[int, ...]
    peers: tuple[int, ...]
    inputs: tuple[InputRows, ...]


@dataclass(frozen=True)
class OneNode:
    """The whole network on one node."""

    ram_bytes: int
    cycles: int
    latency_s: float


@dataclass(frozen=True)
class SplitReport:
    """A split. kind: "pipeline" or "rows"; ram_bytes: of the largest node; link_bytes: of all."""

    model: str
    kind: str
    ram_bytes: int
    link_bytes: int
    latency_s: float
    nodes: tuple[NodeReport, ...]
    one_node: OneNode


def split_report(name: str, split: Split, one: Part) -> SplitReport:
    """Returns the figures. one: the whole network."""
    nodes = []
    for node in range(split.count):
        parts = split.parts_of(node)
        rows = [InputRows(name, rows.start, len(rows)) for name, rows in split.outside(node)]
        nodes.append(
            NodeReport(
                split.ram_bytes(node),
                split.link_bytes[node],
                sum(part.cycles for part in parts),
                tuple(len(part.plan.steps) for part in parts),
                tuple(split.peers(node)),
                tuple(rows),
            )
        )
    return SplitReport(
        name,
        split.kind,
        max(node.ram_bytes for node in nodes),
        sum(split.link_bytes),
        split.latency_s,
        tuple(nodes),
        OneNode(one.row_bytes + one.plan.pool_bytes, one.cycles, one.seconds),
    )


def print_split(report: SplitReport, console: Console) -> None:
    """Prints a line a node."""
    grid = table("node", "layers", "RAM bytes", "link bytes", "cycles", left=2)
    for number, node in enumerate(report.nodes):
        figures = (node.ram_bytes, node.link_bytes, node.cycles)
        layers = " + ".join(map(str, node.layers))
        grid.add_row(str(number), layers, *(f"{figure:,}" for figure in figures))
    console.print(grid)
    one = report.one_node
    say(
        console,
        f"{report.kind}: at most {report.ram_bytes:,} bytes of RAM a node, estimated "
        f"{printed(1000 * report.latency_s)} ms an inference. One node: {one.ram_bytes:,} bytes, "
        f"{printed(1000 * one.latency_s)} ms.",
    )
