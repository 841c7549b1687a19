# SPDX-License-Identifier: Apache-2.0
"""Checks the models in a linked image or a container."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from . import constants, model_file, run, unweighted
from .elf import ImageError, LinkedImage, prove, read
from .tables import MODEL_NAME, ImageModel, roots
from .walk import check_plan

# Bytes of a value.
WIDTHS = 1, 2, 4, 8
RuntimeOf = Callable[[Path], run.Reference]


@dataclass(frozen=True)
class Verdict:
    """The checks that a model has passed.

    symbol: its name in the image; pools: bytes of each; layers: of its tables; hops: that were
    replayed, 1 of a model without state; compared: layers whose constants are the file's; alone:
    those with weights that no node of the file has in this form; inputs: that were run; has_team:
    the image has lists of tasks for two workers.
    """

    symbol: str
    pools: tuple[int, ...]
    layers: int
    hops: int
    compared: int
    alone: tuple[str, ...]
    inputs: int
    has_team: bool

    def lines(self) -> Iterator[str]:
        """Returns sentences about them."""
        pools = " + ".join(f"{size:,}" for size in self.pools)
        hops = f", {self.hops} hops" if self.hops > 1 else ""
        yield f"{self.symbol}: plan of {self.layers} layers in {pools} bytes{hops}: no fault"
        if self.has_team:
            yield f"{self.symbol}: not checked: the tasks and waits of two workers"
        if self.compared:
            rest = self.layers - self.compared
            others = f"; those of {rest} others, if any, are not compared" if rest > 0 else ""
            yield f"{self.symbol}: constants of {self.compared} layers equal the file's{others}"
        for layer in self.alone:
            yield f"{self.symbol}: not compared: {layer}: the file has no such weights"
        ran = f"outputs of {self.inputs} inputs equal the file's in its runtime"
        yield f"{self.symbol}: {ran if self.inputs else 'not run'}"


def check(
    path: Path, file: Path | None, inputs: int, runtime_of: RuntimeOf, name: str | None = None
) -> list[Verdict]:
    """Checks the plan of each model in an image, and, of a file with one model, its constants and
    so many runs. runtime_of: opens a model file in its own runtime.

    Raises pool.FaultError where the image is wrong, ImageError where it cannot be checked.
    """
    image = read(path)
    tops = roots(image)
    names = {symbol: _name(symbol) for symbol in tops}
    chosen = [symbol for symbol in tops if name in (None, names[symbol])]
    if not chosen:
        raise ImageError("there is no compiled model in it", "names of models end in _model")
    if len(chosen) > 1 and file is not None:
        text = ", ".join(names.values())
        raise ImageError(f"it has several models: {text}", "choose one with --name")
    try:
        models = [ImageModel(image, symbol, tops[symbol]) for symbol in chosen]
        verdicts = [_check(model, file) for model in models]
    except (ValueError, IndexError, ArithmeticError, MemoryError, KeyError) as error:
        # Tables that contradict one another make shapes that numpy refuses.
        raise ImageError(f"the tables contradict one another: {error}") from error
    if file is not None and inputs and run.can_run(path):
        reference = runtime_of(file)
        if run.can_answer(reference, models[0]):
            run.compare(path, models[0], reference, inputs)
            verdicts = [replace(verdicts[0], inputs=inputs)]
    return verdicts


def _name(symbol: str) -> str:
    """Returns a model's name: its symbol without _model and the options."""
    return symbol.rpartition(MODEL_NAME)[0] or symbol


def _check(model: ImageModel, file: Path | None) -> Verdict:
    hops, compared = check_plan(model), 0
    alone: tuple[str, ...] = ()
    if file is not None:
        nodes, inputs = model_file.read(file)
        # Training adds inputs behind those of the file.
        for port in () if model.stream else model.inputs[: len(inputs)]:
            is_there = any(port.tensor.bytes == size * each for size in inputs for each in WIDTHS)
            prove(is_there, f"the file has no input with the bytes of '{port.name}'")
        weighted = [node for node in nodes if node.weights.size and node.kind != "lstm"]
        is_fed = model.stream is not None and len(inputs) > len(model.inputs)
        layers, others = constants.compare(model, weighted, is_fed)
        compared = len(layers) + unweighted.check(model, nodes)
        alone = tuple(f"layer {one.number} ({one.kernel})" for one in others)
    image, team = model.image, f"{_name(model.symbol)}_team"
    has_team = isinstance(image, LinkedImage) and team in image.symbols
    count = len(model.layers)
    return Verdict(model.symbol, model.pools, count, hops, compared, alone, 0, has_team)
