# SPDX-License-Identifier: Apache-2.0
"""Containers as files that people name."""

from __future__ import annotations

from pathlib import Path

from ..errors import Problem, UserError
from .build import released
from .head import DamagedError
from .read import Facts, facts
from .release import Release
from .seal import is_signed_by, signed

REMEDY = "give a container that `vmcu build --format container` wrote"


def bytes_of(path: Path) -> tuple[bytes, Facts]:
    """A container and its facts. Raises UserError for any other file, and for a damaged one."""
    try:
        image = path.read_bytes()
        return image, facts(image)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise UserError(Problem(reason, REMEDY, str(path))) from error
    except DamagedError as error:
        problem = error.problems[0]
        raise UserError(Problem(problem.reason, problem.remedy, str(path))) from error


def facts_of(path: Path, key: Path | None = None) -> Facts:
    """Reads the facts of a container. Raises UserError for any other file, for a damaged one,
    or, with a key (a PEM file), for one that its owner has not signed."""
    image, known = bytes_of(path)
    if key is None:
        return known
    reason = "the container is not signed"
    if known.signed:
        if is_signed_by(image, key):
            return known
        reason = f"the signature was not made with {key}"
    raise UserError(Problem(reason, f"vmcu container sign {path} --key PEM", str(path)))


def sign(
    path: Path, key: Path, product: int | None = None, version: int | None = None
) -> Release | None:
    """Signs a container in its place, in one step, and states product and version where they are
    given. Returns its release. Raises UserError."""
    image, facts = bytes_of(path)
    release = facts.release
    if product is not None or version is not None:
        old = release or Release(0, 0)
        release = Release(
            old.product if product is None else product,
            old.version if version is None else version,
        )
        image = released(image, release)
    write(path, signed(image, key))
    return release


def write(path: Path, data: bytes) -> None:
    """Writes a file in one step. Raises UserError."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        reason = (error.strerror or "cannot be written").lower()
        raise UserError(Problem(reason, "choose a place where you may write", str(path))) from error
