import asyncio

import pytest

from evaluators.errors import JudgeDenied, JudgeUnavailable
from evaluators.judge import Prompt
from evaluators.judges.definition_cache import DefinitionCache
from evaluators.results import Usage
from evaluators.scale import Scale
from evaluators.testing import ScriptedJudge

REPLY = Scale(0, 10).reply
CONSTANT = Prompt("Write steps.")


class Gated(ScriptedJudge):
    """Waits for its gate before it answers."""

    def __post_init__(self):
        super().__post_init__()
        self.gate = asyncio.Event()

    async def ask(self, prompt, reply, **options):
        await self.gate.wait()
        return await super().ask(prompt, reply, **options)


def counting(reason="so"):
    """Answers 1, 2, 3, …"""
    numbers = iter(range(1, 10))
    return lambda _prompt, _reply: {"reason": reason, "score": next(numbers)}


class Store:
    """Keeps the first text of each key; others may have written before."""

    def __init__(self, kept=()):
        self.kept = dict(kept)
        self.rival = None

    async def load(self, key):
        return self.kept.get(key)

    async def save(self, key, text):
        if self.rival is not None:
            self.kept.setdefault(key, self.rival)
        return self.kept.setdefault(key, text)


async def test_a_hundred_at_once_cause_one_question():
    inner = Gated(counting(), cost_usd=1.0)
    judge = DefinitionCache(inner)
    asking = [asyncio.create_task(judge.ask(CONSTANT, REPLY)) for _ in range(100)]
    await asyncio.sleep(0)
    inner.gate.set()
    verdicts = await asyncio.gather(*asking)
    assert len(inner.questions) == 1
    assert {verdict.reply.score for verdict in verdicts} == {1}
    assert sum(verdict.usage.calls for verdict in verdicts) == 1
    assert [verdict.cost_usd for verdict in verdicts].count(1.0) == 1


async def test_kept_answers_cost_nothing():
    judge = DefinitionCache(ScriptedJudge(counting(), cost_usd=1.0))
    await judge.ask(CONSTANT, REPLY)
    again = await judge.ask(CONSTANT, REPLY)
    assert (again.reply.score, again.usage) == (1, Usage())


async def test_a_question_with_material_is_always_asked():
    inner = ScriptedJudge(counting())
    judge = DefinitionCache(inner)
    for _ in range(2):
        await judge.ask(Prompt("Judge.", {"a": "b"}), REPLY)
    assert len(inner.questions) == 2


async def test_other_words_and_other_forms_are_other_questions():
    inner = ScriptedJudge(counting())
    judge = DefinitionCache(inner)
    await judge.ask(CONSTANT, REPLY)
    await judge.ask(CONSTANT, Scale(0, 9).reply)
    await judge.ask(Prompt("Write other steps."), REPLY)
    assert len(inner.questions) == 3


async def test_failures_are_not_kept():
    judge = DefinitionCache(ScriptedJudge([JudgeUnavailable("down"), {"reason": "so", "score": 4}]))
    with pytest.raises(JudgeUnavailable):
        await judge.ask(CONSTANT, REPLY)
    assert (await judge.ask(CONSTANT, REPLY)).reply.score == 4


async def test_a_failure_reaches_all_who_wait_and_bills_one():
    error = JudgeUnavailable("down")
    error.usage = Usage(calls=1)
    inner = Gated([error])
    judge = DefinitionCache(inner)
    asking = [asyncio.create_task(judge.ask(CONSTANT, REPLY)) for _ in range(3)]
    await asyncio.sleep(0)
    inner.gate.set()
    errors = await asyncio.gather(*asking, return_exceptions=True)
    assert sum(each.usage.calls for each in errors) == 1


async def test_one_who_gives_up_does_not_spoil_it_for_the_others():
    inner = Gated(counting())
    judge = DefinitionCache(inner)
    first, second = (asyncio.create_task(judge.ask(CONSTANT, REPLY)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    inner.gate.set()
    assert (await second).reply.score == 1
    assert first.cancelled()
    assert len(inner.questions) == 1


async def test_memory_is_bounded():
    inner = ScriptedJudge(counting())
    judge = DefinitionCache(inner, capacity=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await judge.ask(Prompt(text), REPLY)
    assert [asked.prompt.instructions for asked in inner.questions] == ["a", "b", "c", "b"]


async def test_answers_outlive_the_process():
    store = Store()
    await DefinitionCache(ScriptedJudge(counting()), store=store).ask(CONSTANT, REPLY)
    after = ScriptedJudge("never asked")
    verdict = await DefinitionCache(after, store=store).ask(CONSTANT, REPLY)
    assert (verdict.reply.score, len(after.questions)) == (1, 0)


async def test_the_first_to_be_saved_wins():
    store = Store()
    store.rival = '{"reason": "so", "score": 9}'
    judge = DefinitionCache(ScriptedJudge(counting(), cost_usd=1.0), store=store)
    verdict = await judge.ask(CONSTANT, REPLY)
    assert (verdict.reply.score, verdict.usage.calls, verdict.cost_usd) == (9, 1, 1.0)
    assert (await judge.ask(CONSTANT, REPLY)).reply.score == 9


async def test_a_kept_text_that_cannot_be_read_any_more_is_asked_for_again():
    store = Store()
    await DefinitionCache(ScriptedJudge(counting()), store=store).ask(CONSTANT, REPLY)
    store.kept = dict.fromkeys(store.kept, "old format")
    assert (await DefinitionCache(ScriptedJudge(counting()), store=store).ask(CONSTANT, REPLY)).reply.score == 1


async def test_closing_ends_what_nobody_waits_for():
    judge = DefinitionCache(Gated(counting()))
    asking = asyncio.create_task(judge.ask(CONSTANT, REPLY))
    await asyncio.sleep(0)
    await judge.aclose()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_denied_key_is_everybodys_who_waits():
    """Its error requires a remedy when it is made, so that it cannot be copied by calling its class."""

    class Denied(ScriptedJudge):
        async def ask(self, prompt, reply, **_settings):
            await asyncio.sleep(0)
            raise JudgeDenied("no", remedy="key")

    judge = DefinitionCache(Denied(""))
    results = await asyncio.gather(*(judge.ask(CONSTANT, REPLY) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in results] == [JudgeDenied] * 3
    assert {each.remedy for each in results} == {"key"}
