"""What CONTRIBUTING.md shows works as it stands there."""

from __future__ import annotations

import importlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collector.evaluate.plan import NoJudge
from evaluators.cases import Turn
from evaluators.outcome import Score
from evaluators.run import run

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


async def test_the_worked_evaluator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(r"<!-- evaluator:begin -->\n```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    assert code is not None
    (tmp_path / "worked_example.py").write_text(code[1])
    monkeypatch.syspath_prepend(tmp_path)
    worked: Any = importlib.import_module("worked_example")
    brevity = worked.Brevity(name="short", limit=10)
    for length, expected in ((5, 1.0), (10, 1.0), (15, 0.5), (20, 0.0), (99, 0.0)):
        turn = Turn(turn_id="t", input="?", actual_output="x" * length)
        result = await run(brevity, turn, NoJudge(), now=lambda: datetime.now(UTC))
        assert isinstance(result.outcome, Score)
        assert result.outcome.value == expected
