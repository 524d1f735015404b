"""The formulas in `deploy/docs` give the page's figures to the last digit, computed from scores alone."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from evaluation_samples import scored

from collector.calibration.agreement_watch import people_sums
from collector.calibration.labels import HumanLabel
from collector.commands.calibrate.calibrate import mean_by_people
from collector.commands.score.score import summarize
from collector.page.api import PageApi
from collector.page.label_queue import LabelQueueSettings, draw
from collector.page.requests import Filters
from collector.page.settings import PageSettings
from collector.page.sources import Sources
from collector.page.view import EvaluatorView, View
from collector.statistics.audited_sums import CorrectedMean, corrected_by_people
from collector.statistics.certificate import JudgedVerdict, VerdictPair, certify
from collector.statistics.correction import WeightedScore
from evaluators.results import Evaluation, Sampling

NEW = datetime(2030, 1, 1, tzinfo=UTC)
DOCS = Path(__file__).parents[3] / "deploy/docs"


def beta() -> Any:
    """scipy's distribution; to import it takes half a second, which each process would spend that collects this module."""
    from scipy.stats import beta

    return beta


def stated(page: str, after: str) -> str:
    """The indented lines of code that follow these words on a page."""
    block = re.search(r"\n\n((?:    .+\n)+)", (DOCS / page).read_text().partition(after)[2])
    assert block is not None
    return re.sub(r"^    ", "", block[1], flags=re.MULTILINE)


def by_statement(page: str, after: str, **given: Any) -> dict[str, Any]:
    names = {"beta": beta(), "sqrt": math.sqrt} | given
    exec(stated(page, after), names)
    return names


def interval_of(**given: Any) -> list[float]:
    names = by_statement("alerts.md", "Errors and intervals", **given)
    return [names["low"], names["high"]]


def judged(number: int, score: float, conversation: int, seconds: float = 0.0, **changes: Any) -> Evaluation:
    subject = replace(scored().subject, conversation_id=f"c{conversation}")
    return scored(number, subject=subject, score=score, ended_at=NEW + timedelta(seconds=seconds), **changes)


def shown(evaluations: list[Evaluation], **changes: Any) -> dict[str, Any]:
    """The last hour of these evaluations, as the page's API has it."""
    view = View([EvaluatorView(monitor="helpdesk", evaluator="answers_question", **changes)])
    for number, evaluation in enumerate(evaluations):
        view.add_evaluation(evaluation, 0, number, evaluation.time.timestamp())
    overview = PageApi(view, PageSettings(), Sources()).overview(Filters(range="1h"), NEW.timestamp() + 3500.0)
    return overview["tracks"][0]["whole"]


def totals(evaluations: list[Evaluation]) -> np.ndarray:
    """The sums of weights, and of weights times scores, by conversation."""
    sums = defaultdict[str, list[float]](lambda: [0.0, 0.0])
    for evaluation in evaluations:
        weight = 1.0 / evaluation.sampling.probability
        of = sums[evaluation.subject.conversation_id]
        of[0], of[1] = of[0] + weight, of[1] + weight * (evaluation.score or 0.0)
    return np.array(list(sums.values()))


