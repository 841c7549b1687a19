# SPDX-License-Identifier: Apache-2.0
"""Damaged .npy files for `run --input`, and damaged problems for `place`."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import mutate
import numpy as np
from vmcu_bench.runners.borders import read_input
from vmcu_lab import placement
from vmcu_lab.placement import files
from vmcu_tools.errors import UserError
from vmcu_tools.graph import Graph, Port, Tensor

SHAPE = (3, 5, 4)
PORTS = tuple(
    Port("x", "x", shape, dtype, layout)
    for shape, layout in (((1, *SHAPE), "nhwc"), ((1, 4, 3, 5), "nchw"))
    for dtype in ("int8", "uint8", "float32")
)
DTYPES = ("<f4", ">f4", "<f8", "|i1", "|u1", "<i8", "|b1", "<f2", "<c8", "|S3", "<U2", "|O", "V5")
DTYPES += ("[('a', '<f4')]", "<M8[s]", "{}", "1", "<f16", "|i1,|i1")
# Values that a header or a cell may have: huge, empty, of another kind.
NUMBERS = ("0", "1", "-1", "60", "2147483648", "9" * 19, "9" * 5000, "1e3", "", " ", "x", "0x10")
NUMBERS += ("\u0663", "+7", "1_000", "nan", '"', '"3"', "3.0", "\x00", "None", "True", "(1,)")
WORDS = ("id", "lower", "upper", "size", "end", "alignment", "gaps", "begin", "other", "", "ID")
SECONDS = 0.2


def npy_seeds() -> list[bytes]:
    seeds = []
    for dtype in ("<f4", "|i1", "|u1", ">f8", "<i4"):
        for shape in ((1, *SHAPE), (60,), SHAPE):
            file = io.BytesIO()
            np.save(file, (np.arange(60) - 20).astype(dtype).reshape(shape))
            seeds.append(file.getvalue())
    return seeds


def damage_npy(rng: np.random.Generator, data: bytes) -> bytes:
    """Another header for the same bytes, or fewer of them."""
    if rng.random() < 0.25:
        return mutate.damage_bytes(rng, data)
    length = int.from_bytes(data[8:10], "little")
    fields = {"descr": "'<f4'", "fortran_order": "False", "shape": "(1, 3, 5, 4)"}
    for _ in range(int(rng.integers(1, 3))):
        match int(rng.integers(5)):
            case 0:
                fields["descr"] = repr(_one(rng, DTYPES))
            case 1:
                sizes = [_one(rng, NUMBERS) for _ in range(int(rng.integers(0, 5)))]
                fields["shape"] = f"({', '.join(sizes)},)"
            case 2:
                fields["fortran_order"] = _one(rng, ("True", "0", "''", "x"))
            case 3:
                fields.pop(_one(rng, list(fields)), None)
            case _:
                fields[_one(rng, ("more", "shape", "descr"))] = _one(rng, NUMBERS)
    header = "{" + ", ".join(f"'{key}': {value}" for key, value in fields.items()) + "}\n"
    packed = header.encode("utf-8", "replace")
    version = bytes([int(rng.choice([1, 1, 1, 2, 3, 0])), 0])
    size = len(packed).to_bytes(2 if version[0] == 1 else 4, "little")
    body = data[10 + length :]
    cut = int(rng.integers(0, len(body) + 1)) if rng.random() < 0.2 else len(body)
    return data[:6] + version + size + packed + body[:cut]


def read_npy(data: bytes) -> bool:
    """Whether it is accepted by an input of some type; what is, has one byte a value."""
    with tempfile.TemporaryDirectory() as folder:
        path, accepted = Path(folder) / "x.npy", False
        path.write_bytes(data)
        for port in PORTS:
            graph = Graph("n", "", {"x": Tensor("x", SHAPE, 0.1, 3)}, (), (port,), (port,))
            try:
                values = read_input(path, graph, port)
            except UserError as error:
                assert str(error).strip()
                continue
            assert values.shape == SHAPE and values.dtype == np.int8
            accepted = True
        return accepted


def csv_seeds() -> list[bytes]:
    rng, seeds = np.random.default_rng(0), []
    for count in (1, 2, 5, 12):
        lines = ["id,lower,upper,size,alignment"]
        for number in range(count):
            first, size = int(rng.integers(0, 20)), int(rng.integers(0, 100))
            last = first + int(rng.integers(1, 10))
            lines.append(f"b{number},{first},{last},{size},{int(rng.choice([1, 4, 16]))}")
        seeds.append("\n".join(lines).encode())
    return seeds


def damage_csv(rng: np.random.Generator, data: bytes) -> bytes:
    """Other cells, columns and lines."""
    if rng.random() < 0.2:
        return mutate.damage_bytes(rng, data)
    rows = [line.split(",") for line in data.decode("utf-8", "replace").split("\n")]
    for _ in range(int(rng.integers(1, 5))):
        row = rows[int(rng.integers(len(rows)))]
        at = int(rng.integers(len(row)))
        match int(rng.integers(6)):
            case 0:
                row[at] = _one(rng, WORDS if row is rows[0] else NUMBERS)
            case 1:
                row[at] = str(int(rng.integers(-3, 1 << int(rng.integers(2, 62)))))
            case 2:
                row.insert(at, _one(rng, NUMBERS))
            case 3:
                rows.insert(int(rng.integers(len(rows))), list(row))
            case 4:
                other = int(rng.integers(len(row)))
                row[at], row[other] = row[other], row[at]
            case _:
                row[at] += _one(rng, (" ", ";", "\t", "\r", '"', "#"))
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "replace")


def read_csv(data: bytes) -> bool:
    """Whether it is a problem; one that is gets placed, and the placement checks itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.csv"
        path.write_bytes(data)
        try:
            problem = files.read(path)
            placed = placement.place(problem, seconds=SECONDS, workers=1)
        except placement.InputError as error:
            assert str(error).strip()
            return False
        files.write(problem, placed, Path(folder) / "out.csv")
        return True


def _one(rng: np.random.Generator, values: tuple[str, ...] | list[str]) -> str:
    return values[int(rng.integers(len(values)))]
