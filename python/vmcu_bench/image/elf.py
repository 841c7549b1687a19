# SPDX-License-Identifier: Apache-2.0
"""Reads an ELF file: symbols, bytes at addresses, the compilers of its units."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Literal

from elftools.common.exceptions import ELFError
from elftools.dwarf.callframe import FDE
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection
from vmcu_tools.errors import Problem, UserError

ARM = "EM_ARM"
LINKED = ("ET_EXEC", "ET_DYN")
FUNCTION, OBJECT = "STT_FUNC", "STT_OBJECT"
ADDRESS_OPERATION = 0x03  # DW_OP_addr


@dataclass(frozen=True)
class Symbol:
    """A function or an object. `file` is the source's base name where the linker kept it, which
    it does for local symbols. `writable`: in RAM; `loaded`: with initial bytes in the file."""

    name: str
    kind: str
    address: int
    size: int
    section: str
    file: str
    writable: bool
    loaded: bool


class Elf:
    """A linked 32-bit or 64-bit image."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._elf = ELFFile(BytesIO(path.read_bytes()))
        except ELFError as error:
            raise UserError(
                Problem(f"not an ELF file: {error}", "give a linked image", str(path))
            ) from error
        if self._elf["e_type"] not in LINKED:
            raise UserError(Problem("not linked yet", "give the final image", str(path)))
        self._read: dict[str, bytes] = {}
        self._sections = [
            section
            for section in self._elf.iter_sections()
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_size"]
        ]

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """Functions and objects with a size, in the order of the symbol table."""
        return tuple(symbol for symbol in self._all_symbols if symbol.size)

    @property
    def unsized(self) -> tuple[Symbol, ...]:
        """Functions and objects that do not say their size."""
        return tuple(symbol for symbol in self._all_symbols if not symbol.size)

    @cached_property
    def _all_symbols(self) -> tuple[Symbol, ...]:
        table = self._elf.get_section_by_name(".symtab")
        if not isinstance(table, SymbolTableSection):
            raise UserError(
                Problem("the image has no symbols", "link it without stripping it", str(self.path))
            )
        return tuple(self._read_symbols(table))

    def _read_symbols(self, table: SymbolTableSection) -> Iterator[Symbol]:
        file = ""
        for entry in table.iter_symbols():
            kind, local = entry["st_info"]["type"], entry["st_info"]["bind"] == "STB_LOCAL"
            if kind == "STT_FILE":
                file = Path(entry.name).name
            if kind not in (FUNCTION, OBJECT):
                continue
            thumb = kind == FUNCTION and self._elf["e_machine"] == ARM
            address = entry["st_value"] & ~1 if thumb else entry["st_value"]
            section = self._section_at(address)
            if section is not None:
                yield Symbol(
                    entry.name,
                    kind,
                    address,
                    entry["st_size"],
                    section.name,
                    file if local else "",
                    bool(section["sh_flags"] & SH_FLAGS.SHF_WRITE),
                    section["sh_type"] != "SHT_NOBITS",
                )

    def find(self, name: str) -> Symbol | None:
        """The first symbol of that name; None if there is none."""
        return next((symbol for symbol in self.symbols if symbol.name == name), None)

    def _section_at(self, address: int) -> Section | None:
        return next(
            (s for s in self._sections if s["sh_addr"] <= address < s["sh_addr"] + s["sh_size"]),
            None,
        )

    @property
    def is_arm(self) -> bool:
        """True for 32-bit Arm."""
        return bool(self._elf["e_machine"] == ARM)

    @property
    def compilers(self) -> list[str]:
        """The names and versions that compilers left in it."""
        section = self._elf.get_section_by_name(".comment")
        texts = b"" if section is None else section.data()
        return sorted({text.decode("utf-8", "replace") for text in texts.split(b"\0") if text})

    def data(self, symbol: Symbol) -> bytes:
        """A symbol's initial bytes or code; none where it has no bytes in the file."""
        section = self._section_at(symbol.address)
        if section is None or not symbol.loaded:
            return b""
        start = symbol.address - section["sh_addr"]
        return self._contents(section)[start : start + symbol.size]

    def _contents(self, section: Section) -> bytes:
        if section.name not in self._read:
            self._read[section.name] = section.data()
        return self._read[section.name]

    @cached_property
    def frames(self) -> dict[int, int]:
        """Bytes of stack that functions take at most, by address; empty without debug
        information."""
        dwarf = self._elf.get_dwarf_info() if self._elf.has_dwarf_info() else None
        if dwarf is None or not dwarf.has_CFI():
            return {}
        return {
            entry["initial_location"]: max(
                (row["cfa"].offset or 0 for row in entry.get_decoded().table), default=0
            )
            for entry in dwarf.CFI_entries()
            if isinstance(entry, FDE)
        }

    def words(self, symbol: Symbol) -> list[int]:
        """A symbol's initial bytes as pointers or other words of the machine's size."""
        data = self.data(symbol)
        size = self._elf.elfclass // 8
        order: Literal["little", "big"] = "little" if self._elf.little_endian else "big"
        return [
            int.from_bytes(data[i : i + size], order)
            for i in range(0, len(data) - len(data) % size, size)
        ]

    @cached_property
    def _code(self) -> list[tuple[int, int, str]]:
        """Runs of code, (start, end, path of the source file), from debug information."""
        if not self._elf.has_dwarf_info():
            return []
        dwarf = self._elf.get_dwarf_info()
        ranges = dwarf.get_aranges()
        if ranges is None:
            return []
        paths: dict[int, str] = {}
        runs = []
        for entry in ranges.entries:
            # The linker leaves discarded entries at address zero.
            if not entry.begin_addr or not entry.length:
                continue
            if entry.info_offset not in paths:
                top = dwarf.get_CU_at(entry.info_offset).get_top_DIE()
                paths[entry.info_offset] = Path(top.get_full_path()).as_posix()
            start = entry.begin_addr
            runs.append((start, start + entry.length, paths[entry.info_offset]))
        return sorted(runs)

    def source_of(self, address: int) -> str:
        """The path of the source file that the code at an address was compiled from, or ""."""
        at = bisect(self._code, address, key=lambda run: run[0]) - 1
        if at < 0 or address >= self._code[at][1]:
            return ""
        return self._code[at][2]

    @property
    def sources(self) -> set[str]:
        """Paths of all source files that code was compiled from."""
        return {path for _, _, path in self._code}

    def variables_of_type(self, struct: str) -> list[int]:
        """Addresses of variables of that struct type, from debug information."""
        if not self._elf.has_dwarf_info():
            return []
        return [
            address
            for unit in self._elf.get_dwarf_info().iter_CUs()
            if _declares(unit, struct)
            for die in unit.iter_DIEs()
            if die.tag == "DW_TAG_variable" and _struct_name(die) == struct
            for address in _static_address(die)
        ]

    def fields_of(self, struct: str) -> list[tuple[str, int, int]]:
        """Lists the members of a struct, (name, offset, bytes), and those of structs and arrays in
        it, such as "pool.size". From debug information; none without."""
        if not self._elf.has_dwarf_info():
            return []
        for unit in self._elf.get_dwarf_info().iter_CUs():
            for die in unit.get_top_DIE().iter_children():
                if die.tag == "DW_TAG_structure_type" and _name(die) == struct:
                    return list(_fields(die, "", 0))
        return []

    def byte_arrays(self, struct: str) -> set[int] | None:
        """Addresses of arrays of bytes, of those sources that know the struct; None without debug
        information."""
        if not self._elf.has_dwarf_info():
            return None
        return {
            address
            for unit in self._elf.get_dwarf_info().iter_CUs()
            if _declares(unit, struct)
            for die in unit.iter_DIEs()
            if die.tag == "DW_TAG_variable" and _is_byte_array(die)
            for address in _static_address(die)
        }


