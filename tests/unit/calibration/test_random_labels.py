"""Agreement by drawn labels: its measures and intervals, why a mean is withheld, and the metrics of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from evaluation_samples import START, label

from collector.calibration.agreement_watch import (
    AgreementWatcher,
    labels_of_queue,
    people_sums,
    why_withheld,
)
from collector.calibration.labels import HumanLabel
from collector.export.segments import Dimension
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.page.label_queue import LabelQueueSettings
from collector.records.json import label_to_json
from collector.statistics import agreement
from collector.statistics.agreement import ScoreScale
from collector.statistics.audited_sums import (
    PEOPLE_WINDOW,
    SUM_NAMES,
    CorrectedMean,
    corrected_by_people,
    sums_of_scores,
)
from collector.statistics.bounded_sums import Sums
from collector.statistics.confusion import VerdictAgreement
from collector.telemetry.registry import Telemetry
from evaluators.results import Label, Sampling
from evaluators.turn.classifier import Classifier

SCALE = ScoreScale(0.5)
VERSION = ("answers_question", "0123456789ab")


def verdict_agreement(labels: list[HumanLabel], scale: ScoreScale) -> VerdictAgreement:
    return agreement.verdict_agreement([label.weighted() for label in labels], scale)


AUDITS = ("answers_question:audit", "dear")


def of(judge: bool, human: bool, number: int, *, probability: float = 0.5, **changes: object) -> HumanLabel:
    made = HumanLabel(float(judge), float(human), "m", 1.0, probability, float(number), "m", str(number))
    return replace(made, **changes)


def verdicts(*counts: int, **changes: object) -> list[HumanLabel]:
    """So many of: both pass, the judge alone, people alone, neither."""
    pairs = [(True, True), (True, False), (False, True), (False, False)]
    rows = [pair for pair, count in zip(pairs, counts, strict=True) for _ in range(count)]
    Random(1).shuffle(rows)
    return [of(judge, human, number, **changes) for number, (judge, human) in enumerate(rows)]


def test_the_measures_are_those_of_the_table() -> None:
    found = verdict_agreement(verdicts(60, 10, 5, 25), SCALE)
    assert found.number == pytest.approx(100)
    assert found.share.value == pytest.approx(0.85)
    assert found.share.low == pytest.approx(0.7672, abs=1e-4)  # Wilson's, by hand
    assert found.share.high == pytest.approx(0.9069, abs=1e-4)
    chance = 0.7 * 0.65 + 0.3 * 0.35
    assert found.kappa.value == pytest.approx((0.85 - chance) / (1 - chance))
    assert found.kappa.low == pytest.approx((found.share.low - chance) / (1 - chance))
    assert found.youden.value == pytest.approx(60 / 65 + 25 / 35 - 1)
    assert found.youden.low < found.youden.value < found.youden.high
    figures = found.verdicts.as_json()
    assert figures["accuracy"] == pytest.approx(0.85)
    assert figures["labels"]["bad"]["recall"] == pytest.approx(25 / 35)
    assert figures["labels"]["good"]["precision"] == pytest.approx(60 / 70)


def test_where_all_agree_that_is_not_certain_and_one_kind_alone_proves_nothing() -> None:
    assert 0.55 < verdict_agreement(verdicts(15, 0, 0, 15), SCALE).kappa.low < 0.8
    one_kind = verdict_agreement(verdicts(30, 0, 0, 0), SCALE)
    assert math.isnan(one_kind.kappa.value)
    assert math.isnan(one_kind.youden.low)
    assert verdict_agreement([], SCALE).number == 0
    lower = ScoreScale(0.5, lower_is_better=True)
    assert verdict_agreement(verdicts(15, 0, 0, 15), lower).kappa.value == pytest.approx(1.0)


def test_weights_and_conversations_count() -> None:
    """Doubtful ones are drawn ten times as often, and the judge is wrong there; ten of a conversation are one."""
    sure, doubtful = verdicts(50, 0, 0, 50, probability=0.05), verdicts(0, 50, 50, 0, probability=0.5)
    found = verdict_agreement(
        [*sure, *(replace(each, conversation=f"d{each.conversation}") for each in doubtful)], SCALE
    )
    assert found.share.value == pytest.approx(10 / 11)
    alone = [replace(each, conversation=str(number % 4)) for number, each in enumerate(verdicts(50, 0, 0, 50))]
    assert verdict_agreement(alone, SCALE).number == pytest.approx(4.0)
    assert verdict_agreement(alone, SCALE).kappa.low < 0.2


@pytest.mark.parametrize("size", [30, 100])
def test_the_lower_end_of_kappa_is_rarely_above_the_truth(size: int) -> None:
    """A judge that is right about 85 % of the answers, three quarters of which are good; half are overdrawn."""
    chance, above, runs = Random(3), 0, 400
    good, right = 0.75, 0.85
    passing = good * right + (1 - good) * (1 - right)
    by_chance = passing * good + (1 - passing) * (1 - good)
    truth = (right - by_chance) / (1 - by_chance)
    for _ in range(runs):
        labels = list[HumanLabel]()
        for number in range(size):
            human = chance.random() < good
            judge = human == (chance.random() < right)
            labels.append(of(judge, human, number, probability=chance.choice((0.1, 0.3))))
        low = verdict_agreement(labels, SCALE).kappa.low
        above += low > truth
    assert above / runs < 0.05  # 2.5 % are meant


def test_a_mean_is_withheld_of_few_labels_a_weak_judge_and_one_that_has_changed() -> None:
    good = verdicts(60, 10, 5, 25)
    assert why_withheld(good, SCALE) == ""
    assert why_withheld(good[:29], SCALE) == "few"
    assert why_withheld([], SCALE) == "few"
    assert why_withheld(verdicts(40, 20, 20, 10), SCALE) == "weak"
    assert why_withheld(verdicts(90, 0, 0, 0), SCALE) == "", "no bad answer: nothing says that the judge is weak"
    later = [replace(each, at=1000.0 + each.at, conversation=f"l{each.at}") for each in verdicts(20, 45, 0, 35)]
    assert why_withheld([*good, *later], SCALE) == "drift"
    same = [replace(each, at=1000.0 + each.at, conversation=f"s{each.at}") for each in good]
    assert why_withheld([*good, *same], SCALE) == ""


def test_a_mean_is_withheld_where_too_few_labels_are_of_scores_with_a_verdict() -> None:
    """Without a verdict there is no Youden's J, and the mean by a judge that guesses was shown as if it were sound."""
    by_label = ScoreScale(by_label=True)
    guessed = [replace(each, passed=None) for each in verdicts(20, 20, 20, 20)]
    assert why_withheld(guessed, by_label) == "undecided"
    assert why_withheld([*guessed[2:], *verdicts(1, 0, 0, 1, passed=True)], by_label) == "undecided"
    right = [replace(each, passed=each.judge == 1.0) for each in verdicts(6, 0, 0, 6)]
    alone = [replace(each, conversation=f"d{each.conversation}") for each in right]
    assert why_withheld([*guessed, *alone], by_label) == ""
    wrong = [replace(each, passed=not each.passed) for each in alone]
    assert why_withheld([*guessed, *wrong], by_label) == "weak"
    assert why_withheld(guessed, SCALE) == "weak", "where scores decide, all are verdicts"


