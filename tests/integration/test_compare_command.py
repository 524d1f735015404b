"""`evalstream compare releases` over a real log: a release that is worse, two values of an attribute, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from configurations import checked
from evaluation_samples import scored
from typer.testing import CliRunner

from collector.cli import app
from collector.commands.compare import CompareOptions, compare
from collector.config.configured import Config
from collector.errors import ConfigError
from collector.logs.log import Record
from collector.records.json import evaluation_to_json
from collector.service.open_logs import open_logs
from evaluators.results import Evaluation, Sampling, Subject

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def configured(folder: Path, **monitor: Any) -> Config:
    return checked({"exact": {"kind": "exact_match"}}, monitor=monitor, folder=folder, assemble={"attributes": ["arm"]})


def rollout(count: int = 2400) -> Iterator[Evaluation]:
    """Two days of scores; for the last day half of them are of a version that is worse by 0.2."""
    chance = random.Random(16)
    for number in range(count):
        ended = NOW - timedelta(hours=48 * (1 - number / count))
        version = "1.42" if number > count / 2 and chance.random() < 0.5 else "1.41"
        score = min(1.0, max(0.0, chance.gauss(0.8 - 0.2 * (version == "1.42"), 0.2)))
        yield scored(
            number,
            evaluator="exact",
            monitor="all",
            subject=Subject(conversation_id=f"c{number}", turn_id=f"t{number}"),
            score=score,
            sampling=Sampling(probability=chance.choice((0.1, 0.2))),
            ended_at=ended,
            attributes={"service": "shop", "service_version": version, "arm": chance.choice(("a", "b"))},
        )


async def stored(config: Config) -> None:
    async with open_logs(config.settings.log) as logs:
        records = [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in rollout()]
        await logs.evaluations.append(records + records[:50])


def options(**changes: Any) -> CompareOptions:
    return CompareOptions(**{"monitor": "all", "since": NOW - timedelta(days=7), "until": NOW, **changes})


async def test_a_release_is_found_and_said_to_be_worse(tmp_path: Path) -> None:
    config = configured(tmp_path)
    await stored(config)
    said: list[str] = []
    assert await compare(config, options(), said.append, as_json=False) == 0
    assert said[0] == "service_version of shop: 1.42 after 1.41, since 2026-10-31T00:00Z"
    assert said[1].endswith("(in the same hours), worse for sure")
    assert "exact, version 0123456789ab: 0.7" in said[1]
    said.clear()
    await compare(config, options(), said.append, as_json=True)
    (found,) = json.loads(said[0])["releases"]
    assert found["low"] < -0.2 < found["high"] < -0.1
    assert found["state"] == "worse"


async def test_two_values_of_any_attribute_are_compared(tmp_path: Path) -> None:
    config = configured(tmp_path)
    await stored(config)
    said: list[str] = []
    await compare(config, options(attribute="arm", baseline="a", version="b"), said.append, as_json=True)
    (found,) = json.loads(said[0])["releases"]
    assert found["low"] < 0 < found["high"]
    assert found["state"] in {"open", "alike"}
    named = configured(tmp_path, compare={"arm": ["a", "b"]})
    said.clear()
    await compare(named, options(), said.append, as_json=False)
    assert said[0].startswith("arm: b beside a, since"), "both ran all the time"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        pytest.param({"monitor": "al"}, "--monitor: unknown monitor 'al'", id="monitor"),
        pytest.param({"attribute": "armm"}, "--attribute: unknown attribute 'armm'", id="attribute"),
        pytest.param({"baseline": "a"}, "--baseline and --version belong together", id="half"),
        pytest.param({"since": NOW}, "must begin before it ends", id="window"),
    ],
)
async def test_what_cannot_be_compared_is_refused_in_a_sentence(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        await compare(configured(tmp_path), options(**changes), print, as_json=False)


@pytest.mark.parametrize("command", ["compare releases", "diagnose"])
def test_without_a_monitor_the_only_one_is_taken_and_of_several_all_are_named(tmp_path: Path, command: str) -> None:
    def said_for(*monitors: str) -> str:
        path = tmp_path / "evalstream.yaml"
        held = ", ".join(f"{each}: {{evaluators: [exact]}}" for each in monitors)
        path.write_text(f"evaluators: {{exact: {{kind: exact_match}}}}\nmonitors: {{{held}}}\n")
        done = CliRunner().invoke(app, [*command.split(), "--config", str(path)])
        assert isinstance(done.exception, ConfigError)
        return str(done.exception)

    assert said_for("one", "other") == "--monitor: name one: one, other"
    assert "log" in said_for("one")  # it went on to the log, of which there is none


async def test_where_nothing_is_new_it_says_so(tmp_path: Path) -> None:
    config = configured(tmp_path)
    await stored(config)
    said: list[str] = []
    await compare(config, options(until=NOW - timedelta(hours=30)), said.append, as_json=False)
    (line,) = said
    assert line.startswith(
        "monitor all: no new version of service_version, model, prompt_version in this time; versions that came together"
    )


async def test_two_values_of_which_one_has_no_scores_end_with_1(tmp_path: Path) -> None:
    config, said = configured(tmp_path), list[str]()
    await stored(config)
    of = options(baseline="1.41", version="9.9", attribute="service_version")
    assert await compare(config, of, said.append, as_json=False) == 1
    assert said == ["monitor all: no scores of both 1.41 and 9.9 in this time; name an earlier --from"]


def test_an_attribute_that_nothing_has_is_refused_by_check(tmp_path: Path) -> None:
    from collector.config.attribute_names import refuse_unknown_attributes

    with pytest.raises(ConfigError, match=r"monitors.all.compare: no turn has the attribute 'armm'"):
        refuse_unknown_attributes(configured(tmp_path, compare={"armm": ["a", "b"]}))
