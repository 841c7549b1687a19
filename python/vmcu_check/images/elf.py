# SPDX-License-Identifier: Apache-2.0
"""The bytes and the symbols of a linked ELF file."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

# Bit 0 of a function's address on Arm: it is Thumb code.
THUMB = 1


class ImageError(Exception):
    """A property of a file that no sound one has. message: the reason; hint: what to do."""

    def __init__(self, message: str, hint: str = "link it again with the vmcu that checks it"):
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class ImageSymbol:
    """address without the Thumb bit; bytes: 0 if unknown."""

    name: str
    address: int
    bytes: int
    is_function: bool


class LinkedImage:
    """segments: (address, bytes) of all that is loaded. Pointers have `word` bytes."""

    def __init__(self, path: Path):
        """Raises ImageError if the file is no little-endian ELF file with symbols."""
        try:
            with path.open("rb") as stream:
                self._read(ELFFile(stream))
        except (ELFError, OSError, ValueError, KeyError, struct.error, AttributeError) as error:
            raise ImageError(
                f"this is no readable ELF file: {error}", "pass a linked image, such as zephyr.elf"
            ) from error
        if not self.symbols:
            raise ImageError("this ELF file has no symbols", "check the file before `strip`")

    def _read(self, elf: ELFFile) -> None:
        if not elf.little_endian:
            raise ELFError("vmcu supports little-endian cores only")
        self.word = elf.elfclass // 8
        self.machine = str(elf["e_machine"])
        self.segments = [
            (int(part["p_vaddr"]), part.data())
            for part in elf.iter_segments("PT_LOAD")
            if part["p_filesz"]
        ]
        table = elf.get_section_by_name(".symtab")
        symbols = [] if table is None else list(table.iter_symbols())  # type: ignore[attr-defined]
        self.symbols = {
            one.name: ImageSymbol(
                one.name,
                int(one["st_value"]) & ~(THUMB if self._is_thumb(one) else 0),
                int(one["st_size"]),
                one["st_info"]["type"] == "STT_FUNC",
            )
            for one in symbols
            if one.name and one["st_shndx"] != "SHN_UNDEF"
        }

    def _is_thumb(self, symbol: object) -> bool:
        return self.machine == "EM_ARM" and symbol["st_info"]["type"] == "STT_FUNC"  # type: ignore[index]

    def read(self, address: int, count: int) -> bytes:
        """Returns loaded bytes; raises ImageError if the image has none there."""
        for start, data in self.segments:
            if start <= address and address + count <= start + len(data):
                return data[address - start : address - start + count]
        raise ImageError(f"{count} bytes at {address:#x} are not in the image")

    def has(self, address: int, count: int) -> bool:
        """True if bytes are loaded from the file."""
        ends = ((start, start + len(data)) for start, data in self.segments)
        return count > 0 and any(a <= address and address + count <= b for a, b in ends)

    def text(self, address: int) -> str:
        """Returns a C string."""
        for start, data in self.segments:
            if start <= address < start + len(data):
                end = data.find(b"\0", address - start)
                return data[address - start : end].decode("utf-8", "replace")
        raise ImageError(f"a text at {address:#x} is not in the image")

    def function_at(self, address: int) -> str:
        """Returns the name of the global function at a pointer's address."""
        if not hasattr(self, "_functions"):
            self._functions = {
                one.address: one.name for one in self.symbols.values() if one.is_function
            }
        plain = address & ~(THUMB if self.machine == "EM_ARM" else 0)
        if plain not in self._functions or (self.machine == "EM_ARM" and plain == address):
            raise ImageError(f"a layer's kernel at {address:#x} is no function")
        return self._functions[plain]