def test_chance_alone_rarely_looks_like_a_drift() -> None:
    chance, drifted, runs = Random(9), 0, 300
    for _ in range(runs):
        labels = [
            of(human == (chance.random() < 0.8), human, number, probability=chance.choice((0.05, 0.3)))
            for number, human in enumerate(chance.random() < 0.7 for _ in range(80))
        ]
        drifted += why_withheld(labels, SCALE) == "drift"
    assert drifted <= 3


def test_sums_have_the_labels_alone_and_are_those_of_the_formula_with_the_scores() -> None:
    labels = labels_of_queue([*verdicts(30, 10, 10, 30), replace(of(True, False, 3), probability=None)])
    assert len(labels) == 80
    assert all(not value for name, value in zip(("w", "wx"), people_sums(labels).values[3:5], strict=True))
    mean = (
        people_sums(labels, are_scored=False) + sums_of_scores(Sums(1000.0, 700.0, 1000.0, 700.0, 700.0))
    ).corrected()
    by_audits = CorrectedMean(mean=0.7, error=math.sqrt(0.21 / 1000), power=1.0, audits=100.0, gain=1.0)
    by_mean = corrected_by_people(people_sums(labels, are_scored=False), by_audits)
    assert mean is not None
    assert by_mean is not None
    assert mean.mean == pytest.approx(by_mean.mean, abs=0.01)
    assert mean.error == pytest.approx(by_mean.error, rel=0.02)
    # people pass half; the judge passes half of these and 0.7 of all, and what it passes is right in three of four
    assert mean.mean == pytest.approx(0.5 + mean.power * 0.2, abs=0.01)
    assert mean.power == pytest.approx(0.5, abs=0.05)


