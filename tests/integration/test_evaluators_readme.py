"""The examples of the library's README, run as they stand there."""

import re
from pathlib import Path

from chat_server import rating, serving

from evaluators.catalogue import table
from evaluators.run import run
from evaluators.testing import ScriptedJudge, a_moment, a_turn

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(
    r"```python\n(.*?)```", (ROOT / "evaluators" / "README.md").read_text(encoding="utf-8"), re.DOTALL
)


def names_of(example):
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    return names


async def test_the_first_example(capsys):
    def respond(body, n):
        return '{"steps": ["Compare."]}' if "steps" in str(body["response_format"]) else rating(9, "It is right.")

    async with serving(respond) as server:
        await names_of(EXAMPLES[0])["main"](server.base_url, "key")
    assert capsys.readouterr().out == "pass 0.9 It is right.\n"


async def test_the_wrappers():
    judge = names_of(EXAMPLES[1])["dependable"](ScriptedJudge("", model="m"))
    assert judge.model == "m"


async def test_an_evaluator_of_ones_own():
    brevity = names_of(EXAMPLES[2])["Brevity"](name="b", limit=4)
    result = await run(brevity, a_turn(actual_output="123456"), ScriptedJudge("never"), now=a_moment)
    assert result.outcome.value == 0.5


def test_the_table_in_the_readme_is_that_of_the_classes():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("<!-- evaluators:begin -->")[2].partition("<!-- evaluators:end -->")[0].strip()
    assert shown == table().strip()
