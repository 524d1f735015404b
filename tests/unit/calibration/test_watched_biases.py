"""The page names what biases a judge beside people, from drawn labels alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation_samples import label, scored
from prometheus_client import generate_latest

from collector.calibration.agreement_watch import AgreementWatcher
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.page.label_queue import LabelQueue, LabelQueueSettings, QueueVerdict
from collector.page.view import EvaluatorView, View
from collector.records.json import label_to_json
from collector.records.labels import label_of
from collector.statistics.agreement import ScoreScale
from collector.telemetry.registry import Telemetry
from evaluators.results import Sampling, Subject, Usage
from evaluators.turn.exact_match import ExactMatch

VERSION = (scored().evaluator, scored().evaluator_version)


async def sentences(*, probability: float | None, by_language: float, by_length: float) -> list[str]:
    chance, log = np.random.default_rng(3), MemoryLog("labels", 1)
    for number in range(120):
        language, tokens = ("de", "en")[number % 3 == 0], int(chance.integers(100, 900))
        bias = by_language * (language == "de") + by_length * tokens / 100
        human = float(chance.uniform(0.1, 0.5))
        judged = scored(
            number,
            score=min(1.0, human + bias + 0.03 * float(chance.standard_normal())),
            subject=replace(scored().subject, conversation_id=f"c{number}"),
            usage=Usage(input_tokens=tokens, output_tokens=10, calls=1),
            attributes={"language": language},
        )
        given = label_of(judged, f"{number:032x}", label().given_at, score=human, label_probability=probability)
        await log.append([Record(b"k", label_to_json(given))])
    watcher = AgreementWatcher(log, {VERSION: ScoreScale(0.5)}, Telemetry())
    await watcher.measure_changes()
    return list(watcher.biases[VERSION])


async def test_a_language_and_a_length_are_named() -> None:
    said = await sentences(probability=0.5, by_language=0.2, by_length=0.03)
    assert len(said) == 2
    assert any("for language=" in each for each in said)
    assert any("tokens instead of" in each for each in said)


async def test_a_judge_without_a_bias_has_none_and_picked_labels_say_nothing() -> None:
    (said,) = await sentences(probability=0.5, by_language=0.0, by_length=0.0)
    assert said.startswith(
        "No bias found, compared with people (2 % false alarms in all), for: prompts of 795 tokens instead of 193"
    )
    assert await sentences(probability=None, by_language=0.2, by_length=0.03) == []


async def test_labels_of_two_monitors_count_with_the_weight_of_each() -> None:
    """An answer that both judge has two chances to be labelled. One label of it alone, with its own weight, would make
    answers with a large chance (the doubtful ones) too light: 1 / the chance of either label is unknown.
    """
    log = MemoryLog("labels", 1)
    shares = {"all": 1.0, "half": 0.5}
    for number in range(40):
        for monitor, share in shares.items():
            if monitor == "all" or number % 2:
                judged = scored(
                    number + 1000 * (monitor == "half"),
                    score=float(number % 4 > 0),
                    monitor=monitor,
                    subject=Subject(conversation_id=f"c{number}", turn_id=f"t{number}"),
                    sampling=Sampling(probability=share),
                )
                given = label_of(
                    judged, f"{number:031x}{monitor[0]}", label().given_at, score=1.0, label_probability=0.5
                )
                await log.append([Record(b"k", label_to_json(given))])
    watcher = AgreementWatcher(log, {VERSION: ScoreScale(0.5)}, Telemetry())
    await watcher.measure_changes()
    agree = sum(1.0 + 2.0 * (number % 2) for number in range(40) if number % 4)
    total = sum(1.0 + 2.0 * (number % 2) for number in range(40))
    assert watcher.agreements[VERSION].share.value == pytest.approx(agree / total)


async def test_a_length_is_named_though_a_second_monitor_shares_the_evaluations() -> None:
    """The labels for the second monitor knew no tokens, so that length was tested no more: "No bias found"."""
    chance, log, monitors = np.random.default_rng(3), MemoryLog("labels", 1), ("everyone", "golden")
    view = View([EvaluatorView(monitor=name, evaluator=VERSION[0]) for name in monitors])
    queue, human = LabelQueue(view, LabelQueueSettings(random=1.0)), dict[str, float]()
    for number in range(120):
        tokens, name = int(chance.integers(100, 900)), f"c{number}"
        human[name] = float(chance.uniform(0.1, 0.5))
        paid = scored(
            number,
            score=min(1.0, human[name] + 0.0003 * tokens + 0.03 * float(chance.standard_normal())),
            subject=Subject(conversation_id=name, turn_id=f"t{number}"),
            usage=Usage(input_tokens=tokens, output_tokens=10, calls=1),
            monitor=monitors[0],
        )
        own = {"evaluation_id": f"{number + 500:032x}", "monitor": monitors[1], "usage": None}
        view.add_evaluation(paid, 0, 2 * number, 1000.0)
        view.add_evaluation(replace(paid, **own, shares=paid.evaluation_id), 0, 2 * number + 1, 1000.0)
    for listed in view:
        given = queue.label_of(queue.get(listed), QueueVerdict(by="ann", verdict="good"), label().given_at)
        assert given.judge_tokens is not None
        of_person = replace(given, score=human[given.subject.conversation_id])
        await log.append([Record(b"k", label_to_json(of_person))])
    watcher = AgreementWatcher(log, {VERSION: ScoreScale.of(ExactMatch(name="helpful"))}, Telemetry())
    await watcher.measure_changes()
    (said,) = watcher.biases[VERSION]
    assert said.startswith("Biased: at the same score by people")
    assert "tokens instead of" in said


async def test_metrics_of_a_version_end_with_its_configuration() -> None:
    log, telemetry = MemoryLog("labels", 1), Telemetry()
    for number in range(12):
        judged = scored(number, subject=replace(scored().subject, conversation_id=f"c{number}"))
        given = label_of(judged, f"{number:032x}", label().given_at, score=1.0, label_probability=0.5)
        await log.append([Record(b"k", label_to_json(given))])
    watcher = AgreementWatcher(log, {VERSION: ScoreScale.of(ExactMatch(name="helpful"))}, telemetry)
    await watcher.measure_changes()
    assert b"\nevalstream_judge_agreement_labels{" in generate_latest(telemetry.registry)
    await AgreementWatcher(log, {}, telemetry).measure_changes()
    assert b"\nevalstream_judge_agreement" not in generate_latest(telemetry.registry)
