"""Code that is written against the packages passes `mypy --strict`, as users of a typed package expect."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
USE = """
import asyncio
from pathlib import Path

from evaluators import (
    Completeness, Conversation, DefinitionCache, Evaluation, ExactMatch, GEval, Jury, Limited, OpenAIJudge, Result,
    Retrying, Score, Turn, evaluate, evaluate_many, evaluate_sync, evaluation_id_of,
)
from evaluators.testing import ScriptedJudge, assert_score

GOOD = GEval(name="good", criteria="It helps.", evaluation_params=("actual_output",))
TURN = Turn(input="a", actual_output="b", retrieval_context=("c",))


async def main() -> list[Evaluation]:
    async with OpenAIJudge("m", api_key="k") as judge:
        jury = Jury([DefinitionCache(Retrying(Limited(judge, concurrency=2))), judge])
        result: Result = await evaluate(GOOD, TURN, jury)
        if isinstance(result.outcome, Score):
            value: float = result.outcome.value
            print(value)
        return await evaluate_many(
            [GOOD, Completeness(name="c")], [TURN, Conversation(turns=(TURN,))], judge, results=Path("results.jsonl")
        )


def test_it() -> None:
    name: str = evaluation_id_of(GOOD, TURN)
    assert name and evaluate_sync(ExactMatch(name="e"), TURN)
    score: Score = assert_score(TURN, GOOD, ScriptedJudge({"reason": "a", "score": 1}), at_least=0.5)
    assert score


asyncio.run(main())
"""


def worked(section: str) -> str:
    """The Python of a worked example of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    example = text.partition(f"<!-- {section}:begin -->")[2].partition(f"<!-- {section}:end -->")[0]
    block = re.search(r"```python\n(.*?)```", example, re.DOTALL)
    assert block is not None
    return block[1]


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    """What mypy says of a folder, away from the repository: it finds the packages where they are installed."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--python-version", "3.11", "."],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.long  # mypy reads every package that ours imports; pyright checks both in `make lint`
@pytest.mark.timeout(300)
def test_plug_ins_and_use_of_the_library(tmp_path: Path) -> None:
    for section in ("evaluator", "dialect", "exporter"):
        (tmp_path / f"{section}.py").write_text(worked(section), encoding="utf-8")
    (tmp_path / "use.py").write_text(USE, encoding="utf-8")
    (tmp_path / "wrong.py").write_text("from evaluators import Turn\n\nTurn(input=5)\n", encoding="utf-8")
    done = checked(tmp_path)
    assert done.stdout.splitlines() == [
        'wrong.py:3: error: Argument "input" to "Turn" has incompatible type "int"; expected "str | None"  [arg-type]'
    ], done.stderr