def drawn_label(number: int, *, tier: str, right: bool, at: float, audited: bool) -> Label:
    judge = number % 2 == 0
    return label(
        label_id=f"{number:032x}",
        evaluation_id=f"{number:032x}",
        subject=replace(label().subject, conversation_id=str(number)),
        judge_score=0.9 if judge else 0.1,
        judge_passed=judge,
        opinion=None,
        score=float(judge == right),
        sampling=Sampling(),
        label_probability=0.5,
        given_at=START + timedelta(seconds=at),
        attributes={"tier": tier},
        audit={"score": float(judge == right), "probability": 0.5, "version": "dear"} if audited else None,
    )


@pytest.mark.parametrize("by_segment", [False, True])
async def test_agreement_by_segment_and_sums_are_metrics(by_segment: bool) -> None:
    log, telemetry = MemoryLog("labels", partitions=1), Telemetry()
    now = START.timestamp() + 100.0
    watch = AgreementWatcher(
        log, {VERSION: SCALE}, telemetry, dimensions=[Dimension("tier", ("free", "paid"))], by_segment=by_segment,
        clock=lambda: now,
        logged=lambda: {(label().monitor, VERSION[0]): 1600.0, ("unlabelled", VERSION[0]): 8.0},
    )  # fmt: skip
    given = [
        drawn_label(number, tier="free" if number < 40 else "paid", right=number >= 40 or number % 4 > 1, at=number,
                    audited=False)
        for number in range(80)
    ]  # fmt: skip
    await log.append([Record(b"k", label_to_json(each), partition=0) for each in given])
    await watch.measure_changes()

    def value(name: str, **labels: str) -> float | None:
        names = {"evaluator": VERSION[0], "evaluator_version": VERSION[1], **labels}
        return telemetry.registry.get_sample_value(f"evalstream_people_{name}", names)

    assert value("labels") == pytest.approx(80)
    share = {"statistic": "share", "bound": "value"}
    assert value("agreement", **share) == pytest.approx(0.75)
    assert value("segment_agreement", segment="free", **share) == pytest.approx(0.5)
    assert value("segment_agreement", segment="paid", **share) == pytest.approx(1.0)
    low = value("segment_agreement", segment="paid", statistic="kappa", bound="low")
    assert low is not None
    assert 0.7 < low < 1
    by_people = {"evaluator": "answers_question:people", "monitor": given[0].monitor}
    whole = dict(zip(SUM_NAMES, watch.people[given[0].monitor, VERSION[0]].sums.values, strict=True))
    for name in ("a", "a_a", "a_ay"):
        sums = {each: value("sums", **by_people, segment=each, sum=name) for each in ("all", "free", "paid")}
        if by_segment:
            assert sums["all"] is None
            assert sums["free"]
            assert sums["paid"]
        else:  # a conversation whose labels lie in both segments counts once
            assert sums == {"all": pytest.approx(whole[name]), "free": None, "paid": None}
    assert whole["a"] == pytest.approx(2 * 80)
    assert value("sums", **by_people, segment="all", sum="logged") == 1600.0
    assert value("withheld", **by_people, reason="drift") == 1.0, "newer labels differ from older ones"
    now += PEOPLE_WINDOW
    await watch.measure_changes()
    assert value("withheld", **by_people, reason="few") == 1.0, "labels of a week ago"
    assert value("withheld", **by_people, reason="drift") is None
    assert value("agreement", **share) == pytest.approx(0.75)


async def test_a_score_whose_label_decides_nothing_is_in_no_agreement() -> None:
    """It counted as passed, on the page and in metrics, and nothing said so."""
    log, telemetry = MemoryLog("labels", partitions=1), Telemetry()
    watch = AgreementWatcher(log, {VERSION: ScoreScale(by_label=True)}, telemetry, clock=START.timestamp)
    given = [drawn_label(n, tier="x", right=n % 4 > 0, at=float(n), audited=False) for n in range(80)]
    without = [replace(each, judge_score=0.5, judge_passed=None) if n % 2 else each for n, each in enumerate(given)]
    await log.append([Record(b"k", label_to_json(each), partition=0) for each in without])
    await watch.measure_changes()
    assert watch.agreements[VERSION].number == pytest.approx(40)
    assert watch.agreements[VERSION].share.value == pytest.approx(0.5), "all that are wrong are among the 40"
    [people] = watch.people.values()
    [note] = people.notes
    assert note.startswith("Not used for measures of verdicts: 40 answers whose score has no verdict;")


