"""The examples of the library's README and of its page that `tests/e2e/test_pages.py` does not run."""

import asyncio
import re
from pathlib import Path

import pytest
from chat_server import rating, serving

from evaluators import GEval, OpenAIJudge, Turn
from evaluators.evaluation import evaluate
from evaluators.testing import ScriptedJudge, a_moment, a_turn

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(
    r"```python\n(.*?)```", (ROOT / "evaluators" / "README.md").read_text(encoding="utf-8"), re.DOTALL
)


def names_of(example):
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    return names


async def test_the_first_example(capsys, monkeypatch):
    def respond(body, n):
        return '{"steps": ["Compare."]}' if "steps" in str(body["response_format"]) else rating(9, "It is right.")

    async with serving(respond) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        await names_of(EXAMPLES[0])["main"]()
    assert capsys.readouterr().out == "pass 0.9 It is right.\n"


async def test_the_wrappers():
    judge = names_of(EXAMPLES[1])["dependable"](ScriptedJudge("", model="m"))
    assert judge.model == "m"


async def test_an_evaluator_of_ones_own():
    brevity = names_of(EXAMPLES[2])["Brevity"](name="b", limit=4)
    result = await evaluate(brevity, a_turn(actual_output="123456"), ScriptedJudge("never"), now=a_moment)
    assert result.outcome.value == 0.5


async def test_the_assertion_of_the_page(monkeypatch):
    """The test that the page shows passes and fails like a test, in a thread without a loop."""
    page = (ROOT / "deploy" / "docs" / "library.md").read_text(encoding="utf-8")
    shown = next(each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "assert_score" in each)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    for score, passes in ((9, True), (2, False)):
        async with serving(lambda _body, _n, score=score: rating(score, "It names no step.")) as server:
            judge = OpenAIJudge("m", base_url=server.base_url)
            helpful = GEval(name="helpful", evaluation_steps=["Look."], evaluation_params=["actual_output"])
            names = {"judge": judge, "helpful": helpful, "Turn": Turn}
            exec(compile(shown, "library.md", "exec"), names)
            function = names["test_the_answer_solves_the_problem"]
            if passes:
                await asyncio.to_thread(function)
            else:
                with pytest.raises(
                    AssertionError, match=r"helpful scores 0\.2, at least 0\.3 .*\n  reason: It names no step"
                ):
                    await asyncio.to_thread(function)


def test_a_key_is_needed(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ValueError, match="api_key: give one, or set OPENAI_API_KEY"):
        OpenAIJudge("m")
