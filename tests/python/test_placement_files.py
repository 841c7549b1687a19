# SPDX-License-Identifier: Apache-2.0
"""Files of `vmcu place`: errors with their lines, other allocators' words, written offsets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from test_placement_search import EXAMPLE
from vmcu_lab.placement import InputError, check, files
from vmcu_tools.cli import main


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("id,lower,upper\n", "line 1: no column 'size'"),
        ("id;lower;upper;size\n", "no column"),
        ("id,lower,start,upper,size\n", "two columns for 'lower'"),
        ("id,lower,upper,size\na,0,1\n", "line 2: 3 fields"),
        ("id,lower,upper,size\n\na,0,x,1\n", "line 3: upper 'x' is not an integer"),
        ("id,lower,upper,size\na,0,1,1.5\n", "size '1.5'"),
        ("id,lower,upper,size\na,0,1,-4\n", "size -4 is negative"),
        (f"id,lower,upper,size\na,0,1,{'9' * 5000}\n", "size has 5000 characters"),
        ("id,lower,upper,size\na,3,3,4\n", "lifetime [3, 3) is empty"),
        ("id,lower,upper,size\na,0,1,4\na,0,1,4\n", "id 'a' is that of line 2"),
        ("id,lower,upper,size\n,0,1,4\n", "no id"),
        ("id,lower,upper,size,alignment\na,0,1,4,0\n", "alignment 0"),
        ("id,lower,upper,size,gaps\na,0,9,4,3\n", "'3' is not a gap"),
        ("id,lower,upper,size,gaps\na,0,9,4,3-10\n", "gap 3-10 is not within"),
        ("id,lower,upper,size,gaps\na,0,9,4,3-5@0:5\n", "gap 3-5@0:5 is not within"),
        ("id,lower,upper,size,gaps\na,0,9,4,3-5 4-6\n", "two gaps have a moment in common"),
        ("id,lower,upper,size,alignment,offset\na,0,9,4,4,6\n", "offset 6 is not a multiple of 4"),
        ('id,lower,upper,size\n"a\n', "line 2"),
    ],
)
def test_bad_files_are_named_with_line_and_reason(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        files.parse(text, Path("some.csv"))
    message = str(caught.value)
    assert message.startswith("some.csv: ") and words in message and "hint: " in message


def test_every_bad_line_is_told() -> None:
    with pytest.raises(InputError) as caught:
        files.parse("id,lower,upper,size\na,0,0,4\nb,0,1,4\nc,0,1,x\n", Path("some.csv"))
    assert [p.reason.split(":")[0] for p in caught.value.complaints] == ["line 2", "line 4"]


def test_words_of_other_allocators() -> None:
    expected = files.parse(EXAMPLE, Path("a"))
    text = "Size, buffer_id ,START,end,hint,gaps,alignment\r\n"
    for b in expected.buffers:
        text += f"{b.size},{b.id},{b.lower},{b.upper - 1},-1,,\r\n"
    problem = files.parse(text, Path("b"))
    assert problem.buffers == expected.buffers
    assert problem.ignored == ("hint",)


def test_command_writes_figures_and_offsets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, figures, out = tmp_path / "p.csv", tmp_path / "p.json", tmp_path / "o.csv"
    path.write_text("\ufeff" + EXAMPLE)
    assert main(["place", str(path), "--json", str(figures), "--output", str(out)]) == 0
    assert "12 bytes, optimal" in capsys.readouterr().out
    told = json.loads(figures.read_text())
    assert (told["height"], told["bound"], told["optimal"], told["buffers"]) == (12, 12, True, 5)
    assert told["seconds"] < 1
    assert check(files.parse(EXAMPLE, path), told["offsets"]) == 12
    written = out.read_text().splitlines()
    assert written[0] == "id,lower,upper,size,offset"
    assert written[1] == f"b1,0,3,4,{told['offsets']['b1']}"
    again = files.read(out)
    assert {b.id: b.offset for b in again.buffers} == told["offsets"]
    assert [replace(b, offset=None) for b in again.buffers] == [*files.read(path).buffers]


def test_command_says_what_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.csv"
    path.write_text(EXAMPLE)
    assert main(["place", str(path), "--ram", "12"]) == 0
    assert main(["place", str(path), "--ram", "11"]) == 1
    message = capsys.readouterr().err
    assert f"{path}: does not fit in 11 bytes" in message and "needs 12" in message
    assert main(["place", str(tmp_path / "none.csv")]) == 1
    assert "no such file" in capsys.readouterr().err
    assert main(["place", str(path), "--seconds", "-1"]) == 2
