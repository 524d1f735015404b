"""How commands judge: within an allowance, and with nothing shown to a judge that the service would not show."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from collector.commands.score import runner
from collector.commands.score.runner import SpendLimit, guarded_run, require_prices, run_jobs
from collector.commands.score.score import jobs_of, limit_message, summarize
from collector.config.configured import Config
from collector.config.loading import check
from collector.errors import ConfigError
from collector.evaluate.plan import Assignment, Job, evaluation_of
from collector.records.ready_made import turns_in
from collector.redact.documents import redact_document
from collector.redact.open_redactor import RedactSettings, open_redactor
from evaluators.cases import Conversation, Turn
from evaluators.conversation.completeness import Completeness
from evaluators.evaluation import Result, utc_now
from evaluators.judge import NoJudge, Prompt
from evaluators.judges.definition_cache import DefinitionCache
from evaluators.results import Evaluation, Failure, Score
from evaluators.testing import ScriptedJudge
from evaluators.turn.g_eval import GEval
from evaluators.turn.regex import Regex

RATED = GEval(name="rated", evaluation_steps=["Compare."], evaluation_params=["input", "actual_output"])


def configured(**changes: Any) -> Config:
    values: dict[str, Any] = {
        "judges": {"main": {"model": "m"}, "priced": {"model": "p", **dict.fromkeys(PRICES, 1.0)}},
        "evaluators": {"refused": {"kind": "refusal"}},
        "monitors": {"all": {"evaluators": ["refused"]}},
    }
    return check(values | changes, "evalstream.yaml")


PRICES = ("usd_per_million_input_tokens", "usd_per_million_output_tokens")


def jobs(count: int, expected_usd: float = 0.0) -> list[Job]:
    turns = [Turn(turn_id=f"t{n}", input="a", actual_output="b") for n in range(count)]
    judge = ScriptedJudge("never asked")
    return list(jobs_of(turns, [Assignment(RATED, judge, RATED.version, expected_usd=expected_usd)]))


def costing(usd: float, score: float = 1.0) -> Callable[..., Any]:
    async def run(*_: Any, now: Callable[[], Any]) -> Result:
        outcome = Score(value=score)
        return Result(outcome=outcome, judge=None, usage=None, cost_usd=usd, started_at=now(), ended_at=now())

    return run


def scoring(score: float) -> Callable[..., Any]:
    return costing(0.0, score)


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_money_ends_before_it_is_overspent(concurrency: int) -> None:
    made = await run_jobs(jobs(50, 0.1), output=None, concurrency=concurrency, run=costing(0.1), max_usd=1.05)
    assert (len(made.evaluations), made.left) == (10, 40)
    assert made.spent_usd == pytest.approx(1.0)


async def test_what_is_dearer_than_expected_is_expected_from_then_on() -> None:
    made = await run_jobs(jobs(50, 0.01), output=None, concurrency=1, run=costing(0.5), max_usd=1.2)
    assert (len(made.evaluations), made.left) == (2, 48)


async def test_what_costs_nothing_needs_no_money() -> None:
    made = await run_jobs(jobs(5), output=None, concurrency=2, run=costing(0.0), max_usd=0.0)
    assert (len(made.evaluations), made.left) == (5, 0)


async def test_a_later_run_makes_failures_again_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.jsonl"

    async def fails(*_: Any, now: Callable[[], Any]) -> Result:
        outcome = Failure(type="judge_timeout", message="no answer")
        return Result(outcome=outcome, judge=None, usage=None, cost_usd=0.2, started_at=now(), ended_at=now())

    await run_jobs(jobs(5), output=output, concurrency=1, run=fails)
    assert "made again" not in capsys.readouterr().err
    second = await run_jobs(jobs(5), output=output, concurrency=1, run=costing(0.1))
    assert [each.outcome for each in second.evaluations] == ["scored"] * 5
    assert "evalstream: making 5 evaluations again that failed in an earlier run\n" in capsys.readouterr().err
    third = await run_jobs(jobs(5), output=output, concurrency=1, run=fails)
    for each in (second, third):
        costs = [one.cost_usd for one in summarize(each.evaluations, each.failed_before).values()]
        assert costs == [pytest.approx(1.5)], "the unreadable replies were paid, and their cost left out"
    assert "made again" not in capsys.readouterr().err


async def test_a_later_run_goes_on_from_the_output(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    first = await run_jobs(jobs(5, 0.1), output=output, concurrency=1, run=costing(0.1), max_usd=0.25)
    second = await run_jobs(jobs(5, 0.1), output=output, concurrency=1, run=costing(0.1))
    assert (len(first.evaluations), first.left) == (2, 3)
    assert (len(second.evaluations), second.left) == (5, 0)
    assert second.spent_usd == pytest.approx(0.3)
    assert len(output.read_text().splitlines()) == 5


async def test_a_limit_leaves_a_random_part_and_a_later_run_goes_on_with_it(tmp_path: Path) -> None:
    """The first cases were judged: of a log the oldest, whose difference was twice that of all."""

    async def made(output: Path, limit: float) -> list[int]:
        run = await run_jobs(jobs(100, 0.1), output=output, concurrency=1, run=costing(0.1), max_usd=limit)
        return [int(str(each.subject.turn_id)[1:]) for each in run.evaluations]

    whole = await made(tmp_path / "whole.jsonl", 4.05)
    assert len(whole) == 40
    assert 35 < sum(whole) / 40 < 65, "the mean of all is 49.5, that of the first 40 is 19.5"
    first = await made(tmp_path / "parts.jsonl", 2.05)
    assert (first, await made(tmp_path / "parts.jsonl", 2.05)) == (whole[:20], whole)


async def test_a_later_run_judges_changed_answers_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second push of a pull request had the scores of the first one, as its answers had the same ids."""
    output, judge = tmp_path / "out.jsonl", ScriptedJudge("never asked")

    async def scores_of(answers: str, run: Callable[..., Any]) -> tuple[list[float | None], str]:
        turns = [Turn(turn_id=f"t{n}", input="a", actual_output=answer) for n, answer in enumerate(answers)]
        made = await run_jobs(
            list(jobs_of(turns, [Assignment(RATED, judge, RATED.version)])), output=output, concurrency=1, run=run
        )
        assert made.failed_before == (), "of another content"
        return [one.score for one in made.evaluations], capsys.readouterr().err

    async def fails(*_: Any, now: Callable[[], Any]) -> Result:
        outcome = Failure(type="judge_timeout", message="no answer")
        return Result(outcome=outcome, judge=None, usage=None, cost_usd=0.2, started_at=now(), ended_at=now())

    assert await scores_of("xyz", scoring(0.9)) == ([0.9, 0.9, 0.9], "")
    scores, note = await scores_of("xyw", scoring(0.1))
    assert scores == [0.9, 0.9, 0.1]
    changed = "; making 1 evaluation again, because cases have changed since"
    assert note == f"evalstream: taking 2 evaluations from {output}{changed}\n"
    scores, note = await scores_of("xyw", scoring(0.5))
    assert (scores, note) == ([0.9, 0.9, 0.1], f"evalstream: taking 3 evaluations from {output}\n")
    assert len(output.read_text().splitlines()) == 4
    assert (await scores_of("xyv", fails))[0] == [0.9, 0.9, None]
    assert (await scores_of("xyw", scoring(0.2)))[0] == [0.9, 0.9, 0.2], "its earlier score came before the failure"
    noted = output.read_text()
    assert noted.count('"case_digest"') == len(noted.splitlines())
    output.write_text(re.sub(r'"case_digest":"\w+"', "", noted))
    assert (await scores_of("xyw", scoring(0.3)))[0] == [0.3] * 3, "a line without the content says nothing of it"