def _declares(unit: CompileUnit, struct: str) -> bool:
    return any(
        die.tag == "DW_TAG_structure_type" and _name(die) == struct
        for die in unit.get_top_DIE().iter_children()
    )


def _name(die: DIE) -> str:
    attribute = die.attributes.get("DW_AT_name")
    return attribute.value.decode() if attribute else ""


def _struct_name(die: DIE) -> str:
    """The name of the struct that a variable is, or is an array of."""
    while "DW_AT_type" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_type")
        if die.tag == "DW_TAG_structure_type":
            return _name(die)
        if die.tag == "DW_TAG_pointer_type":
            break
    return ""


def _fields(die: DIE, name: str, offset: int) -> Iterator[tuple[str, int, int]]:
    """Lists a type at an offset of a struct: itself, or its parts."""
    while die.tag in ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type"):
        die = die.get_DIE_from_attribute("DW_AT_type")
    if die.tag == "DW_TAG_structure_type":
        for member in die.iter_children():
            at = offset + member.attributes["DW_AT_data_member_location"].value
            own = f"{name}.{_name(member)}".lstrip(".")
            yield from _fields(member.get_DIE_from_attribute("DW_AT_type"), own, at)
    elif die.tag == "DW_TAG_array_type":
        element = die.get_DIE_from_attribute("DW_AT_type")
        bounds = next(die.iter_children()).attributes["DW_AT_upper_bound"].value
        for number in range(bounds + 1):
            members = list(_fields(element, f"{name}[{number}]", 0))
            size = max(at + count for _, at, count in members)
            yield from ((part, offset + number * size + at, count) for part, at, count in members)
    else:
        pointer = die.cu.header["address_size"]
        known = die.attributes.get("DW_AT_byte_size")
        yield name, offset, pointer if known is None else known.value


def _is_byte_array(die: DIE) -> bool:
    """True for any number of dimensions, typedefs and qualifiers."""
    array = False
    while "DW_AT_type" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_type")
        array = array or die.tag == "DW_TAG_array_type"
        if die.tag == "DW_TAG_base_type":
            return array and die.attributes["DW_AT_byte_size"].value == 1
        if die.tag == "DW_TAG_pointer_type":
            break
    return False


def _static_address(die: DIE) -> list[int]:
    """The fixed address of a variable, if it has one."""
    location = die.attributes.get("DW_AT_location")
    if location is None or location.form != "DW_FORM_exprloc":
        return []
    operation = bytes(location.value)
    if not operation or operation[0] != ADDRESS_OPERATION:
        return []
    little = die.cu.structs.little_endian
    return [int.from_bytes(operation[1:], "little" if little else "big")]
