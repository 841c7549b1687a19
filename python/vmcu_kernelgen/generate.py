# SPDX-License-Identifier: Apache-2.0
"""Writes lib/vmcu/kernels/gen: `python -m vmcu_kernelgen`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from vmcu_tools import paths
from vmcu_tools.kernels.language.instruction import Instruction
from vmcu_tools.kernels.language.ir import Program
from vmcu_tools.kernels.language.packing import Packing
from vmcu_tools.kernels.programs import COMMON, PACKED
from vmcu_tools.kernels.targets import condition, packings
from vmcu_tools.kernels.targets.portable import COMPOUND, INSTRUCTIONS

from . import assembly
from .assembly import Function
from .c_source import HEADER, comment, function, instruction_function
from .families import PORTABLE, families, readers
from .family import Family, portable_body
from .order import for_dual_issue
from .passes import lower

HELPERS = "helpers.h"
# C that is the same for all targets but uses their helpers.
INCLUDES = tuple(
    f'#include "../{name}.h"' for name in ("band", "columns", "gather", "places", "pooling")
)


def own(name: str) -> str:
    """The macro that says that a target has its own C for an instruction or helper."""
    return f"VMCU_OWN_{name.upper()}"


def header(name: str, folder: str, title: str, parts: Iterable[str]) -> str:
    """A header of instructions."""
    guard = f"VMCU_KERNELS_GEN_{name.upper()}_H_"
    head = [HEADER.format(origin=folder), f"#ifndef {guard}"]
    head += [f"#define {guard}", "", '#include "../support.h"', "", comment(title)]
    return "\n".join([*head, *parts, f"#endif /* {guard} */", ""])


def replaced(family: Family) -> list[str]:
    """The portable helpers and instructions in whose place a target has its own."""
    helpers = [name for name in family.helpers if name in PORTABLE.helpers]
    return [] if family.target.is_portable else [*helpers, *(made.name for made in family.own)]


def facts(packing: Packing) -> list[str]:
    """Lists a packing's constants for C that all targets share. The headers of a target and of
    portable C both say it."""
    return [
        f"#define VMCU_LANES           {packing.lanes}",
        f"#define VMCU_PACKED          {packing.packed}",
        f"#define VMCU_CHANNELS_JOINED {int(packing.joined)}",
        "",
    ]


def target_header(family: Family) -> str:
    """Writes a target's own code, then everything else as portable C."""
    parts = ["", *facts(family.target.packing)]
    parts += [*(f"#define {own(name)}" for name in replaced(family)), ""]
    parts += [text.strip("\n") + "\n" for text in family.helpers.values()]
    parts += [f'#include "{HELPERS}"', ""]
    parts += [text.strip("\n") + "\n" for text in family.later.values()]
    parts += [instruction_function(made, c) for made, c in family.own.items()]
    parts += [f'#include "isa_portable{family.target.packing.suffix}.h"', ""]
    return header(family.target.name, family.folder, family.target.title, parts)


def unless_own(name: str, text: str) -> str:
    """Portable C, left out where a target has its own."""
    text = text.strip("\n") + "\n"
    some = any(name in replaced(family) for family in families())
    return f"#ifndef {own(name)}\n{text}#endif\n" if some else text


def helpers_header() -> str:
    """Writes the helpers of bodies, but for those that a target has defined itself."""
    parts = ["", *(unless_own(name, text) for name, text in PORTABLE.helpers.items())]
    return header("helpers", PORTABLE.folder, "What instructions use", [*parts, *INCLUDES, ""])


def portable_header(packing: Packing) -> str:
    """All instructions in portable C, but for those of which a target has defined its own."""

    def body(made: Instruction) -> str:
        if not portable_body(made, packing):
            # None of this packing's kernels has it.
            return ""
        return unless_own(made.name, instruction_function(made, portable_body(made, packing)))

    used = reachable(packing)
    parts = ["", *facts(packing), f'#include "{HELPERS}"', ""]
    parts += filter(None, (body(made) for made in INSTRUCTIONS.values() if made in used))
    parts += ['#include "../called.h"', ""]
    parts += filter(None, (body(made) for made in COMPOUND.values() if made in used))
    return header(f"portable{packing.suffix}", PORTABLE.folder, PORTABLE.target.title, parts)