async def test_a_later_run_goes_on_from_a_line_that_a_kill_cut(tmp_path: Path) -> None:
    """It ended in a traceback: what had failed was read before the rest of the line was cut off."""
    output = tmp_path / "out.jsonl"
    await run_jobs(jobs(3, 0.1), output=output, concurrency=1, run=costing(0.1))
    output.write_bytes(output.read_bytes()[:-20])
    made = await run_jobs(jobs(3, 0.1), output=output, concurrency=1, run=costing(0.1))
    assert (len(made.evaluations), made.spent_usd) == (3, pytest.approx(0.1))
    output.write_text('{"no": "evaluation"}\n')
    with pytest.raises(ConfigError, match="line 1: not an evaluation; name another file with --output"):
        await run_jobs(jobs(3, 0.1), output=output, concurrency=1, run=costing(0.1))


def test_the_turns_of_a_file_that_do_not_say_when_they_started_come_last_as_in_the_service() -> None:
    """The service receives them at once, when those have started that say so."""
    document: dict[str, Any] = {
        "conversation_id": "c",
        "turns": [{"turn_id": each, "input": "q"} for each in ("t-9", "t-10", "t-1")],
    }
    document["turns"][1]["started_at"] = "2026-01-02T03:04:05Z"
    solved = Completeness(name="solved")
    [job] = jobs_of(turns_in(document), [Assignment(solved, NoJudge(), solved.version)])
    case = job.case()
    assert isinstance(case, Conversation)
    assert [turn.turn_id for turn in case.turns] == ["t-10", "t-9", "t-1"]


