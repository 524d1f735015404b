"""Labels of the page: what a person's word is as a score, which of them count, and the metrics made of them."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from evaluation_samples import START, label, scored

from collector.calibration.agreement_watch import AgreementWatcher, recent_labels
from collector.calibration.labels import label_of_answer, mean_label, read_labels
from collector.calibration.page_labels import LabelIndex, human_of
from collector.logs.log import LogUnavailable, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_to_json, label_to_json
from collector.statistics.agreement import ScoreScale, agreement
from collector.statistics.correction import WeightedScore
from collector.telemetry.registry import Telemetry
from evaluators.results import Label

VERSION = ("answers_question", "0123456789ab")
NAMES = {"evaluator": VERSION[0], "evaluator_version": VERSION[1]}


def stored(given: Label, position: int = 0) -> StoredRecord:
    return StoredRecord(0, position, 1.0, given.label_id.encode(), label_to_json(given))


def record(given: Label) -> Record:
    return Record(given.label_id.encode(), label_to_json(given), partition=0)


def pairs(book: LabelIndex) -> list[tuple[float, float]]:
    return [(each.judge, each.human) for each in book.labels(VERSION)]


@pytest.mark.parametrize(
    ("opinion", "passed", "lower", "human"),
    [
        ("agree", True, False, 1.0),
        ("agree", False, False, 0.0),
        ("disagree", True, False, 0.0),
        ("disagree", False, False, 1.0),
        ("agree", True, True, 0.0),
        ("disagree", True, True, 1.0),
        ("agree", None, False, None),
    ],
)
def test_an_opinion_is_the_verdict_that_the_person_holds_right(
    opinion: Any, passed: bool | None, lower: bool, human: float | None
) -> None:
    given = label(opinion=opinion, judge_passed=passed, score=None)
    assert human_of(given, lower_is_better=lower) == human


def test_a_score_of_their_own_counts_before_the_opinion() -> None:
    assert human_of(label(opinion="agree", score=0.3), lower_is_better=True) == 0.3


def test_the_newest_word_of_each_person_counts_and_several_people_are_one_label() -> None:
    book = LabelIndex()
    first = label(given_by="ada", score=0.9)
    second = label(label_id="2" * 32, given_by="ada", score=0.5, given_at=first.given_at + timedelta(minutes=1))
    for given in (first, second, first):  # the log may hold one twice
        book.add(stored(given))
    book.add(stored(label(label_id="3" * 32, given_by="ben", score=0.1)))
    assert pairs(book) == [(0.75, pytest.approx(0.3))]
    withdrawn = label(label_id="4" * 32, given_by="ada", score=None, opinion=None, note="I am not sure any more.",
                      given_at=second.given_at + timedelta(minutes=1))  # fmt: skip
    book.add(stored(withdrawn))
    assert pairs(book) == [(0.75, 0.1)]


def test_labels_of_another_version_are_told_apart_and_what_is_no_label_is_left_alone() -> None:
    book = LabelIndex()
    assert book.add(stored(label(evaluator_version="of-old"))) == ("answers_question", "of-old")
    assert book.add(stored(label(judge_score=None))) is None
    assert book.add(StoredRecord(0, 1, 1.0, b"k", evaluation_to_json(scored()))) is None
    assert book.add(StoredRecord(0, 2, 1.0, b"k", b"{}")) is None
    assert (book.labels(VERSION), len(book.others(VERSION))) == ([], 1)


def test_only_so_many_are_remembered_the_newest() -> None:
    book = LabelIndex(most=3)
    for number in (1, 2, 3, 1, 4):
        book.add(stored(label(evaluation_id=str(number), score=number / 10)))
    assert [human for _, human in pairs(book)] == [0.3, 0.1, 0.4]


def test_what_is_picked_by_hand_says_nothing_where_somebody_labelled_what_was_drawn() -> None:
    drawn = label(given_by="ada", score=0.9, label_probability=0.1)
    picked = label(label_id="2" * 32, given_by="ben", score=0.1, given_at=drawn.given_at + timedelta(minutes=1))
    again = label(label_id="3" * 32, given_by="ada", score=0.2, given_at=drawn.given_at + timedelta(minutes=2))
    for order in itertools.permutations((drawn, picked, again)):
        book = LabelIndex()
        for given in order:
            book.add(stored(given))
        [counted] = book.labels(VERSION)
        assert (counted.human, counted.probability) == (0.9, 0.1)


def test_what_is_looked_at_again_does_not_stay_for_longer() -> None:
    book = LabelIndex(most=3)
    for number in (1, 2, 3):
        book.add(stored(label(evaluation_id=str(number), score=number / 10, label_probability=0.5)))
    book.add(stored(label(evaluation_id="1", given_by="ben", score=1.0)))
    book.add(stored(label(evaluation_id="4", score=0.4, label_probability=0.5)))
    assert [human for _, human in pairs(book)] == [0.2, 0.3, 0.4]


def of_a_judge(count: int, right: float) -> list[Label]:
    """Labels of a judge that passes half and whose verdicts people hold right with probability `right`."""
    chance = random.Random(5)
    return [
        label(
            label_id=f"{number:032x}",
            evaluation_id=f"{number:032x}",
            judge_score=0.9 if number % 2 else 0.2,
            judge_passed=bool(number % 2),
            opinion="agree" if chance.random() < right else "disagree",
            score=None,
            given_at=START + timedelta(seconds=number),
            subject=replace(scored().subject, conversation_id=f"c{number}"),
        )
        for number in range(count)
    ]


async def test_agreement_becomes_metrics_and_follows_new_labels() -> None:
    log, telemetry = MemoryLog("evaluations", partitions=2), Telemetry()
    watch = AgreementWatcher(log, {VERSION: ScoreScale(0.5)}, telemetry)

    def value(name: str, **labels: str) -> float | None:
        return telemetry.registry.get_sample_value(f"evalstream_judge_agreement{name}", {**NAMES, **labels})

    given = of_a_judge(60, right=0.9)
    await log.append([record(each) for each in given[:8]])
    await watch.measure_changes()
    assert (value("_labels"), value("", statistic="cohen_kappa")) == (8, None)

    await log.append([record(each) for each in given[8:]])
    await log.append([Record(b"k", evaluation_to_json(scored()), partition=1)])
    await watch.measure_changes()
    expected = agreement("all", [(0.9 if n % 2 else 0.2, human_of(each, lower_is_better=False) or 0.0)
                                 for n, each in enumerate(given)], ScoreScale(0.5), samples=200)  # fmt: skip
    assert value("_labels") == 60
    for name, (measured, bounds) in expected.measures.items():
        assert bounds is not None
        assert value("", statistic=name) == pytest.approx(measured)
        assert value("_bound", statistic=name, bound="low") == pytest.approx(bounds[0])
        assert value("_bound", statistic=name, bound="high") == pytest.approx(bounds[1])
    assert 0.6 < (value("", statistic="cohen_kappa") or 0.0) < 0.95


async def test_a_measure_without_a_value_has_no_series() -> None:
    """Nothing that people call bad: there is no specificity, and no zero in its place."""
    log, telemetry = MemoryLog("evaluations", partitions=1), Telemetry()
    watch = AgreementWatcher(log, {VERSION: ScoreScale(0.5)}, telemetry)
    await log.append([record(label(evaluation_id=str(n), judge_score=n / 20, score=0.8)) for n in range(20)])
    await watch.measure_changes()
    read = telemetry.registry.get_sample_value
    assert read("evalstream_judge_agreement", {**NAMES, "statistic": "sensitivity"}) == 0.5
    assert read("evalstream_judge_agreement", {**NAMES, "statistic": "specificity"}) is None


async def test_a_log_that_cannot_be_read_is_read_later() -> None:
    class Failing(MemoryLog):
        down = True

        def read(self, partition: int, start: int) -> Any:
            if self.down:
                raise LogUnavailable("down")
            return super().read(partition, start)

    log, telemetry = Failing("evaluations", partitions=1), Telemetry()
    watch = AgreementWatcher(log, {VERSION: ScoreScale(0.5)}, telemetry)
    await log.append([record(each) for each in of_a_judge(20, right=1.0)])
    await watch.measure_changes()
    log.down = False
    await watch.measure_changes()
    assert telemetry.registry.get_sample_value("evalstream_judge_agreement_labels", NAMES) == 20


def test_where_lower_is_better_the_low_scores_pass() -> None:
    low_is_good = [(0.1, 0.0), (0.2, 0.0), (0.3, 0.0), (0.9, 1.0), (0.35, 1.0)] * 4
    scale = ScoreScale(0.3, lower_is_better=True)
    found = agreement("all", low_is_good, scale, samples=50).measures
    assert found["sensitivity"][0] == found["specificity"][0] == found["cohen_kappa"][0] == 1.0
    assert found["spearman"][0] > 0.5
    assert scale.threshold_for(low_is_good, 0.9) == 0.325


def test_a_label_of_a_backfill_is_in_no_mean_of_the_present() -> None:
    book = LabelIndex()
    made = replace(label(score=1.0, label_probability=0.5), happened_at=START)
    book.add(StoredRecord(0, 0, 0.0, b"", label_to_json(made)))
    [known] = book.labels((made.evaluator, made.evaluator_version))
    assert known.is_of_past
    assert recent_labels([known], known.at) == []
    assert recent_labels([replace(known, is_of_past=False)], known.at) != []


def test_labels_of_two_people_in_a_file_are_those_of_the_page(tmp_path: Path):
    """Each line counted by itself, so that a second person doubled what an answer weighs."""
    book, lines = LabelIndex(), list[dict[str, Any]]()
    for number, human in (("1", {"ann": 1.0, "bob": 0.0}), ("2", {"ann": 1.0})):
        for who, score in human.items():
            given = label(**NAMES, score=score, evaluation_id=number, label_id=who + number, given_by=who)
            book.add(stored(given))
            lines.append({"evaluation_id": given.evaluation_id, "given_by": who, "human": score})
    lines.append({**lines[0], "human": 0.6})  # ann thinks again
    file = tmp_path / "labels.jsonl"
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    known = {line["evaluation_id"]: WeightedScore(0.7, 1.0) for line in lines}
    read = read_labels(file, known, "answers_question")
    assert [(each.human, len(each.by)) for each in read] == [(0.3, 2), (1.0, 1)]
    assert [(each.human, len(each.by)) for each in book.labels(VERSION)] == [(0.5, 2), (1.0, 1)]
    file.write_bytes(b"".join(orjson.dumps(line | {"given_by": None}) + b"\n" for line in lines[:3]) * 2)
    repeated = [(each.human, len(each.by)) for each in read_labels(file, known, "answers_question")]
    assert repeated == [(0.5, 2), (1.0, 1)], "a line without a person that repeats counted as one more person"
    nameless = tmp_path / "nameless.jsonl"
    nameless.write_text('{"human": 1, "score": 0.9}\n' * 2)
    assert len(read_labels(nameless, {}, "answers_question")) == 2, (
        "lines that name nothing are of answers of their own"
    )


def test_the_length_of_a_prompt_is_read_from_the_lines_that_score_wrote(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    lines: list[dict[str, Any]] = [
        {"usage": {"input_tokens": 900, "calls": 2}}, {"judge_tokens": 300.0}, {"usage": None}, {}
    ]  # fmt: skip
    file.write_bytes(b"".join(orjson.dumps({"human": 1, "score": 0.9} | line) + b"\n" for line in lines))
    assert [each.tokens for each in read_labels(file, {}, "answers_question")] == [450.0, 300.0, None, None]


def test_lines_of_a_case_that_has_changed_are_about_two_answers(tmp_path: Path) -> None:
    """`score --output` keeps both lines; the new answer's label and the old one's became one, with the old score."""
    file = tmp_path / "labels.jsonl"
    line = {"evaluation_id": "e", "monitor": "score", "subject": {"turn_id": "t", "conversation_id": "c"}}
    old, new = ({**line, "attributes": {"case_digest": digest}} for digest in ("old", "new"))
    lines: list[dict[str, Any]] = [
        {**old, "score": 0.9, "human": True}, {**new, "score": 0.2, "human": False}, {**new, "score": 0.2, "human": 0.5}
    ]  # fmt: skip
    file.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    read = read_labels(file, {}, "answers_question")
    assert [(label.judge, label.human) for label in read] == [(0.9, 1.0), (0.2, 0.25)]


@pytest.mark.parametrize("draws", [1, 2])
def test_a_person_counts_once_however_many_monitors_had_the_answer_labelled(draws: int):
    """Ann's verdict, which two monitors share, outweighed Bob's, which one of them had drawn for a second person."""
    book = LabelIndex()
    for monitor, who, score in (("a", "ann", 0.0), ("b", "ann", 0.0), ("b", "bob", 1.0)):
        given = label(
            **NAMES, score=score, evaluation_id=monitor, label_id=who + monitor, given_by=who, monitor=monitor
        )
        book.add(stored(replace(given, label_probability=0.5)))
    answer = label_of_answer(book.labels(VERSION), draws)
    assert (answer.human, len(answer.by), answer.weighted().divided) == (0.5, 2, True)


def test_a_line_of_a_file_replaces_what_the_page_has_of_the_same_person(tmp_path: Path):
    """Both counted: a person who thought again was half of two minds."""
    book, file = LabelIndex(), tmp_path / "labels.jsonl"
    book.add(stored(label(**NAMES, score=1.0, evaluation_id="1", label_id="l", given_by="ann")))
    file.write_text('{"evaluation_id": "1", "human": false, "given_by": "ann"}\n')
    of_file = read_labels(file, {"1": WeightedScore(0.7, 1.0)}, "answers_question")
    for both in ([*of_file, *book.labels(VERSION)], [*book.labels(VERSION), *of_file]):
        assert mean_label(both).human == 0.0


def test_the_verdict_of_a_line_is_read_as_leniently_as_a_persons(tmp_path: Path) -> None:
    """Lines that had been read before `passed` had a meaning were refused, even where no label decides."""
    said = [True, "pass", "Bad", 1, "no", "perhaps", {"a": 1}, None]
    rows = [{"human": True, "score": 0.7, "passed": each} for each in said]
    file = tmp_path / "labels.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    read = [label.passed for label in read_labels(file, {}, "helpful")]
    assert read == [True, True, False, True, False, None, None, None]


def test_a_line_with_the_score_of_the_log_keeps_its_verdict(tmp_path: Path) -> None:
    """A line of `labels next` to which somebody added the score had none, and so was in no measure of verdicts."""
    file, known = tmp_path / "labels.jsonl", {"e1": WeightedScore(0.9, 2.0, "c", passed=True)}
    for line, verdict in (
        ({"score": 0.9}, True),
        ({"score": 0.9, "passed": False}, False),
        ({"score": 0.4}, None),
        ({}, True),
    ):
        file.write_text(json.dumps({"human": True, "evaluation_id": "e1", **line}))
        assert [label.passed for label in read_labels(file, known, "helpful")] == [verdict]