def reachable(packing: Packing) -> set[Instruction]:
    """The instructions whose portable C kernels of a packing are made of: all of them where
    portable C is one of its targets, else those that programs, targets and common headers name and
    that not every target has of its own."""
    every = {made.symbol: made for made in (*INSTRUCTIONS.values(), *COMPOUND.values())}
    owners = readers(packing)
    if PORTABLE in owners:
        return set(every.values())
    texts = [function(lower(p)) for made in PACKED.values() for p in made(packing)]
    texts += [text for one in owners for text in (*one.own.values(), *one.later.values())]
    texts += [
        path.read_text(encoding="utf-8") for path in (paths.runtime() / "kernels").glob("*.h")
    ]
    owned = set.intersection(*(set(one.own) for one in owners))
    instructions: set[Instruction] = set()
    while texts:
        names = set(re.findall(r"vmcu_\w+", texts.pop())) & set(every)
        fresh = {every[name] for name in names} - instructions
        instructions |= fresh
        texts += [portable_body(made, packing) for made in fresh - owned]
    return instructions - owned


def choice_name(packing: Packing) -> str:
    return f"isa_of{packing.suffix}.h" if packing.suffix else "isa.h"


def isa_choice(choices: Sequence[Family]) -> str:
    """The header that picks one of the families that read a packing."""
    lines = [HEADER.format(origin="vmcu_kernelgen/families")]
    for number, family in enumerate(choices):
        target = family.target
        lines.append(
            "#else" if target.is_portable else f"#{'el' if number else ''}if {target.guard}"
        )
        lines.append(f'#include "isa_{target.name}.h"')
    return "\n".join([*lines, "#endif", ""])


def chosen(family: Family) -> str:
    """The condition that isa_choice() picks a family."""
    target = family.target
    others = [other.target.guard for other in readers(target.packing)]
    earlier = others[: others.index(target.guard)]
    return " && \\\n\t".join([target.guard, *(f"!({guard})" for guard in earlier)])


def orders(family: Family, functions: Sequence[Function]) -> list[tuple[str, str, list[Function]]]:
    """Assembly functions in each order that cores of a family have them in: the end of the file's
    name, the condition for it, the functions."""
    guard = chosen(family)
    if not family.dual:
        return [("", guard, [*functions])]
    single, dual = (f"{guard} && \\\n\t{mark}({family.dual})" for mark in ("!", ""))
    return [("", single, [*functions]), ("_dual", dual, for_dual_issue(functions))]


def kernel_file(origin: str, packing: Packing, programs: Iterable[Program], needs: str = "") -> str:
    """All programs of one C file, which is empty on cores that do not meet a condition."""
    parts = [HEADER.format(origin=f"kernels/programs/{origin}.py")]
    parts += [f'#include "{choice_name(packing)}"', ""]
    parts += [function(lower(program)) for program in programs]
    if needs:
        # Something has to be there on other cores, too.
        parts = [parts[0], '#include "../support.h"\n', f"#if {needs}", *parts[1:], "#endif"]
    return "\n".join(parts)


def files() -> dict[str, str]:
    """Everything generated, by file name."""
    result = {
        f"isa_{family.target.name}.h": target_header(family)
        for family in families()
        if not family.target.is_portable
    }
    result[HELPERS] = helpers_header()
    for packing in packings():
        result[choice_name(packing)] = isa_choice(readers(packing))
        result[f"isa_portable{packing.suffix}.h"] = portable_header(packing)
        for name, programs in PACKED.items():
            if not (made := programs(packing)):
                continue
            text = kernel_file(name, packing, made, condition(packing))
            result[f"{name}{packing.suffix}.c"] = text
    for family in families():
        for name, functions in family.assembly.items():
            for suffix, guard, code in orders(family, functions):
                file = f"{name}_{family.target.name}{suffix}.S"
                result[file] = assembly.source(family.folder, guard, code)
    for name, common in COMMON.items():
        result[f"{name}.c"] = kernel_file(name, PORTABLE.target.packing, common)
    return {name: text.rstrip("\n") + "\n" for name, text in sorted(result.items())}


def write(folder: Path) -> list[Path]:
    """Writes the files that differ, byte for byte; returns the changed files."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, text in files().items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed
