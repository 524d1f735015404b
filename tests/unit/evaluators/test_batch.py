"""Many evaluations at once: their order, their number at a time, and the file that a later run resumes from."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluators import Completeness, ExactMatch, GEval, Turn, evaluate_many
from evaluators.batch import MONITOR, attempts_in, results_of
from evaluators.cases import Conversation
from evaluators.errors import JudgeUnavailable
from evaluators.identity import evaluation_id_of
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.progress import progress_bar
from evaluators.testing import ScriptedJudge, a_conversation, a_moment, a_turn, answer_any_form

GOOD = GEval(name="good", evaluation_steps=("Look.",), evaluation_params=("actual_output",))
EXACT = ExactMatch(name="exact")
TURNS = [Turn(input=f"{number}?", actual_output=f"It is {number}.", expected_output="It is 1.") for number in range(4)]


async def test_each_case_by_each_evaluator_of_its_scope_in_order() -> None:
    judge = ScriptedJudge(answer_any_form())
    cases = [TURNS[0], a_conversation(("Hi", "Hello")), TURNS[1]]
    made = await evaluate_many([GOOD, Completeness(name="complete"), EXACT], cases, judge, now=a_moment)
    assert [(each.evaluator, each.score) for each in made] == [
        ("good", 1.0), ("exact", 0.0), ("complete", 1.0), ("good", 1.0), ("exact", 1.0),
    ]  # fmt: skip
    assert {each.monitor for each in made} == {MONITOR}
    assert made[2].subject.conversation_id == "conversation-1"
    assert made[0].evaluation_id == evaluation_id_of(GOOD, TURNS[0], judge)
    assert made[1].evaluation_id == evaluation_id_of(EXACT, TURNS[0])


async def test_what_is_the_same_is_evaluated_once_and_given_twice() -> None:
    judge = ScriptedJudge(answer_any_form())
    made = await evaluate_many([GOOD], [TURNS[0], TURNS[1], TURNS[0]], judge)
    assert made[0] is made[2]
    assert len(judge.questions) == 2


async def test_steps_that_the_judge_writes_are_written_once() -> None:
    judge = ScriptedJudge(answer_any_form())
    await evaluate_many([GEval(name="steps", criteria="Good?", evaluation_params=("actual_output",))], TURNS, judge)
    assert len(judge.questions) == 1 + len(TURNS), "each case paid for its steps"


class CountingJudge:
    """Answers when all that may run are running, and remembers how many these were."""

    model = "counting"

    def __init__(self) -> None:
        self.running = self.most = 0
        self._inner = ScriptedJudge(answer_any_form())

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(10):
            await asyncio.sleep(0)
        self.running -= 1
        return await self._inner.ask(prompt, reply, logprobs=logprobs, samples=samples)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_so_many_run_at_a_time(concurrency: int) -> None:
    judge = CountingJudge()
    await evaluate_many(
        [GOOD], [Turn(actual_output=f"a {number}") for number in range(8)], judge, concurrency=concurrency
    )
    assert judge.most == concurrency


async def test_a_run_goes_on_where_an_earlier_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    first = await evaluate_many([GOOD], TURNS[:2], ScriptedJudge(answer_any_form(), model="m"), results=path)
    path.write_bytes(path.read_bytes() + b'{"evaluation_id": "cut o')
    judge = ScriptedJudge(answer_any_form(), model="m")
    again = await evaluate_many([GOOD], TURNS, judge, results=path)
    assert again[:2] == first
    assert len(judge.questions) == 2
    assert results_of(attempts_in(path)) == again
    assert len(path.read_bytes().splitlines()) == 4
    other = ScriptedJudge(answer_any_form(), model="another")
    await evaluate_many([GOOD], TURNS, other, results=path)
    assert len(other.questions) == 4, "another judge's evaluations are others"


async def test_changed_cases_are_evaluated_again(tmp_path: Path) -> None:
    """A case was known by its id alone, so a new answer had the score of the old one."""
    path = tmp_path / "results.jsonl"
    turns = [Turn(turn_id=f"t{number}", actual_output=f"It is {number}.") for number in range(3)]
    await evaluate_many([GOOD], turns, ScriptedJudge(answer_any_form(), model="m"), results=path)
    judge = ScriptedJudge(answer_any_form(), model="m")
    turns[1] = replace(turns[1], actual_output="It is five.")
    again = await evaluate_many([GOOD], turns, judge, results=path)
    assert len(judge.questions) == 1
    assert sorted(results_of(attempts_in(path)), key=lambda each: each.subject.id) == again
    assert len(path.read_bytes().splitlines()) == 4


async def test_the_version_of_an_evaluator_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each case computed it anew, which took longer than an evaluator that asks no judge."""
    computed, version = list[str](), ExactMatch.version.fget

    def counted(evaluator: ExactMatch) -> str:
        computed.append(evaluator.name)
        assert version is not None
        return version(evaluator)

    monkeypatch.setattr(ExactMatch, "version", property(counted))
    made = await evaluate_many([EXACT], TURNS)
    assert (len(made), computed) == (len(TURNS), ["exact"])


async def test_a_case_that_is_no_json_is_judged_in_each_run(tmp_path: Path) -> None:
    """One of them ended the whole call before anything was judged."""
    path = tmp_path / "results.jsonl"
    turns = [Turn(turn_id="cut", actual_output="a \ud83d"), Turn(turn_id="whole", actual_output="It is 1.")]
    for questions in (2, 1):
        judge = ScriptedJudge(answer_any_form(), model="m")
        await evaluate_many([GOOD], turns, judge, results=path)
        assert len(judge.questions) == questions


async def test_failures_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    down = ScriptedJudge(JudgeUnavailable("down"), model="m")
    assert [each.outcome for each in await evaluate_many([GOOD], TURNS, down, results=path)] == ["failed"] * 4
    again = await evaluate_many([GOOD], TURNS, ScriptedJudge(answer_any_form(), model="m"), results=path)
    assert [each.outcome for each in again] == ["scored"] * 4


async def test_an_interrupted_run_keeps_what_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    third = asyncio.Event()

    class Stuck(CountingJudge):
        async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
            self.running += 1
            if self.running == 3:
                third.set()
                await asyncio.Event().wait()
            return await self._inner.ask(prompt, reply, logprobs=logprobs, samples=samples)

    run = asyncio.create_task(evaluate_many([GOOD], TURNS, Stuck(), concurrency=1, results=path))
    await third.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(results_of(attempts_in(path))) == 2


NOTHING: Judge = ScriptedJudge("never")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "sentence"),
    [
        (([EXACT], [a_conversation(("a", "b"))]), {}, TypeError, "there is a conversation among the cases, and no evaluator of a conversation"),
        (([EXACT], [{"input": "a"}]), {}, TypeError, "cases are turns and conversations, not dict"),
        (([GOOD], [Turn(actual_output="a")]), {}, TypeError, "good asks a judge; give one, like OpenAIJudge(…)"),
        (([EXACT], TURNS, NOTHING), {"concurrency": 0}, ValueError, "concurrency: at least 1 is needed, not 0"),
    ],
)  # fmt: skip
async def test_mistakes_are_told_before_anything_runs(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        await evaluate_many(*arguments, **options)
    assert str(caught.value) == sentence


async def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    for text in (
        "Buy milk.\n",
        "Buy milk.\nBuy bread.",
        "Buy milk.",
    ):  # what stood after the last line's end was cut off
        path.write_text(text)
        with pytest.raises(ValueError, match=r"notes\.txt: line 1: not an evaluation; name another file"):
            await evaluate_many([EXACT], TURNS, results=path)
        assert path.read_text() == text


async def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        await evaluate_many([EXACT], TURNS, results=tmp_path / "missing" / "results.jsonl")


async def test_a_disk_that_is_full_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any, /) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("evaluators.batch.open", lambda *_arguments, **_options: Full(), raising=False)
    with pytest.raises(OSError, match="No space left on device"):
        await evaluate_many([EXACT], TURNS, results=tmp_path / "results.jsonl", concurrency=3)


async def test_the_bar_is_there_if_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    await evaluate_many([EXACT], TURNS)
    assert capsys.readouterr().err == "", "stderr is not a terminal"
    await evaluate_many([EXACT], TURNS, progress=True)
    assert "4/4" in capsys.readouterr().err
    assert progress_bar().disable


async def test_nothing_to_do() -> None:
    assert await evaluate_many([EXACT], []) == []


async def test_a_conversation_without_turns_is_skipped() -> None:
    (made,) = await evaluate_many([Completeness(name="complete")], [Conversation(turns=())], ScriptedJudge(""))
    assert (made.outcome, made.reason) == ("skipped", "missing_field: turns.actual_output, turns.input")


async def test_the_turns_of_tests_have_names() -> None:
    assert a_turn().turn_id == "turn-1"
