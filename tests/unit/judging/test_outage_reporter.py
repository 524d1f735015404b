"""Reports of a judge that is unavailable: soon, rarely, and without judged text."""

from __future__ import annotations

from contextlib import suppress

import pytest

from collector.config.settings import JudgeSettings
from collector.judging.outage_reporter import OutageReporter, ReportPolicy
from evaluators.errors import (
    JudgeDenied,
    JudgeError,
    JudgeReplyInvalid,
    JudgeUnavailable,
    JudgeUnreachable,
    NoCompletion,
)
from evaluators.judge import Prompt
from evaluators.scale import Scale
from evaluators.testing import ScriptedJudge

REPLY = Scale(0, 10).reply
PROMPT = Prompt("Judge.", {"a": "what the user said"})
GOOD = {"reason": "so", "score": 5}
REFUSED = JudgeUnreachable("no connection to the judge: connection refused")
DOWN = JudgeUnavailable("the judge answered HTTP 503")
SETTINGS = JudgeSettings(model="m", base_url="http://judge.example/openai/deployments/m?key=secret", deadline=300.0)
TROUBLE = "judge main at http://judge.example/openai/deployments/m is unavailable (the judge answered HTTP 503); requests are retried"


class Rig:
    """A judge by a script, whose every question takes no time unless the test says so."""

    def __init__(self, *script, awaited=True, settings=SETTINGS):
        self.reports = []
        self.now = 0.0
        policy = ReportPolicy(self.reports.append, repeat_after=60.0, awaited=awaited)
        self.judge = OutageReporter(ScriptedJudge(script), "main", settings, policy, lambda: self.now)

    async def ask(self, after=0.0):
        self.now += after
        try:
            await self.judge.ask(PROMPT, REPLY)
        except JudgeError as error:
            return error
        return None


async def test_an_outage_within_a_second_is_not_reported():
    rig = Rig(DOWN, DOWN, GOOD, DOWN)
    for _ in range(4):
        await rig.ask(after=0.4)
    assert rig.reports == []


async def test_an_outage_is_reported_once_then_rarely_and_so_is_its_end():
    rig = Rig(*[DOWN] * 70, GOOD, GOOD)
    for _ in range(72):
        await rig.ask(after=1.0)
    assert rig.reports == [f"{TROUBLE} for up to 300 s"] * 2 + ["judge main is available again"]


async def test_a_long_wait_that_the_judge_requests_is_reported_at_once():
    rig = Rig(JudgeUnavailable("the judge answered HTTP 429", retry_after=30.0))
    await rig.ask()
    assert len(rig.reports) == 1


@pytest.mark.parametrize("answer", [GOOD, JudgeReplyInvalid("the answer holds no JSON object")])
async def test_nobody_where_somebody_was_is_asked_again(answer):
    rig = Rig(answer, REFUSED)
    await rig.ask()
    assert await rig.ask() is REFUSED


async def test_nobody_where_nobody_ever_was_is_not_asked_again():
    rig = Rig(REFUSED, REFUSED)
    for _ in range(2):
        error = await rig.ask()
        assert error is not None
        assert not isinstance(error, JudgeUnavailable)
        assert error.type == "judge_unavailable"
    [report] = rig.reports
    assert report == (
        "judge main at http://judge.example/openai/deployments/m has never answered (no connection to the judge: connection refused), "
        "so its evaluations fail at once; start it, or correct judges.main.base_url"
    )


async def test_a_certificate_that_nobody_knows_has_a_remedy_of_its_own():
    rig = Rig(JudgeUnreachable("no connection to the judge: TLS failed (CERTIFICATE_VERIFY_FAILED)"))
    await rig.ask()
    [report] = rig.reports
    assert report.endswith("name its authority's certificate as judges.main.tls.ca, or correct base_url")


async def test_a_web_page_in_place_of_an_answer_lets_base_url_be_doubted():
    page = NoCompletion("the endpoint answered with something that is not JSON")
    rig = Rig(page, page, GOOD, page, page)
    for _ in range(5):
        await rig.ask(after=30.0)
    doubt = "; if that lasts, correct judges.main.base_url"
    assert [report.endswith(doubt) for report in rig.reports] == [True, False, False]


async def test_the_service_waits_for_a_judge_that_is_not_there_yet():
    rig = Rig(REFUSED, REFUSED, awaited=False)
    assert await rig.ask() is REFUSED
    assert await rig.ask(after=1.0) is REFUSED
    assert rig.reports == [TROUBLE.replace("the judge answered HTTP 503", str(REFUSED))]


