"""The typed questions of every judged evaluator, word by word.

A decision model's scores depend on these texts. One that changes needs another `QUESTIONS_REVISION`, which is part of
the version of what such a model scores; then write them again: `.venv/bin/python -m tests.golden.test_typed_questions`.
"""

import asyncio
import dataclasses
from pathlib import Path

import orjson

from evaluators.catalogue import make_example
from evaluators.evaluation import evaluate
from evaluators.questions import QUESTIONS_REVISION
from evaluators.testing import ScriptedJudge, a_moment, answer_any_form
from tests.builders.judges import DecidingJudge
from tests.contract.test_evaluators import JUDGED, case_for

PINNED = Path(__file__).parent / "persisted" / "typed_questions.json"


async def typed_questions():
    """What each evaluator's example asks, by its kind."""
    return {"revision": QUESTIONS_REVISION, "questions": {cls.kind: await _groups(cls) for cls in JUDGED}}


async def _groups(cls):
    judge = DecidingJudge(lambda question: {question.options[0].value: 1.0}, ScriptedJudge(answer_any_form()))
    await evaluate(make_example(cls), case_for(cls), judge, now=a_moment)
    return [_plain(group) for prompt in judge.questions for group in prompt.groups]


def _plain(group):
    questions = [
        {
            "place": list(each.place),
            "text": each.text,
            "options": [dataclasses.asdict(option) for option in each.options],
        }
        for each in group.questions
    ]
    return {"guide": group.guide, "questions": questions}


async def test_their_texts_are_what_their_revision_says():
    assert await typed_questions() == orjson.loads(PINNED.read_bytes())


if __name__ == "__main__":
    PINNED.write_bytes(orjson.dumps(asyncio.run(typed_questions()), option=orjson.OPT_INDENT_2) + b"\n")
