# SPDX-License-Identifier: Apache-2.0
"""The C files of a node: its models, and the table of its steps."""

from __future__ import annotations

import jinja2
from vmcu_tools.emit import emit
from vmcu_tools.emit.text import environment

from .nodes import Split


def node_files(split: Split, node: int, name: str) -> dict[str, str]:
    """Returns the files of a node by name. name: of the network in C.

    Raises PlanError if the proof refuses a plan."""
    models = {f"{name}_{node}_{n}": part.plan for n, part in enumerate(split.parts_of(node))}
    files = {}
    for model, plan in models.items():
        files.update(emit(plan, model).files)
    table = f"{name}_node{node}"
    values = {"split": split, "node": node, "name": table, "upper": table.upper()}
    values |= {"models": [*models], "steps": split.steps[node], "peers": split.peers(node)}
    templates = environment().overlay(loader=jinja2.PackageLoader("vmcu_split"))
    for suffix in ("h", "c"):
        files[f"{table}.{suffix}"] = templates.get_template(f"node.{suffix}.j2").render(values)
    return files