def fractional(number: int = 20) -> list[Evaluation]:
    """Scores of 0.6 and 0.1, two in most conversations and never two bad ones; some are sampled."""
    return [
        judged(each, 0.1 if each % 5 == 0 else 0.6, each * 11 // 20, sampling=Sampling(probability=1 - each % 3 / 4))
        for each in range(number)
    ]


@pytest.mark.parametrize("number", [3, 20, 130])
def test_the_interval_of_a_mean_is_that_of_the_stated_formula(number: int) -> None:
    evaluations = fractional(number)
    a, b = totals(evaluations).T
    expected = interval_of(a=a, b=b, k=len(a))
    assert shown(evaluations)["interval"] == pytest.approx(expected, abs=1e-9)
    equal = [replace(each, sampling=Sampling(probability=1.0)) for each in evaluations]
    a, b = totals(equal).T
    expected = interval_of(a=a, b=b, k=len(a))
    assert summarize(equal)["answers_question"].interval == pytest.approx(expected, abs=1e-9)


def test_of_passes_alone_it_is_the_stated_limit() -> None:
    low, high = shown([judged(number, 1.0, number) for number in range(5)])["interval"]
    assert (low, high) == (pytest.approx(0.05 ** (1 / 5)), 1.0)
    assert "`0.05**(1/n)`" in (DOCS / "alerts.md").read_text()


def test_scores_of_a_conversation_that_are_apart_count_as_stated() -> None:
    assert "`exp(-t / 12 h)`" in (DOCS / "alerts.md").read_text()
    rng = Random(1)
    turns = [(conversation, 1500.0 * turn) for conversation in range(12) for turn in range(conversation % 3 + 1)]
    turns.sort(key=lambda each: each[1])
    evaluations = [judged(n, rng.choice((0.2, 0.7, 0.9)), *turn) for n, turn in enumerate(turns)]
    scores = [each.score or 0.0 for each in evaluations]
    mean, total = math.fsum(scores) / len(scores), float(len(scores))
    pairs = [
        (math.exp(-abs(t - s) / 43200.0), (scores[i] - mean) * (scores[j] - mean))
        for i, (one, t) in enumerate(turns)
        for j, (other, s) in enumerate(turns)
        if one == other
    ]
    n, k = total**2 / math.fsum(near for near, _ in pairs), 12
    v = math.fsum(near * product for near, product in pairs) / total**2 * k / (k - 1)
    trials = n * (n + 3) / (n**2 * v / (mean * (1 - mean)) + 3)
    expected = [
        beta().ppf(0.025, mean * trials, (1 - mean) * trials + 1), beta().ppf(0.975, mean * trials + 1, (1 - mean) * trials)
    ]  # fmt: skip
    assert shown(evaluations)["interval"] == pytest.approx(expected, abs=1e-9)


def audited(number: int, rng: Random) -> Evaluation:
    """An evaluation in one of 200 conversations of two turns; a quarter has an audit by a judge that is stricter."""
    cheap = rng.choice((0.3, 0.6, 0.9))
    noted = {"probability": 0.25, "version": "a", "score": max(0.0, cheap - rng.choice((0.0, 0.0, 0.3)))}
    details = {"audit": noted} if rng.random() < 0.25 else {}
    return judged(number, cheap, number // 2, details=details, sampling=Sampling(probability=0.5 + number // 2 % 2 / 2))


def test_the_mean_by_audits_its_error_and_lambda_are_those_of_the_stated_formula() -> None:
    rng = Random(2)
    evaluations = [audited(number, rng) for number in range(400)]
    sums = defaultdict[str, list[float]](lambda: [0.0] * 5)
    for each in evaluations:
        weight, x, audit = 1.0 / each.sampling.probability, each.score or 0.0, each.details.get("audit", {})
        drawn = weight / audit["probability"] if audit else 0.0
        more = (weight, weight * x, drawn, drawn * x, drawn * audit.get("score", 0.0))
        of = each.subject.conversation_id
        sums[of] = list(map(float.__add__, sums[of], more))
    names = zip(("w", "wx", "a", "ax", "ay"), np.array(list(sums.values())).T, strict=True)
    by_hand = by_statement("judges.md", "`w`: weights", **dict(names))
    corrected = shown(evaluations, audit_version="a")["corrected"]
    assert corrected["mean"] == pytest.approx(by_hand["mean"], abs=1e-9)
    assert corrected["audits"] == pytest.approx(by_hand["n"], abs=1e-9)
    n, m, v = by_hand["n"], by_hand["mean"], by_hand["error"] ** 2
    trials = n * (n + 3) / (n**2 * v / (m * (1 - m)) + 3)
    expected = beta().ppf(0.025, m * trials, (1 - m) * trials + 1), beta().ppf(0.975, m * trials + 1, (1 - m) * trials)
    assert corrected["interval"] == pytest.approx(expected, abs=1e-9)


def by_people(**given: Any) -> dict[str, Any]:
    return by_statement("page.md", "## The mean by people", minimum=np.minimum, **given)


def test_the_mean_by_people_is_that_of_the_stated_formula() -> None:
    """Labels of a part of 300 turns, two of each conversation."""
    rng = Random(3)
    scores = [WeightedScore(rng.choice((0.3, 0.6, 0.9)), 1.0 + turn // 2 % 2, f"c{turn // 2}") for turn in range(300)]
    labels = [
        HumanLabel(one.score, float(rng.random() < one.score), "all", one.weight, 0.4, name=str(turn),
                   conversation=one.conversation)
        for turn, one in enumerate(scores) if rng.random() < 0.4
    ]  # fmt: skip
    mean = mean_by_people(labels, scores)
    assert mean is not None
    w, wx, *labelled = (np.zeros(150) for _ in range(7))
    for turn, one in enumerate(scores):
        w[turn // 2] += one.weight
        wx[turn // 2] += one.weight * one.score
    for label in labels:
        here, drawn = int(label.conversation[1:]), label.weight / 0.4
        own = (drawn, drawn * label.judge, drawn * label.human, label.weight, label.weight * label.judge)
        for column, more in zip(labelled, own, strict=True):
            column[here] += more
    a, ax, ay, v, vx = labelled
    hand = by_people(w=w, wx=wx, a=a, ax=ax, ay=ay, v=v, vx=vx)
    expected = [hand[name] for name in ("mean", "error", "λ", "n")]
    assert [mean.mean, mean.error, mean.power, mean.audits] == pytest.approx(expected, abs=1e-9)


def test_the_audited_mean_that_people_correct_is_that_of_the_stated_formula() -> None:
    said = " ".join((DOCS / "page.md").read_text().split())
    [error] = re.findall(r"- `r` and `s` are 0 - the error is `(sqrt[^`]*)`", said)
    rng, share, drawn = Random(4), 0.25, 0.5
    labels = [
        HumanLabel(score := rng.choice((0.3, 0.6, 0.9)), float(rng.random() < score), "all", (1.0 + turn % 2) / share, drawn,
                   name=str(turn), conversation=f"c{turn // 2}")
        for turn in range(120)
    ]  # fmt: skip
    audited_mean = CorrectedMean(mean=0.55, error=0.02, power=0.9, audits=400.0, gain=1.5)
    mean = corrected_by_people(people_sums(labels, are_scored=False), audited_mean)
    assert mean is not None
    a, ax, ay = (np.zeros(60) for _ in range(3))
    for turn, label in enumerate(labels):
        weight = (1.0 + turn % 2) / share / drawn
        for column, more in ((a, weight), (ax, weight * label.judge), (ay, weight * label.human)):
            column[turn // 2] += more
    # z is the audited mean, and r, s are 0: the cheap judge's sums of all turns are those of one that never varies
    hand = by_people(w=np.ones(60), wx=np.full(60, 0.55), a=a, ax=ax, ay=ay, v=np.ones(60), vx=np.full(60, 0.55))
    assert np.allclose([hand["r"], hand["s"]], 0.0)
    expected = [hand["mean"], eval(error, {"sqrt": math.sqrt, "e": 0.02, **hand}), hand["λ"]]
    assert [mean.mean, mean.error, mean.power] == pytest.approx(expected, abs=1e-9)


def test_the_upper_limit_of_a_certificate_is_that_of_the_stated_formula() -> None:
    rng = Random(5)
    drawn = [(number // 2, rng.random() < 0.2, 1.0 + number // 2 % 3) for number in range(600)]
    verdicts = [JudgedVerdict(fails, weight, f"c{row}") for row, fails, weight in drawn]
    labels = [
        (row, VerdictPair(fails, rng.random() < (0.4 if fails else 0.05), weight / 0.3, f"c{row}"))
        for row, fails, weight in drawn if rng.random() < 0.3
    ]  # fmt: skip
    certificate = certify([label for _, label in labels], verdicts, 0.05)
    scores, labelled, failed = (np.zeros((300, 2)) for _ in range(3))
    for row, fails, weight in drawn:
        scores[row, int(not fails)] += weight
    for row, label in labels:
        labelled[row, int(not label.judge_fails)] += label.weight
        failed[row, int(not label.judge_fails)] += label.weight * label.human_fails
    by_hand = by_statement("files-and-replay.md", "The rate is certain", W=scores, A=labelled, B=failed)
    assert certificate.upper == pytest.approx(by_hand["upper"], abs=1e-7)
    assert certificate.rate == pytest.approx(by_hand["q"] @ by_hand["r"], abs=1e-9)


@pytest.mark.parametrize("audited", [0.0, 0.1])
@pytest.mark.parametrize(
    ("score", "details"), [(0.55, {}), (0.65, {}), (0.9, {"uncertainty": 0.3}), (0.1, {"disagreement": 0.4})]
)
def test_the_queue_draws_with_the_stated_probability(score: float, details: dict[str, Any], audited: float) -> None:
    settings = LabelQueueSettings(random=0.05, doubtful=0.9, audited=0.1)
    audit = {"audit": {"probability": 0.25, "version": "a", "score": 0.3}} if audited else {}
    probabilities = {
        found.probability
        for number in range(200)
        if (found := draw(judged(number, score, number, details=details | audit), 0.5, settings)) is not None
    }
    known = {"uncertainty": 0.0, "disagreement": 0.0} | details
    by_hand = by_statement(
        "page.md", "An answer's doubt", score=score, threshold=0.5, random=0.05, doubtful=0.9, audited=audited, **known
    )
    assert list(probabilities) == [pytest.approx(by_hand["probability"], abs=1e-12)]
