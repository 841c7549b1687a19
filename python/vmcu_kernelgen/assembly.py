# SPDX-License-Identifier: Apache-2.0
"""Assembly files: functions for GNU as, with call frame information for debuggers.

A function is a list of lines: instructions, directives, labels and notes. `<name>` is a label of
the function, which has a name of its own in the file.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vmcu_tools.kernels.language.instruction import WIDTH

from .c_source import HEADER

WORD = 4
# Registers that a function of the procedure call standard (AAPCS) must preserve.
SAVED = (*(f"r{number}" for number in range(4, 12)), "lr")
# Stack frames are for debuggers only: exceptions of C++ do not pass through C.
FRAMES = "\t.cfi_sections .debug_frame\n"
THUMB = "\t.syntax unified\n\t.thumb\n"
# Otherwise linkers of Linux assume that the file needs a stack that is executable.
END = """
#if defined(__linux__) && defined(__ELF__)
	.section .note.GNU-stack, "", %progbits
#endif
"""


@dataclass(frozen=True)
class Function:
    """summary: for callers. slots: names of words on the stack by their offset from SP. thumb: of
    Arm, in that state."""

    name: str
    summary: str
    code: Sequence[str]
    slots: Mapping[int, str] = field(default_factory=dict)
    thumb: bool = True

    def text(self) -> str:
        head = [f'\t.section .text.{self.name}, "ax", %progbits', "\t.p2align 2"]
        head += [f"\t.global {self.name}", f"\t.type {self.name}, %function"]
        head += ["\t.thumb_func"] * self.thumb
        end = ["\t.cfi_endproc", f"\t.size {self.name}, . - {self.name}"]
        lines = [f"{self.name}:", "\t.cfi_startproc", *map(self.line, self.code), *end]
        return "\n".join([comment(self.summary), *head, *lines, ""])

    def line(self, line: str) -> str:
        line = re.sub(r"<(\w+)>", rf".L{self.name}_\1", line)
        line = re.sub(r"\[sp, #(\d+)\]", lambda at: self.slots.get(int(at[1]), at[0]), line)
        if line.endswith(":"):
            return line
        if line.startswith("/*"):
            return f"\n\t{line}"
        mnemonic, _, operands = line.partition(" ")
        return f"\t{mnemonic}\t{operands}".rstrip()


def comment(text: str) -> str:
    """A comment in front of a function."""
    lines = textwrap.wrap(text, WIDTH - 3)
    return "\n".join(["/*", *(f" * {line}" for line in lines), " */"])


def note(text: str) -> str:
    """A line in front of a block of code."""
    return f"/* {text} */"


def registers(names: Iterable[str]) -> str:
    return f"{{{', '.join(names)}}}"


def repeat(count: int, code: Sequence[str]) -> list[str]:
    """The same code several times."""
    return [f".rept {count}", *code, ".endr"] if count > 1 else [*code] * count


def save(names: Sequence[str] = SAVED) -> list[str]:
    """Pushes registers of the caller."""
    code = [f"push {registers(names)}", f".cfi_adjust_cfa_offset {WORD * len(names)}"]
    return [*code, *(f".cfi_rel_offset {name}, {WORD * at}" for at, name in enumerate(names))]


def push(names: Sequence[str]) -> list[str]:
    return [f"push {registers(names)}", f".cfi_adjust_cfa_offset {WORD * len(names)}"]


def reserve(words: int) -> list[str]:
    return [f"sub sp, #{WORD * words}", f".cfi_adjust_cfa_offset {WORD * words}"]


def release(words: int) -> list[str]:
    return [f"add sp, #{WORD * words}", f".cfi_adjust_cfa_offset {-WORD * words}"]


def leave(names: Sequence[str] = SAVED) -> str:
    """Restores the registers that save() has pushed, and returns."""
    return f"pop {registers((*names[:-1], 'pc'))}"


def within(words: int) -> list[str]:
    """The frame of code that another function jumps to: `words` on the stack, those of save()
    first."""
    code = [f".cfi_def_cfa sp, {WORD * words}"]
    first = len(SAVED)
    return [*code, *(f".cfi_offset {name}, {WORD * (i - first)}" for i, name in enumerate(SAVED))]


def source(origin: str, guard: str, functions: Sequence[Function]) -> str:
    """A file, which is empty on other cores."""
    texts = "\n".join(function.text() for function in functions)
    slots = {name: at for function in functions for at, name in function.slots.items()}
    names = [f"#define {name} [sp, #{at}]" for name, at in slots.items()]
    stack = "\n".join(["", comment("Words on the stack."), *names, ""]) if names else ""
    head = HEADER.format(origin=origin)
    state = THUMB if any(function.thumb for function in functions) else ""
    return f"{head}\n#if {guard}\n\n{state}{FRAMES}{stack}\n{texts}\n#endif\n{END}"
