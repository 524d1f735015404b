"""A cascade: who is asked, what it costs, and a mean that is right."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from evaluators.answers.decided_answers import decided_answer
from evaluators.cases import Turn
from evaluators.errors import JudgeReplyInvalid, JudgeUnavailable
from evaluators.evaluation import evaluate
from evaluators.judge import Answer, Prompt, Verdict
from evaluators.judges.cascade import Cascade
from evaluators.judges.jury import Jury
from evaluators.packs.evaluate_pack import evaluate_pack
from evaluators.questions import Decision
from evaluators.results import Escalation, Failure, Score, Skipped, Usage
from evaluators.testing import ScriptedJudge, a_moment, a_turn
from evaluators.turn.g_eval import GEval


@dataclass
class Believer:
    """A judge that gives the highest score the probability that the answer's first word says, and counts questions."""

    model: str
    cost_usd: float = 0.001
    asked: list[Prompt] = field(default_factory=list[Prompt])
    belief: float | None = None
    takes_packs = True
    decides = True

    async def ask(self, prompt, reply, *, logprobs=False, samples=1):
        self.asked.append(prompt)
        belief = float(prompt.material["actual_output"].split()[0]) if self.belief is None else self.belief
        every = [question for group in prompt.groups for question in group.questions]
        decisions = [Decision({each.options[-1].value: belief, each.options[0].value: 1 - belief}) for each in every]
        usage = Usage(input_tokens=100, calls=1)
        if len(prompt.groups) > 1:
            answer = Answer(reply.model_construct(), "", decisions=tuple(decisions))
            return Verdict([answer], self.model, None, usage, self.cost_usd)
        return Verdict([decided_answer(reply, every, decisions)], self.model, None, usage, self.cost_usd)


def g_eval(name: str = "g") -> GEval:
    return GEval(name=name, evaluation_steps=("Look.",), evaluation_params=("actual_output",))


def turn(belief: float, number: int = 0) -> Turn:
    return a_turn(actual_output=f"{belief} is what it says", turn_id=f"turn-{number}")


def cascade(first: object = None, then: object = None, **settings: float) -> Cascade:
    return Cascade(first or Believer("cheap"), then or Believer("strong", 0.02, belief=0.0), **settings)  # type: ignore[arg-type]


async def test_a_sure_first_judge_is_all_that_is_asked():
    judge = cascade(share=0.0)
    result = await evaluate(g_eval(), turn(1.0), judge, now=a_moment)
    assert isinstance(result.outcome, Score)
    assert result.outcome.value == 1.0
    assert result.outcome.escalation == Escalation(reason="sure", probability=0.0, first_score=1.0, doubt=0.0)
    assert (result.cost_usd, judge.then.asked) == (0.001, [])
    assert result.judge is not None
    assert result.judge.model == "strong where cheap doubts (0.5, 0)"


async def test_in_doubt_the_second_judge_decides_and_both_are_paid():
    result = await evaluate(g_eval(), turn(0.8), cascade(share=0.0), now=a_moment)
    assert isinstance(result.outcome, Score)
    assert result.outcome.value == 0.0
    assert result.outcome.escalation == Escalation(
        reason="doubt", probability=1.0, first_score=0.8, doubt=pytest.approx(0.8)
    )  # 2 √(0.8 · 0.2)
    assert result.cost_usd == pytest.approx(0.021)
    assert result.usage == Usage(input_tokens=200, calls=2)


async def test_a_share_of_the_sure_is_drawn_the_same_ones_each_time():
    judge = cascade(share=0.3)
    drawn = []
    for _ in range(2):
        outcomes = [(await evaluate(g_eval(), turn(1.0, number), judge, now=a_moment)).outcome for number in range(400)]
        drawn.append([each.escalation.reason == "share" for each in outcomes])
        assert all(each.escalation.probability == 0.3 for each in outcomes)
        assert all(each.value == (0.0 if each.escalation.reason == "share" else 1.0) for each in outcomes)
    assert drawn[0] == drawn[1]
    assert 90 <= sum(drawn[0]) <= 150


