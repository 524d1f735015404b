"""From production to a test set: which cases, joined with scores and labels, in formats that other tools read."""

from __future__ import annotations

import asyncio
import json
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from evaluation_samples import label, scored
from hashed_env import hashed_python
from typer.testing import CliRunner

from collector.cli import app
from collector.config.settings import LogSettings
from collector.golden.runner import read_cases
from collector.logs.log import Record
from collector.records.json import evaluation_to_json, label_to_json
from collector.records.turns import turn_record
from collector.service.open_logs import open_logs
from evaluators.cases import Message, Turn
from evaluators.results import Sampling, Subject

NOW = datetime.now(UTC)
QUESTIONS = [
    "How much is a kayak in March?",
    "How much is a  kayak in march ?",
    "Where do I park a bus near the harbour?",
    "Which of the boats may my dog be on?",
    "Do you have gift cards?",
]
SCORES = [0.2, 0.3, 0.1, 0.9, 0.4]


def turn(number: int) -> Turn:
    at = NOW - timedelta(hours=1, seconds=number)
    return Turn(
        turn_id=f"{number:032x}", conversation_id=f"talk-{number}", trace_id=f"{number + 1:032x}", span_id=f"{number + 1:016x}",
        service="desk", model="m-1", started_at=at, ended_at=at, input=QUESTIONS[number], actual_output=f"Answer {number}.",
        expected_output="Yes, from 10 EUR." if number == 4 else None, retrieval_context=("Prices of 2026.",),
        history=(Message(role="user", content="Hello"),),
    )  # fmt: skip


def evaluation(number: int) -> Any:
    of = turn(number)
    at = NOW - timedelta(minutes=50)
    return scored(
        number, evaluator="helpful", monitor="all", score=SCORES[number], passed=SCORES[number] >= 0.5,
        sampling=Sampling(probability=0.25), started_at=at, ended_at=at,
        subject=Subject(conversation_id=f"talk-{number}", turn_id=of.turn_id, trace_id=of.trace_id, span_id=of.span_id),
    )  # fmt: skip


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("evalstream.yaml").write_text(
        "log: {kind: sqlite, path: evalstream.db}\n"
        "evaluators: {helpful: {kind: contains, search_text: boat, threshold: 0.5}}\n"
        "monitors: {all: {evaluators: [helpful]}}\n"
    )
    asyncio.run(fill())
    return tmp_path


async def fill() -> None:
    async with open_logs(LogSettings(path="evalstream.db")) as logs:
        for number in range(len(QUESTIONS)):
            await logs.turns.append([turn_record(turn(number))])
            judged = evaluation(number)
            await logs.evaluations.append([Record(judged.evaluation_id.encode(), evaluation_to_json(judged))])
        gone = scored(9, evaluator="helpful", monitor="all", score=0.0, passed=False, ended_at=NOW - timedelta(hours=1))
        await logs.evaluations.append([Record(b"gone", evaluation_to_json(gone))])
        about = {
            "evaluation_id": f"{3:032x}",
            "evaluator": "helpful",
            "monitor": "all",
            "subject": evaluation(3).subject,
        }
        said = label(**about, opinion="disagree", score=None, note="Dogs must stay ashore.")
        await logs.labels.append([Record(None, label_to_json(said))])


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["dataset", "-o", "cases.json", *arguments])


def written() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("cases.json").read_text().splitlines()]


def test_failed_ones_without_near_duplicates_with_probability_and_weight(world: Path) -> None:
    result = run()
    assert result.exit_code == 0, result.output
    cases = written()
    assert len(cases) == 3
    assert "1 near-duplicate left out, 1 case no longer in the log" in result.output
    assert "--n" not in result.output
    few = CliRunner().invoke(app, ["dataset", "-o", "two.json", "--n", "2"])
    assert "only --n 2 are taken" in few.output
    one = next(each for each in cases if "gift" in each["input"])
    assert (one["actual_output"], one["expected_output"]) == ("Answer 4.", "Yes, from 10 EUR.")
    assert (one["metadata"]["probability"], one["metadata"]["weight"]) == (0.25, 4.0)
    assert one["metadata"]["scores"] == {"helpful": 0.4}
    assert Path("cases.json").stat().st_mode & 0o777 == 0o600