async def test_a_judge_that_never_answers_is_reported_before_its_deadline(monkeypatch):
    monkeypatch.setattr("collector.judging.outage_reporter.FIRST_ANSWER_WITHIN", 0.0)
    rig = Rig()

    async def says_nothing(*_args, **_kwargs):
        import asyncio

        for _ in range(3):
            await asyncio.sleep(0)
        raise DOWN

    rig.judge.inner.ask = says_nothing
    assert await rig.ask() is DOWN
    [report] = rig.reports
    assert report.endswith("has not answered within 0 s; requests time out after 60 s (judges.main.timeout)")


@pytest.mark.parametrize(
    ("remedy", "text"),
    [
        ("key", "give a key that is valid there (judges.main.api_key)"),
        ("credit", "its account has no credit or quota left; add some, or use another key (judges.main.api_key)"),
        ("model or address", "correct judges.main.model or judges.main.base_url"),
        ("address", "correct judges.main.base_url"),
    ],
)
@pytest.mark.parametrize(
    ("awaited", "then"), [(True, "its evaluations fail"), (False, "its evaluations wait until that is mended")]
)
async def test_a_denial_is_reported_at_once_with_its_remedy_and_once(remedy, text, awaited, then):
    denied = JudgeDenied("the judge answered HTTP 401", remedy=remedy)
    rig = Rig(denied, denied, GOOD, awaited=awaited)
    for _ in range(3):
        await rig.ask(after=0.1)
    assert rig.reports == [
        f"judge main at http://judge.example/openai/deployments/m refuses every request (the judge answered HTTP 401); {then}: {text}",
        "judge main is available again",
    ]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"api_key": "k"}, "api_key"),
        ({"api_key_file": "judge.key"}, "api_key_file"),
        ({"api_key_file": "judge.key", "headers": {"X-Team": "a"}}, "api_key_file"),
        ({"header_files": {"Authorization": "judge.header"}}, "header_files"),
        ({"headers": {"Authorization": "Bearer k"}}, "headers"),
    ],
)
@pytest.mark.parametrize("remedy", ["key", "credit"])
async def test_the_remedy_of_a_refused_key_names_where_the_configuration_has_it(given, key, remedy):
    rig = Rig(JudgeDenied("the judge answered HTTP 401", remedy=remedy), settings=JudgeSettings(model="m", **given))
    await rig.ask()
    assert rig.reports[0].endswith(f"(judges.main.{key})")


async def test_a_new_key_that_is_refused_too_is_reported_once():
    """It was wrong as well, and nothing was said of it for ten minutes: the operator took it for right."""
    denials = []
    for sent in (1, 1, 2, 1, 2, 2, 3):
        denials.append(JudgeDenied("the judge answered HTTP 401", remedy="key"))
        denials[-1].sent = sent
    rig = Rig(*denials, GOOD, awaited=False, settings=JudgeSettings(model="m", api_key_file="judge.key"))
    for _ in denials:
        await rig.ask(after=1.0)
    first, second, third = rig.reports
    assert "refuses every request (the judge answered HTTP 401)" in first
    assert "refuses every request, also with the new key (the judge answered HTTP 401)" in second
    assert second.endswith("give a key that is valid there (judges.main.api_key_file)")
    assert third == second
    await rig.ask()
    assert rig.reports[3:] == ["judge main is available again"]


async def test_one_denial_among_answers_is_not_reported():
    denied = JudgeDenied("the judge answered HTTP 403", remedy="key")
    rig = Rig(*[GOOD, denied] * 20)
    for _ in range(40):
        await rig.ask(after=0.5)
    assert rig.reports == []


NONSENSE = JudgeReplyInvalid("the answer holds no JSON object")
USELESS = (
    "judge main at http://judge.example/openai/deployments/m answers, but its last {} answers are of no use (the answer holds no JSON object)"
    ", so these evaluations fail; name a model that follows instructions and writes JSON (judges.main.model)"
)


async def test_a_stub_that_repeats_no_key_is_told_the_setting():
    """The reader's stub failed seven times, and the line told to take another model."""
    rig = Rig(*[JudgeReplyInvalid('the object does not begin with the "answer_key" of this question')] * 70)
    for _ in range(70):
        await rig.ask(after=1.0)
    assert rig.reports[0].endswith("(judges.main.model), or write judges.main.answer_key: false")


