"""`calibrate` over a log: which scores count, and with what weight."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest
from configurations import checked
from evaluation_samples import START, label, scored
from typer.testing import CliRunner

from collector.calibration.labels import HumanLabel
from collector.cli import app
from collector.commands.calibrate.calibrate import (
    CalibrateOptions,
    as_json,
    as_text,
    calibration,
    mean_by_people,
    measure,
    printed,
)
from collector.config.configured import Config
from collector.errors import ConfigError
from collector.logs.log import Record
from collector.records.json import evaluation_to_json, label_to_json
from collector.service.open_logs import open_logs
from collector.service.plan_builder import audit_version_in, evaluator_version_in
from collector.statistics.agreement import ScoreScale
from collector.statistics.correction import WeightedScore
from evaluators.results import Evaluation, Label, Sampling, Usage
from evaluators.turn.exact_match import ExactMatch

NOW = START.timestamp() + 86_400.0


def calibrate(config: Config, options: CalibrateOptions) -> str:
    return printed(measure(config, options, now=NOW), options)


def judged(number: int, **changes: object) -> Evaluation:
    """An evaluation of a conversation of its own."""
    made = scored(number, **changes)
    return replace(made, subject=replace(made.subject, conversation_id=f"c{number}", turn_id=f"t{number}"))


def config(folder: Path, **fields: object) -> Config:
    return checked(
        {
            "helpful": {
                "kind": "g_eval",
                "criteria": "Right?",
                "evaluation_params": ["actual_output"],
                "judge": "main",
                **fields,
            }
        },
        log={"kind": "sqlite", "path": str(folder / "log.db")},
        judges={"main": {"model": "m"}, "strong": {"model": "s"}, "other": {"model": "o"}},
    )


async def fill(of: Config, evaluations: list[Evaluation], labels: list[Label]) -> None:
    async with open_logs(of.settings.log) as logs:
        await logs.evaluations.append([Record(b"k", evaluation_to_json(each), partition=0) for each in evaluations])
        await logs.labels.append([Record(b"k", label_to_json(each)) for each in labels])


def test_means_are_weighted_and_of_the_configured_version_alone(tmp_path: Path) -> None:
    of = config(tmp_path)
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    often, seldom = Sampling(probability=1.0), Sampling(probability=0.25)
    bad = [judged(n, **names, score=0.0, sampling=often) for n in range(40)]
    good = [judged(n, **names, score=1.0, sampling=seldom) for n in range(40, 80)]
    other = [scored(n, evaluator="helpful", evaluator_version="of-old", score=0.5) for n in range(80, 87)]
    labels = [
        label(**names, label_id=f"{n:032x}", evaluation_id=each.evaluation_id, sampling=each.sampling, subject=each.subject,
              judge_score=each.score, score=each.score)
        for n, each in enumerate((*bad, *good))
    ]  # fmt: skip
    asyncio.run(fill(of, [*bad, *good, *other], labels))
    for given in (None, tmp_path / "labels.jsonl"):
        if given is not None:
            lines = [{"human": each.score, "evaluation_id": each.evaluation_id} for each in labels]
            given.write_text("\n".join(map(json.dumps, lines)))
        found = json.loads(calibrate(of, CalibrateOptions(labels=given, evaluator="helpful", json=True, random=True)))
        assert found["raw_mean"] == 0.8, "40 good ones stand for 160, 40 bad ones for themselves"
        assert abs(found["corrected_mean"]["mean"] - 0.8) < 0.003
        assert "Not used: 7 scores of other versions of helpful or other judges." in found["notes"]


def test_labels_of_no_known_score_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of a file with mangled ids was left out without a word."""
    of, given = config(tmp_path), tmp_path / "labels.jsonl"
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    logged = [judged(n, **names, score=float(n % 2)) for n in range(4)]
    asyncio.run(fill(of, logged, []))
    ids = [each.evaluation_id for each in logged]
    given.write_text("\n".join(json.dumps({"human": True, "evaluation_id": one}) for one in (*ids, "mangled", "gone")))
    options = CalibrateOptions(labels=given, evaluator="helpful", json=True)
    why = "They have no score, and the log has none of their answers by this version of helpful."
    note = f"Not used: 2 of 6 labels in {given}. {why}"
    assert note in json.loads(calibrate(of, options))["notes"]
    assert note in capsys.readouterr().err, "a program that reads one figure passes no note on"
    assert note in " ".join(calibrate(of, replace(options, json=False)).split())
    assert not capsys.readouterr().err, "the text says it once"


def test_lines_with_an_empty_conversation_are_of_no_answer_in_the_log(tmp_path: Path) -> None:
    """A draw of such lines, with the judge's scores in them, ended the command with a KeyError."""
    of, given = config(tmp_path), tmp_path / "labels.jsonl"
    given.write_text('{"human": true, "score": 0.7, "conversation_id": ""}\n' * 40)
    assert measure(of, CalibrateOptions(labels=given, evaluator="helpful", random=True), now=NOW).agreements