def test_the_content_of_a_case_is_digested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each evaluator digested it anew, whole conversations too."""
    digested = list[object]()

    def counted(case: Turn | Conversation) -> str:
        digested.append(case)
        return "digest"

    for module in ("commands.score.score", "evaluate.job_builder"):
        monkeypatch.setattr(f"collector.{module}.digest_of", counted)
    turn = Turn(turn_id="t", conversation_id="c", input="a", actual_output="b")
    judge, whole = ScriptedJudge("never asked"), Completeness(name="whole")
    used = [Assignment(of, judge, of.version) for of in (RATED, RATED, whole, whole)]
    made = list(jobs_of([turn], used))
    assert [each.attributes["case_digest"] for each in made] == ["digest"] * 4
    assert len(digested) == 2, "the turn, and its conversation"


async def test_a_later_run_by_other_steps_of_the_judge_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One mean had scores by the steps of both runs, and nothing said so."""
    output = tmp_path / "out.jsonl"
    written = GEval(name="written", criteria="Is it right?", evaluation_params=["input", "actual_output"])
    turns = [Turn(turn_id=f"t{n}", input="a", actual_output="b") for n in range(4)]

    async def run_by(steps: str, max_usd: float | None = None) -> str:
        def answer(_prompt: Prompt, reply: type[BaseModel]) -> dict[str, Any]:
            return {"steps": [steps]} if "steps" in reply.model_fields else {"reason": "r", "score": 5}

        judge = DefinitionCache(ScriptedJudge(answer, cost_usd=0.1))
        made = list(jobs_of(turns, [Assignment(written, judge, written.version, expected_usd=0.2)]))
        async with guarded_run(configured(), from_logs=False) as run:
            await run_jobs(made, output=output, concurrency=1, run=run, max_usd=max_usd)
        return capsys.readouterr().err

    assert "steps" not in await run_by("Look.", 0.25)
    assert 0 < len(output.read_text().splitlines()) < len(turns)
    half = output.read_bytes()
    assert "steps" not in await run_by("Look."), "a log has kept them"
    output.write_bytes(half)
    assert f"evalstream: written: the scores in {output} are by several lists of evaluation steps" in await run_by(
        "Weigh."
    )


