"""`evalstream labels next`: evaluations to label in a file, without scores, which `calibrate` takes when filled in."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import fmean

import orjson
import pytest
import yaml
from evaluation_samples import START, label, scored
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.logs.log import Record
from collector.page.label_queue import LabelQueue
from collector.page.settings import LabelQueueSettings
from collector.page.view import EvaluatorView, View
from collector.past.evaluations import EvaluationFilter, PastEvaluation, evaluations_in, select
from collector.records.json import evaluation_to_json, label_to_json, turn_to_json
from collector.records.labels import label_of
from collector.service.open_logs import open_logs
from collector.service.plan_builder import evaluator_version_in
from evaluators.cases import Turn
from evaluators.results import Evaluation, Sampling, Subject

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
    assert re.match(r"10 of \d+ drawn evaluations waiting for a label \(scores since 20\d\d-", talk)
    assert not {"score", "passed", "label", "explanation"} & {name for row in rows for name in row}
    assert {row["human"] for row in rows} == {None}
    assert {row["given_by"] for row in rows} == {None}
    assert {row["given_by"] for row in run(config, "labels", "next", "--by", "carl")[0]} == {"carl"}
    # without the id `compare judges` took each turn for a conversation, and its intervals were too narrow
    assert {row["conversation_id"] for row in rows} == {f"c{str(row['turn_id'])[1:]}" for row in rows}
    assert {row["label_probability"] for row in rows} == {0.5, 1.0}, "all doubtful ones, and half of the others"
    first = tmp_path / "first.jsonl"
    first.write_bytes(
        b"".join(orjson.dumps(row | {"human": n % 2 == 0 if n else None}) + b"\n" for n, row in enumerate(rows))
    )
    others, said = run(config, "labels", "next", "--n", "100", "--without", str(first))
    assert said.endswith("; a larger page.queue.random draws more\n")
    assert "draws more" not in run(config, "labels", "next", "--n", str(len(others)), "--without", str(first))[1]
    config.write_text(config.read_text().replace("random: 0.5", "random: 1"))
    assert "draws more" not in run(config, "labels", "next", "--n", "100")[1], "there is no larger one"
    assert not {row["evaluation_id"] for row in rows} & {row["evaluation_id"] for row in others}
    assert 25 <= len(rows) + len(others) <= 36
    result = CliRunner().invoke(app, ["calibrate", str(first), "--evaluator", "short", "-c", str(config), "--json"])
    assert result.exit_code == 0, result.output
    assert orjson.loads(result.stdout)["segments"][0]["labels"] == 9, "the line that nobody filled in is none"


def test_the_lines_of_an_answer_that_two_monitors_judge_follow_each_other(config: Path) -> None:
    """A person reads an answer once, and copies the verdict."""
    text = config.read_text().replace("random: 0.5", "random: 1")
    config.write_text(text.replace("monitors:\n", "monitors:\n  some:\n    evaluators: [short]\n"))
    asyncio.run(judge_for_another_monitor(config))
    rows, talk = run(config, "labels", "next", "--n", "100")
    assert len(rows) == 2 * NUMBER
    assert f"; {NUMBER} repeat the answer of the line before for another monitor: copy that line's `human`" in talk
    assert [row["turn_id"] for row in rows[::2]] == [row["turn_id"] for row in rows[1::2]]


async def judge_for_another_monitor(path: Path) -> None:
    async with open_logs(load(path).settings.log, page=True) as logs:
        for number, one in enumerate([past.evaluation async for past in evaluations_in(logs.evaluations)]):
            other = replace(one, evaluation_id=f"{number + 1000:032x}", monitor="some")
            await logs.evaluations.append([Record(b"", evaluation_to_json(other))])


def test_labels_of_the_page_are_counted_by_answers_as_all_labels_are(config: Path) -> None:
    """Beside "12 labels" it said "20 labels of the page count as well": for each answer one of either monitor."""
    text = config.read_text().replace("random: 0.5", "random: 1")
    config.write_text(text.replace("monitors:\n", "monitors:\n  some:\n    evaluators: [short]\n"))
    asyncio.run(judge_for_another_monitor(config))
    rows, _ = run(config, "labels", "next", "--n", "100")
    asyncio.run(label_on_page(config, rows[:20], 0.0))
    file = config.with_name("filled.jsonl")
    file.write_bytes(b"".join(orjson.dumps(row | {"human": True}) + b"\n" for row in rows[20:24]))
    (found,), _ = run(config, "calibrate", str(file), "--evaluator", "short", "--json")
    assert found["segments"][0]["labels"] == 12  # type: ignore[index]
    assert "10 labelled answers of the page count beside those of the file." in found["notes"]  # type: ignore[operator]


async def test_what_is_labelled_on_the_page_is_left_out(config: Path) -> None:
    rows, _ = await asyncio.to_thread(run, config, "labels", "next", "--n", "100")
    one = str(rows[0]["evaluation_id"])
    async with open_logs(load(config).settings.log, page=True) as logs:
        on_page = replace(label(), evaluation_id=one, label_probability=rows[0]["label_probability"])
        await logs.labels.append([Record(one.encode(), label_to_json(on_page))])
    again, _ = await asyncio.to_thread(run, config, "labels", "next", "--n", "100")
    assert {row["evaluation_id"] for row in rows} - {row["evaluation_id"] for row in again} == {one}


def test_a_draw_with_other_shares_leaves_nothing_out_and_a_mix_of_two_is_named(config: Path) -> None:
    """Without the doubtful ones that a first draw took, a second one with `random: 1` stated 0.720 instead of 0.675."""
    first, second = config.with_name("first.jsonl"), config.with_name("second.jsonl")
    rows, _ = run(config, "labels", "next", "--n", "100")
    filled = b"".join(orjson.dumps(row | {"human": n % 3 > 0}) + b"\n" for n, row in enumerate(rows))
    first.write_bytes(filled)
    config.write_text(config.read_text().replace("random: 0.5", "random: 1"))
    others, talk = run(config, "labels", "next", "--n", "100", "--without", str(first))
    assert len(others) == NUMBER, "all, so that the probability 1 is true"
    assert f"; {len(rows)} labelled or listed before come again, as page.queue, a threshold or the release of" in talk
    second.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in others[:15]))
    rest, _ = run(config, "labels", "next", "--n", "100", "--without", str(first), "--without", str(second))
    assert len(rest) == NUMBER - 15, "the second file is of the draw of now"
    alone = b"".join(orjson.dumps(row | {"human": n % 3 > 0}) + b"\n" for n, row in enumerate(others))
    undoubted = [line for line in alone.splitlines() if int(orjson.loads(line)["turn_id"][1:]) % 2 == 0]
    left = b"".join(line + b"\n" for line in undoubted)
    for content, said in (
        (
            filled,
            "Drawn with other shares than page.queue and the threshold give now: 9 labelled answers. They count with",
        ),
        (alone, ""),
        (filled + alone[: len(alone) // 2].rpartition(b"\n")[0], "Mixed draws: "),
        (
            left,
            "The labelled answers are no random draw. The judge's mean score is 0.900 on them and 0.700 on all answers,",
        ),
    ):
        second.write_bytes(content)
        (found,), _ = run(config, "calibrate", str(second), "--evaluator", "short", "--json")
        about = ("Drawn with", "Mixed", "The labelled answers are no random draw")
        notes = [note for note in found["notes"] if note.startswith(about)]  # type: ignore[attr-defined]
        assert [note[: len(said)] for note in notes] == [said] * bool(said), content


def test_labels_for_another_evaluator_are_no_mix_of_two_draws(config: Path) -> None:
    """The doubt of `short` drew them; by the scores of the improved one, equal scores had two probabilities."""
    rows, _ = run(config, "labels", "next", "--n", "100")
    text = config.read_text().replace("  short:\n", "  better: {kind: length, maximum: 7}\n  short:\n")
    config.write_text(text.replace("    - short\n", "    - short\n    - better\n"))
    asyncio.run(judge_by_another_evaluator(config))
    file, filled = config.with_name("filled.jsonl"), [row | {"human": True} for row in rows]
    assert {line["label_probability"] for line in filled} == {0.5, 1.0}
    lines = ({key: value for key, value in line.items() if key != "evaluator"} for line in filled)
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    (found,), _ = run(config, "calibrate", str(file), "--evaluator", "better", "--json")
    notes = " ".join(found["notes"])  # type: ignore[arg-type]
    assert found["segments"][0]["labels"] == len(filled)  # type: ignore[index]
    assert "Mixed" not in notes
    assert "Drawn with other shares" not in notes
    assert f"{len(filled)} labelled answers of other versions of better or of other evaluators count here" in notes
    assert (
        "Not used: 12 labelled answers of the page, drawn with other shares than the file's, by another page.queue,"
        in notes
    )


async def judge_by_another_evaluator(path: Path) -> None:
    """Twelve of its scores have a label on the page, by a draw of their own."""
    loaded = load(path)
    async with open_logs(loaded.settings.log, page=True) as logs:
        for number, one in enumerate([past.evaluation async for past in evaluations_in(logs.evaluations)]):
            other = replace(one, evaluation_id=f"{number + 1000:032x}", evaluator="better", score=0.9,
                            evaluator_version=evaluator_version_in(loaded, "better"))  # fmt: skip
            await logs.evaluations.append([Record(b"", evaluation_to_json(other))])
            if number < 12:
                given = label_of(other, f"p{number}", START, score=1.0, given_by="ann", label_probability=0.5)
                await logs.labels.append([Record(b"", label_to_json(given))])


def test_labels_of_the_page_before_another_threshold_are_left_out_by_its_name(config: Path) -> None:
    """It named `page.queue` alone, which nobody had changed."""
    rows, _ = run(config, "labels", "next", "--n", "100")
    asyncio.run(label_on_page(config, rows[:10]))
    config.write_text(config.read_text().replace("threshold: 0.5", "threshold: 0.9"))
    rows, _ = run(config, "labels", "next", "--n", "100")
    file = config.with_name("filled.jsonl")
    file.write_bytes(b"".join(orjson.dumps(row | {"human": True}) + b"\n" for row in rows))
    (found,), _ = run(config, "calibrate", str(file), "--evaluator", "short", "--json")
    unused = "Not used: 10 labelled answers of the page, drawn with other shares than the file's, by another page.queue, threshold"
    assert f"{unused} or evaluator." in found["notes"]  # type: ignore[operator]
    config.with_name("filled.jsonl").unlink()
    (found,), _ = run(config, "calibrate", "--evaluator", "short", "--json")
    assert found["segments"][0]["labels"] == 10, "without a file they count"  # type: ignore[index]


async def label_on_page(path: Path, rows: list[dict[str, object]], share: float = 0.0) -> None:
    by_id = {str(row["evaluation_id"]): row for row in rows}
    async with open_logs(load(path).settings.log, page=True) as logs:
        async for past in evaluations_in(logs.evaluations):
            if (row := by_id.get(past.evaluation.evaluation_id)) is not None:
                given = label_of(past.evaluation, f"p{past.evaluation.evaluation_id}", START, score=1.0, given_by="ann",
                                 label_probability=share or row["label_probability"])  # fmt: skip
                await logs.labels.append([Record(b"", label_to_json(given))])


@pytest.mark.parametrize("share", [0.0, 0.07])
def test_labels_of_the_page_and_of_a_file_count_together_if_they_are_of_one_draw(config: Path, share: float) -> None:
    """Of 150 labels on the page and 153 in a file, `calibrate` took the ones or the others."""
    rows, _ = run(config, "labels", "next", "--n", "100")
    asyncio.run(label_on_page(config, rows[:10], share))
    file = config.with_name("filled.jsonl")
    file.write_bytes(b"".join(orjson.dumps(row | {"human": n % 2 > 0}) + b"\n" for n, row in enumerate(rows[9:])))
    (found,), _ = run(config, "calibrate", str(file), "--evaluator", "short", "--json")
    labels, notes = found["segments"][0]["labels"], " ".join(found["notes"])  # type: ignore[index, arg-type]
    if share:
        assert labels == len(rows) - 9
        assert (
            "Not used: 10 labelled answers of the page, drawn with other shares than the file's, by another page.queue,"
            in notes
        )
    else:
        assert labels == len(rows), "one answer has a label in both"
        assert "10 labelled answers of the page count beside those of the file." in notes
    assert "Mixed" not in notes
    parted = [row | {"human": True, "segment": segment} for segment in "xy" for row in rows[12:20]]
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in parted))
    (found,), _ = run(config, "calibrate", str(file), "--evaluator", "short", "--json")
    segments = {part["segment"]: part["labels"] for part in found["segments"]}  # type: ignore[attr-defined, index]
    assert (segments["x"], segments["y"]) == (8, 8), "an answer of two segments counts in both"
    by_turn = {name: value for name, value in rows[12].items() if name != "evaluation_id"} | {"label_probability": 0.2}
    twice = (rows[12] | {"human": True}, by_turn | {"human": True}, rows[13] | {"human": True})
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in twice))
    (found,), _ = run(config, "calibrate", str(file), "--evaluator", "short", "--json")
    assert found["notes"][0].startswith("Mixed draws: "), "one answer, named in two ways"  # type: ignore[index]
    own = [{"human": True, "score": 0.9, "label_probability": 1.0}] * 12
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in own))
    (found,), _ = run(config, "calibrate", str(file), "--evaluator", "short", "--json")
    assert found["segments"][0]["labels"] == 12, "own cases count alone"  # type: ignore[index]
    alone = "Not used: 10 labelled answers of the page, as no line of the file has a label_probability and names an answer in the log."
    assert alone in found["notes"]  # type: ignore[operator]


def test_what_waits_for_a_second_person_is_said(config: Path) -> None:
    config.write_text(config.read_text().replace("twice: 0.0", "twice: 1.0"))
    rows, _ = run(config, "labels", "next", "--n", "100")
    asyncio.run(label_by_bob(config, rows))
    _, talk = run(config, "labels", "next", "--n", "100")
    assert (
        f"of {len(rows)} drawn evaluations waiting for a label, {len(rows)} of them for a second person (scores since"
        in talk
    )


async def label_by_bob(path: Path, rows: list[dict[str, object]]) -> None:
    async with open_logs(load(path).settings.log, page=True) as logs:
        for row in rows:
            one = replace(label(), evaluation_id=str(row["evaluation_id"]), given_by="bob",
                          label_probability=row["label_probability"])  # fmt: skip
            await logs.labels.append([Record(b"", label_to_json(one))])


def test_answers_judged_by_an_earlier_version_are_not_handed_out(config: Path) -> None:
    """Of 30 that were handed out `calibrate` counted 17."""
    assert run(config, "labels", "next", "--n", "100")[0]
    config.write_text(config.read_text().replace("maximum: 9", "maximum: 8"))
    rows, talk = run(config, "labels", "next", "--n", "100")
    assert rows == []
    assert "no score is by the present version; evalstream rejudge --what all makes it score past answers" in talk


def test_a_monitor_that_was_renamed_has_a_reason_and_a_remedy(config: Path) -> None:
    """Nothing was offered, "by the present version", which had scored all of it."""
    left_out = "; scores of former monitors (all) are left out; give the monitor its former name again,"
    config.write_text(config.read_text().replace("  all:", "  every:"))
    for arguments in ((), ("--monitor", "every"), ("--evaluator", "short")):
        rows, talk = run(config, "labels", "next", *arguments)
        assert (rows, left_out in talk, "present version" in talk) == ([], True, False), talk
    both = config.read_text().replace("  every:", "  all:\n    evaluators: [short]\n  every:")
    config.write_text(both)
    assert "left out" not in run(config, "labels", "next")[1], "that monitor is new"


async def rejudge(path: Path, rows: list[dict[str, object]], maximum: int = 8) -> None:
    """Scores by the version of now; ann labels the rows, which are of the one before."""
    loaded, by_id = load(path), {str(row["evaluation_id"]): row for row in rows}
    version = evaluator_version_in(loaded, "short")
    async with open_logs(loaded.settings.log, page=True) as logs:
        before = [past.evaluation async for past in evaluations_in(logs.evaluations)][-NUMBER:]
        for number, one in enumerate(before):
            again = replace(one, evaluation_id=f"{maximum * 500 + number:032x}", evaluator_version=version, score=0.1,
                            monitor=next(iter(loaded.settings.monitors)), happened_at=START, attributes={"replay_of": one.evaluation_id})  # fmt: skip
            await logs.evaluations.append([Record(b"", evaluation_to_json(again))])
            if (row := by_id.get(one.evaluation_id)) is not None:
                given = label_of(one, f"l{number}", START, score=float(number % 2), given_by="ann",
                                 label_probability=row["label_probability"])  # fmt: skip
                await logs.labels.append([Record(b"", label_to_json(given))])


def test_what_a_new_version_rejudged_is_drawn_once_and_labels_of_before_count_for_it(config: Path) -> None:
    """After `rejudge`, the queue asked again for 71 answers that people had labelled under the version before."""
    rows, _ = run(config, "labels", "next", "--n", "100")
    assert {row["weight"] for row in rows} == {1.0}
    labelled, others = rows[::2], rows[1::2]
    listed = config.with_name("listed.jsonl")
    listed.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in others[:3]))
    for maximum in (8, 7):
        config.write_text(config.read_text().replace(f"maximum: {maximum + 1}", f"maximum: {maximum}"))
        asyncio.run(rejudge(config, labelled if maximum == 8 else [], maximum))
        again, _ = run(config, "labels", "next", "--n", "100")
        assert {row["turn_id"]: row["label_probability"] for row in again} == {
            row["turn_id"]: row["label_probability"] for row in others
        }, "one draw, by the first score of an answer; of it, what nobody has labelled"
        assert not {row["evaluation_id"] for row in again} & {row["evaluation_id"] for row in rows}
        assert len(run(config, "labels", "next", "--n", "100", "--without", str(listed))[0]) == len(others) - 3
    file = config.with_name("filled.jsonl")
    file.write_bytes(b"".join(orjson.dumps(row | {"human": True}) + b"\n" for row in labelled))
    for arguments in ([], [str(file)]):
        (found,), _ = run(config, "calibrate", "--evaluator", "short", "--json", *arguments)
        assert found["segments"][0]["labels"] == len(labelled), "of the page, and of a file by turn_id"  # type: ignore[index]
        notes = " ".join(found["notes"])  # type: ignore[arg-type]
        assert (
            f"{len(labelled)} labelled answers of other versions of short count here: this version scored the same"
            in notes
        )
        assert "Mixed draws" not in notes, "equal scores of now had other scores when they were drawn"
    asyncio.run(label_again(config))
    (found,), _ = run(config, "calibrate", "--evaluator", "short", "--json")
    notes = " ".join(found["notes"])  # type: ignore[arg-type]
    assert f"Not used: {len(labelled)} older labels of answers that have a newer one." in notes
    assert "did not score" not in notes


def test_labels_count_after_the_monitor_got_another_name(config: Path) -> None:
    """Every label was left out, though `rejudge` had scored all the answers again, under the new name."""
    rows, _ = run(config, "labels", "next", "--n", "100")
    changed = config.read_text().replace("maximum: 9", "maximum: 8").replace("  all:", "  renamed:")
    config.write_text(changed)
    asyncio.run(rejudge(config, rows))
    (found,), _ = run(config, "calibrate", "--evaluator", "short", "--json")
    assert found["segments"][0]["labels"] == len(rows)  # type: ignore[index]


def test_labels_of_a_version_between_count_when_it_is_taken_back(config: Path) -> None:
    """A → B → A: what was labelled under B was handed out again by A."""
    first, _ = run(config, "labels", "next", "--n", "100")
    config.write_text(config.read_text().replace("maximum: 9", "maximum: 8"))
    asyncio.run(rejudge(config, []))
    between, _ = run(config, "labels", "next", "--n", "100")
    listed = config.with_name("listed.jsonl")
    listed.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in between))
    config.write_text(config.read_text().replace("maximum: 8", "maximum: 9"))
    assert len(run(config, "labels", "next", "--n", "100")[0]) == len(first)
    assert run(config, "labels", "next", "--n", "100", "--without", str(listed))[0] == []


async def label_again(path: Path) -> None:
    """Ann labels all that the version of now scored."""
    loaded = load(path)
    version = evaluator_version_in(loaded, "short")
    async with open_logs(loaded.settings.log, page=True) as logs:
        async for past in evaluations_in(logs.evaluations):
            if (one := past.evaluation).evaluator_version == version:
                given = label_of(
                    one, f"again{one.evaluation_id}", START, score=1.0, given_by="ann", label_probability=1.0
                )
                await logs.labels.append([Record(b"", label_to_json(given))])


def test_replaced_evaluations_of_a_conversation_count_as_in_the_live_mean_that_labels_correct(config: Path) -> None:
    """After a late turn: live sums and the page's queue have both, so a corrected mean without one would be another's."""
    settings = yaml.safe_load(config.read_text())
    whole = {"kind": "conversational_g_eval", "evaluation_steps": ["Look."], "judge": "main", "threshold": 0.5}
    settings |= {"judges": {"main": {"model": "m"}}, "page": {"queue": {"random": 1, "twice": 0}}}
    settings |= {"evaluators": {"whole": whole}, "monitors": {"all": {"evaluators": ["whole"]}}}
    settings["log"] = {"path": str(config.with_name("revisions.db"))}
    config.write_text(yaml.safe_dump(settings))
    made = asyncio.run(judge_twice(config))
    rows, _ = run(config, "labels", "next", "--n", "100")
    assert {(row["evaluation_id"], len(row["turns"])) for row in rows} == {  # type: ignore[arg-type]
        (one.evaluation_id, one.attributes["turns"]) for one in made
    }
    view = View([EvaluatorView(monitor="all", evaluator="whole", threshold=0.5)])
    for number, one in enumerate(made):
        view.add_evaluation(one, 0, number, 1000.0)
    assert LabelQueue(view, LabelQueueSettings(random=1.0)).next("ann")[1].total == len(rows)
    file = config.with_name("filled.jsonl")
    file.write_bytes(b"".join(orjson.dumps(row | {"human": n % 2 > 0}) + b"\n" for n, row in enumerate(rows)))
    (found,), _ = run(config, "calibrate", str(file), "--evaluator", "whole", "--json")
    assert found["segments"][0]["labels"] == len(made)  # type: ignore[index]
    assert found["raw_mean"] == pytest.approx(fmean(one.score or 0.0 for one in made))
    newest = select(map(PastEvaluation, made), EvaluationFilter(), {}).scored
    assert [past.evaluation.subject.revision for past in newest] == [2] * (len(made) // 2), "compare evaluators"


async def judge_twice(path: Path) -> list[Evaluation]:
    """Each conversation after its first turn, and again after a late one."""
    loaded, made = load(path), list[Evaluation]()
    version = evaluator_version_in(loaded, "whole")
    async with open_logs(loaded.settings.log, page=True) as logs:
        for number in range(20):
            name, links = f"c{number}", tuple((f"{number:032x}", f"{span:016x}") for span in (1, 2))
            for at, (trace, span) in enumerate(links):
                turn = Turn(
                    turn_id=f"{name}.{at}", conversation_id=name, input="?", actual_output=f"{at}", trace_id=trace,
                    span_id=span, started_at=START + timedelta(minutes=at),
                )  # fmt: skip
                await logs.turns.append([Record(name.encode(), turn_to_json(turn))])
            for revision in (1, 2):
                own = scored(
                    2 * number + revision, evaluator="whole", evaluator_version=version, monitor="all",
                    scope="conversation", score=(0.9, 0.3)[revision - 1], sampling=Sampling(), details={},
                    subject=Subject(conversation_id=name, revision=revision, links=links[:revision]),
                    attributes={"turns": revision}, supersedes=(made[-1].evaluation_id,) if revision == 2 else (),
                )  # fmt: skip
                made.append(own)
                await logs.evaluations.append([Record(b"", evaluation_to_json(own))])
    return made


def test_unknown_names_are_refused_with_the_remedy(config: Path) -> None:
    result = CliRunner().invoke(app, ["labels", "next", "-c", str(config), "--evaluator", "shrt"])
    assert result.exit_code == 2 or "did you mean" in str(result.exception)
