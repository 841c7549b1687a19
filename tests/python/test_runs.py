# SPDX-License-Identifier: Apache-2.0
"""Each table that a benchmark puts on a page has a manifest, which is of that table; two bundles of
them are compared."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from builders import scratch
from builders.networks import SHARED
from vmcu_tools.cli import main
from vmcu_tools.report.runs import KINDS, Manifest

from scripts import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "paper"))
import manifests
import pages

DOC = ROOT / "doc"
FOLDER = DOC / manifests.FOLDER
TABLE = re.compile(r"<!-- (\S+) -->\n(`python benchmarks/.*?)\n<!-- end of \1 -->", re.S)
TABLES = {
    (page, name): block
    for page in sorted(DOC.glob("*.md"))
    for name, block in TABLE.findall(page.read_text(encoding="utf-8"))
}
FILES = [
    *(SHARED.glob("*.tflite")),
    ROOT / "benchmarks" / "paper" / "table2.csv",
    *(ROOT / "benchmarks" / "published").glob("*.csv"),
    *(ROOT / "benchmarks" / "training" / "steps").glob("*.json"),
    ROOT / "samples" / "digits" / "digits.onnx",
]


def name_of(page: Path, table: str) -> str:
    return f"{page.stem}/{table}"


@pytest.mark.parametrize(("page", "table"), TABLES, ids=lambda one: getattr(one, "stem", one))
def test_a_manifest_belongs_to_its_page(page: Path, table: str) -> None:
    """The figures are the page's, and files that are here are those that it names."""
    known = Manifest(**json.loads(manifests.path_of(page, table).read_text(encoding="utf-8")))
    block = TABLES[page, table]
    again = f"{manifests.command(block)} --write doc/{page.name}"
    assert (known.page, known.table) == (page.name, table)
    assert known.command == manifests.command(block), again
    rows = manifests.cells(block)
    assert known.figures == {
        row: {column: manifests.value(cell) for column, cell in cells.items()}
        for row, cells in rows.items()
    }, again
    assert set(known.kinds.values()) <= KINDS.keys()
    assert {"python", "vmcu", *manifests.PACKAGES} <= known.versions.keys()
    here = {file.name: file for file in FILES}
    for name, digest in known.models.items():
        if name in here:
            assert hashlib.sha256(here[name].read_bytes()).hexdigest() == digest, again


def test_no_manifest_is_without_a_table() -> None:
    names = {name_of(*key) for key in TABLES}
    assert {f"{file.parent.name}/{file.stem}" for file in FOLDER.rglob("*.json")} == names
    assert len(names) > 20


def test_manifests_of_the_same_are_the_same() -> None:
    for file in FOLDER.rglob("*.json"):
        known = json.loads(file.read_text(encoding="utf-8"))
        assert (
            file.read_text(encoding="utf-8") == json.dumps(known, indent=1, sort_keys=True) + "\n"
        )


def test_cells_are_told_apart() -> None:
    block = (
        "`python x`\n\n| a | MACs | whole | | less |\n| --- | ---: | ---: | ---: | ---: |\n"
        "| n | 1,024 | 2.5 | - | 3.0 % |\n| n | +1 | `x` | 0 of 9 | -4.5% |\n"
    )
    found = manifests.manifest("p.md", "t", block, manifests.Behind())
    assert found.figures == {
        "n": {"MACs": 1024, "whole": 2.5, "whole (2)": "-", "less": 3.0},
        "n (2)": {"MACs": 1, "whole": "`x`", "whole (2)": "0 of 9", "less": -4.5},
    }
    assert (found.command, found.kinds) == ("python x", {"MACs": "macs"})


def put(folder: Path, rows: tuple[tuple[str, ...], ...], table: str = "t") -> Path:
    """A page with a table and its manifest, the folder of which is returned."""
    folder.mkdir(exist_ok=True)
    page = folder / "page.md"
    page.write_text(f"<!-- {table} -->\n<!-- end of {table} -->\n")
    columns = ("net", "bytes", "cycles", "less", "seconds")
    behind = manifests.Behind(manifests.hashes([page]))
    pages.put(page, table, pages.Table("", columns, rows).markdown("python x"), behind)
    return folder


def growth(before: object, after: object, *words: object) -> int:
    """The exit code of a comparison."""
    return main(["check", str(after), "--baseline", str(before), *map(str, words)])


BEFORE = (("a", "1,000", "50", "10 %", "1.0"), ("b", "10", "20", "3 %", "-"))


