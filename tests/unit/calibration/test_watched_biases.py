"""The page names what biases a judge beside people, from drawn labels alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from evaluation_samples import label, scored
from prometheus_client import generate_latest

from collector.calibration.agreement_watch import AgreementWatcher
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.records.json import label_to_json
from collector.records.labels import label_of
from collector.statistics.agreement import ScoreScale
from collector.telemetry.registry import Telemetry
from evaluators.results import Label, Sampling, Subject, Usage
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
    watcher = AgreementWatcher(log, {VERSION: ScoreScale.of(ExactMatch(name="helpful"))}, Telemetry())
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


async def watched(labels: Iterable[Label]) -> AgreementWatcher:
    log = MemoryLog("labels", 1)
    await log.append([Record(b"k", label_to_json(each)) for each in labels])
    watcher = AgreementWatcher(log, {VERSION: ScoreScale.of(ExactMatch(name="helpful"))}, Telemetry())
    await watcher.measure_changes()
    return watcher


def labelled(number: int, monitor: str, probability: float) -> Label:
    judged = scored(
        number + (1000 if monitor == "rare" else 0),
        score=float(number % 3 > 0),
        monitor=monitor,
        subject=Subject(conversation_id=f"c{number}", turn_id=f"t{number}"),
        sampling=Sampling(probability=probability),
    )
    human = float(number % 2 > 0)
    label_id = judged.evaluation_id[::-1]
    return label_of(judged, label_id, label().given_at, score=human, label_probability=0.5)


async def test_an_answer_counts_once_however_many_monitors_judge_it() -> None:
    """The monitor that draws most has judged all that the other has, so its labels count, as in `calibrate`."""
    all_of_them = [labelled(number, "all", 1.0) for number in range(60)]
    rare = [labelled(number, "rare", 0.5) for number in range(60) if number % 4]
    alone, both, second = await watched(all_of_them), await watched([*all_of_them, *rare]), await watched(rare)
    assert both.agreements == alone.agreements != second.agreements
    assert (both.biases, both.notes) == (alone.biases, alone.notes)


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
