"""`evalstream plan sampling`: the cheapest sampling for an error, from a log, through the command line."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from configurations import checked
from evaluation_samples import label, scored
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.errors import ConfigError, EvalstreamError
from collector.logs.log import Record
from collector.page.label_queue import LabelQueueSettings, draw
from collector.records.json import evaluation_to_json, label_to_json
from collector.service.open_logs import open_logs
from collector.service.plan_builder import audit_version_in, evaluator_version_in
from evaluators.results import Evaluation, Label, Sampling, Subject

NOW = datetime(2026, 11, 1, tzinfo=UTC)
PRICES = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 4.0}


def configuration(folder: Path, **changes: Any) -> dict[str, Any]:
    evaluator = {"kind": "g_eval", "criteria": "Good.", "evaluation_params": ["actual_output"]}
    return {
        "log": {"kind": "sqlite", "path": str(folder / "logs.db")},
        "judges": {"main": {"model": "a-model", **PRICES}, "strong": {"model": "another", **PRICES}},
        "evaluators": {
            "helpful": {**evaluator, "judge": "main", "audit": {"judge": "strong", "share": 0.3}},
            "rare": {**evaluator, "judge": "main"},
        },
        "monitors": {
            "all": {"evaluators": ["helpful", "rare"], "sample": 0.25, "boost": {"error": 4.0, "slow": 2.0}},
        },
        **changes,
    }


def write(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "evalstream.yaml"
    path.write_text(json.dumps(document))
    return path


def auditor() -> str:
    """The version of who audits `helpful`."""
    document = configuration(Path())
    return audit_version_in(checked(document.pop("evaluators"), **document), "helpful") or ""


def version(**changes: Any) -> str:
    """The version in force of `helpful`."""
    document = configuration(Path(), **changes)
    return evaluator_version_in(checked(document.pop("evaluators"), **document), "helpful", "all")


def evaluations(
    count: int = 4000, *, usd: float | None = 0.001, audits: bool = True, noise: float = 0.1
) -> Iterator[Evaluation]:
    """Four days; errors are one in ten of all, and all of them are judged."""
    chance = random.Random(5)
    for number in range(count):
        failed = chance.random() < 0.4 / 1.3
        truth = min(1.0, max(0.0, chance.gauss(0.4 if failed else 0.8, 0.2)))
        drawn = audits and chance.random() < 0.3
        audit = {"probability": 0.3, "score": truth, "model": "another", "version": auditor()}
        yield scored(
            number,
            evaluator="helpful",
            evaluator_version=version(),
            monitor="all",
            subject=Subject(conversation_id=f"c{number // 2}", turn_id=f"t{number}"),
            score=min(1.0, max(0.0, truth + chance.gauss(0.0, noise))),
            sampling=Sampling(probability=1.0 if failed else 0.25, stratum="error" if failed else "all"),
            cost_usd=None if usd is None else usd + 0.02 * drawn,
            details={"audit": audit} if drawn else {},
            ended_at=NOW - timedelta(days=4) + timedelta(days=4) * (number / count),
        )


def labels(made: list[Evaluation]) -> Iterator[Label]:
    for number, each in enumerate(made[:200]):
        yield label(
            label_id=f"l{number}",
            evaluation_id=each.evaluation_id,
            evaluator=each.evaluator,
            evaluator_version=each.evaluator_version,
            monitor=each.monitor,
            opinion=None,
            score=each.score,
            judge_score=each.score,
            sampling=each.sampling,
            label_probability=0.05,
        )


def fill(path: Path, made: list[Evaluation], given: list[Label] | None = None) -> None:
    async def append() -> None:
        async with open_logs(load(path).settings.log) as logs:
            records = [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in made]
            await logs.evaluations.append(records + records[:20])
            await logs.labels.append([Record(each.evaluation_id.encode(), label_to_json(each)) for each in given or ()])

    asyncio.run(append())


def run(path: Path, *words: str) -> str:
    window = ("--from", "2026-10-20", "--to", "2026-11-01")
    done = CliRunner().invoke(app, ["plan", "sampling", "-c", str(path), *window, *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_a_plan_reaches_the_error_for_less_than_the_present_and_its_lines_can_be_pasted(tmp_path: Path) -> None:
    path = write(tmp_path, configuration(tmp_path))
    fill(path, list(evaluations()))
    said = run(path, "--error", "0.02")
    assert said.startswith("all/helpful: mean 0.7")
    assert "  present:  sample 0.25, boost error 4, boost slow 2, audits 0.3: error 0.0" in said
    assert "all/rare: 0 scores, too few to plan with" in said
    made = json.loads(run(path, "--error", "0.02", "--json"))
    (helpful,) = made["evaluators"]
    assert helpful["scores"] == 4000, "a record that is there twice counts once"
    assert helpful["present"]["error"] < 0.01
    assert helpful["proposed"]["error"] <= 0.02
    assert helpful["proposed"]["usd_per_day"] < helpful["present"]["usd_per_day"] / 2
    assert helpful["correlation"] == pytest.approx(0.9, abs=0.1)
    assert made["boosts"]["error"] < 4.0
    assert helpful["proposed"]["sample"] * helpful["proposed"]["share"] * 2700 > 40, "not too few audits for a mean"
    assert made["boosts"]["slow"] == 2.0, "nothing slow was seen"
    pasted = yaml.safe_load(said[said.index("\nmonitors:") :])
    assert pasted == made["configuration"]
    document = configuration(tmp_path)
    document["monitors"]["all"] |= pasted["monitors"]["all"]
    document["evaluators"]["helpful"] |= pasted["evaluators"]["helpful"]
    write(tmp_path, document)
    again = json.loads(run(path, "--error", "0.02", "--json"))["evaluators"][0]
    assert again["present"]["error"] == pytest.approx(helpful["proposed"]["error"], rel=0.02)
    assert again["present"]["usd_per_day"] == pytest.approx(helpful["proposed"]["usd_per_day"])


def test_audits_of_a_former_auditor_are_in_no_figure(tmp_path: Path) -> None:
    """It said the opposite, for ten times the price. Its answers keep their scores, as if nobody had audited them."""
    made = list(evaluations())
    found: list[Any] = []
    for name, details in (("alone", {}), ("mixed", {"probability": 0.3, "model": "former", "version": "former"})):
        (tmp_path / name).mkdir()
        path = write(tmp_path / name, configuration(tmp_path / name))
        former = [
            replace(each, cost_usd=0.2 if details else None,
                    details={"audit": details | {"score": 1.0 - (each.score or 0.0)}} if details else {})
            if each.details and number % 2 else each
            for number, each in enumerate(made)
        ]  # fmt: skip
        fill(path, former)
        found += json.loads(run(path, "--error", "0.02", "--json"))["evaluators"]
    alone, mixed = found
    assert mixed["correlation"] == pytest.approx(alone["correlation"])
    assert mixed["correlation"] > 0.8
    assert mixed["present"]["usd_per_day"] == pytest.approx(alone["present"]["usd_per_day"], rel=0.02)
    assert mixed["present"]["error"] == pytest.approx(alone["present"]["error"])


def test_a_classifier_whose_labels_score_alike_has_no_plan(tmp_path: Path) -> None:
    topic = {
        "kind": "classifier",
        "question": "About?",
        "judge": "main",
        "labels": {"billing": "Money.", "other": "The rest."},
    }
    document = configuration(tmp_path)
    document["evaluators"]["topic"] = topic
    document["monitors"]["all"]["evaluators"].append("topic")
    path = write(tmp_path, document)
    fill(path, list(evaluations()))
    why = "its labels all have the same score, so a mean says nothing; watch a label's share by alerts.shares"
    said = run(path, "--error", "0.02")
    assert f"all/topic: not planned: {why}" in said
    assert "all/topic: 0 scores" not in said
    with pytest.raises(EvalstreamError, match=f"all/topic: {why}"):
        run(path, "--error", "0.02", "--evaluator", "topic")


def test_what_another_monitor_paid_for_has_a_price(tmp_path: Path) -> None:
    """It was planned with as free, and cost money as soon as the other monitor was gone."""
    path = write(tmp_path, configuration(tmp_path))
    made = list(evaluations(1000, audits=False))
    fill(
        path,
        [
            *(replace(each, monitor="other") for each in made),
            *(
                replace(
                    each, evaluation_id=f"s{each.evaluation_id}", cost_usd=0.0, usage=None, shares=each.evaluation_id
                )
                for each in made
            ),
        ],
    )
    said = run(path, "--error", "0.02", "--evaluator", "helpful")
    assert "0.0010 USD each" in said
    assert "another monitor paid for 1,000 verdicts; each counts at the mean price here" in said


@pytest.mark.long
def test_the_plan_is_of_the_version_in_force_at_the_time_of_the_turns(tmp_path: Path) -> None:
    """After a rejudge by a judge that was left again, the plan took that judge's scores and price."""
    path = write(tmp_path, configuration(tmp_path))
    made = list(evaluations())
    again = [
        replace(one, evaluation_id=f"{9000 + number:032x}", evaluator_version="tried", happened_at=one.ended_at,
                ended_at=NOW, attributes={"replay_of": one.evaluation_id}, score=0.5)
        for number, one in enumerate(made)
    ]  # fmt: skip
    fill(path, [*made, *again])
    assert f"of 4,000 scores by version {version()} in 4.0 days" in (said := run(path, "--error", "0.02"))
    assert said.startswith("all/helpful: mean 0.7")