def test_low_ones_come_worst_first_and_disagreed_ones_with_what_was_said(world: Path) -> None:
    assert run("--which", "low", "--below", "0.35", "--no-diverse").exit_code == 0
    assert [each["metadata"]["scores"]["helpful"] for each in written()] == [0.1, 0.2, 0.3]
    Path("cases.json").unlink()
    assert run("--which", "disagreed").exit_code == 0
    [case] = written()
    assert case["metadata"]["labels"][0]["note"] == "Dogs must stay ashore."
    Path("cases.json").unlink()
    assert run("--which", "sampled", "--n", "2").exit_code == 0
    assert len(written()) == 2


async def label_answers(people: dict[int, float], **changes: Any) -> None:
    async with open_logs(LogSettings(path="evalstream.db")) as logs:
        for number, score in people.items():
            judged = evaluation(number)
            said = label(
                evaluation_id=judged.evaluation_id, evaluator="helpful", monitor="all", subject=judged.subject, opinion=None,
                score=score, judge_score=judged.score, judge_passed=judged.passed, attributes=judged.attributes,
                **changes,
            )  # fmt: skip
            await logs.labels.append([Record(None, label_to_json(said))])


def disagreed(threshold: float, name: str = "helpful") -> set[float]:
    settings = Path("evalstream.yaml").read_text().replace("threshold: 0.5", f"threshold: {threshold}")
    settings = settings.replace("helpful", name)
    Path("other.yaml").write_text(settings)
    Path("cases.json").unlink(missing_ok=True)
    run("-c", "other.yaml", "--which", "disagreed", "--no-diverse")
    cases = written() if Path("cases.json").exists() else []
    return {case["metadata"]["scores"]["helpful"] for case in cases}


def test_people_contradict_a_verdict_by_the_threshold_of_now(world: Path) -> None:
    asyncio.run(label_answers({0: 1.0, 1: 0.0, 3: 1.0, 4: 0.0}))  # scores 0.2, 0.3, 0.9, 0.4
    assert disagreed(0.5) == {0.2}
    assert disagreed(0.35) == {0.2, 0.4}
    assert disagreed(0.1) == {0.3, 0.4}
    assert disagreed(0.95) == {0.2, 0.9}
    assert disagreed(0.95, "renamed") == {0.2}, "verdicts of an evaluator that is not configured stay"


def test_a_tie_contradicts_nobody(world: Path) -> None:
    """One person for a verdict and one against it are half and half in `calibrate`, and were a contradiction here."""
    for who, scores in (("ann", {0: 1.0, 3: 0.0, 4: 1.0}), ("bob", {0: 0.0, 3: 0.0, 4: 1.0}), ("cat", {4: 0.0})):
        asyncio.run(label_answers(scores, given_by=who, label_id=who))
    assert disagreed(0.5) == {0.9, 0.4}


def test_a_label_of_an_older_versions_score_is_about_the_answer(world: Path) -> None:
    asyncio.run(label_answers({0: 1.0, 3: 1.0, 4: 0.0}))
    asyncio.run(rejudge({0: 0.7, 4: 0.8}))
    assert disagreed(0.5) == {0.8}
    [case] = written()
    assert [said["score"] for said in case["metadata"]["labels"]] == [0.0]


async def rejudge(scores: dict[int, float]) -> None:
    async with open_logs(LogSettings(path="evalstream.db")) as logs:
        for number, score in scores.items():
            newer = replace(
                evaluation(number), evaluation_id=f"{number + 90:032x}", evaluator_version="newer", score=score,
                passed=score >= 0.5, ended_at=NOW,
            )  # fmt: skip
            await logs.evaluations.append([Record(newer.evaluation_id.encode(), evaluation_to_json(newer))])


