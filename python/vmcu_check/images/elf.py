# SPDX-License-Identifier: Apache-2.0
"""The bytes, the symbols and the kernels of linked ELF files and of containers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile

from . import structs

# Bit 0 of a function's address on Arm: it is Thumb code.
THUMB = 1
# Of a container: the digest and, behind the signature, the model and its stream, whose rows
# are 0 if there is no state.
MAGIC, DIGEST_AT, MODEL_AT, STREAM_AT, ROWS = b"VMCU", 16, 112, 208, 20


class ImageError(Exception):
    """A property of a file that no sound one has. message: the reason; hint: what to do."""

    def __init__(self, message: str, hint: str = "link it again with the vmcu that checks it"):
        super().__init__(message)
        self.hint = hint


class FaultError(ImageError):
    """A byte that the image handles wrongly."""

    def __init__(self, message: str):
        super().__init__(message, "build and link it again; if the fault stays, report it")


def require(holds: object, message: str) -> None:
    """Raises ImageError unless a condition holds."""
    if not holds:
        raise ImageError(message)


def prove(holds: object, message: str) -> None:
    """Raises FaultError unless a condition holds."""
    if not holds:
        raise FaultError(message)


@dataclass(frozen=True)
class ImageSymbol:
    """address without the Thumb bit; bytes: 0 if unknown."""

    name: str
    address: int
    bytes: int
    is_function: bool


class Image:
    """Loaded bytes. Pointers have `word` bytes. functions: names, by pointer."""

    word: int
    functions: dict[int, str]

    def __init__(self, segments: Iterable[tuple[int, bytes]]):
        self.segments = [(address, memoryview(data)) for address, data in segments]

    def _behind(self, address: int) -> memoryview:
        """Returns the loaded bytes from an address on."""
        parts = (data[address - at :] for at, data in self.segments if address >= at)
        return next((part for part in parts if len(part)), memoryview(b""))

    def has(self, address: int, count: int) -> bool:
        """Returns true if bytes are loaded from the file."""
        return len(self._behind(address)) >= count > 0

    def read(self, address: int, count: int) -> bytes:
        """Returns loaded bytes; raises ImageError if the image has none there."""
        is_there = count == 0 or self.has(address, count)
        require(is_there, f"{count} bytes at {address:#x} are not in the image")
        return bytes(self._behind(address)[:count])

    def text(self, address: int) -> str:
        """Returns a C string."""
        require(self.has(address, 1), f"a text at {address:#x} is not in the image")
        return bytes(self._behind(address)).partition(b"\0")[0].decode("utf-8", "replace")

    def structs(self, members: str, address: int, count: int) -> list[dict[str, Any]]:
        """Returns `count` structs of a table."""
        layout = structs.layout(members, self.word)
        rows = np.frombuffer(self.read(address, layout.itemsize * count), layout).tolist()
        return [dict(zip(layout.names or (), row, strict=True)) for row in rows]

    def array(self, code: str, address: int, count: int) -> np.ndarray:
        """Returns `count` integers of an array, of a type of numpy."""
        return np.frombuffer(self.read(address, np.dtype(code).itemsize * count), f"<{code}")

    def numbers(self, code: str, address: int, count: int) -> tuple[int, ...]:
        """Returns the integers of an array."""
        return tuple(self.array(code, address, count).tolist())

    def function_at(self, pointer: int) -> str:
        """Returns the name of the kernel that a table names."""
        require(pointer in self.functions, f"a layer's kernel at {pointer:#x} is no function")
        return self.functions[pointer]


class LinkedImage(Image):
    """An ELF file."""

    def __init__(self, path: Path):
        """Raises ImageError if the file is no little-endian ELF file with symbols."""
        try:
            with path.open("rb") as stream:
                self._read(ELFFile(stream))
        except Exception as error:  # Readers of damaged files raise whatever they like.
            reason = f"this is no readable ELF file: {error}"
            raise ImageError(reason, "pass a linked image, such as zephyr.elf") from error
        if not self.symbols:
            raise ImageError("this ELF file has no symbols", "check the file before `strip`")

    def _read(self, elf: ELFFile) -> None:
        require(elf.little_endian, "vmcu supports little-endian cores only")
        self.word, thumb = elf.elfclass // 8, THUMB * (elf["e_machine"] == "EM_ARM")
        loads = (part for part in elf.iter_segments("PT_LOAD") if part["p_filesz"])
        super().__init__((int(part["p_vaddr"]), part.data()) for part in loads)
        table: Any = elf.get_section_by_name(".symtab")
        self.symbols, self.functions = dict[str, ImageSymbol](), {}
        for one in [] if table is None else table.iter_symbols():
            if one.name and one["st_shndx"] != "SHN_UNDEF":
                is_function, address = one["st_info"]["type"] == "STT_FUNC", int(one["st_value"])
                if is_function:
                    address &= ~thumb
                    self.functions[address + thumb] = one.name
                size = int(one["st_size"])
                self.symbols[one.name] = ImageSymbol(one.name, address, size, is_function)


class ContainerImage(Image):
    """A .vmcu file, see doc/container.md. Its pointers are offsets, its kernels have numbers."""

    def __init__(self, data: bytes):
        """Raises ImageError if the file is incomplete or damaged."""
        super().__init__([(0, data)])
        self.word = 4
        (header,) = self.structs(structs.CONTAINER_FILE, 0, 1)
        (self.model,) = self.structs(structs.CONTAINER_MODEL, MODEL_AT, 1)
        digest = hashlib.sha256(data[:DIGEST_AT] + data[MODEL_AT : header["size"]]).digest()
        if header["size"] > len(data) or data[DIGEST_AT : DIGEST_AT + len(digest)] != digest:
            raise ImageError("the container's digest is wrong", "build it again")
        count, kernels = self.model["kernel_count"], self.model["kernels"]
        pairs = self.structs(structs.CONTAINER_KERNEL, kernels, count)
        self.functions = {number: self.text(pair["name"]) for number, pair in enumerate(pairs)}
        self.model["chunk_count"] = int(header["major"] == 3)
        if header["major"] > 1:
            self.model["stream"] = STREAM_AT * any(self.numbers("H", STREAM_AT + ROWS, 1))


def read(path: Path) -> LinkedImage | ContainerImage:
    """Returns an image.

    Raises ImageError if the file is neither a container nor an ELF file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImageError(f"it cannot be read: {error}", "pass a linked image") from error
    return ContainerImage(data) if data.startswith(MAGIC) else LinkedImage(path)