def test_scores_of_before_a_boost_was_set_or_left_out_are_said_to_be_mixed(tmp_path: Path) -> None:
    """Half of the turns became a stratum, and the plan said 22 %, as it counted what came before the boost."""
    path, made = write(tmp_path, configuration(tmp_path)), list(evaluations())
    plain = Sampling(probability=0.25, stratum="all")
    fill(path, [replace(one, sampling=plain) if number < 2000 else one for number, one in enumerate(made)])
    said = run(path, "--error", "0.02")
    assert re.search(r"Mixed strata: 2,00\d scores before \S+Z have none in stratum error, which is too small", said)
    other = tmp_path / "other"
    other.mkdir()
    path, model = write(other, configuration(other)), Sampling(probability=0.25, stratum="model")
    fill(path, [replace(one, sampling=model) if number < 500 else one for number, one in enumerate(made)])
    assert "Mixed strata: 500 scores of a boost that is not set now count as the rest" in run(path, "--error", "0.02")


def test_where_the_rate_is_planned_already_the_present_one_is_that_of_the_newest_evaluation(tmp_path: Path) -> None:
    document = configuration(tmp_path)
    document["monitors"]["all"] |= {"sample": "auto", "standard_error": 0.01}
    path = write(tmp_path, document)
    fill(path, list(evaluations()))
    said = run(path, "--error", "0.02")
    assert "  present:  sample 0.25, boost error 4" in said
    assert "sample: auto plans the rate for an error of 0.01; `present` has the newest rate" in said
    pasted = yaml.safe_load(said[said.index("\nmonitors:") :])
    assert list(pasted["monitors"]["all"]) == ["boost"], "rates are not to be pasted"
    assert 0.0 < pasted["evaluators"]["helpful"]["audit"]["share"] <= 1.0


