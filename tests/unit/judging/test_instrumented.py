from __future__ import annotations

import re
from pathlib import Path

import pytest

import evaluators
from collector.judging.outage_reporter import InstrumentedJudge
from collector.telemetry.registry import Telemetry
from evaluators.errors import JudgeReplyInvalid
from evaluators.judge import Prompt
from evaluators.results import JUDGE_ERRORS
from evaluators.scale import Reply
from evaluators.testing import ScriptedJudge


class Word(Reply):
    word: str


async def test_requests_to_a_judge_are_counted_by_what_came_of_them():
    telemetry = Telemetry()
    judge = InstrumentedJudge(ScriptedJudge([{"word": "yes"}, JudgeReplyInvalid("no")]), "main", telemetry)
    assert (await judge.ask(Prompt("?"), Word)).reply.word == "yes"
    with pytest.raises(JudgeReplyInvalid):
        await judge.ask(Prompt("?"), Word)

    def value(name: str, **labels: str) -> float | None:
        return telemetry.registry.get_sample_value(name, {"judge": "main", **labels})

    assert value("evalstream_judge_requests_total", result="ok") == 1
    assert value("evalstream_judge_requests_total", result="judge_reply_invalid") == 1
    assert value("evalstream_judge_request_duration_seconds_count") == 2
    assert value("evalstream_judge_requests_in_flight") == 0


def test_every_result_of_a_judge_begins_at_0():
    """`increase()` does not see what a new series begins with: of 23 refused requests in an outage it showed 3."""
    telemetry = Telemetry()
    InstrumentedJudge(ScriptedJudge([]), "main", telemetry)
    for result in ("ok", *JUDGE_ERRORS):
        labels = {"judge": "main", "result": result}
        assert telemetry.registry.get_sample_value("evalstream_judge_requests_total", labels) == 0, result
    source = Path(evaluators.__file__).parent
    named = set(
        re.findall(r'type ?(?:: str )?= ?"(judge_\w+)"', "".join(path.read_text() for path in source.rglob("*.py")))
    )
    assert named - {"judge_error", "judge_shed"} <= {*JUDGE_ERRORS}, "of a judge in general, and of no request"
