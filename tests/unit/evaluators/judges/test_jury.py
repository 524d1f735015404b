import pytest

from evaluators.catalogue import load_evaluators
from evaluators.errors import JudgeRejected, JudgeUnavailable
from evaluators.evaluation import evaluate
from evaluators.judge import Prompt
from evaluators.judges.jury import Jury
from evaluators.mechanisms.rating import hash_of_steps
from evaluators.results import Failure, Skipped
from evaluators.scale import Scale
from evaluators.testing import ScriptedJudge, a_moment, a_turn
from tests.builders.judges import verdict_tokens


def judges(*scores):
    """Judges with these scores of 0 to 10, or errors."""
    return [
        ScriptedJudge(
            s if isinstance(s, Exception) else {"reason": f"says {s}", "score": s}, model=f"m{n}", cost_usd=0.5
        )
        for n, s in enumerate(scores)
    ]


def g_eval(**fields):
    return load_evaluators()["g_eval"](
        name="g", evaluation_steps=["Look."], evaluation_params=["actual_output"], **fields
    )


async def result_of(panel, evaluator=None, turn=None):
    return await evaluate(evaluator or g_eval(), turn or a_turn(), panel, now=a_moment)


@pytest.mark.parametrize(
    ("combine", "scores", "value"),
    [
        ("mean", (2, 4, 9), 0.5),
        ("median", (2, 4, 9), 0.4),
        ("median", (2, 4), 0.3),
        ("majority", (2, 6, 9), 1.0),
        ("majority", (2, 4, 9), 0.0),
        ("majority", (2, 9), 0.0),
        ("majority", (2, 5, 5), 1.0),  # half is enough where no threshold says otherwise
    ],
)
async def test_scores_become_one(combine, scores, value):
    outcome = (await result_of(Jury(judges(*scores), combine=combine))).outcome
    assert outcome.value == pytest.approx(value)
    assert outcome.details["disagreement"] == pytest.approx((max(scores) - min(scores)) / 10)
    assert [each["score"] for each in outcome.details["judges"]] == [score / 10 for score in scores]


async def test_majority_goes_by_the_threshold():
    outcome = (await result_of(Jury(judges(6, 6, 9), combine="majority"), g_eval(threshold=0.8))).outcome
    assert (outcome.value, outcome.label) == (0.0, "fail")


async def test_majority_where_lower_is_better():
    toxicity = load_evaluators()["toxicity"](name="t", threshold=0.2)

    def member(verdict):
        def answer(_prompt, reply):
            if "items" in reply.model_fields:
                return {"items": ["you"]}
            return {"verdicts": [{"reason": "r", "verdict": verdict}]}

        return ScriptedJudge(answer)

    calm = (await result_of(Jury([member("no"), member("no"), member("yes")], combine="majority"), toxicity)).outcome
    assert (calm.value, calm.label) == (0.0, "pass")


def weighing(score):
    """A judge that gives token probabilities."""
    return ScriptedJudge(verdict_tokens(str(score), {str(score): 1.0}))


async def test_the_method_is_that_of_all_or_none():
    [one, two] = judges(4, 6)
    assert (await result_of(Jury([one, two]))).outcome.method == "single"
    assert (await result_of(Jury([weighing(4), weighing(6)]))).outcome.method == "logprobs"
    assert (await result_of(Jury([weighing(4), two]))).outcome.method == "single"
    assert (await result_of(Jury([one, weighing(6)]))).outcome.method == "single"


async def test_the_raw_score_is_on_the_evaluators_own_scale():
    outcome = (await result_of(Jury(judges(2, 5), combine="mean"), g_eval(scale=(1, 5)))).outcome
    assert (outcome.value, outcome.raw_score, outcome.range) == (0.625, 3.5, (1.0, 5.0))


async def test_the_explanation_is_that_of_the_closest():
    outcome = (await result_of(Jury(judges(1, 5, 9), combine="mean"))).outcome
    assert outcome.explanation == "says 5"


async def test_one_judge_down_is_on_record():
    outcome = (await result_of(Jury(judges(4, JudgeUnavailable("down"), 6), combine="mean"))).outcome
    assert outcome.value == pytest.approx(0.5)
    assert outcome.details["judges"][1] == {"model": "m1", "error": "judge_unavailable"}


async def test_the_steps_that_each_member_wrote_are_on_record():
    """Without them no comparison noticed that a jury's members had written others."""
    steps = [{"steps": [f"Look {n}."]} for n in range(2)]
    panel = [ScriptedJudge([own, {"reason": "r", "score": 5}], model=own["steps"][0]) for own in steps]
    evaluator = load_evaluators()["g_eval"](name="g", criteria="Good?", evaluation_params=["actual_output"])
    outcome = (await result_of(Jury(panel), evaluator)).outcome
    assert [each["steps_hash"] for each in outcome.details["judges"]] == [hash_of_steps(own["steps"]) for own in steps]


async def test_without_a_quorum_there_is_no_score():
    down = JudgeUnavailable("down")
    outcome = (await result_of(Jury(judges(4, down, down)))).outcome
    assert outcome == Failure(
        type="judge_unavailable", message="1 of 3 judges came to a score, 2 are needed: judge_unavailable"
    )
    mixed = (await result_of(Jury(judges(4, down, JudgeRejected("no"))))).outcome
    assert mixed.type == "panel_without_quorum"


async def test_a_quorum_of_ones_own():
    down = JudgeUnavailable("down")
    assert (await result_of(Jury(judges(4, down, down), quorum=1))).outcome.value == 0.4


async def test_the_bill_and_the_stamp_are_those_of_all():
    result = await result_of(Jury(judges(4, 5, 6)))
    assert (result.usage.calls, result.cost_usd) == (3, 1.5)
    assert result.judge.model == "median(m0, m1, m2)"
    assert result.judge.prompt_hash is not None


async def test_a_case_that_is_skipped_is_skipped_by_all():
    outcome = (await result_of(Jury(judges(4, 5)), turn=a_turn(incomplete="redacted"))).outcome
    assert outcome == Skipped(reason="incomplete: redacted")


async def test_a_panel_answers_no_single_question():
    with pytest.raises(JudgeRejected):
        await Jury(judges(1, 2)).ask(Prompt("Judge."), Scale(0, 1).reply)


@pytest.mark.parametrize(("members", "quorum"), [(1, None), (2, 3), (2, 0)])
def test_panels_that_make_no_sense(members, quorum):
    with pytest.raises(ValueError):
        Jury(judges(*range(members)), quorum=quorum)