def test_people_are_planned_for_where_a_label_has_a_price(tmp_path: Path) -> None:
    path, made = write(tmp_path, configuration(tmp_path)), list(evaluations())
    fill(path, made, list(labels(made)))
    planned = json.loads(run(path, "--error", "0.008", "--usd-per-label", "0.5", "--json"))
    (helpful,) = planned["evaluators"]
    assert (helpful["second"], helpful["present"]["share"]) == ("labels", 0.05)
    assert helpful["correlation"] > 0.95, "people said what the judge says"
    queue, share = planned["configuration"]["page"]["queue"], helpful["proposed"]["share"]
    drawn = [one for each in made if (one := draw(each, 0.5, LabelQueueSettings(**queue))) is not None]
    asked = len(drawn) + sum(one.twice for one in drawn)
    assert asked == pytest.approx(share * len(made), rel=0.2), "the queue asked for four times what the plan pays for"


def test_a_cheap_judge_that_is_not_worth_its_price_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, configuration(tmp_path))
    fill(path, list(evaluations(usd=0.015, noise=0.6)))
    said = run(path, "--error", "0.01")
    assert "  strong alone on a sample of 0." in said
    assert "is cheaper for this error" in said


def test_an_error_out_of_reach_and_too_few_audits_are_said(tmp_path: Path) -> None:
    path = write(tmp_path, configuration(tmp_path))
    fill(path, list(evaluations(audits=False)))
    said = run(path, "--error", "0.0001")
    assert "0 audits of this version, but 30 needed; planned for the mean of its scores" in said
    assert "an error of 0.0001 is out of reach in a day: scoring everything reaches 0.00" in said
    assert "monitors:" not in said


def test_what_cannot_be_planned_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = write(tmp_path, configuration(tmp_path))
    with pytest.raises(ConfigError, match="no such file"):
        run(path, "--error", "0.02")
    with pytest.raises(ConfigError, match="--monitor: unknown monitor 'al'"):
        run(path, "--error", "0.02", "--monitor", "al")
    with pytest.raises(ConfigError, match="--evaluator: unknown evaluator 'helpfull'"):
        run(path, "--error", "0.02", "--evaluator", "helpfull")
    with pytest.raises(ConfigError, match="2 is no standard error"):
        run(path, "--error", "2")
    fill(path, list(evaluations(50)))
    with pytest.raises(EvalstreamError, match=r"monitor all: a plan needs 200 scores .* has at most 50; name an ear"):
        run(path, "--error", "0.02")
    memory = write(tmp_path, configuration(tmp_path, log={"kind": "memory"}))
    with pytest.raises(ConfigError, match=r"log.kind is memory"):
        run(memory, "--error", "0.02")


def test_scores_without_a_cost_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, configuration(tmp_path))
    fill(path, list(evaluations(400, usd=None)))
    with pytest.raises(ConfigError, match=r"judges.main: no evaluation of helpful has a cost; set usd_per_million_inp"):
        run(path, "--error", "0.02")