def test_scores_of_two_versions_in_one_file_are_no_one_judge(tmp_path: Path) -> None:
    """`score` had run with two criteria into one file: 0.745 was the agreement of neither (0.530 and 0.960)."""
    of, given = config(tmp_path), tmp_path / "labels.jsonl"
    lines = [{"human": True, "score": 1.0, "evaluator_version": "old" if n < 7 else "new"} for n in range(12)]
    lines.append({"human": True, "score": 0.5})
    given.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ConfigError, match="its scores are 7 by version old and 5 by version new of helpful; keep the"):
        calibrate(of, CalibrateOptions(labels=given, evaluator="helpful"))


def test_a_random_draw_of_traffic_counts_each_label_once_in_the_log_or_not(tmp_path: Path) -> None:
    """Labels of answers that the log had sampled, too, silently weighed as much as they stand for there."""
    of, given = config(tmp_path), tmp_path / "labels.jsonl"
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    logged = [judged(n, **names, score=float(n % 2), sampling=Sampling(probability=0.25)) for n in range(40)]
    asyncio.run(fill(of, logged, []))
    inside = [{"human": each.score, "evaluation_id": each.evaluation_id} for each in logged]
    outside = [{"human": n % 2, "score": n // 2 % 2, "turn_id": f"own{n}"} for n in range(40)]  # half of them equal
    for lines, equal in ((inside + outside, 0.75), (inside, 1.0)):
        given.write_text("\n".join(map(json.dumps, lines)))
        found = measure(of, CalibrateOptions(labels=given, evaluator="helpful", random=True), now=NOW)
        assert found.agreements[0].measures["equal_verdicts"][0] == pytest.approx(equal)
        assert equal == 1.0 or any(
            "once: 40 labels of --random are of answers outside the log, so the log's sampling weights of 40 others do not count."
            in note for note in found.notes
        )  # fmt: skip
        assert not any("no random draw" in note for note in found.notes)


def test_what_somebody_picked_never_enters_a_mean(tmp_path: Path) -> None:
    of = config(tmp_path)
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    scores = [judged(n, **names, score=n / 80) for n in range(80)]
    worst = [
        label(
            **names,
            label_id=f"{n:032x}",
            evaluation_id=each.evaluation_id,
            subject=each.subject,
            judge_score=each.score,
            score=0.0,
        )
        for n, each in enumerate(scores[:20])
    ]
    drawn = [
        label(**names, label_id=f"{n:032x}", evaluation_id=each.evaluation_id, subject=each.subject, judge_score=each.score,
              score=each.score, label_probability=0.5)
        for n, each in enumerate(scores[1::2], 100)
    ]  # fmt: skip
    asyncio.run(fill(of, scores, worst))
    found = json.loads(calibrate(of, CalibrateOptions(labels=None, evaluator="helpful", json=True)))
    assert found["corrected_mean"] is None
    assert found["segments"][0]["labels"] == 20, "they do say how judge and people agree"
    assert "No corrected mean: 20 labels do not say how they were drawn" in found["notes"][-1]
    asyncio.run(fill(of, [], drawn))
    found = json.loads(calibrate(of, CalibrateOptions(labels=None, evaluator="helpful", json=True)))
    assert abs(found["corrected_mean"]["mean"] - 0.4937) < 0.02, "of the drawn ones alone"
    assert "Not used: 10 labels" in found["notes"][-1], "10 of the worst are among the drawn ones"


def test_drawn_labels_give_an_unbiased_mean_that_its_interval_covers() -> None:
    """200 samples: judge biased by 0.15, weights 1 to 4, every label drawn with a probability of its own."""
    chance = Random(7)
    errors: list[float] = []
    covered = 0
    for _ in range(200):
        population = [min(1.0, max(0.0, chance.gauss(0.6, 0.25))) for _ in range(3000)]
        truth = fmean(population)
        sample = [(each, 1.0 + 3.0 * (each > 0.6)) for each in population]
        judged = [(each, weight) for each, weight in sample if chance.random() < 1 / weight]
        scores = [(WeightedScore(min(1.0, each + chance.gauss(0.15, 0.1)), weight), each) for each, weight in judged]
        labels = [
            HumanLabel(judge.score, human, "all", judge.weight, drawn, name="e")
            for judge, human in scores
            if chance.random() < (drawn := 0.3 if judge.score < 0.5 else 0.1)
        ]
        found = mean_by_people(labels, [judge for judge, _ in scores])
        assert found is not None
        errors.append(found.mean - truth)
        covered += abs(found.mean - truth) <= 1.96 * found.error
    assert abs(fmean(errors)) < 0.005
    assert 0.92 <= covered / 200 <= 0.985


@pytest.mark.parametrize(("bad", "status", "sentence"), [(0, 0, "Certified: the true"), (30, 1, "Not certified")])
def test_the_command_certifies_or_ends_with_1(tmp_path: Path, bad: int, status: int, sentence: str) -> None:
    of = config(tmp_path)
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    evaluations = [judged(n, **names, score=float(n >= 5)) for n in range(200)]
    asyncio.run(fill(of, evaluations, []))
    lines = [
        {"human": n >= 5 and n % 200 >= bad, "evaluation_id": each.evaluation_id} for n, each in enumerate(evaluations)
    ]
    path, file = tmp_path / "labels.jsonl", tmp_path / "evalstream.yaml"
    path.write_text("\n".join(map(json.dumps, lines)))
    file.write_text(json.dumps(of.settings.model_dump(mode="json", exclude_unset=True)))
    arguments = ["calibrate", str(path), "--evaluator", "helpful", "-c", str(file), "--certify", "0.1"]
    without = CliRunner().invoke(app, arguments)
    assert "--certify: needs labels that were drawn at random" in str(without.exception or without.output)
    done = CliRunner().invoke(app, [*arguments, "--random"])
    assert done.exit_code == status, done.output
    assert sentence in " ".join(done.output.split())
    document = json.loads(CliRunner().invoke(app, [*arguments, "--random", "--json"]).output)
    assert document["certificate"]["certified"] is (status == 0)
    assert "youden_j" in document["segments"][0]


def test_the_limit_of_a_certificate_is_not_rounded_down(tmp_path: Path) -> None:
    """A rate that may be 4.44 % was "below 4.4%", and a bound of 5.25 % was named as 5.2 %."""
    labels = [HumanLabel(1.0, 1.0, "all", probability=0.5, conversation=f"c{n}", name=f"{n}") for n in range(66)]
    options, scale = CalibrateOptions(labels=None, evaluator="helpful", certify=0.0525), ScoreScale(0.5)
    found = calibration(options, labels, [WeightedScore(1.0)] * 99, scale)
    assert found.certificate is not None
    assert found.certificate.upper == pytest.approx(0.0444, abs=5e-5)
    text = " ".join(as_text(found).split())
    assert "Certified: the true failure rate is below 5.25%; by random labels" in text
    assert "below 4.5% with 95 % confidence" in text


def test_what_the_judge_is_biased_by_is_named_beside_people_and_audits(tmp_path: Path) -> None:
    """Each 100 tokens more that the judge reads are worth 0.07; German is not, though it is longer."""
    of, chance = config(tmp_path, audit={"judge": "strong"}), Random(5)
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    made, labels, strong = list[Evaluation](), list[Label](), audit_version_in(of, "helpful")
    for number in range(160):
        german = number % 3 == 0
        tokens = round(200 + 100 * german + 150 * chance.random())
        human = chance.choice((0.25, 0.5, 0.75))
        score = min(1.0, max(0.0, human + 0.0007 * (tokens - 300) + 0.05 * chance.gauss(0, 1)))
        one = judged(
            number, **names, score=score, usage=Usage(input_tokens=tokens, output_tokens=9, calls=1),
            attributes={"language": "de" if german else "en"},
            details={"audit": {"score": human, "probability": 0.5, "input_tokens": 0, "calls": 0, "version": strong}},
        )  # fmt: skip
        made.append(one)
        labels.append(label(**names, label_id=f"{number:032x}", evaluation_id=one.evaluation_id, sampling=one.sampling,
                            subject=one.subject, judge_score=score, score=human))  # fmt: skip
    asyncio.run(fill(of, made, labels))
    notes = json.loads(calibrate(of, CalibrateOptions(labels=None, evaluator="helpful", json=True)))["notes"]
    newer = config(tmp_path, audit={"judge": "other"})
    of_other = json.loads(calibrate(newer, CalibrateOptions(labels=None, evaluator="helpful", json=True)))["notes"]
    assert not any("audits" in note for note in of_other), "those of another auditor"
    biased = [note for note in notes if note.startswith("Biased")]
    assert [note.split(",")[0] for note in biased] == [
        "Biased: at the same score by people",
        "Biased: at the same score by audits",
    ]
    for note in biased:
        size, _, more = note.split("the judge scores ")[1].partition(" (95 %: ± ")
        high, low = map(int, re.findall(r"prompts of (\d+) tokens instead of (\d+)\.$", more)[0])
        assert 0.06 < 100.0 * float(size) / (high - low) < 0.09


def test_the_pages_mean_is_another_one_only_where_labels_of_audited_answers_are_enough(tmp_path: Path) -> None:
    """It was said to be another one of every audited evaluator, even where both commands showed the same mean."""
    of, differs = config(tmp_path, audit={"judge": "strong"}), "The page's mean by people in "
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    audit = {"score": 1.0, "probability": 0.5, "version": audit_version_in(of, "helpful")}

    def label_more(first: int, monitor: str, number: int) -> None:
        made = [judged(n, **names, monitor=monitor, score=n % 2 / 2 + 0.25) for n in range(first, first + number)]
        given = [
            label(**names, monitor=monitor, label_id=one.evaluation_id, evaluation_id=one.evaluation_id,
                  subject=one.subject, sampling=one.sampling, judge_score=one.score, label_probability=0.5,
                  score=float(n % 2 or n % 10 == 0), audit=audit if n % 4 < 2 else None)
            for n, one in enumerate(made)
        ]  # fmt: skip
        asyncio.run(fill(of, made, given))

    def said(monitor: str | None = None, days: float = 1.0) -> list[str]:
        options = CalibrateOptions(labels=None, evaluator="helpful", monitor=monitor)
        result = measure(of, options, now=START.timestamp() + days * 86_400.0)
        assert result.corrected_mean is not None
        return [note.partition(differs)[2].partition(",")[0] for note in result.notes if note.startswith(differs)]

    label_more(0, "chat", 60)
    assert said() == [], "30 labels of audited answers count as 28"
    label_more(100, "chat", 10)
    label_more(200, "gold", 40)
    assert (said(), said("chat")) == (["chat corrects the audited mean"],) * 2
    assert (said("gold"), said(days=8.0)) == ([], []), "its labels are too few; the page's are of seven days"


@pytest.mark.parametrize("is_random", [True, False])
def test_without_a_score_in_the_log_no_note_promises_a_mean(tmp_path: Path, *, is_random: bool) -> None:
    """It proposed --random, and then had no mean all the same."""
    file = tmp_path / "labels.jsonl"
    file.write_text('{"human": true, "score": 0.7}\n{"human": false, "score": 0.2}\n' * 20)
    options = CalibrateOptions(labels=file, evaluator="helpful", json=True, random=is_random)
    notes = json.loads(calibrate(config(tmp_path), options))["notes"]
    assert [note for note in notes if "--random" in note or "mean" in note] == [
        "No corrected mean, with or without --random: the log has no score by this version of the evaluator."
    ]


@pytest.mark.parametrize("cause", ["language", "model"])
def test_a_bias_is_named_by_the_attributes_of_own_lines(tmp_path: Path, cause: str) -> None:
    """The lines that `score --output` wrote had them: a bias by language was blamed on length, one by model unseen."""
    chance, file, lines = Random(5), tmp_path / "labels.jsonl", list[dict[str, Any]]()
    for number in range(200):
        longer, human = number % 2, chance.choice((0.25, 0.5, 0.75))
        lines.append({
            "human": human, "score": min(1.0, max(0.0, human + 0.2 * longer + 0.03 * chance.gauss(0, 1))),
            "subject": {"conversation_id": f"c{number}", "turn_id": f"t{number}"},
            "usage": {"input_tokens": 470 + 40 * (chance.random() < 0.2 + 0.6 * longer), "calls": 1},
            "attributes": {cause: ("en", "de")[longer], "of": {"nested": 1}} if number else "none",
        })  # fmt: skip
    file.write_text("\n".join(map(json.dumps, lines)))
    notes = json.loads(calibrate(config(tmp_path), CalibrateOptions(labels=file, evaluator="helpful", json=True)))[
        "notes"
    ]
    [biased] = [note for note in notes if note.startswith("Biased")]
    assert cause in biased.rpartition(" for ")[2]


def test_a_length_is_named_by_the_tokens_of_the_evaluation_that_paid(tmp_path: Path) -> None:
    """The monitor that judges most shares the evaluations of another one, which asked the judge."""
    of, chance = config(tmp_path), Random(5)
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    made, labels = list[Evaluation](), list[Label]()
    for number in range(160):
        tokens, human = round(200 + 150 * chance.random()), chance.choice((0.25, 0.5, 0.75))
        score = min(1.0, max(0.0, human + 0.001 * (tokens - 275) + 0.03 * chance.gauss(0, 1)))
        usage, half = Usage(input_tokens=tokens, output_tokens=9, calls=1), Sampling(probability=0.5)
        paid = judged(number, **names, score=score, usage=usage, monitor="half", sampling=half)
        own = {"evaluation_id": f"{number + 500:032x}", "monitor": "all", "sampling": Sampling(), "usage": None}
        made += [paid, replace(paid, **own, shares=paid.evaluation_id)]
        labels.append(labelled(made[-1], human))
    asyncio.run(fill(of, made, labels))
    notes = json.loads(calibrate(of, CalibrateOptions(labels=None, evaluator="helpful", json=True)))["notes"]
    assert [note.split(",")[0] for note in notes if "tokens instead of" in note] == [
        "Biased: at the same score by people"
    ]


def test_labels_that_are_not_used_do_not_hide_a_bias_either(tmp_path: Path) -> None:
    """Picked labels of long prompts hid the bias that the drawn ones show."""
    of, chance = config(tmp_path), Random(5)
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    made, labels = list[Evaluation](), list[Label]()
    for number in range(360):
        picked = number >= 160
        tokens = round(200 + 150 * chance.random()) + 3000 * picked
        human = chance.choice((0.25, 0.5, 0.75))
        bias = 0.3 * chance.gauss(0, 1) if picked else 0.001 * (tokens - 275)
        score = min(1.0, max(0.0, human + bias + 0.03 * chance.gauss(0, 1)))
        usage = Usage(input_tokens=tokens, output_tokens=9, calls=1)
        made.append(judged(number, **names, score=score, usage=usage))
        labels.append(label(
            **names, label_id=f"{number:032x}", evaluation_id=made[-1].evaluation_id, sampling=made[-1].sampling,
            subject=made[-1].subject, judge_score=score, score=human, label_probability=None if picked else 0.1,
        ))  # fmt: skip
    asyncio.run(fill(of, made, labels))
    notes = json.loads(calibrate(of, CalibrateOptions(labels=None, evaluator="helpful", json=True)))["notes"]
    assert any(note.startswith("Not used: 200 labels") for note in notes)
    assert any(note.startswith("Biased: at the same score by people") for note in notes)


@pytest.mark.parametrize(("number", "more"), [(10, 22), (20, 12), (30, 2), (31, 1), (32, 0)])
def test_how_many_more_drawn_labels_a_mean_needs(number: int, more: int) -> None:
    labels = [
        HumanLabel(float(n % 4 > 0), float(n % 5 > 0), "all", probability=1.0, conversation=f"c{n}")
        for n in range(number)
    ]
    scores = [WeightedScore(label.judge, 1.0, label.conversation) for label in labels]
    scale = ScoreScale.of(ExactMatch(name="helpful"))
    notes = calibration(CalibrateOptions(labels=None, evaluator="helpful"), labels, scores, scale).notes
    few = [note.partition("which count as 30. The ")[2] for note in notes if note.startswith("No corrected mean")]
    why = "labels that are few, share a conversation or have unequal weights count less"
    count = f"{(number - 1) ** 2 / number:.3f}"[:-2]  # rounded down: what is shown has to be below 30, too
    says = f"drawn labels of {number} answers in {number} conversations count as {count}: {why}. Label at least {more} more"
    assert few == ([f"{says}, of other conversations."] if more else [])
    assert any(note.startswith(f"Not checked: whether {number} drawn labels") for note in notes)
    good = [label for label in labels if label.human == 1.0]
    said = as_text(calibration(CalibrateOptions(labels=None, evaluator="helpful"), good, scores, scale))
    assert "people label nothing as bad" in said


def labelled(each: Evaluation, human: float) -> Label:
    return label(
        evaluator="helpful", evaluator_version=each.evaluator_version, label_id=each.evaluation_id, subject=each.subject,
        evaluation_id=each.evaluation_id, sampling=each.sampling, judge_score=each.score, score=human,
        label_probability=0.5, monitor=each.monitor, given_at=each.ended_at,
    )  # fmt: skip


def test_an_answer_that_two_monitors_judge_counts_once_and_each_monitor_has_its_figures(tmp_path: Path) -> None:
    """The monitor `tenth` judges a tenth of what `all` judges; only there, people contradict the judge."""
    of = config(tmp_path)
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    every, seldom = Sampling(probability=1.0), Sampling(probability=0.1)
    whole = [judged(n, **names, score=float(n % 4 > 0), monitor="all", sampling=every) for n in range(400)]
    tenth = [
        replace(each, evaluation_id=f"{n:032x}", monitor="tenth", sampling=seldom)
        for n, each in enumerate(whole[::10], 500)
    ]
    labels = [labelled(each, each.score or 0.0) for n, each in enumerate(whole) if n % 2 == 0 and n % 10]
    asyncio.run(fill(of, [*whole, *tenth], [*labels, *(labelled(each, 1.0 - (each.score or 0.0)) for each in tenth)]))
    options = CalibrateOptions(labels=None, evaluator="helpful", json=True)
    found = json.loads(calibrate(of, options))
    assert [(each["segment"], each["monitor"], each["labels"]) for each in found["segments"]] == [
        (None, None, 200),
        ("all", "all", 160),
        ("tenth", "tenth", 40),
    ]
    # 160 stand for 1 / 0.5 answers each; of 40, either monitor might have drawn the answer to be labelled
    assert [each["equal_verdicts"]["value"] for each in found["segments"]] == [
        pytest.approx(320 / (320 + 40 / 0.75)),
        1.0,
        0.0,
    ]
    assert found["raw_mean"] == found["monitors"]["all"]["raw_mean"] == 0.75
    assert found["monitors"]["tenth"]["raw_mean"] == 0.5
    shown = calibrate(of, replace(options, json=False))
    assert "helpful: 200 answers" in shown
    assert "helpful, monitor all: 160 answers" in shown
    assert found["monitors"]["tenth"]["withheld"] == "weak"
    assert (
        "Mean score of the judge in monitor tenth: 0.500, not corrected: sensitivity + specificity - 1 is below"
        in shown
    )


@pytest.mark.long
def test_all_labelled_answers_count_whichever_monitor_drew_them_and_their_agreement_is_that_of_the_page(
    tmp_path: Path,
) -> None:
    """Of 192 labelled answers, 166 counted. Near the threshold people contradict the judge, and more is drawn."""
    of, chance = config(tmp_path), Random(11)
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    made, labels, right = list[Evaluation](), list[Label](), 0
    for number in range(1500):
        is_slow, is_near, draw = chance.random() < 0.3, chance.random() < 0.4, chance.random()
        score = chance.choice((0.4, 0.6) if is_near else (0.0, 1.0))
        agrees = chance.random() < 0.9 - 0.3 * is_near - 0.2 * is_slow
        right += agrees
        for monitor, rate in ("most", 0.8), ("some", 0.8 if is_slow else 0.4):
            one = judged(number, **names, score=score, monitor=monitor, sampling=Sampling(probability=rate))
            one = replace(one, evaluation_id=f"{monitor}{number}")
            made += [one] if draw < rate else []
            if draw < rate and chance.random() < 0.2 + 0.2 * is_near:
                human = float((score >= 0.5) == agrees)
                labels.append(replace(labelled(one, human), label_probability=0.2 + 0.2 * is_near))
    asyncio.run(fill(of, made, labels))
    drawn = calibrate(of, CalibrateOptions(labels=None, evaluator="helpful", json=True))
    whole = json.loads(drawn)["segments"][0]
    weights = [1.0 / (label.sampling.probability * (label.label_probability or 1.0)) for label in labels]
    agree = [((label.score or 0.0) >= 0.5) == ((label.judge_score or 0.0) >= 0.5) for label in labels]
    page = fmean(map(float, agree), weights)
    assert whole["labels"] == len({label.subject.turn_id for label in labels}) < len(labels)
    assert whole["equal_verdicts"]["value"] == pytest.approx(right / 1500, abs=0.05)
    assert whole["equal_verdicts"]["value"] == pytest.approx(page, abs=0.02)
    some = [label for label in labels if label.monitor == "some"]
    (tmp_path / "some").mkdir()
    alone = config(tmp_path / "some")
    asyncio.run(fill(alone, made, some))
    of_one = json.loads(calibrate(alone, CalibrateOptions(labels=None, evaluator="helpful", json=True)))
    number = sum(each.monitor == "most" for each in made)
    assert f"Not used: {number:,} scores of monitors without drawn labels." in of_one["notes"]
    assert of_one["segments"][0]["labels"] == len(some)


def test_it_says_which_part_of_the_scores_no_label_represents(tmp_path: Path) -> None:
    """People labelled only the newer three quarters of the scores."""
    of = config(tmp_path)
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    made = [
        judged(n, **names, score=float(n % 3 > 0), ended_at=START + timedelta(minutes=n), sampling=Sampling())
        for n in range(200)
    ]
    asyncio.run(fill(of, made, [labelled(each, each.score or 0.0) for each in made[50::2]]))
    notes = json.loads(calibrate(of, CalibrateOptions(labels=None, evaluator="helpful", json=True)))["notes"]
    [said] = [note for note in notes if note.startswith("Not represented by labels")]
    assert said.startswith("Not represented by labels: 25% of the scores, older than all labelled ones (")


def test_a_threshold_that_fails_most_good_answers_is_none_and_the_rule_is_said() -> None:
    labels = [
        HumanLabel(0.9 if bad else n / 40, float(not bad), "all", probability=1.0, conversation=f"{bad}{n}")
        for n in range(40)
        for bad in (False, True)
    ]
    options = CalibrateOptions(labels=None, evaluator="helpful")
    result = calibration(options, labels, [WeightedScore(each.judge) for each in labels], ScoreScale(0.5))
    said = " ".join(as_text(result).split())
    why = "any that fails 90% of what people label as bad also fails half the good"
    assert (
        f"No threshold is suggested: {why}. The best, 0.913, fails 100.0% of what people label as bad and 92.5% of what"
        in said
    )


def test_the_newest_label_of_an_answer_counts_whichever_version_it_was_given_for(tmp_path: Path) -> None:
    """The criteria went back to what they were: labels of the time between were called older, and left out."""
    of = config(tmp_path)
    now, between = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}, "between"
    scores = [judged(n, **now, score=0.8) for n in range(20)]
    scores = [replace(each, subject=replace(each.subject, turn_id=f"t{n}")) for n, each in enumerate(scores)]
    others = [
        replace(
            each, evaluation_id=f"{n:032x}", evaluator_version=between, attributes={"replay_of": each.evaluation_id}
        )
        for n, each in enumerate(scores, 100)
    ]
    labels = [
        label(**now | {"evaluator_version": each.evaluator_version}, label_id=f"{n:032x}", monitor=each.monitor,
              evaluation_id=each.evaluation_id, subject=each.subject, judge_score=each.score, label_probability=0.5,
              score=float(each in others), given_at=START + timedelta(hours=each in others))
        for n, each in enumerate((*scores, *others[:12]))
    ]  # fmt: skip
    lost = replace(labels[-1], evaluation_id="e" * 32, label_id="e" * 32)
    asyncio.run(fill(of, [*scores, *others], [*labels, lost]))
    found = measure(of, CalibrateOptions(labels=None, evaluator="helpful"), now=NOW)
    assert found.agreements[0].labels == 20
    assert found.agreements[0].measures["equal_verdicts"][0] == pytest.approx(12 / 20), "of the 12 newer ones"
    assert "Not used: 12 older labels of answers that have a newer one." in found.notes
    assert "Not used: 1 label of answers that this version of helpful did not score." in found.notes


def test_where_labels_decide_their_verdicts_are_measured(tmp_path: Path) -> None:
    """`escalated` scores 0.5 and fails: `calibrate` said that it passes, the queries of the export that it fails."""
    labels = {
        "resolved": {"meaning": "Well.", "pass": True},
        "escalated": {"meaning": "On.", "score": 0.5, "pass": False},
    }
    settings = {"kind": "classifier", "question": "How?", "labels": labels}
    of = checked({"helpful": settings}, judges={"main": {"model": "m"}}, log={"path": str(tmp_path / "evalstream.db")})
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    sampling = Sampling(probability=1.0)
    judged_ = [judged(n, **names, score=1.0 - n % 2 / 2, passed=n % 2 == 0, sampling=sampling) for n in range(40)]
    given = [
        label(**names, label_id=f"{n:032x}", evaluation_id=each.evaluation_id, sampling=sampling, subject=each.subject,
              judge_score=each.score, judge_passed=each.passed, score=float(n % 2 == 0))
        for n, each in enumerate(judged_)
    ]  # fmt: skip
    asyncio.run(fill(of, judged_, given))
    file = tmp_path / "labels.jsonl"
    file.write_text("\n".join(json.dumps({"human": one.score, "evaluation_id": one.evaluation_id}) for one in given))
    for path in (None, file):
        options = CalibrateOptions(labels=path, evaluator="helpful", json=True, random=True, certify=0.9)
        found = json.loads(calibrate(of, options))
        assert found["segments"][0]["equal_verdicts"]["value"] == 1.0
        assert found["certificate"]["judged"] == 0.5, "the judge fails half"
        assert (found["threshold"], found["fitting_threshold"]) == (None, None), "as no score decides"
        said = (
            "No threshold is suggested, as the label decides: it fails 100.0% of what people label as bad and 0.0% of"
        )
        assert said in " ".join(calibrate(of, replace(options, json=False)).split())
    rows = [{"human": one.score, "score": one.judge_score, "passed": one.judge_passed} for one in given]
    file.write_text("\n".join(map(json.dumps, rows)))
    found = json.loads(calibrate(of, CalibrateOptions(labels=file, evaluator="helpful", json=True)))
    assert found["segments"][0]["equal_verdicts"]["value"] == 1.0, "the line's verdict, not its score of 0.5"


def test_where_labels_decide_a_score_without_a_verdict_is_in_no_measure_of_them(tmp_path: Path) -> None:
    """A label of score 0.5 without `pass` counted as passed: agreement was 0.830 for 0.773, and nothing said so."""
    labels = {name: {"meaning": name, "pass": name == "good"} for name in ("good", "bad")}
    labels["half"] = {"meaning": "half", "score": 0.5}
    settings = {"kind": "classifier", "question": "How?", "labels": labels}
    of = checked({"helpful": settings}, judges={"main": {"model": "m"}}, log={"path": str(tmp_path / "evalstream.db")})
    verdicts = [*[(True, 1.0, True)] * 15, *[(False, 1.0, True)] * 5, *[(True, 0.5, None)] * 20]
    rows = [{"human": human, "score": score, "passed": passed} for human, score, passed in verdicts]
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = CalibrateOptions(labels=tmp_path / "labels.jsonl", evaluator="helpful", json=True)
    found = json.loads(calibrate(of, options))
    assert found["segments"][0]["equal_verdicts"]["value"] == pytest.approx(0.75), "without the 20"
    assert found["segments"][0]["labels"] == 40, "which are in measures of scores"
    assert any("Not used for measures of verdicts: 20 answers whose score has no verdict;" in n for n in found["notes"])
    rows = [{"human": human, "score": score} for human, score, _ in verdicts]
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = calibrate(of, replace(options, json=False))
    assert "Not used for measures of verdicts: 40 answers" in said
    assert "No threshold is suggested, as the label decides.\n" in said, "it said that 0.0 % of both sides fail"
    found = json.loads(calibrate(of, options))
    assert (found["bad_failed"], found["good_failed"]) == (None, None)


def test_a_judge_whose_labels_decide_nothing_corrects_no_mean() -> None:
    """A judge that guesses gave a corrected mean, as nothing said how it tells good from bad."""
    labels = [
        HumanLabel(float(n % 2), float(n % 4 < 2), "all", probability=0.5, conversation=f"c{n}", name=f"{n}")
        for n in range(80)
    ]
    options, ledger = CalibrateOptions(labels=None, evaluator="helpful"), [WeightedScore(n % 2) for n in range(300)]
    found = calibration(options, labels, ledger, ScoreScale(by_label=True))
    assert found.corrected_mean is None
    assert any("because labels whose scores have a verdict count as fewer than 10" in note for note in found.notes)
    decided = [replace(label, passed=label.human == 1.0) for label in labels]
    assert calibration(options, decided, ledger, ScoreScale(by_label=True)).corrected_mean is not None


def test_a_score_without_a_verdict_is_in_no_certificate_and_no_share_of_failed_answers() -> None:
    """One of 0.5 counted as a pass, which made the certified failure rate too low."""
    labels = [
        HumanLabel(
            0.0 if n < 20 else 0.5, float(n < 40), "all", probability=0.5, conversation=f"c{n}", name=f"{n}",
            passed=n % 20 > 0 if n < 20 else None,
        )
        for n in range(80)
    ]  # fmt: skip
    ledger = [WeightedScore(0.5, passed=n % 4 > 0 if n < 100 else None) for n in range(300)]
    options, scale = CalibrateOptions(labels=None, evaluator="helpful", certify=0.9), ScoreScale(by_label=True)
    found = calibration(options, labels, ledger, scale)
    assert found.certificate is not None
    assert (found.certificate.labels, found.certificate.judged) == (20, 0.25)
    assert "The certificate leaves out 200 scores without a verdict." in found.notes
    good = calibration(options, labels[:40], ledger, scale)
    assert good.fitting_threshold is None, "as no answer is bad"
    assert good.good_failed == pytest.approx(1 / 20)
    for without in (labels[20:], labels):
        what = "labels that were drawn at random" if without is not labels else "scores in the log"
        with pytest.raises(ConfigError, match=f"{what}.* with a verdict; there are none"):
            calibration(options, without, ledger if without is not labels else ledger[100:], scale)


def test_an_evaluator_without_a_rule_for_passing_is_in_no_measure_of_verdicts(tmp_path: Path) -> None:
    """A threshold of 0.5 that nobody wrote gave equal verdicts of 1.000 and a sensitivity of 1.000, and said nothing."""
    labels = {name: {"meaning": name, "score": 1.0 - 0.5 * (name == "other")} for name in ("billing", "other")}
    settings = {"kind": "classifier", "question": "Which?", "labels": labels}
    of = checked({"helpful": settings}, judges={"main": {"model": "m"}}, log={"path": str(tmp_path / "evalstream.db")})
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    sampling = Sampling(probability=1.0)
    judged_ = [judged(n, **names, score=1.0 - n % 2 / 2, passed=None, sampling=sampling) for n in range(60)]
    given = [
        label(**names, label_id=f"{n:032x}", evaluation_id=each.evaluation_id, sampling=sampling, subject=each.subject,
              judge_score=each.score, judge_passed=None, score=1.0 - (n % 4 > 1) / 2, label_probability=0.5)
        for n, each in enumerate(judged_)
    ]  # fmt: skip
    asyncio.run(fill(of, judged_, given))
    file = tmp_path / "labels.jsonl"
    rows = [
        {"human": one.score, "score": one.judge_score, "passed": None, "turn_id": f"o{n}"}
        for n, one in enumerate(given)
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    for path in (None, file):
        options = CalibrateOptions(labels=path, evaluator="helpful", json=True, random=True)
        found = json.loads(calibrate(of, options))
        assert found["threshold"] is None
        for name in ("equal_verdicts", "cohen_kappa", "sensitivity", "specificity", "youden_j"):
            assert found["segments"][0][name] == {"value": None, "interval": None}
        why = (
            "Not used for measures of verdicts: 60 answers whose score has no verdict; the evaluator has no threshold."
        )
        assert found["notes"].count(why) == 1
        assert found["corrected_mean"] is not None, "which needs no verdict"
        assert re.search(r"equal verdicts +– +–", calibrate(of, replace(options, json=False)))


def test_a_present_threshold_that_no_other_betters_stays() -> None:
    """0.700 was suggested for 0.5, which failed the same answers; a later score of 0.6 failed for nothing."""
    sides = [*[(0.2, 0.0)] * 48, *[(0.8, 0.0)] * 2, *[(0.8, 1.0)] * 40, *[(0.2, 1.0)] * 3]
    labels = [
        HumanLabel(judge, human, "all", probability=1.0, conversation=f"c{n}") for n, (judge, human) in enumerate(sides)
    ]
    ledger, options = [WeightedScore(each.judge) for each in labels], CalibrateOptions(labels=None, evaluator="helpful")
    fails = "fails 96.0% of what people label as bad and 7.0% of what people label as good."
    for threshold, begins in (
        (0.6, "No other threshold is suggested: 0.600, the present one,"),
        (0.1, "Suggested threshold: 0.500; it"),
        (0.9, "Suggested threshold: 0.500; it"),
        (None, "Suggested threshold: 0.500; it"),
    ):
        result = calibration(options, labels, ledger, ScoreScale(threshold))
        assert f"{begins} {fails}" in " ".join(as_text(result).split())
        assert json.loads(as_json(result))["bad_failed"] == pytest.approx(0.96)


def test_a_present_threshold_that_fails_fewer_bad_answers_does_not_stay() -> None:
    """0.35 stayed, though 0.45 failed all bad answers and no good one either."""
    sides = [*[(0.3, 0.0)] * 27, *[(0.4, 0.0)] * 3, *[(0.5, 1.0)] * 14]
    labels = [
        HumanLabel(judge, human, "all", probability=1.0, conversation=f"c{n}") for n, (judge, human) in enumerate(sides)
    ]
    ledger, options = [WeightedScore(each.judge) for each in labels], CalibrateOptions(labels=None, evaluator="helpful")
    for present, fitting in ((0.35, 0.45), (0.42, 0.42), (None, 0.45)):
        result = calibration(options, labels, ledger, ScoreScale(present))
        assert (result.fitting_threshold, result.bad_failed, result.good_failed) == (fitting, 1.0, 0.0)


@pytest.mark.parametrize("present", [0.6, None])
def test_a_side_without_a_label_has_no_share(present: float | None) -> None:
    """Without a good answer, 0.0 % of the good ones failed; without a threshold, 0.0 % of the bad ones."""
    bad = [
        HumanLabel(judge, 0.0, "all", probability=1.0, conversation=f"c{n}")
        for n, judge in enumerate([*[0.3] * 20, 0.9])
    ]
    ledger, options = [WeightedScore(each.judge) for each in bad], CalibrateOptions(labels=None, evaluator="helpful")
    result = calibration(options, bad, ledger, ScoreScale(present))
    assert " fails 95.2% of what people label as bad.\n" in as_text(result)
    assert json.loads(as_json(result))["good_failed"] is None
    assert result.fitting_threshold == 0.6, "the present one stays, as no good answer speaks against it"
    alike = [replace(each, judge=0.3) for each in bad]
    result = calibration(options, alike, ledger, ScoreScale())
    assert "No threshold is suggested: none fails 90% of what people label as bad." in as_text(result)
    assert json.loads(as_json(result))["bad_failed"] is None
