# SPDX-License-Identifier: Apache-2.0
"""What a command does not import, for it is called often, and what OR-tools' users miss by that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from vmcu_tools import paths

DIGITS = paths.root() / "samples" / "digits" / "digits.onnx"


def run(script: str, *arguments: str) -> str:
    """What a script prints, in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_build_imports_neither_pandas_nor_the_other_format(tmp_path: Path) -> None:
    script = """
import sys
from vmcu_tools.cli import main
assert main(["build", sys.argv[1], "--stream-input", "-o", sys.argv[2], "--quiet"]) == 0
assert "ortools" not in sys.modules, "it has places without a solver"
from vmcu_tools.planner.places import constraints
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
    loaded = run(script, str(DIGITS), str(tmp_path / "out")).split()
    assert "ortools" in loaded
    assert not {"pandas", "tflite", "onnxruntime", "tflite_micro"} & set(loaded)


SERIES = """
model = cp_model.CpModel()
series = model.new_int_var_series("x", pandas.Index(["a", "b"]), 2, 5)
assert isinstance(series, pandas.Series)
model.minimize(sum(series))
solver = cp_model.CpSolver()
assert solver.solve(model) == cp_model.OPTIMAL
assert sys.modules["pandas"] is pandas
print(list(solver.values(series)))
"""
OURS = "from vmcu_tools.planner.places import constraints\n"
THEIRS = "from ortools.sat.python import cp_model\n"
PANDAS = "import sys\nimport pandas\n"


def test_series_of_variables_are_what_they_were() -> None:
    """Whoever uses both in one process gets cp_model as OR-tools means it, in any order."""
    for imports in (OURS + THEIRS + PANDAS, THEIRS + OURS + PANDAS, PANDAS + OURS + THEIRS):
        assert run(imports + SERIES) == "[2, 2]\n", imports


def test_a_version_that_asks_more_of_pandas_gets_it() -> None:
    """The names that stand in are too few: pandas itself is imported."""
    script = """
import sys, types, importlib.abc, importlib.machinery
NAME = "ortools.sat.python.cp_model"

class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == NAME else None

    def exec_module(self, module):
        import pandas
        module.Frame = pandas.DataFrame

sys.meta_path.insert(0, Finder())
from vmcu_tools.planner.places.constraints import cp_model
import pandas
assert cp_model.Frame is pandas.DataFrame
"""
    run(script)


def test_without_a_solver_there_is_a_plan_and_a_note(tmp_path: Path) -> None:
    """Of a network whose planner asks the solver: the core packages do not include one."""
    script = """
import importlib.util, sys

find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "ortools" else find(name, *more)
sys.modules["ortools"] = None
from vmcu_tools.planner.places import circular_pool
from vmcu_tools.planner.places.pieces import Piece
assert circular_pool.fits([Piece("a", 4, 4, (), True, 1)], 8) is None
assert circular_pool.fits([Piece("a", 4, 4, (), True, 1)], 8) is None
from vmcu_tools.cli import main
print(main(["build", sys.argv[1], "--memory", "a=64K,b=64K", "-o", sys.argv[2], "--quiet"]))
"""
    command = [sys.executable, "-c", script, str(DIGITS), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stderr
    assert done.stderr.count("note: planned without the constraint solver") == 1
    assert "'ortools' is needed to solve this placement" in done.stderr
    assert "pip install '.[solver]'" in done.stderr
    assert not (tmp_path / "out").exists()
