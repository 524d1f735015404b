"""The command in a folder of somebody's own, with plug-ins and with packages that are called like ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EVALSTREAM = Path(sys.executable).with_name("evalstream")
CONFIGURATION = """\
plugins: ./{folder}
evaluators: {{loud: {{kind: loud}}}}
monitors: {{all: {{evaluators: [loud]}}}}
"""
PLUGIN = """\
from typing import ClassVar
from evaluators import Evaluator, Score

class Loud(Evaluator):
    kind: ClassVar[str] = "loud"
    needs_judge: ClassVar[bool] = False

    @property
    def requires(self): return frozenset({"actual_output"})

    async def evaluate(self, case, judge): return Score(value=float(case.actual_output.isupper()))
"""


@pytest.mark.parametrize("folder", ["my_plugins", "evaluators", "collector"])
@pytest.mark.parametrize("path", ["", "."], ids=["as it is", "on the path"])
def test_folders_of_ones_own_neither_hide_ours_nor_end_the_command(tmp_path: Path, folder: str, path: str) -> None:
    for name in {"evaluators", "collector", folder}:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not ours')\n")
    (tmp_path / folder / "loud.py").write_text(PLUGIN)
    (tmp_path / "evalstream.yaml").write_text(CONFIGURATION.format(folder=folder))
    (tmp_path / "turns.jsonl").write_text('{"input": "hello", "actual_output": "HELLO"}\n')
    done = subprocess.run(
        [EVALSTREAM, "score", "--json", "turns.jsonl"],
        check=False, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"loud"' in done.stdout