@pytest.mark.parametrize("awaited", [True, False])
async def test_nothing_but_nonsense_is_reported_soon_then_rarely_and_so_is_its_end(awaited):
    rig = Rig(*[NONSENSE] * 70, GOOD, GOOD, awaited=awaited)
    for _ in range(72):
        assert await rig.ask(after=1.0) in (NONSENSE, None)
    then = "" if awaited else "; `evalstream rejudge --what failed` makes failed evaluations again"
    assert rig.reports == [
        USELESS.format(5) + then,
        USELESS.format(65) + then,
        f"judge main gives usable answers again, after 70 unusable{then}",
    ]


async def test_nonsense_now_and_then_is_not_reported():
    rig = Rig(*[*[NONSENSE] * 4, GOOD] * 20)
    for _ in range(100):
        await rig.ask(after=1.0)
    assert rig.reports == []


async def test_steps_of_no_use_are_reported_at_once():
    """Evaluations that wait for them fail together, however many they are; it was one answer, of which nobody heard."""
    rig = Rig(NONSENSE, GOOD)
    with suppress(JudgeError):
        await rig.judge.ask(Prompt("Write evaluation steps."), REPLY)
    assert rig.reports == [USELESS.format(1).replace("last 1 answers", "evaluation steps")]
    await rig.ask()
    assert rig.reports[1:] == ["judge main gives usable answers again, after 1 unusable"]


async def test_steps_of_use_are_no_end_before_an_evaluation_has_got_an_answer_of_use():
    """The judge was said to give usable answers again while no score existed, and its next answers were of no use."""
    rig = Rig(NONSENSE, GOOD, *[NONSENSE] * 4, GOOD)
    for _ in range(2):
        with suppress(JudgeError):
            await rig.judge.ask(Prompt("Write evaluation steps."), REPLY)
    assert len(rig.reports) == 1
    for _ in range(4):
        await rig.ask(after=1.0)
    assert rig.reports[1:] == [USELESS.format(5)], "it is another problem, which does not wait to be reported"
    await rig.ask()
    assert rig.reports[2:] == ["judge main gives usable answers again, after 5 unusable"]


@pytest.mark.parametrize(("after", "times"), [(20.0, 2), (1.0, 1)])
async def test_nonsense_that_begins_again_is_reported_again_but_not_within_a_minute(after, times):
    rig = Rig(*[*[NONSENSE] * 5, GOOD] * 2)
    for _ in range(12):
        await rig.ask(after=after)
    end = "judge main gives usable answers again, after 5 unusable"
    assert rig.reports == [USELESS.format(5), end] * times


async def test_outages_that_come_and_go_are_reported_once_a_minute():
    """At a rate limit that only some requests exceed, there was a pair of lines for each refusal."""
    limited = JudgeUnavailable("the judge answered HTTP 429", retry_after=2.0)
    rig = Rig(*[limited, GOOD] * 100, limited, limited)
    for _ in range(200):
        await rig.ask(after=1.0)
    begin, end = TROUBLE.replace("503", "429") + " for up to 300 s", "judge main is available again"
    assert rig.reports == [begin, end] * 4
    await rig.ask(after=60.0)
    assert rig.reports[8:] == [begin], "the last line is true after a minute at most"


@pytest.mark.parametrize(
    ("type", "remedy"),
    [
        ("judge_reply_truncated", "raise judges.main.max_tokens"),
        ("judge_refused", "name another model (judges.main.model), or leave such texts out (match of a monitor)"),
    ],
)
async def test_what_is_of_no_use_for_another_reason_has_its_own_remedy(type, remedy):
    rig = Rig(*[JudgeReplyInvalid("the judge refused to answer", type=type)] * 5)
    for _ in range(5):
        await rig.ask()
    [report] = rig.reports
    assert report.endswith(f"so these evaluations fail; {remedy}")


async def test_another_cause_of_the_same_outage_is_reported_once_and_at_once():
    """Refused, then another server answers with 401, then 429: each has another remedy."""
    denied = JudgeDenied("the judge answered HTTP 401 (bad key)", remedy="key")
    limited = JudgeUnavailable("the judge answered HTTP 429", retry_after=2.0, type="judge_rate_limited")
    rig = Rig(REFUSED, REFUSED, denied, denied, limited, denied, REFUSED, awaited=False)
    for _ in range(7):
        await rig.ask(after=1.0)
    causes = [
        next(cause for cause in ("connection refused", "HTTP 401", "HTTP 429") if cause in each) for each in rig.reports
    ]
    assert causes == ["connection refused", "HTTP 401", "HTTP 429"]