async def test_a_first_judge_that_does_not_say_how_sure_it_is_decides_nothing():
    plain = ScriptedJudge({"reason": "so", "score": 8}, model="plain")
    result = await evaluate(g_eval(), turn(1.0), cascade(plain, share=0.0), now=a_moment)
    assert isinstance(result.outcome, Score)
    assert result.outcome.escalation == Escalation(reason="unknown", probability=1.0, first_score=0.8)
    assert result.outcome.value == 0.0


async def test_a_divided_jury_is_in_doubt():
    jury = Jury([Believer("a", belief=1.0), Believer("b", belief=0.0)], combine="mean")
    result = await evaluate(g_eval(), turn(1.0), cascade(jury, share=0.0), now=a_moment)
    assert isinstance(result.outcome, Score)
    assert result.outcome.escalation is not None
    assert (result.outcome.escalation.reason, result.outcome.escalation.doubt) == ("doubt", 1.0)


async def test_what_cannot_be_read_is_asked_again_and_an_outage_is_a_failure_not_a_bill():
    garbage = ScriptedJudge(JudgeReplyInvalid("no JSON", type="judge_reply_truncated"), model="m")
    judge = cascade(garbage, share=0.0)
    result = await evaluate(g_eval(), turn(1.0), judge, now=a_moment)
    assert isinstance(result.outcome, Score)
    assert result.outcome.escalation == Escalation(reason="unreadable", probability=1.0)
    judge = cascade(ScriptedJudge(JudgeUnavailable("down"), model="m"))
    result = await evaluate(g_eval(), turn(1.0), judge, now=a_moment)
    assert isinstance(result.outcome, Failure)
    assert (result.outcome.type, judge.then.asked) == ("judge_unavailable", [])


async def test_where_the_second_judge_fails_the_first_one_s_score_does_not_count():
    failing = ScriptedJudge(JudgeUnavailable("down"), model="m")
    result = await evaluate(g_eval(), turn(0.8), cascade(then=failing), now=a_moment)
    assert isinstance(result.outcome, Failure)
    assert result.cost_usd is None or result.cost_usd > 0


async def test_nobody_is_asked_where_there_is_nothing_to_judge():
    judge = cascade()
    skipped = await evaluate(g_eval(), a_turn(actual_output=None), judge, now=a_moment)
    assert isinstance(skipped.outcome, Skipped)
    trivial = await evaluate(g_eval(), a_turn(actual_output=" "), judge, now=a_moment)
    assert isinstance(trivial.outcome, Skipped | Score)
    assert getattr(trivial.outcome, "escalation", None) is None
    assert (judge.first.asked, judge.then.asked) == ([], [])


async def test_in_a_pack_each_judge_is_asked_together_by_those_who_need_it():
    names = ["a", "b", "c"]
    judge = cascade(share=0.5)
    seen = set()
    for number in range(20):
        results = await evaluate_pack([g_eval(name) for name in names], turn(1.0, number), judge)
        reasons = [each.outcome.escalation.reason for each in results]
        assert [each.outcome.value for each in results] == [0.0 if each == "share" else 1.0 for each in reasons]
        seen.add(reasons.count("share"))
    assert len(judge.first.asked) == 20  # one request for all three
    assert len(judge.then.asked) <= 20
    assert len(seen) > 1


@pytest.mark.parametrize("settings", [{"doubt": 1.5}, {"share": -0.1}])
def test_what_is_no_share_is_refused(settings):
    with pytest.raises(ValueError, match="lies between 0 and 1"):
        cascade(**settings)


def test_corrected_values():
    drawn = Escalation(reason="share", probability=0.05, first_score=1.0, doubt=0.1)
    assert drawn.corrected(1.0) == 1.0
    assert drawn.corrected(0.0) == -19.0
    assert Escalation(reason="sure", probability=0.05, first_score=0.9).corrected(0.9) == 0.9
    assert Escalation(reason="doubt", probability=1.0, first_score=0.9).corrected(0.2) == 0.2
    assert Escalation(reason="sure", probability=0.0, first_score=0.9).corrected(0.9) is None
