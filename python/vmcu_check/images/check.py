# SPDX-License-Identifier: Apache-2.0
"""Checks the models in a linked image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import constants, files, run, unweighted
from .elf import ImageError, LinkedImage
from .tables import ImageModel, TableReader, model_symbols, name_of
from .walk import check_plan


@dataclass(frozen=True)
class Verdict:
    """The checks that a model has passed.

    symbol: its name in the image; pools: bytes of each; layers: of its tables; hops: that were
    replayed, 1 of a model without state; compared: layers whose constants are the file's; alone:
    those with weights that no node of the file has in this form; inputs: that were run.
    """

    symbol: str
    pools: tuple[int, ...]
    layers: int
    hops: int
    compared: int
    alone: tuple[str, ...]
    inputs: int

    def lines(self) -> Iterator[str]:
        """Returns sentences about them."""
        pools = " + ".join(f"{size:,}" for size in self.pools)
        hops = f", {self.hops} hops" if self.hops > 1 else ""
        yield f"{self.symbol}: plan of {self.layers} layers in {pools} bytes{hops}: no fault"
        if self.compared:
            rest = self.layers - self.compared
            others = f"; those of {rest} others, if any, are not compared" if rest else ""
            yield f"{self.symbol}: constants of {self.compared} layers equal the file's{others}"
        for layer in self.alone:
            yield f"{self.symbol}: not compared: {layer}: the file has no such weights"
        if self.inputs:
            yield f"{self.symbol}: outputs of {self.inputs} inputs equal the file's in its runtime"
        else:
            yield f"{self.symbol}: not run"


def check(
    elf: Path,
    file: Path | None,
    inputs: int,
    session_of: run.OnnxSession,
    name: str | None = None,
) -> list[Verdict]:
    """Checks the plan of each model in an image, and, of a file with one model, its constants and
    so many runs. session_of: makes a session of an .onnx file.

    Raises walk.FaultError where the image is wrong, ImageError where it cannot be checked.
    """
    image = LinkedImage(elf)
    symbols = [one for one in model_symbols(image) if name in (None, name_of(one))]
    if not symbols:
        raise ImageError("there is no compiled model in it", "names of models end in _model")
    if len(symbols) > 1 and file is not None:
        names = ", ".join(map(name_of, symbols))
        raise ImageError(f"it has several models: {names}", "choose one with --name")
    try:
        return [
            _check(elf, image, TableReader(image, one).model(), file, inputs, session_of)
            for one in symbols
        ]
    except (ValueError, IndexError, ArithmeticError, MemoryError) as error:
        # Tables that contradict one another make shapes that numpy refuses.
        raise ImageError(f"the tables contradict one another: {error}") from error


def _check(
    elf: Path,
    image: LinkedImage,
    model: ImageModel,
    file: Path | None,
    inputs: int,
    session_of: run.OnnxSession,
) -> Verdict:
    hops = check_plan(image, model)
    compared, ran = 0, 0
    alone: tuple[str, ...] = ()
    if file is not None:
        nodes = files.read(file)
        matched = constants.compare(image, model, nodes.weighted)
        compared = len(matched.pairs) + unweighted.check(image, model, nodes.plain)
        alone = tuple(f"layer {one.number} ({one.kernel})" for one in matched.alone)
        if inputs and run.can_run(elf) and not model.stream:
            run.compare(elf, model, file, inputs, session_of)
            ran = inputs
    return Verdict(model.symbol, model.pools, len(model.layers), hops, compared, alone, ran)
