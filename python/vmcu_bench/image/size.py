# SPDX-License-Identifier: Apache-2.0
"""The costs of models and the runtime inside a linked image, symbol by symbol.

Models are found by their tables (`<name>_model`, `<name>_tensors`), the runtime's code by the
source file that debug information names, contexts by their type. A pool is a plain array that
nothing marks, so it is the array of bytes in RAM of the size that the model asks for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vmcu_tools import paths
from vmcu_tools.emit.structs import LAYER, MODEL, ROTATION_BYTES, STATE_HEAD, STREAM, STREAM_BYTES
from vmcu_tools.errors import Problem, UserError

from .elf import FUNCTION, OBJECT, Elf, Symbol
from .linked import KernelCost, kernel_costs, stacks

POOL, CONTEXT, WEIGHTS, TABLES = "pool", "context", "weights", "tables"
KERNELS, EXECUTOR, PORT = "kernels", "executor", "port"
PARTS = (POOL, CONTEXT, WEIGHTS, TABLES, KERNELS, EXECUTOR, PORT)

# Arrays that bring their own guards are larger than the pool inside them.
POOL_SLACK = 256
WORD = 4
# A model's name in C is configured, see VMCU_CONFIGURED in vmcu/config.h.
_MODEL = r"model(?:_with(?:out)?_\w+)?"
_MODEL_SYMBOL = re.compile(rf"(\w+?)_{_MODEL}")
# Of struct vmcu_stream.
_STATE_WORD = STREAM.members["state_bytes"].start // WORD


@dataclass(frozen=True)
class SizedSymbol:
    """`part` is one of PARTS; `model` is empty for the runtime, which models share. Initialised
    variables count in flash as well as in RAM."""

    name: str
    part: str
    model: str
    section: str
    flash: int
    ram: int


@dataclass(frozen=True)
class SizeReport:
    """Bytes. `parts` are sums over `symbols`, by part and kind of memory. `kernels` and `stacks`,
    by model, are those of Cortex-M images; stacks need debug information. `states`: the bytes that
    vmcu_state_save() needs, of models that keep their state in their pool."""

    elf: str
    models: tuple[str, ...]
    flash: int
    ram: int
    parts: dict[str, dict[str, int]]
    symbols: tuple[SizedSymbol, ...]
    kernels: tuple[KernelCost, ...]
    stacks: dict[str, int]
    states: dict[str, int]
    notes: tuple[str, ...]


def size(path: Path) -> SizeReport:
    """Raises UserError if the image holds no model."""
    elf = Elf(path)
    models = list(find_models(elf))
    if not models:
        raise UserError(
            Problem(
                "no model found",
                "give an image that a model from `vmcu build` has been linked into, not stripped",
                str(path),
            )
        )
    symbols: list[SizedSymbol] = []
    notes: list[str] = []
    for model in models:
        symbols += model_symbols(elf, model)
    claimed: set[int] = set()
    for model in models:
        pool = find_pool(elf, model, claimed)
        if pool is None:
            notes.append(
                f"{model.name}: needs a pool of {model.pool_bytes:,} bytes, which is not an "
                "array of its own in this image"
            )
        else:
            claimed.add(pool.address)
            symbols.append(sized(pool, POOL, model.name))
    symbols += context_symbols(elf)
    runtime = dict(runtime_functions(elf))
    symbols += [sized(symbol, part) for symbol, part in runtime.items()]
    symbols += runtime_constants(elf)
    costs, depths = code_costs(elf, models, runtime)
    order = {part: number for number, part in enumerate(PARTS)}
    symbols.sort(key=lambda s: (order[s.part], -s.flash - s.ram, s.name))
    return SizeReport(
        elf=path.name,
        models=tuple(model.name for model in models),
        flash=sum(symbol.flash for symbol in symbols),
        ram=sum(symbol.ram for symbol in symbols),
        parts=totals(symbols),
        symbols=tuple(symbols),
        kernels=costs,
        stacks=depths,
        states={
            model.name: STATE_HEAD.size + elf.words(stream)[_STATE_WORD]
            for model in models
            if (stream := elf.find(f"{model.name}_stream")) is not None
        },
        notes=tuple(notes),
    )


def sized(symbol: Symbol, part: str, model: str = "") -> SizedSymbol:
    """Returns a symbol's bytes: flash where it is loaded, RAM where it can be written."""
    return SizedSymbol(
        symbol.name,
        part,
        model,
        symbol.section,
        symbol.size if symbol.loaded else 0,
        symbol.size if symbol.writable else 0,
    )


def totals(symbols: Iterable[SizedSymbol]) -> dict[str, dict[str, int]]:
    """Bytes of flash and RAM by part."""
    parts = {part: {"flash": 0, "ram": 0} for part in PARTS}
    for symbol in symbols:
        parts[symbol.part]["flash"] += symbol.flash
        parts[symbol.part]["ram"] += symbol.ram
    return parts


@dataclass(frozen=True)
class LinkedModel:
    """A model's tables inside an image; `params` are the addresses of its parameter structs,
    `kernels` those of the functions it runs."""

    name: str
    pool_bytes: int
    params: frozenset[int]
    kernels: frozenset[int]