async def test_an_evaluator_without_a_rule_for_passing_has_no_agreement_of_verdicts() -> None:
    """Its scores passed at 0.5, which nobody had written. The mean by people needs no verdict."""
    log, telemetry = MemoryLog("labels", partitions=1), Telemetry()
    of = Classifier(name="topic", question="?", labels={name: {"meaning": name, "score": 0.5} for name in "ab"})
    watch = AgreementWatcher(log, {VERSION: ScoreScale.of(of)}, telemetry, clock=START.timestamp)
    given = [drawn_label(n, tier="x", right=n % 4 > 0, at=START.timestamp(), audited=False) for n in range(80)]
    await log.append([Record(b"k", label_to_json(replace(each, judge_passed=None)), partition=0) for each in given])
    await watch.measure_changes()
    assert watch.agreements[VERSION].number == 0.0
    names = {"evaluator": VERSION[0], "evaluator_version": VERSION[1], "statistic": "share", "bound": "value"}
    assert telemetry.registry.get_sample_value("evalstream_people_agreement", names) is None
    [people] = watch.people.values()
    assert people.withheld == ""
    assert "80 answers whose score has no verdict; the evaluator has no threshold." in people.notes[-1]


async def test_measures_of_verdicts_need_enough_labels_with_a_verdict() -> None:
    """Two verdicts among sixty labels gave a sensitivity of 1 with an interval, as if sixty had."""
    log, telemetry = MemoryLog("labels", partitions=1), Telemetry()
    by_label = ScoreScale(by_label=True)
    watch = AgreementWatcher(log, {VERSION: by_label}, telemetry, clock=START.timestamp)
    given = [drawn_label(n, tier="x", right=n % 4 > 0, at=float(n), audited=False) for n in range(60)]
    names = {"evaluator": VERSION[0], "evaluator_version": VERSION[1]}
    for decided in (2, 20):
        await log.append(
            Record(b"k", label_to_json(each if n < decided else replace(each, judge_passed=None)), partition=0)
            for n, each in enumerate(given)
        )
        await watch.measure_changes()
        known = {
            name: telemetry.registry.get_sample_value("evalstream_judge_agreement", {**names, "statistic": name})
            is not None
            for name in ("spearman", "equal_verdicts", "sensitivity")
        }
        assert known == {"spearman": True, "equal_verdicts": decided == 20, "sensitivity": decided == 20}
    pairs = [
        replace(label, passed=True if n < 2 else None).weighted() for n, label in enumerate(verdicts(15, 15, 15, 15))
    ]
    found = agreement.agreement("all", pairs, by_label, samples=20).measures
    assert found["equal_verdicts"][1] is None, "two conversations make no interval"
    assert found["weighted_kappa"][1] is not None


async def test_where_there_are_audits_people_correct_them() -> None:
    log, telemetry = MemoryLog("labels", partitions=1), Telemetry()
    watch = AgreementWatcher(log, {VERSION: SCALE, AUDITS: SCALE}, telemetry, clock=START.timestamp)
    given = [drawn_label(n, tier="x", right=n % 5 > 0, at=float(n), audited=n % 2 == n % 4) for n in range(80)]
    await log.append([Record(b"k", label_to_json(each), partition=0) for each in given])
    await watch.measure_changes()
    assert watch.agreements[AUDITS].share.value == pytest.approx(1.0), "the audit is of the same opinion as people"
    assert watch.agreements[VERSION].share.value == pytest.approx(0.8)
    (people,) = watch.people.values()
    assert people.version == AUDITS
    assert people.sums.audits == pytest.approx(40 * (1 - 1 / 40) ** 2), "less by the leverage of each"
    assert people.sums.values[0] == pytest.approx(40 * 4), "1 / (share of audits × probability of the draw)"


