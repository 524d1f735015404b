"""`evalstream labels next`: evaluations to label in a file, without scores, which `calibrate` takes when filled in."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import yaml
from evaluation_samples import START, label, scored
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.logs.log import Record
from collector.past.evaluations import evaluations_in
from collector.records.json import evaluation_to_json, label_to_json, turn_to_json
from collector.records.labels import label_of
from collector.service.open_logs import open_logs
from collector.service.plan_builder import evaluator_version_in
from evaluators.cases import Turn
from evaluators.results import Sampling, Subject

NUMBER = 40


@pytest.fixture
async def config(tmp_path: Path) -> Path:
    path = tmp_path / "evalstream.yaml"
    settings = {
        "log": {"path": str(tmp_path / "evalstream.db")},
        "evaluators": {"short": {"kind": "length", "maximum": 9, "threshold": 0.5}},
        "monitors": {"all": {"evaluators": ["short"]}},
        "page": {"queue": {"random": 0.5, "doubtful": 1.0, "twice": 0.0}},
    }
    path.write_text(yaml.safe_dump(settings))
    loaded = load(path)
    version = evaluator_version_in(loaded, "short")
    async with open_logs(loaded.settings.log, page=True) as logs:
        for number in range(NUMBER):
            turn = Turn(turn_id=f"t{number}", conversation_id=f"c{number}", input="?", actual_output=f"{number}")
            await logs.turns.append([Record(f"c{number}".encode(), turn_to_json(turn))])
            subject = Subject(conversation_id=f"c{number}", turn_id=f"t{number}")
            judged = replace(
                scored(number), evaluator="short", evaluator_version=version, monitor="all", subject=subject,
                score=0.5 if number % 2 else 0.9, details={}, sampling=Sampling(),
            )  # fmt: skip
            await logs.evaluations.append([Record(b"", evaluation_to_json(judged))])
    return path


def run(config: Path, *arguments: str) -> tuple[list[dict[str, object]], str]:
    command = 2 if arguments[0] == "labels" else 1
    result = CliRunner().invoke(app, [*arguments[:command], "-c", str(config), *arguments[command:]])
    assert result.exit_code == 0, result.output
    return [orjson.loads(line) for line in result.stdout.splitlines()], result.stderr


def test_lines_without_scores_that_calibrate_takes_when_they_are_filled_in(config: Path, tmp_path: Path) -> None:
    rows, talk = run(config, "labels", "next", "--n", "10")
    assert len(rows) == 10
    assert re.match(r"10 evaluations to label, of \d+ that are drawn and not labelled, of scores since 20\d\d-", talk)
    assert not {"score", "passed", "label", "explanation"} & {name for row in rows for name in row}
    assert {row["human"] for row in rows} == {None}
    assert {row["label_probability"] for row in rows} == {0.5, 1.0}, "all doubtful ones, and half of the others"
    first = tmp_path / "first.jsonl"
    first.write_bytes(
        b"".join(orjson.dumps(row | {"human": n % 2 == 0 if n else None}) + b"\n" for n, row in enumerate(rows))
    )
    others, _ = run(config, "labels", "next", "--n", "100", "--without", str(first))
    assert not {row["evaluation_id"] for row in rows} & {row["evaluation_id"] for row in others}
    assert 25 <= len(rows) + len(others) <= 36
    result = CliRunner().invoke(app, ["calibrate", str(first), "--evaluator", "short", "-c", str(config), "--json"])
    assert result.exit_code == 0, result.output
    assert orjson.loads(result.stdout)["segments"][0]["labels"] == 9, "the line that nobody filled in is none"


async def test_what_is_labelled_on_the_page_is_left_out(config: Path) -> None:
    rows, _ = await asyncio.to_thread(run, config, "labels", "next", "--n", "100")
    one = str(rows[0]["evaluation_id"])
    async with open_logs(load(config).settings.log, page=True) as logs:
        on_page = replace(label(), evaluation_id=one, label_probability=1.0)
        await logs.labels.append([Record(one.encode(), label_to_json(on_page))])
    again, _ = await asyncio.to_thread(run, config, "labels", "next", "--n", "100")
    assert {row["evaluation_id"] for row in rows} - {row["evaluation_id"] for row in again} == {one}


def test_answers_judged_by_an_earlier_version_are_not_handed_out(config: Path) -> None:
    """Of 30 that were handed out `calibrate` counted 17."""
    assert run(config, "labels", "next", "--n", "100")[0]
    config.write_text(config.read_text().replace("maximum: 9", "maximum: 8"))
    rows, talk = run(config, "labels", "next", "--n", "100")
    assert rows == []
    assert "the log has no score by the present version; evalstream rejudge scores past answers with it" in talk


async def rejudge(path: Path, rows: list[dict[str, object]]) -> None:
    """Scores by the version of now; ann labels the rows, which are of the one before."""
    loaded, by_id = load(path), {str(row["evaluation_id"]): row for row in rows}
    version = evaluator_version_in(loaded, "short")
    async with open_logs(loaded.settings.log, page=True) as logs:
        before = [past.evaluation async for past in evaluations_in(logs.evaluations)]
        for number, one in enumerate(before):
            again = replace(one, evaluation_id=f"{500 + number:032x}", evaluator_version=version, score=0.1,
                            happened_at=START, attributes={"replay_of": one.evaluation_id})  # fmt: skip
            await logs.evaluations.append([Record(b"", evaluation_to_json(again))])
            if (row := by_id.get(one.evaluation_id)) is not None:
                given = label_of(one, f"l{number}", START, score=float(number % 2), given_by="ann",
                                 label_probability=row["label_probability"])  # fmt: skip
                await logs.labels.append([Record(b"", label_to_json(given))])


def test_what_a_new_version_rejudged_is_drawn_and_labels_of_before_count_for_it(config: Path) -> None:
    """After `rejudge`, 0 of 1,427 were drawn, and `calibrate` had no labels."""
    rows, _ = run(config, "labels", "next", "--n", "100")
    assert {row["weight"] for row in rows} == {1.0}
    config.write_text(config.read_text().replace("maximum: 9", "maximum: 8"))
    asyncio.run(rejudge(config, rows))
    again, _ = run(config, "labels", "next", "--n", "100")
    assert len(again) >= 10
    assert all(int(str(row["evaluation_id"]), 16) >= 500 and "turn_id" in row for row in again)
    file = config.with_name("filled.jsonl")
    file.write_bytes(b"".join(orjson.dumps(row | {"human": True}) + b"\n" for row in rows))
    for arguments in ([], [str(file)]):
        (found,), _ = run(config, "calibrate", "--evaluator", "short", "--json", *arguments)
        assert found["segments"][0]["labels"] == len(rows), "of the page, and of a file by turn_id"  # type: ignore[index]
        carried = f"{len(rows)} labels of other versions of short count here: this one scored the same answers."
        assert any(note.startswith(carried) for note in found["notes"]) is not bool(arguments)  # type: ignore[attr-defined]


def test_unknown_names_are_refused_with_the_remedy(config: Path) -> None:
    result = CliRunner().invoke(app, ["labels", "next", "-c", str(config), "--evaluator", "shrt"])
    assert result.exit_code == 2 or "did you mean" in str(result.exception)