def find_models(elf: Elf) -> Iterator[LinkedModel]:
    """The models that an image holds, by the names of their tables. UserError where it is for
    another version of vmcu."""
    for symbol in elf.symbols:
        named = _MODEL_SYMBOL.fullmatch(symbol.name)
        if symbol.kind != OBJECT or named is None or elf.find(f"{named[1]}_tensors") is None:
            continue
        name = named[1]
        if symbol.size - MODEL.size not in (0, ROTATION_BYTES, STREAM_BYTES):
            raise UserError(
                Problem(
                    f"{symbol.name} is not what this version of vmcu emits for a 32-bit core",
                    "build the image for the target, with the same vmcu",
                    str(elf.path),
                )
            )
        layers = elf.find(f"{name}_layers")
        words = elf.words(layers) if layers else []
        # The first members of struct vmcu_layer, and the second of struct vmcu_model.
        step = LAYER.size // WORD
        kernels = frozenset(word & ~1 for word in words[::step])
        yield LinkedModel(name, elf.words(symbol)[1], frozenset(words[1::step]), kernels)


def model_symbols(elf: Elf, model: LinkedModel) -> Iterator[SizedSymbol]:
    """Arrays are weights; everything else that the model's C file defines is tables."""
    array = re.compile(rf"{re.escape(model.name)}_\d+_\w+")
    tables = f"{_MODEL}|tensors|layers|layer_inputs|schedule|parts|stages|inputs|outputs"
    tables += "|stream|calls|again"
    table = re.compile(rf"{re.escape(model.name)}_({tables})|vmcu_registered_{model.name}")
    for symbol in elf.symbols:
        if symbol.kind != OBJECT or symbol.file not in ("", f"{model.name}.c"):
            continue
        if array.fullmatch(symbol.name):
            structs = symbol.address in model.params or symbol.name.endswith("_parts")
            yield sized(symbol, TABLES if structs else WEIGHTS, model.name)
        elif table.fullmatch(symbol.name):
            yield sized(symbol, TABLES, model.name)


def find_pool(elf: Elf, model: LinkedModel, claimed: set[int]) -> Symbol | None:
    """The array of bytes in RAM whose size is nearest to the model's pool, from above."""
    largest = model.pool_bytes + POOL_SLACK
    arrays = elf.byte_arrays("vmcu_context")
    fitting = [
        symbol
        for symbol in elf.symbols
        if symbol.kind == OBJECT
        and symbol.writable
        and not symbol.loaded
        and symbol.address not in claimed
        and model.pool_bytes <= symbol.size <= largest
        and (arrays is None or symbol.address in arrays)
    ]
    return min(fitting, key=lambda symbol: symbol.size, default=None)


def context_symbols(elf: Elf) -> Iterator[SizedSymbol]:
    """Static contexts; those on a stack have no symbol."""
    addresses = set(elf.variables_of_type("vmcu_context"))
    for symbol in elf.symbols:
        if symbol.kind == OBJECT and symbol.address in addresses:
            addresses.remove(symbol.address)
            yield sized(symbol, CONTEXT)


def runtime_functions(elf: Elf) -> Iterator[tuple[Symbol, str]]:
    """Functions of lib/vmcu and their parts. Two names of one address count once."""
    seen: set[int] = set()
    for symbol in elf.symbols:
        if symbol.kind != FUNCTION or symbol.address in seen:
            continue
        source = elf.source_of(symbol.address)
        part = part_of_source(source) if source else part_of_name(symbol.name)
        if part is not None:
            seen.add(symbol.address)
            yield symbol, part


def runtime_constants(elf: Elf) -> Iterator[SizedSymbol]:
    """Constants and variables of lib/vmcu."""
    files = runtime_files(elf.sources)
    for symbol in elf.symbols:
        part = files.get(symbol.file) if symbol.kind == OBJECT else None
        if part is not None:
            yield sized(symbol, part)


def code_costs(
    elf: Elf, models: Iterable[LinkedModel], runtime: dict[Symbol, str]
) -> tuple[tuple[KernelCost, ...], dict[str, int]]:
    """Returns the costs of kernels, the most expensive first, and the models' stacks."""
    if not elf.is_arm:
        return (), {}
    kernels = {model.name: model.kernels for model in models}
    inner = {symbol.address for symbol, part in runtime.items() if part == KERNELS}
    outer = {symbol.address for symbol, part in runtime.items() if part != KERNELS}
    costs = sorted(kernel_costs(elf, kernels, inner), key=lambda cost: (-cost.alone, cost.name))
    return tuple(costs), stacks(elf, kernels, inner, outer)


def runtime_files(sources: set[str]) -> dict[str, str]:
    """Base name -> part, for files of the runtime whose name no other file of the image has."""
    names = Counter(PurePosixPath(source).name for source in sources)
    return {
        PurePosixPath(source).name: part
        for source in sources
        if (part := part_of_source(source)) and names[PurePosixPath(source).name] == 1
    }


def part_of_source(source: str) -> str | None:
    """The part that a source file of the runtime belongs to; None for others."""
    _, separator, inside = source.rpartition("lib/vmcu/")
    if not separator:
        return None
    return {"kernels": KERNELS, "port": PORT}.get(inside.partition("/")[0], EXECUTOR)


def part_of_name(name: str) -> str | None:
    """Classifies a name in images without debug information: kernels are the functions in their
    header."""
    header = (paths.runtime() / "include" / "vmcu" / "kernels.h").read_text(encoding="utf-8")
    if not name.startswith("vmcu_"):
        return None
    return KERNELS if f"void {name}(" in header else EXECUTOR