async def test_scores_of_an_earlier_run_pass_by_the_present_threshold(tmp_path: Path) -> None:
    output, strict = tmp_path / "scores.jsonl", [Turn(turn_id="t", input="a", actual_output="b")]
    for threshold, passed in ((0.5, True), (None, None), (0.9, True)):
        rated = RATED.model_copy(update={"threshold": threshold})
        asked = jobs_of(strict, [Assignment(rated, ScriptedJudge("never asked"), rated.version)])
        made = await run_jobs(list(asked), output=output, concurrency=1, run=costing(0.0))
        assert [each.passed for each in made.evaluations] == [passed]
    assert len(output.read_text().splitlines()) == 1


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv"])
async def test_a_pack_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Of a run that was killed in between the file had a part of it, and the rest was asked for as another pack."""
    output = tmp_path / name
    sizes: list[int] = []

    class Watched(Evaluation):
        """Notes how long the file is whenever one is looked at to be written."""

        def __getattribute__(self, name: str) -> Any:
            if name in {"subject", "outcome"}:
                sizes.append(output.stat().st_size)
            return super().__getattribute__(name)

    def watched(*arguments: Any) -> Evaluation:
        made = evaluation_of(*arguments)
        return Watched(**{each.name: getattr(made, each.name) for each in fields(made)})

    monkeypatch.setattr(runner, "evaluation_of", watched)
    evaluators = [RATED.model_copy(update={"name": name}) for name in "abc"]
    turn = Turn(turn_id="t", input="a", actual_output="b")
    judge = ScriptedJudge("never asked")
    pack = [Assignment(each, judge, each.version, pack=("a", "b", "c")) for each in evaluators]
    made = await run_jobs(list(jobs_of([turn], pack)), output=output, concurrency=1, run=costing(0.0))
    assert len(made.evaluations) == 3
    assert output.stat().st_size > max(sizes)
    assert len(set(sizes)) == 1


def test_an_allowance_sets_aside_what_is_under_way() -> None:
    spend_limit = SpendLimit(0.25)
    one, two, three = jobs(3, 0.1)
    assert spend_limit.reserve([one])
    assert spend_limit.reserve([two])
    assert not spend_limit.reserve([three])
    spend_limit.settle(one, 0.0)
    assert spend_limit.reserve([three])


async def test_a_limit_below_one_evaluation_is_no_run_to_resume(tmp_path: Path) -> None:
    """It said to run the same command again, which made nothing each time."""
    output, run = tmp_path / "out.jsonl", costing(0.1)
    for limit, message in (
        (0.05, "--max-usd 0.05 must be above 0.10 USD, the price of the next evaluation: 0 of 3 evaluations done"),
        (0.15, f"--max-usd 0.15 pays for no more: 1 of 3 evaluations done; run the same command again to resume from {output}"),
    ):  # fmt: skip
        made = await run_jobs(jobs(3, 0.1), output=output, concurrency=1, run=run, max_usd=limit)
        assert limit_message(made, limit, output) == message


def test_a_limit_in_dollars_needs_prices() -> None:
    require_prices(configured(), ["priced"])
    with pytest.raises(
        ConfigError, match=r"--max-usd: the price of judge main is unknown; write judges\.main\.usd_per"
    ):
        require_prices(configured(), ["main", "priced"])


@pytest.mark.parametrize(("redact", "shown"), [({}, False), ({"enabled": False}, True)])
async def test_a_judge_sees_what_the_service_would_show_it(redact: dict[str, Any], *, shown: bool) -> None:
    judge = ScriptedJudge({"reason": "fine", "score": 7})
    turn = Turn(turn_id="t", input="Write to jane.doe@example.org", actual_output="Done.")
    async with guarded_run(configured(redact=redact), from_logs=False) as run:
        result = await run(RATED, turn, judge, now=utc_now)
    assert isinstance(result.outcome, Score), result.outcome
    assert ("jane.doe@example.org" in judge.questions[0].message) == shown


LEAK = Regex(name="leak", pattern=r"[\w.]+@[\w.]+\w")
PSEUDONYM = Regex(name="pseudonym", pattern="<EMAIL_[a-z2-7]{8}>")


async def test_evaluators_in_code_score_the_same_as_in_the_service() -> None:
    """There texts are redacted before they are stored: a search for addresses was 1 in one place and 0 in the other."""
    document = {"turn_id": "t", "input": "Who?", "actual_output": "Ask jane.doe@example.org."}
    redactor = open_redactor(RedactSettings(), lambda _kind, _count: None, lambda: None)
    assert redactor is not None
    [stored] = turns_in(redact_document(document, redactor), "here")
    scores: dict[str, list[float]] = {}
    for settings in ({}, {"enabled": False}):
        config = configured(redact=settings)
        for turn, from_logs in ((Turn(**document), False), (stored, True)):
            async with guarded_run(config, from_logs=from_logs) as run:
                for evaluator in (LEAK, PSEUDONYM):
                    outcome = (await run(evaluator, turn, NoJudge(), now=utc_now)).outcome
                    assert isinstance(outcome, Score)
                    scores.setdefault(f"{evaluator.name} {settings}", []).append(outcome.value)
    assert scores["leak {}"] == [0.0, 0.0]
    assert scores["pseudonym {}"] == [1.0, 1.0]
    assert scores["leak {'enabled': False}"][0] == 1.0