def test_what_cannot_be_made_is_said(world: Path) -> None:
    assert "choose from deepeval" in str(run("--as", "xml").exception)
    assert "--monitor" in str(run("--monitor", "other").exception)
    assert run("--from", "1m").exit_code == 1
    Path("cases.json").write_text("mine")
    assert "exists already" in str(run().exception)
    assert Path("cases.json").read_text() == "mine"


def test_golden_files_are_read_back(world: Path) -> None:
    assert run("--as", "golden", "--which", "sampled").exit_code == 0
    cases = read_cases(Path("cases.json"))
    assert {each.case.turn_id for each in cases if isinstance(each.case, Turn)} == {turn(n).turn_id for n in range(5)}
    assert {each.scores["helpful"] for each in cases} == set(SCORES)


def test_turns_are_scored_and_gated(world: Path) -> None:
    assert run("--as", "turns", "--which", "sampled", "--no-diverse").exit_code == 0
    Path("cases.json").rename("turns.jsonl")
    score = ["score", "turns.jsonl", "--output"]
    assert CliRunner().invoke(app, [*score, "base.jsonl"]).exit_code == 0
    turns = Path("turns.jsonl").read_text()
    Path("turns.jsonl").write_text(turns.replace("Answer", "Answer about a boat"))
    better = CliRunner().invoke(app, [*score, "new.jsonl", "--against", "base.jsonl", "--markdown", "gate.md"])
    assert better.exit_code == 0, better.output
    assert "| **better for sure** |" in Path("gate.md").read_text()
    Path("turns.jsonl").write_text(turns)
    worse = CliRunner().invoke(app, [*score, "last.jsonl", "--against", "new.jsonl", "--junit", "gate.xml"])
    assert worse.exit_code == 1
    assert "worse for sure" in worse.output
    assert 'failures="1"' in Path("gate.xml").read_text()
    config = Path("evalstream.yaml")
    config.write_text(config.read_text().replace("boat", "Nothing"))
    other = CliRunner().invoke(app, [*score, "other.jsonl", "--against", "new.jsonl"])
    assert (other.exit_code, "write both into one configuration" in " ".join(other.output.split())) == (0, True)


def test_what_fails_a_run_fails_its_reports(world: Path) -> None:
    """The JUnit file was green beside a failed --fail-under, and without --against no report was written."""
    assert run("--as", "turns", "--which", "sampled", "--no-diverse").exit_code == 0
    Path("cases.json").rename("turns.jsonl")
    assert CliRunner().invoke(app, ["score", "turns.jsonl", "--output", "base.jsonl"]).exit_code == 0
    reports = ["score", "turns.jsonl", "--junit", "gate.xml", "--markdown", "gate.md", "--fail-under"]
    for compared in (["--output", "new.jsonl", "--against", "base.jsonl"], []):
        failed = CliRunner().invoke(app, [*reports, "0.6", *compared])
        assert (failed.exit_code, "helpful: mean 0.000 is below 0.6" in failed.output) == (1, True)
        [case] = ET.parse("gate.xml").getroot().iter("testcase")
        assert case.get("name") == "helpful"
        [failure] = case
        assert (failure.tag, failure.get("message")) == ("failure", "mean 0.000 is below 0.6")
        assert "mean 0.000 is below 0.6" in Path("gate.md").read_text()
    assert CliRunner().invoke(app, [*reports, "0"]).exit_code == 0
    assert 'failures="0"' in Path("gate.xml").read_text()
    assert "mean 0.000 of 5 scores" in Path("gate.xml").read_text()
    alone = "| evaluator | cases | now |\n| --- | ---: | ---: |\n| helpful | 5 | 0.000 |\n"
    assert Path("gate.md").read_text() == alone, "no column of a comparison that nobody wanted"
    lines = Path("turns.jsonl").read_text().splitlines()
    Path("turns.jsonl").write_text(lines[0])
    assert CliRunner().invoke(app, ["score", "turns.jsonl", "--output", "one.jsonl"]).exit_code == 0
    Path("turns.jsonl").write_text(lines[1])
    other = CliRunner().invoke(app, [*reports, "0", "--against", "one.jsonl"])
    assert (other.exit_code, "one.jsonl: no case has a score in both runs" in other.output) == (1, True)
    report = ET.parse("gate.xml").getroot()[0]
    assert (report.get("failures"), report.get("skipped")) == ("1", "1")
    assert "the whole run" in Path("gate.md").read_text()