async def test_until_enough_audited_answers_are_labelled_people_correct_the_judges_mean() -> None:
    """With a new `audit`, the mean by people was withheld until it had 32 labels of audited answers."""
    log, telemetry = MemoryLog("labels", partitions=1), Telemetry()
    watch = AgreementWatcher(log, {VERSION: SCALE, AUDITS: SCALE}, telemetry, clock=START.timestamp)
    given = [drawn_label(n, tier="x", right=n % 5 > 0, at=float(n), audited=n >= 60) for n in range(110)]
    names = {"evaluator": f"{VERSION[0]}:people", "monitor": given[0].monitor}

    async def labelled(some: Sequence[Label]) -> tuple[str, str]:
        await log.append([Record(b"k", label_to_json(each), partition=0) for each in some])
        await watch.measure_changes()
        (people,) = watch.people.values()
        value = telemetry.registry.get_sample_value
        for version in {VERSION[1], AUDITS[1]}:
            own = {**names, "evaluator_version": version, "segment": "all", "sum": "a"}
            assert (value("evalstream_people_sums", own) is not None) is (version == people.version[1])
        assert people.notes == ()
        return people.version[0], people.withheld

    assert await labelled(given[:20]) == (VERSION[0], "few")
    assert await labelled(given[20:60]) == (VERSION[0], "")
    assert await labelled(given[60:80]) == (VERSION[0], ""), "20 labels of audited answers are too few"
    assert await labelled(given[80:]) == (AUDITS[0], "")


async def test_labels_that_are_not_in_the_mean_by_people_are_said_to_be_so_as_is_a_mix_of_draws() -> None:
    """After `rejudge` the mean stayed null without a reason, although people had labelled 161 answers."""
    log, telemetry = MemoryLog("labels", partitions=1), Telemetry()
    queue = LabelQueueSettings(random=0.05, doubtful=0.25)
    watch = AgreementWatcher(log, {VERSION: SCALE}, telemetry, queue=queue, clock=START.timestamp)
    given = [drawn_label(n, tier="x", right=True, at=float(n), audited=False) for n in range(20)]
    before = [replace(each, evaluator_version="before", label_probability=0.05) for each in given[:7]]
    await log.append([Record(b"k", label_to_json(each), partition=0) for each in before])
    await watch.measure_changes()
    (people,) = watch.people.values()
    assert (people.withheld, people.version) == ("few", VERSION)

    def notes() -> Sequence[str]:
        return watch.people[given[0].monitor, VERSION[0]].notes

    not_in_mean = "of scores by rejudge or another version are not in the mean by people; evalstream calibrate counts"
    assert [note[: len(not_in_mean) + 9] for note in notes()] == [f"7 labels {not_in_mean}"]
    now = [replace(each, label_probability=0.05) for each in given[7:15]]
    backfilled = [replace(each, label_probability=0.05, happened_at=START) for each in given[15:]]
    await log.append([Record(b"k", label_to_json(each), partition=0) for each in (*now, *backfilled)])
    await watch.measure_changes()
    assert [note.partition(" ")[0] for note in notes()] == ["12"]
    await log.append([Record(b"k", label_to_json(each), partition=0) for each in given[:3]])
    await watch.measure_changes()
    assert notes()[1].startswith(
        "Mixed draws: page.queue now gives other probabilities than 3 of 11 labels were drawn with"
    )
    of_b = [replace(each, label_id=f"b{n}", evaluation_id=f"b{n}", monitor="b") for n, each in enumerate(before)]
    of_a = notes()
    await log.append([Record(b"k", label_to_json(each), partition=0) for each in of_b])
    await watch.measure_changes()
    assert notes() == of_a, "the labels of another monitor were counted, too"
    assert watch.people["b", VERSION[0]].notes[0].startswith(f"7 labels {not_in_mean}")


async def test_two_versions_in_use_each_keep_their_monitors_labels() -> None:
    """Two monitors that pack an evaluator otherwise have a version each: the one took the mean by people of the other."""
    log, other = MemoryLog("labels", partitions=1), (VERSION[0], "fedcba987654")
    watch = AgreementWatcher(log, {VERSION: SCALE, other: SCALE}, Telemetry(), clock=START.timestamp)
    given = [drawn_label(n, tier="x", right=n % 4 > 0, at=float(n), audited=False) for n in range(80)]
    of_b = [
        replace(each, label_id=f"b{n}", evaluation_id=f"b{n}", evaluator_version=other[1], monitor="b")
        for n, each in enumerate(given)
    ]
    await log.append([Record(b"k", label_to_json(each), partition=0) for each in (*given, *of_b)])
    await watch.measure_changes()
    assert {monitor: people.version for (monitor, _), people in watch.people.items()} == {
        given[0].monitor: VERSION, "b": other,
    }  # fmt: skip
    assert len({people.sums.audits for people in watch.people.values()}) == 1
    assert [people.notes for people in watch.people.values()] == [(), ()]
