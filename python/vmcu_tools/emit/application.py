# SPDX-License-Identifier: Apache-2.0
"""A Zephyr application around a model, as `vmcu new` writes it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import Problem, UserError
from ..graph import Graph, Port
from .names import check_name
from .text import comment, environment

# Each file of an application by the template it comes from.
FILES = {
    "CMakeLists.txt": "CMakeLists.txt.j2",
    "README.md": "README.md.j2",
    "prj.conf": "prj.conf.j2",
    "src/main.c": "main.c.j2",
}


@dataclass(frozen=True)
class PortText:
    """An input or output as main.c speaks of it; `macro` is the stem of its macros in the model's
    header, `bits` are those of an element."""

    macro: str
    comment: str
    bits: int


def application(
    graph: Graph,
    name: str,
    model: str,
    hop: int = 0,
    state: Sequence[str] | None = None,
    time: str | None = None,
) -> dict[str, str]:
    """The text of each file, by path. `name` is the model's C name, `model` its file inside the
    application, `hop` the rows from one answer to the next where it keeps its state, `state` and
    `time` the arguments of `--state` and `--time`.

    Raises UserError for a name that C cannot use.
    """
    check_name(name)
    values = {
        "name": name,
        "model": model,
        "hop": hop,
        "state": state or (),
        "time": time,
        "inputs": [_port(f"{name}_INPUT{n}", port) for n, port in enumerate(graph.inputs)],
        "outputs": [_port(f"{name}_OUTPUT{n}", port) for n, port in enumerate(graph.outputs)],
    }
    templates = environment()
    return {path: templates.get_template(source).render(values) for path, source in FILES.items()}


def _port(label: str, port: Port) -> PortText:
    shape = ", ".join(map(str, port.file_shape))
    return PortText(
        f"VMCU_MODEL_{label.upper()}",
        f"{comment(port.name)}: {port.dtype} [{shape}] in the file",
        8 * port.element_bytes,
    )


def check_new(folder: Path) -> None:
    """Raises UserError unless `folder` is missing or empty."""
    if folder.is_dir():
        if not any(folder.iterdir()):
            return
        reason = "exists and is not empty"
    elif folder.exists() or folder.is_symlink():
        reason = "exists and is not a folder"
    else:
        return
    raise UserError(Problem(reason, "choose a folder that does not exist yet", str(folder)))


def create(files: Mapping[str, bytes], folder: Path) -> list[Path]:
    """Fills a missing or empty folder with files, by path in it; whatever stops that, even the
    user, all of it is taken back."""
    check_new(folder)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except BaseException as error:
        _take_back(missing[-1:] or [folder / Path(name).parts[0] for name in files])
        if isinstance(error, OSError):
            reason = f"cannot write there: {error.strerror}"
            raise UserError(Problem(reason, "choose another folder", str(folder))) from error
        raise
    return [folder / name for name in files]


def _take_back(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