def test_the_bodies_of_phoenix_and_promptfoo(world: Path) -> None:
    assert run("--as", "phoenix", "--name", "desk").exit_code == 0
    body = json.loads(Path("cases.json").read_text())
    assert (body["action"], body["name"]) == ("create", "desk")
    assert len(body["inputs"]) == len(body["outputs"]) == len(body["metadata"]) == 3
    Path("cases.json").unlink()
    assert run("--as", "promptfoo").exit_code == 0
    tests = json.loads(Path("cases.json").read_text())
    assert {"type": "similar", "value": "Yes, from 10 EUR.", "threshold": 0.8} in tests[0].get("assert", []) + tests[
        1
    ].get("assert", []) + tests[2].get("assert", [])


READERS = {
    "deepeval": """
from deepeval.dataset import EvaluationDataset
d = EvaluationDataset()
d.add_goldens_from_json_file(file_path="cases.json", input_key_name="input", actual_output_key_name="actual_output",
    expected_output_key_name="expected_output", context_key_name="context", retrieval_context_key_name="retrieval_context")
rows = [(g.input, g.actual_output, g.expected_output) for g in d.goldens]
""",
    "pydantic-evals": """
from typing import Any
from pydantic_evals import Dataset
d = Dataset[Any, Any, Any].from_file("cases.json")
rows = [(c.inputs["input"], c.metadata["actual_output"], c.expected_output) for c in d.cases]
""",
    "langsmith": """
import json
from langsmith.schemas import ExampleCreate
made = [ExampleCreate(**e) for e in json.load(open("cases.json"))]
rows = [(e.inputs["input"], e.metadata["actual_output"], (e.outputs or {}).get("output")) for e in made]
""",
}


@pytest.mark.long
@pytest.mark.timeout(400)  # the first one installs the libraries
@pytest.mark.parametrize("form", sorted(READERS))
def test_the_real_library_reads_it(form: str, world: Path) -> None:
    python = hashed_python(Path(__file__).with_name("readers.txt"))
    if python is None:
        pytest.skip("the libraries cannot be installed here")
    assert run("--as", form, "--which", "sampled", "--no-diverse").exit_code == 0
    code = READERS[form] + "\nimport json; print('ROWS' + json.dumps(rows))"
    read = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    assert read.returncode == 0, read.stderr[-2000:]
    rows = json.loads(read.stdout.split("ROWS")[1])
    assert sorted(map(tuple, rows), key=str) == sorted(
        ((QUESTIONS[n], f"Answer {n}.", turn(n).expected_output) for n in range(5)), key=str
    )


def test_failed_ones_are_those_below_the_present_threshold(world: Path) -> None:
    """After a change of the threshold, `dataset` wrote what had failed the one before."""
    Path("evalstream.yaml").write_text(Path("evalstream.yaml").read_text().replace("threshold: 0.5", "threshold: 0.25"))
    result = run("--no-diverse")
    assert "3 of 6 evaluations did not pass" in result.output
    explained = CliRunner().invoke(app, ["explain", f"{1:032x}"])
    assert ", passed" in explained.output
