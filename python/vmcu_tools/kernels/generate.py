# SPDX-License-Identifier: Apache-2.0
"""Writes lib/vmcu/kernels/gen: `python -m vmcu_tools.kernels`."""

from __future__ import annotations

from pathlib import Path

from .isa import TARGETS
from .isa.instructions import COMPOUND, INSTRUCTIONS
from .language.c_source import HEADER, comment, function, instruction_function
from .language.instruction import Target
from .language.passes import lower
from .programs import FILES

OPEN = """
#ifndef {guard}
#define {guard}

#include "../support.h"
"""

# C that is the same for all targets but uses their helpers.
INCLUDES = tuple(f'#include "../{name}.h"' for name in ("band", "gather", "pool"))


def isa_header(target: Target) -> str:
    """All instructions of one target."""
    guard = f"VMCU_KERNELS_GEN_{target.name.upper()}_H_"
    parts = [HEADER.format(origin=f"kernels/isa/{target.name}.py"), OPEN.format(guard=guard)]
    parts += [comment(target.title), target.prelude.strip("\n"), "", *INCLUDES, ""]
    parts += [instruction_function(made, target) for made in INSTRUCTIONS.values()]
    parts += ['#include "../called.h"', ""]
    parts += [instruction_function(made, target) for made in COMPOUND.values()]
    return "\n".join([*parts, f"#endif /* {guard} */", ""])


def isa_choice() -> str:
    """The header that picks a target."""
    lines = [HEADER.format(origin="kernels/isa/__init__.py")]
    for number, target in enumerate(TARGETS):
        last = number == len(TARGETS) - 1
        lines.append("#else" if last else f"#{'el' if number else ''}if {target.guard}")
        lines.append(f'#include "isa_{target.name}.h"')
    return "\n".join([*lines, "#endif", ""])


def kernel_file(name: str) -> str:
    """All programs of one C file."""
    parts = [HEADER.format(origin=f"kernels/programs/{name}.py"), '#include "isa.h"', ""]
    return "\n".join([*parts, *(function(lower(program)) for program in FILES[name])])


def files() -> dict[str, str]:
    """Everything generated, by file name."""
    result = {f"isa_{target.name}.h": isa_header(target) for target in TARGETS}
    result["isa.h"] = isa_choice()
    result |= {f"{name}.c": kernel_file(name) for name in FILES}
    return {name: text.rstrip("\n") + "\n" for name, text in sorted(result.items())}


def write(folder: Path) -> list[Path]:
    """Writes what is not already there, byte for byte; returns the changed files."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, text in files().items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed.append(path)
    return changed