@pytest.mark.parametrize(
    ("after", "words", "beyond"),
    [
        (BEFORE, [], []),
        ((("a", "1,010", "50", "10 %", "1.0"), BEFORE[1]), [], ["a: bytes"]),
        ((("a", "1,010", "50", "10 %", "1.0"), BEFORE[1]), ["ram=1%"], []),
        ((("a", "1,010", "51", "10 %", "1.0"), BEFORE[1]), ["ram=1"], ["a: cycles"]),
        ((("a", "1,011", "51", "9 %", "9.0"), BEFORE[1]), ["cycles=2"], ["a: bytes"]),
        ((("a", "900", "50", "9 %", "9.0"), BEFORE[1]), [], []),
        ((("a", "900", "50", "9 %", "9.0"), BEFORE[1]), ["seconds=99"], ["a: seconds"]),
    ],
)
def test_what_grew(after: tuple, words: list[str], beyond: list[str], tmp_path: Path) -> None:
    folders = [str(put(tmp_path / name, rows)) for name, rows in (("x", BEFORE), ("y", after))]
    written, xml = tmp_path / "g.json", tmp_path / "g.xml"
    words = [
        *(["--tolerance", *words] if words else []),
        "--json",
        str(written),
        "--junit",
        str(xml),
    ]
    assert growth(*folders, *words) == bool(beyond)
    found = json.loads(written.read_text())
    judged = [one for one in found["changes"] if one["most"] is not None]
    assert [
        one["change"]["figure"]
        for one in judged
        if one["change"]["after"] > one["change"]["before"] * (1 + one["most"])
    ] == beyond
    suite = ElementTree.parse(xml).getroot()[0]
    assert suite.get("tests") == str(len(judged))
    assert suite.get("failures") == str(len(beyond))


def test_what_else_differs_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = put(put(tmp_path / "x", BEFORE), BEFORE, "gone")
    after = put(put(tmp_path / "y", (("a", "-", "50", "10 %", "1.0"), ("c",) * 5)), BEFORE, "new")
    (path,) = after.rglob("t.json")
    known = json.loads(path.read_text())
    known["versions"]["pulp"] = "0"
    known["models"]["page.md"] = "another"
    path.write_text(json.dumps(known))
    assert growth(str(before), str(after)) == 0
    said = capsys.readouterr().out
    for line in (
        "page/t: a: bytes was '1000' and is '-'",
        "page/t: b: bytes is gone",
        "page/t: c: bytes is new",
        "page/t: page.md is another file",
        "page/gone is gone",
        "page/new is new",
        "Compared 4 figures: 0 grew",
    ):
        assert line in said, said
    assert re.search(r"page/t: pulp was \S+ and is 0\n", said)


def test_reports_of_one_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named as one likes: those of one file each are compared."""
    model = scratch.keyword(tmp_path / "kws.tflite")
    other = scratch.keyword(tmp_path / "wide.tflite", 2, 12)
    reports = [str(tmp_path / name) for name in ("one.json", "two.json")]
    for path, report in zip((model, other), reports, strict=True):
        assert main(["build", str(path), "--json", report, "--quiet"]) == 0
    assert growth(reports[0], reports[0]) == 0
    assert growth(*reports) == 1
    assert "FAILED: kws: pool_bytes: " in capsys.readouterr().out
    assert growth(*reversed(reports)) == 0


def benched(path: Path, name: str, **figures: object) -> Path:
    known = {
        **{"model": name, "target": "qemu:m4", "macs": 9, "cycles": 100, "instructions": 90},
        **{"loads_ram": 1, "loads_flash": 2, "stores": None, "stack_bytes": 300},
        **{"energy": {"microjoule": 1.5}, "time": None, "compiler": "gcc 1"},
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(known | figures))
    return path


def test_reports_of_benchmarks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the names of their models, in folders."""
    for name in ("a", "b"):
        benched(tmp_path / "x" / f"{name}.json", name)
        benched(tmp_path / "y" / f"{name}.json", name, compiler="gcc 2")
    folders = [str(tmp_path / name) for name in "xy"]
    assert growth(*folders) == 0
    assert "a on qemu:m4: compiler was gcc 1 and is gcc 2" in capsys.readouterr().out
    benched(tmp_path / "y" / "b.json", "b", cycles=101, time={"milliseconds": 3.0})
    assert growth(*folders) == 1
    assert growth(*folders, "--tolerance", "cycles=1") == 0


@pytest.mark.parametrize("content", ["", "[]", "3", "{}", '{"figures": 3}', '{"steps": 1}', "\x00"])
def test_what_has_no_figures(content: str, tmp_path: Path, capsys) -> None:
    (tmp_path / "x.json").write_text(content)
    good = str(benched(tmp_path / "y.json", "a"))
    assert growth(good, str(tmp_path / "x.json")) == 1
    assert "x.json" in (said := capsys.readouterr().err) and "wrote" in said


def test_bundles_that_cannot_be_compared(tmp_path: Path, capsys) -> None:
    good = str(benched(tmp_path / "y.json", "a"))
    (tmp_path / "empty").mkdir()
    assert growth(good, str(tmp_path / "empty")) == 1
    assert "there is no .json file in it" in capsys.readouterr().err
    for name in "xz":
        benched(tmp_path / "twice" / f"{name}.json", "a")
    assert growth(good, str(tmp_path / "twice")) == 1
    assert "'a on qemu:m4' is there twice" in capsys.readouterr().err
    for name in "pq":
        benched(tmp_path / "others" / f"{name}.json", name)
    assert growth(good, str(tmp_path / "others")) == 1
    assert "it has no figure that" in capsys.readouterr().err
    assert growth(good, str(tmp_path / "none.json")) == 1
    assert "no such file" in capsys.readouterr().err.lower()
